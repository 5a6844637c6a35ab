//! The decision: the checks that come first, and their result.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_api::names::{condition, reason};

use crate::inventory::{Inventory, RankedPod, count};
use crate::migration::Migration;
use crate::phase::{Phase, State};
use crate::pod_changes::{self, PodChanges, create_failed};
use crate::points::{Kind, Points};
use crate::sizes::{self, Sizes};
use crate::template_comparison::{self, Prerequisite};
use crate::{
    Act, Decision, Event, FailureKind, Purpose, Read, SetChange, Snapshot, Target, abort, conditions,
    corrected, events, groups, history, hold, report, rollout, scaling, seen, stuck,
};

/// The requeue interval if the status of this decision changes the next one.
const AT_ONCE: Duration = Duration::from_millis(1);
/// The requeue interval while a rollout is stalled: no event may show that the cause is gone.
const STALLED_REQUEUE: Duration = Duration::from_secs(10);

/// Decides the next step. A pure function: equal snapshots give equal decisions.
#[must_use]
pub fn decide(snapshot: &Snapshot) -> Decision {
    let inventory = Inventory::of(snapshot);
    if snapshot.deployment.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the rest.
        return Decision::Act(Act { status: inventory.status.clone(), ..Act::default() });
    }
    let state = State::of(&inventory);
    match &state.phase {
        Phase::Invalid(violations) => {
            return Decision::Act(Act { status: report::invalid(&inventory, violations), ..Act::default() });
        }
        Phase::Migrating(Migration::Read(read)) => return Decision::Read(read.clone()),
        Phase::Migrating(Migration::Wait(reason, message, requeue)) => {
            return Decision::Act(migrating(&inventory, reason, message, *requeue));
        }
        _ => {}
    }
    if !inventory.missing_nodes.is_empty() {
        return Decision::Read(Read::Nodes(inventory.missing_nodes.clone()));
    }
    match template_comparison::compare(&inventory) {
        Some(Prerequisite::Ask(read)) => return Decision::Read(read),
        Some(Prerequisite::Store(change)) => return Decision::Act(equal(&state, change)),
        None => {}
    }
    if let Some(first) = corrected::corrected(&state) {
        return first;
    }
    let first = history::begin(&state)
        .or_else(|| abort::transition(&inventory))
        .map(|first| with_points(snapshot, first))
        .or_else(|| seen::see(&inventory, groups::Sight::Later))
        .or_else(|| hold::transition(&state));
    if let Some(first) = first {
        return first;
    }
    if snapshot.failure.as_ref().is_some_and(|failure| failure.what == FailureKind::Claim) {
        return Decision::Act(unclaimed(&state));
    }
    match pod_changes(&state) {
        Ok(changes) => {
            groups::begin(&inventory, &changes).unwrap_or_else(|| Decision::Act(act(&state, &changes)))
        }
        Err(first) => *first,
    }
}

/// A rollout begins with the points that it sees now: their pods can be gone at the next decision.
fn with_points(snapshot: &Snapshot, first: Decision) -> Decision {
    let Decision::Record(mut record) = first else { return first };
    let number = |status: &OrderedDeploymentStatus| status.rollout.as_ref().map(|rollout| rollout.revision);
    let begins = number(&record.status) != snapshot.deployment.status.as_ref().and_then(number);
    let sight = if begins { groups::Sight::First } else { groups::Sight::Later };
    let mut begun = snapshot.clone();
    // The first record can be one of the name of its set.
    for _ in 0..2 {
        Arc::make_mut(&mut begun.deployment).status = Some(record.status.clone());
        let inventory = Inventory::of(&begun);
        // An abort needs no nodes.
        let knows_nodes = inventory.missing_nodes.is_empty();
        let next = history::begin(&State::of(&inventory));
        let next = next.or_else(|| seen::see(&inventory, sight).filter(|_| knows_nodes));
        let Some(Decision::Record(next)) = next else { break };
        record.status = next.status;
        record.events.extend(next.events);
    }
    Decision::Record(record)
}

/// Nothing is created or deleted during a migration between a Deployment and this object.
fn migrating(inventory: &Inventory<'_>, reason: &str, message: &str, requeue: Option<Duration>) -> Act {
    let status = report::migrating(inventory, reason, message);
    // Known pause points stay known: their pods are only not evaluated now.
    let points = inventory.snapshot.known_points.clone();
    Act { status, requeue, points, ..Act::default() }
}

