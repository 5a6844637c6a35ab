//! Pause points of a plain Deployment: the hold, its end, and the pods that it keeps back.
//!
//! The Deployment controller counts. A hold sets `spec.paused`, so that it stops; whoever clears `spec.paused` resumes. Pods that the
//! Deployment controller had already ordered away when the hold began stay until then. What it orders later is scaling, and is
//! carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{Hold, OrderedDeploymentStatus, PausePoint, Rollout};

use crate::barrier::{Barrier, held};
use crate::conditions::{hold_message, seconds};
use crate::inventory::{Inventory, RankedPod};
use crate::replica_sets::surplus::{first_of_each, size, waiting};
use crate::{Decision, Point, Read, Record, Set, declared, events, hold};

/// The pods that wait for a pause point: for each set, by UID, how many and why.
#[derive(Debug, Default)]
pub(super) struct Pausing {
    pub(super) held_back: BTreeMap<Arc<str>, String>,
}

/// Why a hold ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Somebody cleared `spec.paused`, or the duration is over: the point is passed.
    Passed(&'static str),
    /// The point is gone, or there is nothing left to hold.
    Void(&'static str),
}

/// What must be stored before any other write: the end of a hold, and what later decisions read.
pub(super) fn transition(inventory: &Inventory<'_>) -> Option<Decision> {
    if is_of_another_rollout(inventory) {
        return Some(record(OrderedDeploymentStatus::default()));
    }
    let Some(hold) = &inventory.status.hold else {
        let passed =
            hold::pass_declared(inventory).filter(|_| inventory.old_count() > 0 && is_begun(inventory));
        return passed.map(|first| match first {
            Decision::Record(stored) => record(with_rollout(inventory, stored.status)),
            other => other,
        });
    };
    match end_of(inventory, hold) {
        Some(Err(read)) => return Some(Decision::Read(read)),
        Some(Ok(end)) => return Some(ended(inventory, hold, end)),
        None => {}
    }
    with_edited_point(inventory, hold).or_else(|| with_sizes_ordered_meanwhile(inventory))
}

/// Whether the stored state is that of a rollout to another template.
fn is_of_another_rollout(inventory: &Inventory<'_>) -> bool {
    // An undo gives the set another revision. It also brings back the annotations of that time, with an older state.
    let other = |rollout: &Rollout, set: &Set| {
        (rollout.template_hash.as_str(), rollout.revision) != (set.hash.as_str(), set.revision)
    };
    let stored = inventory.status.rollout.as_ref().zip(inventory.current);
    stored.is_some_and(|(rollout, set)| other(rollout, set) || !is_begun(inventory))
}

/// Whether the Deployment controller has begun the rollout: it has given the set of the template the largest revision. Before that, a
/// template of earlier has its revision of earlier, and a hold would be that of another rollout. Under Recreate it first scales the
/// other sets to 0, before this set exists.
fn is_begun(inventory: &Inventory<'_>) -> bool {
    let Some(set) = inventory.current else { return inventory.recreate() };
    // The Deployment controller does not replace a revision that is no number, which is read as a negative one.
    set.revision < 0 || inventory.old_sets().all(|old| old.revision < set.revision)
}

fn end_of(inventory: &Inventory<'_>, hold: &Hold) -> Option<Result<End, Read>> {
    let snapshot = inventory.snapshot;
    if !inventory.spec.paused {
        return Some(Ok(End::Passed("spec.paused was cleared")));
    }
    // The cache may lag behind what a user did: before the hold ends by itself, everything is read live.
    let live = |end: End| Some(if snapshot.live { Ok(end) } else { Err(Read::Live) });
    if inventory.old_count() == 0 {
        return live(End::Void("no old pod is left"));
    }
    if hold.until.as_ref().is_some_and(|until| until.0 <= snapshot.now) {
        return live(End::Passed("its time is over"));
    }
    if let Some(point) = &hold.declared {
        let stands = inventory.spec.strategy.points().any(|declared| declared.name == point.name);
        return (!stands).then(|| live(End::Void("its pause point was removed"))).flatten();
    }
    let pod = inventory.old().iter().find(|ranked| **ranked.uid() == *hold.pod_uid)?;
    matches!(pod.pod.point, Point::None).then(|| live(End::Void("its annotation was removed"))).flatten()
}

fn ended(inventory: &Inventory<'_>, hold: &Hold, end: End) -> Decision {
    let mut status = inventory.status.clone();
    status.hold = None;
    if let Some(rollout) = &mut status.rollout {
        rollout.scaled_from = None;
    }
    let (End::Passed(why) | End::Void(why)) = end;
    if let End::Passed(_) = end {
        let now = inventory.snapshot.now;
        match &hold.declared {
            Some(point) => hold::mark_point_passed(&mut status, &point.name, point.group.as_deref(), now),
            None => hold::mark_passed(&mut status, &hold.pod_uid, now),
        }
    }
    let message = format!("Resumed {} ({why})", hold.id);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_RESUMED, message)] })
}

