//! Pause points of a plain Deployment: the hold, its end, and the pods that it keeps back.
//!
//! The Deployment controller counts. A hold sets `spec.paused`, so that it stops; whoever clears
//! `spec.paused` resumes. Pods that the Deployment controller had already ordered away when the hold began
//! stay until then. What it orders later is scaling, and is carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use ordereddeployment_api::names::{annotation, reason};
use ordereddeployment_api::{
    Hold, OrderedDeploymentStatus, PassedBy, Rollout, Violation, parse_pause_points,
};

use crate::conditions::hold_message;
use crate::inventory::{Inventory, RankedPod, narrow};
use crate::points::{self, Ahead, Kind, Points};
use crate::replica_sets::surplus::{first_of_each, size, waiting};
use crate::{Decision, Read, Record, Set, Snapshot, events, groups, history, hold, seen};

/// The pods that wait for a pause point: for each set, by UID, how many and why.
pub(super) type HeldBack = BTreeMap<Arc<str>, String>;

/// What must be stored first: the points that are seen, the end of a hold, and what later decisions read.
pub(super) fn transition(inventory: &Inventory<'_>) -> Option<Decision> {
    if is_of_another_rollout(inventory) {
        return Some(record(OrderedDeploymentStatus::default()));
    }
    let seen = || {
        seen::see(inventory, groups::Sight::Plain)
            .filter(|_| inventory.old_count() > 0 && is_begun(inventory))
    };
    let Some(hold) = &inventory.status.hold else { return seen() };
    match end_of(inventory, hold) {
        Some(Err(read)) => return Some(Decision::Read(read)),
        Some(Ok((by, why))) => return Some(ended(inventory, hold, by, why)),
        None => {}
    }
    let points = Points::without_numbers(inventory);
    let point = points.get(&hold.id);
    seen()
        .or_else(|| hold::with_time(inventory, hold, point?, inventory.bounds.desired == 0))
        .or_else(|| with_sizes_ordered_meanwhile(inventory))
}

/// Why the points that the annotation of the Deployment declares cannot be used.
pub(super) fn invalid(snapshot: &Snapshot) -> Option<Violation> {
    let text = snapshot.deployment.metadata.annotations.as_ref()?.get(annotation::PAUSE_POINTS)?;
    let message = parse_pause_points(text).err()?;
    Some(Violation { field: format!("metadata.annotations[{}]", annotation::PAUSE_POINTS), message })
}

/// Whether the stored state is of another template's rollout. A paused Deployment gets no set for a new one.
fn is_of_another_rollout(inventory: &Inventory<'_>) -> bool {
    let Some(rollout) = &inventory.status.rollout else { return false };
    let Some(set) = inventory.current else {
        // The Deployment controller makes a set that somebody deletes in a hold again, once it is resumed.
        let exists = inventory.snapshot.sets.iter().any(|set| set.hash == rollout.template_hash);
        return inventory.status.hold.is_some() && !inventory.recreate() && exists;
    };
    // An undo gives the set another revision, and brings back an annotation with an older state.
    let is_other = (rollout.template_hash.as_str(), rollout.revision) != (set.hash.as_str(), set.revision);
    let is_held = inventory.status.hold.is_some() && rollout.template_hash != set.hash;
    is_held || is_other || !is_begun(inventory)
}

/// Whether the Deployment controller has begun the rollout: it has given the set of the template the largest
/// revision. Before that, a template of earlier has its revision of earlier, and a hold would be that of
/// another rollout. Under Recreate it first scales the other sets to 0, before this set exists.
fn is_begun(inventory: &Inventory<'_>) -> bool {
    let Some(set) = inventory.current else { return inventory.recreate() };
    // The Deployment controller keeps a revision that is no number; it is read as a negative one.
    set.revision < 0 || inventory.old_sets().all(|old| old.revision < set.revision)
}

/// Why the hold ends.
fn end_of(inventory: &Inventory<'_>, hold: &Hold) -> Option<Result<(Option<PassedBy>, &'static str), Read>> {
    let snapshot = inventory.snapshot;
    if !inventory.spec.paused {
        return Some(Ok((Some(PassedBy::Resume), "spec.paused was cleared")));
    }
    // The cache may lag behind what a user did: before the hold ends by itself, everything is read live.
    let live = |by, why| Some(if snapshot.live { Ok((by, why)) } else { Err(Read::Live) });
    if inventory.old_count() == 0 && inventory.old_sets().all(|set| set.replicas == 0) {
        return live(None, "no old pod is left");
    }
    if hold.until.as_ref().is_some_and(|until| until.0 <= snapshot.now) {
        return live(Some(PassedBy::Duration), "its time is over");
    }
    let points = Points::without_numbers(inventory);
    let stands = points.get(&hold.id).is_some();
    (!stands).then(|| live(None, "its pause point was removed")).flatten()
}

fn ended(inventory: &Inventory<'_>, hold: &Hold, by: Option<PassedBy>, why: &str) -> Decision {
    let mut status = inventory.status.clone();
    status.hold = None;
    if let Some(rollout) = &mut status.rollout {
        rollout.scaled_from = None;
    }
    if let Some(by) = by {
        let uid = hold::uid_of_mark(inventory, &hold.id);
        seen::pass(&mut status, &hold.id, &uid, by, inventory.snapshot.now);
    }
    let message = format!("Resumed {} ({why})", hold.id);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_RESUMED, message)] })
}

/// The Deployment controller can change sizes once more after `spec.paused` is set: its cache lags too. A
/// size that it did not change for another number of replicas is a step of the rollout, and its pods wait.
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

/// Whether the Deployment controller has scaled this set for other replicas since the hold began.
pub(super) fn is_scaled(set: &Set, rollout: &Rollout) -> bool {
    set.desired_replicas.is_some_and(|desired| desired != rollout.replicas)
}