/// The API server found the template equal to that of a set; the set stores that.
fn equal(state: &State<'_, '_>, change: SetChange) -> Act {
    // Reported only if it cannot be stored.
    let status = report::status(state, &PodChanges::default());
    let points = state.inventory.snapshot.known_points.clone();
    Act { sets: vec![change], status, points, ..Act::default() }
}

/// The pods to create and delete now.
fn pod_changes(state: &State<'_, '_>) -> Result<PodChanges, Box<Decision>> {
    let inventory = state.inventory;
    let target_is_gone = inventory.aborts() && inventory.current.is_none();
    let mut changes = match &state.phase {
        _ if target_is_gone => PodChanges::default(),
        Phase::Invalid(_) | Phase::Migrating(_) => PodChanges::default(),
        Phase::ScaledToZero => scaling::scale_to_zero(inventory),
        Phase::Rolling => rollout::roll(state)?,
        Phase::Steady => scaling::steady(inventory),
    };
    if create_failed(inventory) && !changes.deletes.is_empty() {
        // Creates come before deletes, which a failed create stops. With an exhausted quota only deletes make
        // room.
        changes.creates.clear();
    }
    changes.sizes = sizes_after(inventory, &changes);
    if changes.stalled.is_none() {
        changes.stalled = stuck::blocked(state, &changes).or_else(|| rollout::no_earlier_revision(state));
    }
    Ok(changes)
}

/// The sizes of the sets after these changes.
fn sizes_after(inventory: &Inventory<'_>, changes: &PodChanges) -> Sizes {
    let mut sizes = inventory.by_set();
    for (hash, count) in &changes.creates {
        *sizes.entry(hash.clone()).or_default() += count;
    }
    for target in changes.deletes.iter().flat_map(|group| &group.targets) {
        let set = inventory.snapshot.sets.iter().find(|set| set.uid == target.pod.set);
        if let Some(size) = set.and_then(|set| sizes.get_mut(&set.hash)) {
            *size -= 1;
        }
    }
    sizes.entry(inventory.hash.clone()).or_default();
    let fallback = history::fallback(inventory);
    let published = sizes::published(&sizes, inventory.bounds.desired, &fallback);
    history::countable(inventory, published, &changes.creates)
}

/// An object could not be adopted or released: there may be pods that are not counted, or counted pods that
/// are not ours. Nothing is created or deleted, as in the ReplicaSet controller.
fn unclaimed(state: &State<'_, '_>) -> Act {
    let (inventory, changes) = (state.inventory, PodChanges::default());
    let status = report::status(state, &changes);
    let points = points(inventory, &changes);
    let events = lost(inventory, &points);
    let requeue = requeue(inventory, &status, &changes);
    Act { events, status, requeue, points, ..Act::default() }
}

fn act(state: &State<'_, '_>, changes: &PodChanges) -> Act {
    let inventory = state.inventory;
    let mut sets = history::set_changes(state, &changes.sizes);
    let may_lag = history::may_lag(state, &sets);
    if may_lag && is_last(inventory, changes) {
        // One write of each set has its final size and, if it serves then, says so.
        sets.clear();
    }
    let mut creates = pod_changes::creates(inventory, changes);
    if !history::has_current_set(inventory, &sets) {
        creates.retain(|create| create.hash != inventory.hash);
    }
    let status = report::status(state, changes);
    let is_stored = inventory.status.rollout.as_ref().is_some_and(|rollout| rollout.completed);
    if state.is_complete() && is_stored {
        sets.extend(history::beyond_limit(inventory));
    }
    let points = points(inventory, changes);
    let mut events: Vec<Event> = scaling(inventory, &sets);
    events.extend(lost(inventory, &points));
    let is_idle = sets.is_empty() && creates.is_empty() && changes.deletes.is_empty();
    // Published once, with the status that has the same message.
    events.extend(template_comparison::overdue(inventory).filter(|_| is_idle));
    let requeue = requeue(inventory, &status, changes);
    let deletes = changes.deletes.clone();
    Act { sets, may_lag, creates, deletes, events, status, requeue, points, ..Act::default() }
}

/// Whether these changes leave no old pod.
fn is_last(inventory: &Inventory<'_>, changes: &PodChanges) -> bool {
    let targets = changes.deletes.iter().flat_map(|group| &group.targets);
    let old = targets.filter(|target| !inventory.is_current_set(&target.pod.set));
    count(old) == inventory.old_count()
}

