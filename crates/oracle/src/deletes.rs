//! Which pods an act deletes, in which order, and what stays.

use ordereddeployment_api::PausePoint;
use ordereddeployment_planner::{Act, DryRun, Point, Purpose, Target};

use crate::Found;
use crate::view::{Member, View, count, current_sets};

/// The most pods that are deleted in parallel.
const PARALLEL: usize = 16;

/// The pods that an act deletes for that purpose, in its order.
pub(crate) fn targets(act: &Act, purpose: Purpose) -> impl Iterator<Item = &Target> {
    act.deletes.iter().filter(move |group| group.purpose == purpose).flat_map(|group| &group.targets)
}

/// The places of those pods in the order; of one that is not active the rest says what is wrong.
fn places(view: &View<'_>, act: &Act, purpose: Purpose) -> Vec<usize> {
    targets(act, purpose).filter_map(|target| view.place(target.uid())).collect()
}

/// A rollout's deletions follow the order over the old pods, but for unavailable pods that pass available ones (`WhenBlocked`).
pub(crate) fn order(view: &View<'_>, act: &Act) -> Found {
    let mut found = Found::new();
    let gone =
        act.deletes.iter().flat_map(|group| &group.targets).filter(|one| view.place(one.uid()).is_none());
    found.extend(gone.map(|target| format!("{} is deleted, which is not active", target.name())));
    let places = places(view, act, Purpose::Rollout);
    if !places.is_sorted() {
        found.push("a rollout's deletions do not follow the order".to_owned());
    }
    found.extend(places.iter().find_map(|place| out_of_turn(view, &places, *place)));
    found
}

fn out_of_turn(view: &View<'_>, places: &[usize], place: usize) -> Option<String> {
    let goes = &view.pods[place];
    if goes.updated {
        return Some(format!("the rollout deletes {}, which is updated", goes.pod.name));
    }
    let ahead = view.pods[..place].iter().enumerate();
    let stays = ahead.filter(|(ahead, member)| !member.updated && !places.contains(ahead));
    for (_, stays) in stays {
        if !(stays.available && !goes.available && view.lets_out_of_turn()) {
            return Some(format!("{} goes although {} is ahead of it", goes.pod.name, stays.pod.name));
        }
        let barrier = view.barrier().and_then(|(at, ..)| view.old().nth(at));
        let past = barrier.and_then(|member| view.place(&member.pod.facts.uid));
        if past.is_some_and(|barrier| barrier <= place) {
            return Some(format!("{} goes out of turn, at or past the barrier", goes.pod.name));
        }
    }
    None
}

/// A scale-down outside a rollout takes the first of the order. In a rollout, a hold or a pause the first of each set go, and old
/// pods with pause points that are not passed only where no other old pod is left.
pub(crate) fn scaling(view: &View<'_>, act: &Act) -> Found {
    let places = places(view, act, Purpose::Scale);
    if places.is_empty() {
        return Found::new();
    }
    let collected = |member: &Member<'_>| view.is_collected(member);
    if view.old().next().is_none() && view.held().is_none() && !view.keeps_old() {
        let surplus = usize::try_from(count(view.pods.len()) - view.desired).unwrap_or(0);
        let first = view.pods.iter().enumerate().filter(|(_, member)| !collected(member)).map(|(at, _)| at);
        if !places.iter().copied().eq(first.take(surplus)) {
            return vec![format!(
                "a scale-down takes places {places:?}, not the first {surplus} of the order"
            )];
        }
    }
    let before = places.iter().find_map(|place| {
        let goes = &view.pods[*place];
        if goes.updated && view.held_for_good().is_some() {
            // Surge that the hold has no use for: unavailable pods first.
            return None;
        }
        let stays = view.pods.iter().enumerate().filter(|(at, one)| !places.contains(at) && !collected(one));
        let mut wrong = stays.filter(|(at, member)| {
            if view.gates(goes) && !member.updated {
                !view.gates(member)
            } else {
                member.pod.set == goes.pod.set && at < place && !view.gates(member)
            }
        });
        let (_, stays) = wrong.next()?;
        Some(format!("{} is scaled away before {}", goes.pod.name, stays.pod.name))
    });
    before.into_iter().collect()
}

