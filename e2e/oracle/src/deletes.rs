//! Which pods an act deletes, in which order, and what stays.

use ordereddeployment_planner::{Act, DryRun, Purpose, Target};

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

/// The deletions of a rollout follow the order of the old pods. With `WhenBlocked`, unavailable pods may go
/// before available ones.
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
    let mut stays = ahead.filter(|(ahead, active)| !active.updated && !places.contains(ahead));
    let may_wait = view.is_when_blocked() && (view.is_overdue() || view.all_updated_available());
    let is_kept = view.available() - 1 < view.floor;
    let (_, stays) = stays.find(|(_, stays)| {
        !(stays.available && !deleted.available && (may_wait || view.aborts) && is_kept)
    })?;
    Some(format!("{} is deleted before {}, which is ahead of it", deleted.pod.name, stays.pod.name))
}

/// A scale-down outside a rollout deletes the first pods of the order.
pub(crate) fn scaling_order(view: &View<'_>, act: &Act) -> Messages {
    let places = places(view, act, Purpose::Scale);
    let is_begun = view.status.rollout.as_ref().is_some_and(|rollout| !rollout.completed);
    if places.is_empty() || is_begun || view.old().next().is_some() {
        return Messages::new();
    }
    let surplus = usize::try_from(count(view.pods.len()) - view.desired).unwrap_or(0);
    let of_gc = |active: &ActivePod<'_>| view.is_collected(active);
    let first = view.pods.iter().enumerate().filter(|(_, active)| !of_gc(active)).map(|(at, _)| at);
    if places.iter().copied().eq(first.take(surplus)) {
        return Messages::new();
    }
    vec![format!("a scale-down deletes the places {places:?}, not the first {surplus} of the order")]
}

/// Scaling in a rollout leaves D pods, and deletes available ones only as the floor allows.
pub(crate) fn scaled(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let places = places(view, act, Purpose::Scale);
    if places.is_empty() || view.old().next().is_none() {
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
    if available < view.available() && available < view.floor {
        messages.push(format!(
            "scaling in a rollout leaves {available} available pods, the floor is {}",
            view.floor
        ));
    }
    messages
}

/// The controller deletes no pods of a set that is being deleted: the garbage collector does.
pub fn collected(view: &View<'_>, act: &Act) -> Messages {
    let places = act.deletes.iter().flat_map(|group| &group.targets).filter_map(|one| view.place(one.uid()));
    let wrong = places.map(|place| &view.pods[place]).find(|active| view.is_collected(active));
    let message =
        |active: &ActivePod<'_>| format!("{} is deleted while its set is being deleted", active.pod.name);
    wrong.map(message).into_iter().collect()
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

/// Of pods that a rollout deletes one after the other, those that leave fewer pods than the floor, by their
/// number from 0. What the act scales away counts as deleted.
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
                "deleting {name} leaves {available} available pods, and {reliable} that are old or \
                 available; the floor is {floor}"
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
