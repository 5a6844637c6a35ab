//! Revisions: the identity of a rollout, its set, and how many old sets are kept.

use std::ops::RangeInclusive;

use ordereddeployment_api::{
    AheadPoint, CompleteRevision, OrderedDeploymentStatus, PodDeletion, Rollout, Scaling,
    names::{condition, reason},
};

use crate::ids::Id;
use crate::inventory::{Inventory, narrow};
use crate::phase::{Phase, State};
use crate::sizes::{self, Sizes};
use crate::{Decision, Event, Record, SetChange, conditions, events, groups, points, served};

/// A new template starts a new rollout. One write sets its identity and clears the hold, the passed points
/// and any resume request, before a resume is processed. If another template has the same hash, the collision
/// count distinguishes them.
pub(crate) fn begin(state: &State<'_, '_>) -> Option<Decision> {
    let inventory = state.inventory;
    if inventory.revision.needs_comparison() || inventory.aborts() {
        return None;
    }
    let snapshot = inventory.snapshot;
    if inventory.current.is_none() && is_name_taken(inventory) {
        let mut status = inventory.status.clone();
        let count = status.collision_count.unwrap_or(0).checked_add(1).unwrap_or(0);
        status.collision_count = Some(count);
        if let Some(rollout) =
            status.rollout.as_mut().filter(|rollout| rollout.template_hash == inventory.hash)
        {
            rollout.template_hash = ordereddeployment_api::template_hash(&inventory.spec.template, count);
        }
        return Some(Decision::Record(Record { status, events: Vec::new() }));
    }
    if inventory.status.rollout.as_ref().is_some_and(|rollout| rollout.template_hash == inventory.hash) {
        return None;
    }
    let mut status = inventory.status.clone();
    let revision = next_revision(inventory);
    // What was ahead is stored: the spec can have another list already.
    let is_stored = |rollout: &Rollout| {
        !rollout.completed
            && (rollout.pause.is_some() || rollout.points.as_ref().is_some_and(|points| !points.is_empty()))
    };
    let before = inventory.status.rollout.as_ref();
    let is_ahead = state.points.holds() || before.is_some_and(is_stored);
    // Without a pod it goes on, though the number of replicas can have changed with the template.
    let is_suspended = is_ahead && inventory.is_at_zero();
    let is_on = inventory.bounds.desired > 0 || inventory.active() > 0;
    // A set that is there already and did not serve is of a rollout that did not end. The status was lost.
    let is_recorded = !served::is_unrecorded(&snapshot.sets);
    let serves = |set: &crate::Set| set.served == Some(set.revision);
    let is_lost = before.is_none()
        && is_recorded
        && !inventory.current.is_some_and(serves)
        && (inventory.current.is_some() || inventory.back.is_some());
    let complete = inventory.status.condition(condition::COMPLETE);
    let was_complete = complete.is_some_and(|one| one.status == ordereddeployment_api::ConditionStatus::True);
    let rollout = rollout_of(inventory);
    let came_before =
        rollout.from.is_some() && (was_complete || before.is_some_and(|before| !before.completed));
    let is_only_set = inventory.usable_sets().all(|set| inventory.is_current_set(&set.uid));
    let begun = Rollout {
        // Without pods there is nothing to replace, and no pause point to reach.
        completed: !is_suspended
            && !is_lost
            && inventory.old_count() == 0
            && ((is_only_set && !came_before) || !is_on)
            && !inventory.waits_for_its_set(),
        points: Some(carried(inventory, revision, is_suspended)),
        node_groups: groups::kept(inventory),
        // A scaling in progress continues.
        scaling: before.and_then(|before| before.scaling),
        ..Rollout { revision, ..rollout }
    };
    status.rollout = Some(begun);
    clear(&mut status);
    // Progress is computed from these counts, and the stored ones are of the template before.
    status.replicas = Some(narrow(inventory.active()));
    status.updated_replicas = Some(narrow(inventory.updated_count()));
    let (why, what) = match inventory.current {
        Some(set) => (reason::FOUND_NEW_REPLICA_SET, format!("found its set {}", set.name)),
        None => (reason::NEW_REPLICA_SET_CREATED, format!("got a new set {}", set_name(inventory))),
    };
    if status.condition(condition::HELD).is_some() {
        conditions::not_held(&mut status, snapshot.now);
    }
    conditions::progressing_again(&mut status, why, &what, snapshot.now);
    let events = if inventory.old_count() > 0 { vec![started(inventory, revision)] } else { Vec::new() };
    Some(Decision::Record(Record { status, events }))
}