/// What a hold without a duration takes of the surge: unavailable pods first, and no more than the floor allows.
pub(crate) fn surge(view: &View<'_>, act: &Act) -> Found {
    let mut found = Found::new();
    let Some(hold) = view.held_for_good() else { return found };
    if i64::from(hold.replicas) != view.desired || view.updated() > view.desired {
        return found;
    }
    let places = places(view, act, Purpose::Scale);
    let (gone, left): (Vec<_>, Vec<_>) =
        view.pods.iter().enumerate().filter(|(_, one)| one.updated).partition(|(at, _)| places.contains(at));
    let gone = count(gone.into_iter().filter(|(_, one)| one.available).count());
    if gone == 0 {
        return found;
    }
    if left.into_iter().any(|(_, one)| !one.available && !view.is_collected(one)) {
        found.push("an available surge pod goes before an unavailable one".to_owned());
    }
    if view.available() - gone < view.floor {
        found.push("surge goes below the floor".to_owned());
    }
    found
}

/// Scaling never leaves a rollout without a pause point that holds it where it had one, and takes pods without such a point first,
/// then the held one, whose hold outlives it, and those whose point waits for somebody last.
pub(crate) fn points(view: &View<'_>, act: &Act) -> Found {
    let scale: Vec<&Target> = targets(act, Purpose::Scale).collect();
    let goes = |member: &Member<'_>| scale.iter().any(|target| member.is(target.uid()));
    let mut found = Found::new();
    if !view.old().any(goes) {
        return found;
    }
    let waits =
        |member: &Member<'_>| matches!(member.pod.point, Point::At { duration: Ok(None) | Err(_), .. });
    let is_held = |member: &Member<'_>| view.held().is_some_and(|hold| member.is(&hold.pod_uid));
    let (gone, left): (Vec<_>, Vec<_>) =
        view.old().filter(|member| !view.is_collected(member)).partition(|member| goes(member));
    let all: Vec<_> = view.old().filter(|member| !view.is_collected(member)).collect();
    // With nothing behind it, a point `after` holds nothing.
    let holds = |members: &[&Member<'_>], waiting: bool| {
        members.iter().enumerate().any(|(at, member)| {
            let is_before = matches!(member.pod.point, Point::At { side: PausePoint::Before, .. });
            let counts = view.gates(member) && !is_held(member) && (!waiting || waits(member));
            counts && (is_before || at + 1 < members.len())
        })
    };
    let loses = |waiting: bool| holds(&all, waiting) && !holds(&left, waiting);
    let lost = match view.held() {
        None => loses(false) || loses(true),
        Some(hold) if hold.until.is_some() => loses(true),
        Some(_) => false,
    };
    if lost {
        found.push("scaling takes the last pause point away".to_owned());
    }
    let rank = |member: &&Member<'_>| match (is_held(member), view.gates(member)) {
        (true, _) => 1,
        (false, true) => 2 + i32::from(waits(member)),
        (false, false) => 0,
    };
    if gone.iter().map(rank).max() > left.iter().map(rank).min().or(Some(i32::MAX)) {
        found.push("a pause point is scaled away before pods that hold less".to_owned());
    }
    found
}

/// Pods of a set that is being deleted are the garbage collector's.
pub(crate) fn collected(view: &View<'_>, act: &Act) -> Found {
    let places = act.deletes.iter().flat_map(|group| &group.targets).filter_map(|one| view.place(one.uid()));
    let wrong = places.map(|place| &view.pods[place]).find(|member| view.is_collected(member));
    wrong.map(|member| format!("{} is deleted while its set is", member.pod.name)).into_iter().collect()
}

/// A group is deleted in parallel: at most 16 pods of one priority.
pub(crate) fn groups(_: &View<'_>, act: &Act) -> Found {
    let wrong = act.deletes.iter().find(|group| {
        let first = group.targets.first().map(|target| target.priority);
        let same = group.targets.iter().all(|target| Some(target.priority) == first);
        !(1..=PARALLEL).contains(&group.targets.len()) || !same
    });
    wrong
        .map(|group| format!("{} pods in one group, or of several priorities", group.targets.len()))
        .into_iter()
        .collect()
}