/// The pause points ahead after these changes: one whose pod the rollout deletes in order is not lost.
pub(crate) fn points(inventory: &Inventory<'_>, changes: &PodChanges) -> BTreeMap<Arc<str>, String> {
    let groups = changes.deletes.iter().filter(|group| group.purpose == Purpose::Rollout);
    let reached: BTreeSet<&Arc<str>> = groups.flat_map(|group| &group.targets).map(Target::uid).collect();
    let ahead =
        inventory.old().iter().filter(|ranked| ranked.point.is_some() && !reached.contains(ranked.uid()));
    let marks = ahead.map(|ranked| (Arc::clone(ranked.uid()), ranked.pod.name.clone()));
    // A place is known by its id.
    let ahead = Points::of(inventory).ahead;
    let places = ahead.into_iter().filter(|one| one.barrier.is_some() && matches!(one.kind, Kind::Place(_)));
    marks.chain(places.map(|one| (Arc::from(one.id.as_str()), one.id))).collect()
}

/// Warnings of pause points that disappeared before the rollout reached them.
pub(crate) fn lost(inventory: &Inventory<'_>, points: &BTreeMap<Arc<str>, String>) -> Vec<Event> {
    let ranked_pods: LazyCell<BTreeSet<&Arc<str>>, _> =
        LazyCell::new(|| inventory.ranked_pods.iter().map(RankedPod::uid).collect());
    let held = |uid: &Arc<str>| inventory.status.hold.as_ref().is_some_and(|hold| *hold.pod_uid == **uid);
    let known = inventory.snapshot.known_points.iter();
    let gone = known.filter(|(uid, name)| {
        !points.contains_key(*uid)
            && !held(uid)
            && !inventory.status.has_passed(name)
            && !ranked_pods.contains(*uid)
    });
    let ahead = Points::of(inventory).ahead;
    let is_place = |id: &str| ahead.iter().any(|one| one.id == *id && matches!(one.kind, Kind::Place(_)));
    let event = |(uid, name): (&Arc<str>, &String)| {
        if **uid == **name {
            is_place(name).then(|| events::place_lost(name))
        } else {
            Some(events::point_lost(name, uid))
        }
    };
    gone.filter_map(event).collect()
}

/// The events of changed sizes, as a Deployment publishes them.
fn scaling(inventory: &Inventory<'_>, changes: &[SetChange]) -> Vec<Event> {
    let message = |change: &SetChange| match change {
        SetChange::Create { name, revision, replicas, .. } => {
            Some(format!("Created set {name} of revision {revision} with {replicas} replicas"))
        }
        SetChange::Update { uid, replicas: Some(replicas), .. } => {
            let set = inventory.snapshot.sets.iter().find(|set| set.uid == *uid)?;
            let way = if *replicas > set.replicas { "up" } else { "down" };
            Some(format!("Scaled {way} set {} from {} to {replicas}", set.name, set.replicas))
        }
        SetChange::Update { .. } | SetChange::Equal { .. } | SetChange::Delete { .. } => None,
    };
    changes
        .iter()
        .filter_map(message)
        .map(|message| events::normal(reason::SCALING_REPLICA_SET, message))
        .collect()
}

/// When time alone changes the decision.
fn requeue(
    inventory: &Inventory<'_>,
    status: &OrderedDeploymentStatus,
    changes: &PodChanges,
) -> Option<Duration> {
    let deadline = status
        .condition(condition::PROGRESSING)
        .and_then(|_| conditions::deadline(status, inventory.spec.progress_deadline_seconds));
    let until = status.hold.as_ref().and_then(|hold| hold.until.as_ref()).map(|until| until.0);
    let blocked = changes.blocked.as_ref().and_then(rollout::blocked_stands_at);
    let no_creates = rollout::no_creates_at(inventory);
    let times = [
        inventory.next_available,
        deadline,
        until,
        blocked,
        no_creates,
        inventory.backoff.next,
        stuck::next(inventory),
        template_comparison::next(inventory),
    ];
    // A time in the past has had its effect on this decision.
    let now = inventory.snapshot.now;
    let wait = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
    let soonest = times.into_iter().flatten().filter(|time| *time > now).map(wait).min();
    let stalled = changes.stalled.is_some().then_some(STALLED_REQUEUE);
    // Once the status says that the deadline has passed, unavailable pods may be deleted out of order.
    let passed = conditions::is_overdue(status) && !conditions::is_overdue(inventory.status);
    [soonest, stalled, passed.then_some(AT_ONCE)].into_iter().flatten().min()
}