/// A rollout to the current template in which nothing was seen yet.
pub(crate) fn rollout_of(inventory: &Inventory<'_>) -> Rollout {
    let spec = inventory.spec;
    let from = gone(inventory).or_else(|| inventory.back.map(complete_revision));
    let from = from.map(|from| begun_from(inventory, from));
    Rollout {
        revision: inventory.rollout_revision(),
        template_hash: inventory.hash.clone(),
        replicas: spec.replicas,
        points: Some(Vec::new()),
        node_groups: None,
        from,
        scaling: Some(Scaling { reached: spec.replicas, to: None }),
        pause: None,
        scaled_from: None,
        completed: false,
    }
}

/// The revision that served last, if its set was deleted: nothing rolls back to it, or to an older one.
fn gone(inventory: &Inventory<'_>) -> Option<CompleteRevision> {
    let before = inventory.status.rollout.as_ref()?;
    let (revision, template_hash) = (before.revision, before.template_hash.clone());
    let own = CompleteRevision { revision, template_hash, replicas: 0, max_unavailable: 0 };
    let last = if before.completed { own } else { before.from.clone()? };
    let counts = |set: &crate::Set| before.completed || set.served != Some(0);
    let mut sets = inventory.usable_sets().filter(|set| set.hash == last.template_hash);
    (!sets.any(counts)).then_some(last)
}

/// What a rollout that begins now keeps of the revision that it replaces.
pub(crate) fn begun_from(inventory: &Inventory<'_>, from: CompleteRevision) -> CompleteRevision {
    let unavailable = if inventory.recreate() { 0 } else { inventory.spec.max_unavailable() };
    CompleteRevision { replicas: last_replicas(inventory), max_unavailable: narrow(unavailable), ..from }
}

/// The number of replicas of the last decision: as in the status, or as published, if that is less.
pub(crate) fn last_replicas(inventory: &Inventory<'_>) -> i32 {
    let Some(rollout) = &inventory.status.rollout else { return 0 };
    let sizes = inventory.usable_sets().map(|set| set.replicas.max(0));
    sizes::last_replicas(rollout).min(sizes.fold(0, i32::saturating_add))
}

/// What stays ahead of the rollout that begins, with its number: in a suspension, the marks and places; else,
/// while the rollout before is not over, the places that are no groups of nodes. A surge pod of the rejected
/// release hides that a pod behind one is missing.
pub(crate) fn carried(inventory: &Inventory<'_>, revision: i64, is_suspended: bool) -> Vec<AheadPoint> {
    let is_over = inventory.aborts() || groups::is_settled(inventory);
    let stored = inventory.status.points().filter(|point| point.share.is_some());
    // What was counted without replicas was not counted.
    let is_counted = |point: &AheadPoint| point.share.is_some_and(|share| share.replicas > 0);
    let stays = |point: &AheadPoint| !is_over && is_counted(point) && points::is_place(inventory, point);
    let kept = stored.filter(|point| is_suspended || stays(point));
    let renamed = kept.filter_map(|point| {
        let id = Id { revision, time: 1, ..Id::parse(&point.id)? }.to_string();
        Some(AheadPoint { id, ..point.clone() })
    });
    renamed.collect()
}