/// A rollout leaves enough available pods, and enough to rely on.
pub(crate) fn floors(view: &View<'_>, act: &Act) -> Found {
    let member = |target: &Target| view.place(target.uid()).map(|place| view.pods[place]);
    // Both kinds of deletions come of one decision: what scaling takes, the rollout cannot count on.
    let scaled = targets(act, Purpose::Scale).filter_map(member);
    let leaving = count(scaled.filter(|one| one.available).count());
    let mut available = view.available() - leaving;
    let mut reliable = view.reliable() - leaving;
    let mut found = Found::new();
    for goes in targets(act, Purpose::Rollout).filter_map(member) {
        available -= i64::from(goes.available);
        reliable -= 1;
        let floor = view.floor;
        if (goes.available && available < floor) || reliable < floor {
            found.push(format!(
                "deleting {} leaves {available} available pods and {reliable} to rely on; the floor is {floor}",
                goes.pod.name
            ));
        }
    }
    found
}

/// Nothing is deleted for a template that is not known to work.
pub(crate) fn proof(view: &View<'_>, act: &Act) -> Found {
    let snapshot = view.snapshot;
    let current = current_sets(snapshot);
    let created = snapshot.pods.iter().any(|pod| current.contains(&*pod.set));
    let proven = created || snapshot.dry_run == DryRun::Accepted;
    let goes = targets(act, Purpose::Rollout).next().filter(|_| !proven);
    goes.map(|target| format!("{} is deleted for a template that is not proven", target.name()))
        .into_iter()
        .collect()
}

/// Nothing at or behind a pause point goes before it was passed, and of a point `after` nothing before its hold is stored.
pub(crate) fn barrier(view: &View<'_>, act: &Act) -> Found {
    let may_go = if view.is_kept() { 0 } else { view.may_go() };
    let past = targets(act, Purpose::Rollout).find(|target| {
        let place = view.old().position(|member| member.is(target.uid()));
        place.is_some_and(|place| place >= may_go)
    });
    past.map(|target| format!("{} is deleted at or past the barrier", target.name())).into_iter().collect()
}

/// Held or paused: what is kept stays, and one old pod at least.
pub(crate) fn kept(view: &View<'_>, act: &Act) -> Found {
    let mut found = Found::new();
    if !view.is_kept() {
        return found;
    }
    let scale: Vec<&Target> = targets(act, Purpose::Scale).collect();
    let stays = |member: &&Member<'_>| scale.iter().all(|target| !member.is(target.uid()));
    let stored = match (view.held(), &view.status.hold, &view.status.pause) {
        (Some(hold), ..) => Some((&hold.sizes, hold.replicas)),
        (None, None, Some(pause)) => Some((&pause.sizes, pause.replicas)),
        _ => None,
    };
    if let Some((sizes, replicas)) = stored
        && i64::from(replicas) == view.desired
    {
        let current = current_sets(view.snapshot);
        for updated in [false, true] {
            let sets = view.snapshot.sets.iter().filter(|set| !set.terminating);
            let of = sets.filter(|set| current.contains(&*set.uid) == updated);
            let share: i64 = of.filter_map(|set| sizes.get(&set.hash)).map(|size| i64::from(*size)).sum();
            let members = || view.pods.iter().filter(|one| one.updated == updated && !view.is_collected(one));
            let (active, left) = (count(members().count()), count(members().filter(stays).count()));
            if left < active.min(share.min(view.desired)) {
                let which = if updated { "updated" } else { "old" };
                found.push(format!("{left} {which} pods are left, where {share} are kept"));
            }
        }
    }
    let old = view.old().filter(|one| !view.is_collected(one)).count();
    // A pause may have begun under another template, by which others were old.
    if view.held().is_some() && view.desired > 0 && old > 0 && !view.old().any(|one| stays(&one)) {
        found.push(format!("none of {old} old pods stays in a hold"));
    }
    found
}