/// The hold follows an edit of the duration of its point, and of the side of its annotation.
fn with_edited_point(inventory: &Inventory<'_>, hold: &Hold) -> Option<Decision> {
    let mut edited = hold.clone();
    let duration = if let Some(point) = &hold.declared {
        let declared = inventory.spec.strategy.points().find(|declared| declared.name == point.name)?;
        Some(declared.pause_duration())
    } else {
        let pod = inventory.old().iter().find(|ranked| **ranked.uid() == *hold.pod_uid)?.pod;
        let Point::At { side, duration } = &pod.point else { return None };
        edited.point = *side;
        let of_pod = inventory.old_sets().find(|set| set.uid == pod.set);
        if let Some(pods) = of_pod.and_then(|set| edited.sizes.get_mut(&set.hash)) {
            // With an `after` point, the set keeps its pods without this one.
            *pods += i32::from(hold.point == PausePoint::After) - i32::from(*side == PausePoint::After);
        }
        duration.as_ref().ok().copied()
    };
    if let Some(duration) = duration {
        edited.until = duration.and_then(|duration| hold::end(hold.since.0, duration)).map(Into::into);
    }
    if edited == *hold {
        return None;
    }
    let mut status = inventory.status.clone();
    status.hold = Some(edited);
    Some(record(status))
}

/// The Deployment controller can change sizes once more after `spec.paused` is set: its cache lags too. A size that it did not change
/// for another number of replicas is a step of the rollout, and its pods wait.
fn with_sizes_ordered_meanwhile(inventory: &Inventory<'_>) -> Option<Decision> {
    let stored = inventory.status.rollout.as_ref()?;
    let ordered = stored.scaled_from.as_ref()?;
    let mut now = ordered.clone();
    for set in inventory.old_sets().filter(|set| !is_scaled(set, stored)) {
        if let Some(size) = now.get_mut(&set.hash) {
            *size = set.replicas;
        }
    }
    if now == *ordered {
        return None;
    }
    let mut status = inventory.status.clone();
    if let Some(rollout) = &mut status.rollout {
        rollout.scaled_from = Some(now);
    }
    Some(record(status))
}

/// Whether the Deployment controller has changed the size of this set for another number of replicas since the hold began.
pub(super) fn is_scaled(set: &Set, rollout: &Rollout) -> bool {
    set.desired_replicas.is_some_and(|desired| desired != rollout.replicas)
}