/// The set that takes the difference between the published sizes and D: the current one, or the largest old
/// one if the current one does not exist and is not created.
pub(crate) fn fallback(inventory: &Inventory<'_>) -> String {
    if inventory.current.is_some() || !(inventory.spec.paused || inventory.aborts()) {
        return inventory.hash.clone();
    }
    let sizes = inventory.by_set();
    let newest = inventory.usable_sets().max_by_key(|set| (sizes.get(&set.hash).copied(), set.revision));
    newest.map_or_else(|| inventory.hash.clone(), |set| set.hash.clone())
}

/// Clears what belongs to the rollout so far, and the requests of users about it.
pub(crate) fn clear(status: &mut OrderedDeploymentStatus) {
    status.hold = None;
    status.blocked = None;
    status.passed = None;
    status.resume_requested = None;
    status.abort_requested = None;
    status.retry_requested = None;
    status.aborted = None;
}

/// What the status stores of a set that served.
pub(crate) fn complete_revision(set: &crate::Set) -> CompleteRevision {
    CompleteRevision {
        revision: set.served.unwrap_or(set.revision),
        template_hash: set.hash.clone(),
        replicas: 0,
        max_unavailable: 0,
    }
}

/// Whether another set has the name of the current template's set.
fn is_name_taken(inventory: &Inventory<'_>) -> bool {
    let (snapshot, name) = (inventory.snapshot, set_name(inventory));
    let taken = |set: &crate::Set| set.name == name && !inventory.is_current_set(&set.uid);
    snapshot.taken_names.contains(&name) || snapshot.sets.iter().any(taken)
}

/// The event at the start of a rollout, with the number of pause points.
fn started(inventory: &Inventory<'_>, revision: i64) -> Event {
    // The passed points belong to the rollout before.
    let points = inventory.old().iter().filter(|ranked| matches!(ranked.pod.point, crate::Point::At { .. }));
    let declared = inventory.spec.strategy.points().map(|point| point.name.as_str());
    let names: Vec<_> = declared.chain(points.map(|ranked| ranked.pod.name.as_str())).collect();
    let ahead = match names.as_slice() {
        _ if inventory.returns() => "no pause point, because this revision served last".to_owned(),
        [] => "no pause point".to_owned(),
        [one] => format!("one pause point: {one}"),
        many => format!(
            "{} pause points: {}",
            many.len(),
            many.iter().take(5).copied().collect::<Vec<_>>().join(", ")
        ),
    };
    let message =
        format!("Rollout to revision {revision} starts: {} pods to replace, {ahead}", inventory.old_count());
    events::normal(reason::ROLLOUT_STARTED, message)
}

/// The revision of the current template: that of its set if it is already the newest, else the next number.
fn next_revision(inventory: &Inventory<'_>) -> i64 {
    let newest = newest_revision(inventory);
    let known = inventory.status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    match inventory.current {
        Some(set) if set.revision > 0 && set.revision == newest && known <= newest => newest,
        _ => number_after_all(inventory),
    }
}

/// How much larger than the largest revision of a set the number of a rollout can be: one that somebody else
/// wrote is at most that large. While `spec.paused` is set, each change of the template takes a number, and
/// no set gets it. Nobody makes so many changes.
const AHEAD: i64 = 100_000;

/// The numbers that the rollout can have: at least the largest of a set, and at most [`AHEAD`] more.
pub(crate) fn possible_revisions(inventory: &Inventory<'_>) -> RangeInclusive<i64> {
    let newest = newest_revision(inventory);
    newest.max(1)..=newest.saturating_add(AHEAD)
}

fn newest_revision(inventory: &Inventory<'_>) -> i64 {
    inventory.snapshot.sets.iter().map(|set| set.revision).max().unwrap_or(0).max(0)
}

/// A revision number that is larger than all before.
pub(crate) fn number_after_all(inventory: &Inventory<'_>) -> i64 {
    let known = inventory.status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    let most = *possible_revisions(inventory).end();
    newest_revision(inventory).max(known).saturating_add(1).min(most)
}

