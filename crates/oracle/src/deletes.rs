//! Which pods an act deletes, in which order, and what stays.

use ordereddeployment_api::PausePoint;
use ordereddeployment_planner::{Act, DryRun, Point, Purpose, Target};

use crate::Messages;
use crate::view::{ActivePod, View, count};

/// The most pods that are deleted in parallel.
const PARALLEL: usize = 16;

/// The pods that an act deletes for that purpose, in its order.
pub(crate) fn targets(act: &Act, purpose: Purpose) -> impl Iterator<Item = &Target> {
    act.deletes.iter().filter(move |group| group.purpose == purpose).flat_map(|group| &group.targets)
}

/// The places of those pods in the order. Pods that are not active have none; `rollout_order` reports them.
fn places(view: &View<'_>, act: &Act, purpose: Purpose) -> Vec<usize> {
    targets(act, purpose).filter_map(|target| view.place(target.uid())).collect()
}

/// The deletions of a rollout follow the order of the old pods. With `WhenBlocked`, unavailable pods may go before available ones.
#[must_use]
pub fn rollout_order(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let inactive =
        act.deletes.iter().flat_map(|group| &group.targets).filter(|one| view.place(one.uid()).is_none());
    messages.extend(inactive.map(|target| format!("{} is deleted, which is not active", target.name())));
    let places = places(view, act, Purpose::Rollout);
    if !places.is_sorted() {
        messages.push("the deletions of the rollout do not follow the order".to_owned());
    }
    messages.extend(places.iter().find_map(|place| out_of_order(view, &places, *place)));
    messages
}

fn out_of_order(view: &View<'_>, places: &[usize], place: usize) -> Option<String> {
    let deleted = &view.pods[place];
    if deleted.updated {
        return Some(format!("the rollout deletes {}, which is updated", deleted.pod.name));
    }
    let ahead = view.pods[..place].iter().enumerate();
    let stays = ahead.filter(|(ahead, active)| !active.updated && !places.contains(ahead));
    for (_, stays) in stays {
        if !(stays.available && !deleted.available && view.allows_out_of_order()) {
            return Some(format!(
                "{} is deleted before {}, which is ahead of it",
                deleted.pod.name, stays.pod.name
            ));
        }
        let barrier = view.barrier().and_then(|(at, ..)| view.old().nth(at));
        let past = barrier.and_then(|active| view.place(&active.pod.facts.uid));
        if past.is_some_and(|barrier| barrier <= place) {
            return Some(format!("{} is deleted out of order, at or past the barrier", deleted.pod.name));
        }
    }
    None
}

/// A scale-down outside a rollout deletes the first pods of the order. In a rollout, a hold or a pause it deletes the first pods of
/// each set; it deletes old pods with a pause point that is not passed only where no other old pod is left.
#[must_use]
pub fn scaling_order(view: &View<'_>, act: &Act) -> Messages {
    let places = places(view, act, Purpose::Scale);
    if places.is_empty() {
        return Messages::new();
    }
    let collected = |active: &ActivePod<'_>| view.is_collected(active);
    if view.old().next().is_none() && view.held().is_none() && !view.keeps_old() {
        let surplus = usize::try_from(count(view.pods.len()) - view.desired).unwrap_or(0);
        let first = view.pods.iter().enumerate().filter(|(_, active)| !collected(active)).map(|(at, _)| at);
        if !places.iter().copied().eq(first.take(surplus)) {
            return vec![format!(
                "a scale-down deletes the places {places:?}, not the first {surplus} of the order"
            )];
        }
    }
    let available = places.iter().filter(|place| view.pods[**place].available);
    let left = view.available() - count(available.count());
    let before = places.iter().find_map(|place| {
        let deleted = &view.pods[*place];
        if deleted.updated && view.untimed_hold().is_some() {
            // `surge` checks these.
            return None;
        }
        // An available pod stays where the floor asks for it.
        let kept = |one: &ActivePod<'_>| one.available && !deleted.available && left <= view.floor;
        let stays = view.pods.iter().enumerate();
        let stays = stays.filter(|(at, one)| !places.contains(at) && !collected(one) && !kept(one));
        let mut wrong = stays.filter(|(at, active)| {
            if view.has_pause_point(deleted) && !active.updated {
                !view.has_pause_point(active)
            } else {
                active.pod.set == deleted.pod.set && at < place && !view.has_pause_point(active)
            }
        });
        let (_, stays) = wrong.next()?;
        Some(format!("{} is scaled away before {}", deleted.pod.name, stays.pod.name))
    });
    before.into_iter().collect()
}