/// While a rollout is held: the pods of old sets that scaling deletes, and those that wait.
pub(super) fn kept_back<'c, 'a>(
    inventory: &'c Inventory<'a>,
    surplus: &BTreeMap<&str, i64>,
) -> (Vec<&'c RankedPod<'a>>, Pausing) {
    let (Some(hold), Some(rollout)) = (held(inventory.status), inventory.status.rollout.as_ref()) else {
        return (Vec::new(), Pausing::default());
    };
    let held_pod = |ranked: &RankedPod<'_>| **ranked.uid() == *hold.pod_uid;
    let goes_first = hold.point == PausePoint::After && hold.declared.is_none();
    let is_too_many = |ranked: &RankedPod<'_>| surplus.contains_key(&*ranked.pod.set);
    let goes = |ranked: &&RankedPod<'_>| goes_first && held_pod(ranked) && is_too_many(ranked);
    let mut goes: Vec<_> = inventory.old().iter().filter(goes).collect();
    // With an `after` point its pod was ordered away before the hold began: the sizes count without it.
    let mut leaving: BTreeMap<&str, i64> = BTreeMap::new();
    for ranked in &goes {
        *leaving.entry(&ranked.pod.set).or_default() += 1;
    }
    let mut scaled = BTreeMap::new();
    let mut waits = BTreeMap::new();
    for set in inventory.old_sets() {
        let more =
            surplus.get(&*set.uid).copied().unwrap_or(0) - leaving.get(&*set.uid).copied().unwrap_or(0);
        let back = if inventory.bounds.desired == 0 { 0 } else { waiting_pods(set, hold, rollout).min(more) };
        waits.insert(&*set.uid, usize::try_from(back).unwrap_or(0));
        scaled.insert(&*set.uid, (more - back).max(0));
    }
    // The held pod is the last one that scaling deletes.
    let mut last: Vec<_> = inventory.old().iter().copied().filter(|ranked| !held_pod(ranked)).collect();
    last.extend(inventory.old().iter().copied().filter(|ranked| held_pod(ranked) && !goes_first));
    let uids: Vec<_> = first_of_each(&last, &scaled).into_iter().map(|ranked| ranked.place).collect();
    goes.extend(inventory.old().iter().filter(|ranked| uids.contains(&ranked.place)));
    goes.sort_by_key(|ranked| ranked.place);
    let what = format!("the rollout is paused at {}", hold.id);
    (goes, Pausing { held_back: waiting(inventory, &waits, &what) })
}

/// How many pods this old set gets under Recreate. The Deployment controller fills a paused Deployment up, and has not made its sets
/// smaller again when a hold has just ended: pods that a rollout has deleted do not come back.
pub(super) fn wanted_of_old_set(inventory: &Inventory<'_>, set: &Set) -> i64 {
    let Some(rollout) = &inventory.status.rollout else { return size(set) };
    match held(inventory.status) {
        _ if !inventory.spec.paused => 0,
        Some(hold) if !is_scaled(set, rollout) => {
            size(set).min(hold.sizes.get(&set.hash).copied().map_or(0, i64::from))
        }
        _ => size(set),
    }
}

/// How many pods of this set the hold keeps beyond its size.
fn waiting_pods(set: &Set, hold: &Hold, rollout: &Rollout) -> i64 {
    let pods = hold.sizes.get(&set.hash).copied().map_or(0, i64::from);
    let ordered = if is_scaled(set, rollout) {
        rollout.scaled_from.as_ref().and_then(|sizes| sizes.get(&set.hash)).copied().map_or(pods, i64::from)
    } else {
        size(set)
    };
    (pods - ordered).max(0)
}