/// The most characters of a name, as a DNS subdomain.
const LONGEST_NAME: usize = 253;

/// The name of the current template's set. A name that is too long is cut before the hash, as by the
/// Deployment controller (`generateReplicaSetName`). While a set with that name is being deleted, which can
/// take long, the set that replaces it has another name and the same hash: it adopts the pods that the
/// garbage collector orphans.
pub(crate) fn set_name(inventory: &Inventory<'_>) -> String {
    let deployment = inventory.name();
    let with = |end: &str| {
        let most = LONGEST_NAME.saturating_sub(end.len()).min(deployment.len());
        format!("{}{end}", deployment.get(..most).unwrap_or(deployment).trim_end_matches('.'))
    };
    let leaves = |name: &str| {
        let mut sets = inventory.snapshot.sets.iter();
        sets.any(|set| set.terminating && set.name == name && inventory.is_current_set(&set.uid))
    };
    let own = format!("-{}", inventory.hash);
    let others = (2..).map(|number: u32| with(&format!("{own}-{number}")));
    let mut all = std::iter::once(with(&own)).chain(others);
    all.find(|name| !leaves(name)).unwrap_or_else(|| with(&own))
}

/// Sizes that a disruption budget can add up before these creates. It counts only the sets that have pods, so
/// a set without pods grows in the decision that creates its first one. Until then the set with pods that
/// shrinks most keeps the difference.
pub(crate) fn countable(inventory: &Inventory<'_>, mut sizes: Sizes, creates: &Sizes) -> Sizes {
    let published = |hash: &str| -> i64 {
        let sets = inventory.usable_sets().filter(|set| set.hash == hash);
        sets.map(|set| i64::from(set.replicas)).sum()
    };
    let has_pods = |hash: &str| {
        inventory.usable_sets().any(|set| set.hash == hash && inventory.has_pods(&set.uid))
            || creates.contains_key(hash)
    };
    let keeper = || {
        let shrinks = |other: &&String| published(other) - sizes.get(*other).copied().unwrap_or(0);
        let candidates = inventory.usable_sets().map(|set| &set.hash).filter(|other| has_pods(other));
        candidates.max_by_key(shrinks).filter(|keeper| shrinks(keeper) > 0)
    };
    let growing = sizes.iter().map(|(hash, size)| (hash, size - published(hash)));
    let hidden = growing.filter(|(hash, growth)| *growth > 0 && !has_pods(hash));
    let hidden: Vec<_> = hidden.map(|(hash, growth)| (hash.clone(), growth)).collect();
    if let Some(keeper) = (!hidden.is_empty()).then(keeper).flatten() {
        for (hash, growth) in hidden {
            *sizes.entry(keeper.clone()).or_default() += growth;
            *sizes.entry(hash).or_default() -= growth;
        }
    }
    sizes
}

/// The change that writes to a set what is believed of the status.
fn migrated(inventory: &Inventory<'_>) -> Option<SetChange> {
    let set = inventory.back.filter(|_| served::is_unrecorded(&inventory.snapshot.sets))?;
    Some(SetChange::Update {
        uid: std::sync::Arc::clone(&set.uid),
        replicas: None,
        revision: None,
        min_ready_seconds: None,
        served: Some(set.revision.max(1)),
    })
}