/// Scaling in a rollout leaves D pods, and deletes available ones only as the floor allows.
pub(crate) fn scaled(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let places = places(view, act, Purpose::Scale);
    if places.is_empty() || (view.old().next().is_none() && view.held().is_none() && !view.keeps_old()) {
        return messages;
    }
    let left = |counts: &dyn Fn(&ActivePod<'_>) -> bool| {
        let left = view.pods.iter().enumerate().filter(|(at, one)| !places.contains(at) && counts(one));
        count(left.count())
    };
    let alive = left(&|one| !view.is_collected(one));
    if alive < view.desired {
        messages.push(format!("scaling in a rollout leaves {alive} pods of {}", view.desired));
    }
    let available = left(&|one| one.available);
    // Updated pods beyond D go whatever is available.
    if available < view.available() && available < view.floor && view.updated() <= view.desired {
        messages.push(format!(
            "scaling in a rollout leaves {available} available pods, the floor is {}",
            view.floor
        ));
    }
    messages
}

/// A hold without a duration deletes surge pods: unavailable pods first, and no more than the floor allows.
#[must_use]
pub fn surge(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let Some(hold) = view.untimed_hold() else { return messages };
    if i64::from(hold.replicas) != view.desired || view.updated() > view.desired {
        return messages;
    }
    let places = places(view, act, Purpose::Scale);
    let (deleted, left): (Vec<_>, Vec<_>) =
        view.pods.iter().enumerate().filter(|(_, one)| one.updated).partition(|(at, _)| places.contains(at));
    let deleted = count(deleted.into_iter().filter(|(_, one)| one.available).count());
    if deleted == 0 {
        return messages;
    }
    if left.into_iter().any(|(_, one)| !one.available && !view.is_collected(one)) {
        messages.push("an available surge pod is deleted before an unavailable one".to_owned());
    }
    if view.available() - deleted < view.floor {
        messages.push("deleting surge pods leaves fewer available pods than the floor".to_owned());
    }
    messages
}

/// Scaling never deletes the last pause point of a rollout. It deletes pods without a pause point first, then the held pod, whose hold
/// stays, then pods with a timed pause point, and last those whose pause point waits for a user.
pub(crate) fn points(view: &View<'_>, act: &Act) -> Messages {
    let scale: Vec<&Target> = targets(act, Purpose::Scale).collect();
    let is_deleted = |active: &ActivePod<'_>| scale.iter().any(|target| active.is(target.uid()));
    let mut messages = Messages::new();
    if !view.old().any(is_deleted) {
        return messages;
    }
    let waits =
        |active: &ActivePod<'_>| matches!(active.pod.point, Point::At { duration: Ok(None) | Err(_), .. });
    let is_held = |active: &ActivePod<'_>| view.held().is_some_and(|hold| active.is(&hold.pod_uid));
    let (deleted, left): (Vec<_>, Vec<_>) =
        view.old().filter(|active| !view.is_collected(active)).partition(|active| is_deleted(active));
    let all: Vec<_> = view.old().filter(|active| !view.is_collected(active)).collect();
    // A point `after` holds the rollout only where pods are behind it.
    let holds = |pods: &[&ActivePod<'_>], waiting: bool| {
        pods.iter().enumerate().any(|(at, active)| {
            let is_before = matches!(active.pod.point, Point::At { side: PausePoint::Before, .. });
            let counts = view.has_pause_point(active) && !is_held(active) && (!waiting || waits(active));
            counts && (is_before || at + 1 < pods.len())
        })
    };
    let loses = |waiting: bool| holds(&all, waiting) && !holds(&left, waiting);
    let lost = match view.held() {
        None => loses(false) || loses(true),
        Some(hold) if hold.until.is_some() => loses(true),
        Some(_) => false,
    };
    if lost {
        messages.push("scaling deletes the last pause point".to_owned());
    }
    let rank = |active: &&ActivePod<'_>| match (is_held(active), view.has_pause_point(active)) {
        (true, _) => 1,
        (false, true) => 2 + i32::from(waits(active)),
        (false, false) => 0,
    };
    if deleted.iter().map(rank).max() > left.iter().map(rank).min().or(Some(i32::MAX)) {
        messages.push("a pause point is scaled away before pods that are to go first".to_owned());
    }
    messages
}

/// The controller deletes no pods of a set that is being deleted: the garbage collector does.
#[must_use]
pub fn collected(view: &View<'_>, act: &Act) -> Messages {
    let places = act.deletes.iter().flat_map(|group| &group.targets).filter_map(|one| view.place(one.uid()));
    let wrong = places.map(|place| &view.pods[place]).find(|active| view.is_collected(active));
    wrong
        .map(|active| format!("{} is deleted while its set is being deleted", active.pod.name))
        .into_iter()
        .collect()
}

/// A group is deleted in parallel: at most 16 pods of one priority.
pub(crate) fn groups(_: &View<'_>, act: &Act) -> Messages {
    let wrong = act.deletes.iter().find(|group| {
        let first = group.targets.first().map(|target| target.priority);
        let same = group.targets.iter().all(|target| Some(target.priority) == first);
        !(1..=PARALLEL).contains(&group.targets.len()) || !same
    });
    wrong
        .map(|group| format!("{} pods are in one group, or pods of several priorities", group.targets.len()))
        .into_iter()
        .collect()
}