/// The pods of old sets that may go now, out of those that their sets have too many, given in order. The first decision is the hold,
/// if a pause point is next.
pub(super) fn ahead<'c, 'a>(
    inventory: &'c Inventory<'a>,
    of_old: Vec<&'c RankedPod<'a>>,
) -> Result<(Vec<&'c RankedPod<'a>>, Pausing), Box<Decision>> {
    let old = inventory.old();
    // An `after` point without a pod behind it holds nothing.
    let holds = |side: PausePoint| side == PausePoint::Before || old.len() > 1;
    let point = of_old.iter().position(|ranked| ranked.point.is_some_and(holds));
    let nearest = declared::nearest(inventory, old);
    let declared = nearest.and_then(|(at, declared)| {
        let place = old.get(at)?.place;
        Some((of_old.iter().position(|ranked| ranked.place >= place)?, declared))
    });
    // At one place, a declared point comes before the `before` point of the pod.
    let barrier = match (point, declared) {
        (Some(at), Some((place, declared))) if place <= at => Some((place, Some(declared))),
        (Some(at), _) => Some((at, None)),
        (None, Some((place, declared))) => Some((place, Some(declared))),
        (None, None) => None,
    };
    let Some((at, declared)) = barrier else { return Ok((of_old, Pausing::default())) };
    let ranked = of_old[at];
    let side =
        if declared.is_some() { PausePoint::Before } else { ranked.point.unwrap_or(PausePoint::Before) };
    let barrier = Barrier { ranked, side, declared };
    let id = crate::barrier::id(inventory, &barrier);
    // A change of `replicas` that the Deployment controller has not carried out yet is not a step of the rollout.
    let is_scaling = inventory.old_sets().any(|set| set.replicas > 0 && is_behind(inventory, set));
    if at == 0 && !inventory.spec.paused && !is_scaling && is_begun(inventory) {
        return Err(Box::new(begin(inventory, &barrier)));
    }
    let what = if at == 0 && inventory.spec.paused {
        // A user paused the Deployment before its rollout reached the point.
        format!("the Deployment is paused, and pause point {id} is next")
    } else {
        format!("pause point {id} is ahead")
    };
    let mut waits = BTreeMap::new();
    for ranked in &of_old[at..] {
        *waits.entry(&*ranked.pod.set).or_default() += 1;
    }
    let pausing = Pausing { held_back: waiting(inventory, &waits, &what) };
    Ok((of_old.into_iter().take(at).collect(), pausing))
}

/// Whether the size of this set is still that for another number of replicas.
fn is_behind(inventory: &Inventory<'_>, set: &Set) -> bool {
    set.desired_replicas.is_some_and(|desired| desired != inventory.spec.replicas)
}

/// The hold at this barrier. It is stored together with `spec.paused`.
fn begin(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>) -> Decision {
    let pod = barrier.ranked.pod;
    let mut status = with_rollout(inventory, inventory.status.clone());
    let since = seconds(inventory.snapshot.now);
    let duration = barrier.duration();
    let until: Option<Timestamp> = duration.and_then(|duration| hold::end(since, duration));
    let active = inventory.by_set();
    let leaves = |set: &Set| barrier.side == PausePoint::After && *set.uid == *pod.set;
    let pods = |set: &Set| active.get(&set.hash).copied().unwrap_or(0) - i64::from(leaves(set));
    let narrow = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
    let hold = Hold {
        id: crate::barrier::id(inventory, barrier),
        pod: pod.name.clone(),
        pod_uid: pod.facts.uid.to_string(),
        node: pod.facts.node.as_ref().map(ToString::to_string),
        point: barrier.side,
        declared: barrier.declared.map(|declared| declared.held()),
        revision: crate::barrier::revision(inventory),
        since: since.into(),
        until: until.map(Into::into),
        deleted: None,
        replicas: inventory.spec.replicas,
        sizes: inventory.old_sets().map(|set| (set.hash.clone(), narrow(pods(set)))).collect(),
    };
    let name = inventory.snapshot.deployment.metadata.name.as_deref().unwrap_or_default();
    let message = hold_message(&hold, &format!("deployment/{name}"));
    if let Some(rollout) = &mut status.rollout {
        rollout.replicas = inventory.spec.replicas;
        rollout.scaled_from =
            Some(inventory.old_sets().map(|set| (set.hash.clone(), set.replicas.max(0))).collect());
    }
    status.hold = Some(hold);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_REACHED, message)] })
}

/// The status with the identity of the rollout, so that what it contains is dropped with the next template.
fn with_rollout(inventory: &Inventory<'_>, mut status: OrderedDeploymentStatus) -> OrderedDeploymentStatus {
    let revision = inventory.current.map_or(0, |set| set.revision);
    status.rollout.get_or_insert_with(|| Rollout {
        revision,
        template_hash: inventory.hash.clone(),
        replicas: inventory.spec.replicas,
        scaled_from: None,
        from: None,
        suspended: None,
        completed: false,
    });
    status
}

fn record(status: OrderedDeploymentStatus) -> Decision {
    Decision::Record(Record { status, events: Vec::new() })
}