/// The changes that give the sets these sizes. Sets that grow come first: a reader that sums the sizes
/// between two writes, such as the disruption controller, then finds too many pods rather than too few.
pub(crate) fn set_changes(state: &State<'_, '_>, sizes: &Sizes) -> Vec<SetChange> {
    let inventory = state.inventory;
    let (mut changes, mut shrinking) = (Vec::from_iter(migrated(inventory)), Vec::new());
    let size = |hash: &str| narrow(sizes.get(hash).copied().unwrap_or(0));
    // The revision of the rollout, not of the set that represents it until the comparison.
    // In an abort, the set keeps the revision and the minReadySeconds with which it was complete.
    let rollout = inventory.status.rollout.as_ref().filter(|_| !inventory.revision.needs_comparison());
    let rollout = rollout.filter(|_| !inventory.aborts());
    let revision = rollout.map_or(0, |rollout| rollout.revision);
    if inventory.current.is_none() && !inventory.spec.paused && !inventory.aborts() {
        let name = set_name(inventory);
        let hash = inventory.hash.clone();
        let replicas = size(&hash);
        changes.push(SetChange::Create { name, hash, revision, replicas });
    }
    for set in inventory.usable_sets() {
        let is_current = inventory.current.is_some_and(|current| current.uid == set.uid);
        let wanted = size(&set.hash);
        let replicas = (wanted != set.replicas).then_some(wanted);
        let revision = (is_current && revision > 0 && revision != set.revision).then_some(revision);
        let min_ready = inventory.spec.min_ready_seconds;
        let follows_spec = is_current && !inventory.aborts();
        let min_ready_seconds = (follows_spec && min_ready != set.min_ready_seconds).then_some(min_ready);
        let number = rollout.map(|rollout| rollout.revision).filter(|_| is_current && state.serves);
        let served = number.filter(|number| *number > 0 && set.served != Some(*number));
        if replicas.is_some() || revision.is_some() || min_ready_seconds.is_some() || served.is_some() {
            let uid = std::sync::Arc::clone(&set.uid);
            let change = SetChange::Update { uid, replicas, revision, min_ready_seconds, served };
            if wanted < set.replicas { shrinking.push(change) } else { changes.push(change) }
        }
    }
    changes.append(&mut shrinking);
    changes
}

/// Whether these changes only publish the sizes of a running rollout. Not with `Evict`: then the disruption
/// controller reads the sizes. Not if the published sizes do not sum up to D, since D changed.
pub(crate) fn may_lag(state: &State<'_, '_>, changes: &[SetChange]) -> bool {
    let inventory = state.inventory;
    let published: i64 = inventory.usable_sets().map(|set| i64::from(set.replicas)).sum();
    let only_sizes = |change: &SetChange| {
        matches!(
            change,
            SetChange::Update {
                replicas: Some(_),
                revision: None,
                min_ready_seconds: None,
                served: None,
                ..
            }
        )
    };
    inventory.spec.pod_deletion == PodDeletion::Delete
        && inventory.old_count() > 0
        && !state.is_held
        && matches!(state.phase, Phase::Rolling | Phase::ScaledToZero)
        && published == inventory.bounds.desired
        && changes.iter().all(only_sizes)
}

/// Old sets without pods beyond `revisionHistoryLimit`, the oldest first; of a complete rollout.
pub(crate) fn beyond_limit(inventory: &Inventory<'_>) -> Vec<SetChange> {
    let is_current = |set: &crate::Set| inventory.current.is_some_and(|current| current.uid == set.uid);
    // Until the current revision has served, an abort goes back to this one.
    let back = inventory.back.filter(|_| !inventory.has_served());
    let is_needed = |set: &crate::Set| back.is_some_and(|back| back.uid == set.uid);
    let mut old: Vec<_> = inventory
        .usable_sets()
        .filter(|set| !is_current(set) && set.replicas == 0 && !inventory.has_pods(&set.uid))
        .filter(|set| !is_needed(set))
        .collect();
    old.sort_by_key(|set| (set.revision, set.created));
    let limit = usize::try_from(inventory.spec.revision_history_limit).unwrap_or(0);
    let excess = old.len().saturating_sub(limit);
    old.into_iter()
        .take(excess)
        .map(|set| SetChange::Delete { uid: std::sync::Arc::clone(&set.uid) })
        .collect()
}

/// Whether the current template's set exists, or `changes` creates it.
pub(crate) fn has_current_set(inventory: &Inventory<'_>, changes: &[SetChange]) -> bool {
    inventory.current.is_some() || changes.iter().any(|change| matches!(change, SetChange::Create { .. }))
}