/// A rollout leaves enough available pods, and enough pods that are old or available.
pub(crate) fn floors(view: &View<'_>, act: &Act) -> Messages {
    let active = |target: &Target| view.place(target.uid()).map(|place| view.pods[place]);
    let deleted = targets(act, Purpose::Rollout).filter_map(active);
    below_floor(view, act, deleted).map(|(_, message)| message).collect()
}

/// Of pods that a rollout deletes one after the other, those that leave fewer pods than the floor, by their number from 0. What the
/// act scales away counts as deleted.
pub fn below_floor<'a>(
    view: &View<'a>,
    act: &Act,
    deleted: impl Iterator<Item = ActivePod<'a>>,
) -> impl Iterator<Item = (usize, String)> {
    let scaled = places(view, act, Purpose::Scale).into_iter();
    let leaving = count(scaled.filter(|place| view.pods[*place].available).count());
    let mut available = view.available() - leaving;
    let mut reliable = view.reliable() - leaving;
    let floor = view.floor;
    deleted.enumerate().filter_map(move |(number, deleted)| {
        available -= i64::from(deleted.available);
        reliable -= 1;
        let is_below = (deleted.available && available < floor) || reliable < floor;
        is_below.then(|| {
            let name = &deleted.pod.name;
            let message = format!(
                "deleting {name} leaves {available} available pods, and {reliable} that are old or available; the floor is {floor}"
            );
            (number, message)
        })
    })
}

/// A rollout deletes nothing before the API server has accepted a pod of the new template.
pub(crate) fn proof(view: &View<'_>, act: &Act) -> Messages {
    let snapshot = view.snapshot;
    let created = snapshot.pods.iter().any(|pod| view.current.contains(&*pod.set));
    // An abort rolls back to pods that have run before.
    let proven = created || view.aborts || snapshot.dry_run == DryRun::Accepted;
    let first = targets(act, Purpose::Rollout).next().filter(|_| !proven);
    first
        .map(|target| format!("{} is deleted for a template that is not proven", target.name()))
        .into_iter()
        .collect()
}

/// A rollout deletes nothing at or behind a pause point that is not passed, and no pod with a point `after` before its hold is stored.
pub(crate) fn barrier(view: &View<'_>, act: &Act) -> Messages {
    let places = places(view, act, Purpose::Rollout);
    if places.is_empty() {
        return Messages::new();
    }
    let past_barrier = past_barrier(view);
    places.into_iter().find_map(|place| past_barrier(&view.pods[place])).into_iter().collect()
}

/// Checks whether a pod that a rollout deletes is at or past the barrier. In a hold, in a pause, and while it is unknown if the template
/// is new, all old pods are.
pub fn past_barrier<'v>(view: &'v View<'_>) -> impl Fn(&ActivePod<'_>) -> Option<String> + 'v {
    let stops = view.keeps_sizes() || view.is_uncompared();
    let limit = if stops { 0 } else { view.rollout_limit() };
    move |deleted| {
        let place = view.old().position(|active| active.is(&deleted.pod.facts.uid))?;
        (place >= limit).then(|| format!("{} is deleted at or past the barrier", deleted.pod.name))
    }
}

/// A hold or a pause keeps the pods that it stored, and a hold at least one old pod.
pub(crate) fn kept(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    if !view.keeps_sizes() {
        return messages;
    }
    let scale: Vec<&Target> = targets(act, Purpose::Scale).collect();
    let stays = |active: &&ActivePod<'_>| scale.iter().all(|target| !active.is(target.uid()));
    let is_about_to_hold = view.held().is_none() && view.status.hold.is_some();
    if let Some((sizes, replicas)) = view.stored_sizes().filter(|_| !is_about_to_hold)
        && i64::from(replicas) == view.desired
    {
        for updated in [false, true] {
            let sets = view.snapshot.sets.iter().filter(|set| !set.terminating);
            let of = sets.filter(|set| view.current.contains(&*set.uid) == updated);
            let share: i64 = of.filter_map(|set| sizes.get(&set.hash)).map(|size| i64::from(*size)).sum();
            let kept = || view.pods.iter().filter(|one| one.updated == updated && !view.is_collected(one));
            let (before, left) = (count(kept().count()), count(kept().filter(stays).count()));
            if left < before.min(share.min(view.desired)) {
                let which = if updated { "updated" } else { "old" };
                messages.push(format!("{left} {which} pods are left, where {share} are kept"));
            }
        }
    }
    let old = view.old().filter(|one| !view.is_collected(one)).count();
    // A pause may have begun under another template: then other pods were old.
    if view.held().is_some() && view.desired > 0 && old > 0 && !view.old().any(|one| stays(&one)) {
        messages.push(format!("none of {old} old pods stays in a hold"));
    }
    messages
}
