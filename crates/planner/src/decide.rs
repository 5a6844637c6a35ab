//! The decision: what comes first, and what it ends in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::{names::condition, names::reason, validate};

use crate::census::{Census, Member};
use crate::{
    Act, Decision, Event, Hindrance, Observed, Purpose, Read, SetChange, conditions, events, handover,
    history, pausepoint, report, revision, rollout, stuck,
};

/// How soon a decision is made anew where its own status changes the next one.
const AT_ONCE: Duration = Duration::from_millis(1);
/// How soon what stalls a rollout is looked at again, as nothing may tell when it is over.
const STALLED_REQUEUE: Duration = Duration::from_secs(10);

/// Decides what to do next. A plain function: equal observations give equal decisions.
#[must_use]
pub fn decide(observed: &Observed) -> Decision {
    let census = Census::of(observed);
    if observed.deployment.metadata.deletion_timestamp.is_some() {
        // The garbage collector does the rest.
        return Decision::Act(Act { status: census.status, ..Act::default() });
    }
    let violations = validate(census.spec);
    if !violations.is_empty() {
        return Decision::Act(Act { status: report::invalid(&census, &violations), ..Act::default() });
    }
    if let Some(closed) = handover::gate(&census) {
        return closed;
    }
    let missing = Census::missing_nodes(observed);
    if !missing.is_empty() {
        return Decision::Read(Read::Nodes(missing));
    }
    if let Some(first) = revision::compare(&census) {
        return first;
    }
    if let Some(first) = history::begin(&census).or_else(|| pausepoint::transition(&census)) {
        return first;
    }
    if observed.failure.as_ref().is_some_and(|failure| failure.what == Hindrance::Claim) {
        return Decision::Act(unclaimed(&census));
    }
    match rollout::moves(&census) {
        Ok(moves) => Decision::Act(act(&census, &moves)),
        Err(first) => *first,
    }
}

/// Pods may be there that are not counted, or counted that are not wanted: none is created and none deleted, as the
/// ReplicaSet controller has it.
fn unclaimed(census: &Census<'_>) -> Act {
    let moves = rollout::Moves::default();
    let status = report::status(census, &moves);
    let points = points(census, &moves);
    let events = lost(census, &points);
    let requeue = requeue(census, &status, &moves);
    Act { events, status, requeue, points, ..Act::default() }
}

fn act(census: &Census<'_>, moves: &rollout::Moves) -> Act {
    let mut sets = history::set_changes(census, &moves.sizes);
    let mut creates = rollout::creates(census, moves);
    if !history::has_current_set(census, &sets) {
        creates.retain(|create| create.hash != census.hash);
    }
    let status = report::status(census, moves);
    if report::is_complete(census) {
        sets.extend(history::beyond_limit(census));
    }
    let points = points(census, moves);
    let mut told: Vec<Event> = scaling(census, &sets);
    told.extend(lost(census, &points));
    let is_idle = sets.is_empty() && creates.is_empty() && moves.deletes.is_empty();
    // Told once, with the status that says so.
    told.extend(revision::overdue(census).filter(|_| is_idle));
    let requeue = requeue(census, &status, moves);
    let may_lag = history::may_lag(census, &sets);
    Act { sets, may_lag, creates, deletes: moves.deletes.clone(), events: told, status, requeue, points }
}

/// The pause points that lie ahead once the moves are done: one that the rollout deletes by its turn is not lost.
fn points(census: &Census<'_>, moves: &rollout::Moves) -> BTreeMap<Arc<str>, String> {
    let groups = moves.deletes.iter().filter(|group| group.purpose == Purpose::Rollout);
    let reached: BTreeSet<&Arc<str>> =
        groups.flat_map(|group| &group.targets).map(|target| &target.uid).collect();
    let ahead = census
        .old()
        .filter(|member| pausepoint::point(member, census).is_some() && !reached.contains(member.uid()));
    ahead.map(|member| (Arc::clone(member.uid()), member.pod.name.clone())).collect()
}

/// Warnings of the points that went away before the rollout had reached them.
fn lost(census: &Census<'_>, points: &BTreeMap<Arc<str>, String>) -> Vec<Event> {
    let members: BTreeSet<&Arc<str>> = census.members.iter().map(Member::uid).collect();
    let active = |uid: &Arc<str>| members.contains(uid);
    let held = |uid: &Arc<str>| census.status.hold.as_ref().is_some_and(|hold| *hold.pod_uid == **uid);
    let known = census.observed.known_points.iter();
    let gone = known.filter(|(uid, _)| {
        !points.contains_key(*uid) && !active(uid) && !held(uid) && !census.has_passed(uid)
    });
    gone.map(|(uid, name)| events::point_lost(name, uid)).collect()
}

/// The events of changed sizes, as a Deployment tells them.
fn scaling(census: &Census<'_>, changes: &[SetChange]) -> Vec<Event> {
    let message = |change: &SetChange| match change {
        SetChange::Create { name, revision, replicas, .. } => {
            Some(format!("Created set {name} of revision {revision} with {replicas} replicas"))
        }
        SetChange::Update { uid, replicas: Some(replicas), .. } => {
            let set = census.observed.sets.iter().find(|set| set.uid == *uid)?;
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

/// How soon time alone changes the decision.
fn requeue(
    census: &Census<'_>,
    status: &ordereddeployment_api::OrderedDeploymentStatus,
    moves: &rollout::Moves,
) -> Option<Duration> {
    let deadline = status
        .condition(condition::PROGRESSING)
        .and_then(|_| conditions::deadline(status, census.spec.progress_deadline_seconds));
    let until = pausepoint::held(status).and_then(|hold| hold.until.as_ref()).map(|until| until.0);
    let blocked = moves.blocked.as_ref().and_then(rollout::blocked_stands_at);
    let no_creates = rollout::no_creates_at(census);
    let times = [
        census.next_available,
        deadline,
        until,
        blocked,
        no_creates,
        census.backoff.next,
        stuck::next(census),
        revision::next(census),
    ];
    // What is past has had its effect on this decision.
    let now = census.observed.now;
    let wait = |time: Timestamp| Duration::try_from(time.duration_since(now)).unwrap_or_default();
    let soonest = times.into_iter().flatten().filter(|time| *time > now).map(wait).min();
    let stalled = moves.stalled.is_some().then_some(STALLED_REQUEUE);
    // Once the status says that the deadline has passed, unavailable pods may go out of turn.
    let passed = conditions::is_overdue(status) && !conditions::is_overdue(&census.status);
    [soonest, stalled, passed.then_some(AT_ONCE)].into_iter().flatten().min()
}