/// While a rollout is held: the pods of old sets that scaling deletes, and those that wait.
pub(super) fn kept_back<'c, 'a>(
    inventory: &'c Inventory<'a>,
    surplus: &BTreeMap<&str, i64>,
) -> (Vec<&'c RankedPod<'a>>, HeldBack) {
    let (Some(hold), Some(rollout)) = (&inventory.status.hold, &inventory.status.rollout) else {
        return (Vec::new(), HeldBack::new());
    };
    let held_pod = |ranked: &RankedPod<'_>| **ranked.uid() == *hold.pod_uid;
    let mut scaled = BTreeMap::new();
    let mut waits = BTreeMap::new();
    for set in inventory.old_sets() {
        let more = surplus.get(&*set.uid).copied().unwrap_or(0);
        let back = if inventory.bounds.desired == 0 { 0 } else { waiting_pods(set, hold, rollout).min(more) };
        waits.insert(&*set.uid, usize::try_from(back).unwrap_or(0));
        scaled.insert(&*set.uid, (more - back).max(0));
    }
    // The held pod is the last one that scaling deletes.
    let mut last: Vec<_> = inventory.old().iter().copied().filter(|ranked| !held_pod(ranked)).collect();
    last.extend(inventory.old().iter().copied().filter(held_pod));
    let places: Vec<_> = first_of_each(&last, &scaled).into_iter().map(|ranked| ranked.place).collect();
    let goes = inventory.old().iter().filter(|ranked| places.contains(&ranked.place)).collect();
    let what = format!("the rollout is paused at {}", hold.id);
    (goes, waiting(inventory, &waits, &what))
}

/// How many pods this old set gets under Recreate. The Deployment controller fills a paused Deployment up,
/// and has not made its sets smaller again when a hold has just ended: pods that a rollout has deleted do not
/// come back.
pub(super) fn wanted_of_old_set(inventory: &Inventory<'_>, set: &Set) -> i64 {
    let Some(rollout) = &inventory.status.rollout else { return size(set) };
    match &inventory.status.hold {
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

/// The pods of old sets that may go now, out of those that their sets have too many, given in order. The
/// first decision is the hold, if a pause point is next.
pub(super) fn ahead<'c, 'a>(
    inventory: &'c Inventory<'a>,
    of_old: Vec<&'c RankedPod<'a>>,
) -> Result<(Vec<&'c RankedPod<'a>>, HeldBack), Box<Decision>> {
    if points::is_unseen_group(inventory) && !of_old.is_empty() {
        let what = "a pod is missing, and the groups of nodes are not known yet";
        return Ok((Vec::new(), waiting(inventory, &by_set(&of_old), what)));
    }
    let points = Points::without_numbers(inventory);
    let first = points.first().and_then(|first| Some((first, inventory.old().get(first.barrier?)?.place)));
    let barrier = first
        .and_then(|(first, place)| Some((first, of_old.iter().position(|ranked| ranked.place >= place)?)));
    let Some((first, at)) = barrier else { return Ok((of_old, HeldBack::new())) };
    let id = &first.id;
    // A change of `replicas` that is not carried out yet is not a step of the rollout.
    let is_scaling = inventory.old_sets().any(|set| set.replicas > 0 && is_behind(inventory, set));
    if at == 0 && !inventory.spec.paused && !is_scaling && is_begun(inventory) {
        return Err(Box::new(begin(inventory, first)));
    }
    let what = if at == 0 && inventory.spec.paused {
        // A user paused the Deployment before its rollout reached the point.
        format!("the Deployment is paused, and pause point {id} is next")
    } else {
        format!("pause point {id} is ahead")
    };
    let held_back = waiting(inventory, &by_set(&of_old[at..]), &what);
    Ok((of_old.into_iter().take(at).collect(), held_back))
}

fn by_set<'c>(ranked_pods: &[&'c RankedPod<'_>]) -> BTreeMap<&'c str, usize> {
    let mut counts = BTreeMap::new();
    for ranked in ranked_pods {
        *counts.entry(&*ranked.pod.set).or_default() += 1;
    }
    counts
}

/// Whether the size of this set is still that for another number of replicas.
fn is_behind(inventory: &Inventory<'_>, set: &Set) -> bool {
    set.desired_replicas.is_some_and(|desired| desired != inventory.spec.replicas)
}

/// The hold at this point. It is stored together with `spec.paused`.
fn begin(inventory: &Inventory<'_>, point: &Ahead<'_>) -> Decision {
    let mut status = inventory.status.clone();
    let active = inventory.by_set();
    let pods = |set: &Set| active.get(&set.hash).copied().unwrap_or(0);
    let hold = Hold {
        limit: None,
        sizes: inventory.old_sets().map(|set| (set.hash.clone(), narrow(pods(set)))).collect(),
        ..hold::at(inventory, point, 0)
    };
    let name = inventory.name();
    let mut message = hold_message(&hold, &format!("deployment/{name}"));
    if let (Kind::Invalid, Some(why)) = (&point.kind, inventory.invalid_points.first()) {
        message = format!(
            "Paused, because the pause points cannot be used: {why}. Correct them, or resume without them"
        );
    }
    let rollout = status.rollout.get_or_insert_with(|| history::rollout_of(inventory));
    rollout.replicas = inventory.spec.replicas;
    rollout.scaled_from =
        Some(inventory.old_sets().map(|set| (set.hash.clone(), set.replicas.max(0))).collect());
    status.hold = Some(hold);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_REACHED, message)] })
}

fn record(status: OrderedDeploymentStatus) -> Decision {
    Decision::Record(Record { status, events: Vec::new() })
}
