//! The decision: what comes first, and what it ends in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::names::{condition, reason};

use crate::barrier::{self, held};
use crate::census::{Census, Member};
use crate::migration::Migration;
use crate::moves::{self, Moves, create_failed};
use crate::phase::{Phase, State};
use crate::sizes::{self, Sizes};
use crate::uncompared::{self, First};
use crate::{
    Act, Decision, Event, Hindrance, Observed, Purpose, Read, Record, SetChange, conditions, events, history,
    hold, kept, report, rollout, scaling, stuck,
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
    let state = State::of(&census);
    match &state.phase {
        Phase::Invalid(violations) => {
            return Decision::Act(Act { status: report::invalid(&census, violations), ..Act::default() });
        }
        Phase::Migrating(Migration::Read(read)) => return Decision::Read(read.clone()),
        Phase::Migrating(Migration::Wait(reason, message, requeue)) => {
            return Decision::Act(migrating(&census, reason, message, *requeue));
        }
        _ => {}
    }
    let missing = Census::missing_nodes(observed);
    if !missing.is_empty() {
        return Decision::Read(Read::Nodes(missing));
    }
    match uncompared::compare(&census) {
        Some(First::Ask(read)) => return Decision::Read(read),
        Some(First::Store(change)) => return Decision::Act(equal(&state, change)),
        None => {}
    }
    if let Some(first) = history::begin(&census).or_else(|| hold::transition(&state)) {
        return first;
    }
    if observed.failure.as_ref().is_some_and(|failure| failure.what == Hindrance::Claim) {
        return Decision::Act(unclaimed(&state));
    }
    match moves(&state) {
        Ok(moves) => Decision::Act(act(&state, &moves)),
        Err(first) => *first,
    }
}

/// Nothing is done while pods move between a Deployment and this object.
fn migrating(census: &Census<'_>, reason: &str, message: &str, requeue: Option<Duration>) -> Act {
    let status = report::closed(census, reason, message);
    // Points that were known stay known: their pods are only not looked at now.
    let points = census.observed.known_points.clone();
    Act { status, requeue, points, ..Act::default() }
}

/// The API server found the template equal to that of a set, which remembers it.
fn equal(state: &State<'_, '_>, change: SetChange) -> Act {
    // Told only where it cannot be stored.
    let status = report::status(state, &Moves::default());
    let points = state.census.observed.known_points.clone();
    Act { sets: vec![change], status, points, ..Act::default() }
}

/// What the rules allow now.
fn moves(state: &State<'_, '_>) -> Result<Moves, Box<Decision>> {
    let census = state.census;
    let is_running = matches!(state.phase, Phase::ScaledToZero | Phase::Steady | Phase::Recreating);
    if is_running && scaling::is_being_scaled(census) {
        if matches!(state.phase, Phase::ScaledToZero) {
            // A hold that begins now keeps what scaling began from.
            scaling::clear(census)?;
        }
        // What moves pods now is not scaling any more: where that began is past.
        let mut status = census.status.clone();
        if let Some(rollout) = &mut status.rollout {
            rollout.scaled_from = None;
        }
        return Err(Box::new(Decision::Record(Record { status, events: Vec::new() })));
    }
    let mut moves = match &state.phase {
        Phase::Invalid(_) | Phase::Migrating(_) => Moves::default(),
        Phase::Held(sizes) | Phase::Paused(sizes) => scaling::keep(census, sizes)?,
        Phase::ScaledToZero => scaling::clear(census)?,
        Phase::Recreating => rollout::recreate(state)?,
        Phase::Rolling => rollout::roll(state)?,
        Phase::Steady => scaling::settle(census),
    };
    if create_failed(census) && !moves.deletes.is_empty() {
        // Creates go first, and after a failure of theirs nothing is deleted: where a quota is used up only deletes make room.
        moves.creates.clear();
    }
    moves.sizes = sizes_after(state, &moves);
    if moves.stalled.is_none() {
        moves.stalled = stuck::blocked(state, &moves);
    }
    Ok(moves)
}

/// The sizes of the sets once the moves are done.
fn sizes_after(state: &State<'_, '_>, moves: &Moves) -> Sizes {
    let census = state.census;
    let kept = state.kept().map(|wanted| scaling::kept_sizes(census, wanted));
    let mut sizes = kept.unwrap_or_else(|| {
        let mut sizes = census.by_set();
        for (hash, count) in &moves.creates {
            *sizes.entry(hash.clone()).or_default() += count;
        }
        let targets = moves.deletes.iter().flat_map(|group| &group.targets);
        let leaving: BTreeSet<&str> = targets.map(|target| &*target.uid).collect();
        for member in census.members.iter().filter(|member| leaving.contains(&**member.uid())) {
            if let Some(size) = sizes.get_mut(member.hash) {
                *size -= 1;
            }
        }
        sizes
    });
    sizes.entry(census.hash.clone()).or_default();
    let absorber = kept::fallback(census);
    sizes::published(&sizes, census.bounds.desired, &absorber)
}

/// Pods may be there that are not counted, or counted that are not wanted: none is created and none deleted, as the
/// ReplicaSet controller has it.
fn unclaimed(state: &State<'_, '_>) -> Act {
    let (census, moves) = (state.census, Moves::default());
    let status = report::status(state, &moves);
    let points = points(census, &moves);
    let events = lost(census, &points);
    let requeue = requeue(census, &status, &moves);
    Act { events, status, requeue, points, ..Act::default() }
}

fn act(state: &State<'_, '_>, moves: &Moves) -> Act {
    let census = state.census;
    let mut sets = history::set_changes(census, &moves.sizes);
    let mut creates = moves::creates(census, moves);
    if !history::has_current_set(census, &sets) {
        creates.retain(|create| create.hash != census.hash);
    }
    let status = report::status(state, moves);
    if state.is_complete {
        sets.extend(history::beyond_limit(census));
    }
    let points = points(census, moves);
    let mut told: Vec<Event> = scaling(census, &sets);
    told.extend(lost(census, &points));
    let is_idle = sets.is_empty() && creates.is_empty() && moves.deletes.is_empty();
    // Told once, with the status that says so.
    told.extend(uncompared::overdue(census).filter(|_| is_idle));
    let requeue = requeue(census, &status, moves);
    let may_lag = history::may_lag(state, &sets);
    Act { sets, may_lag, creates, deletes: moves.deletes.clone(), events: told, status, requeue, points }
}

/// The pause points that lie ahead once the moves are done: one that the rollout deletes by its turn is not lost.
fn points(census: &Census<'_>, moves: &Moves) -> BTreeMap<Arc<str>, String> {
    let groups = moves.deletes.iter().filter(|group| group.purpose == Purpose::Rollout);
    let reached: BTreeSet<&Arc<str>> =
        groups.flat_map(|group| &group.targets).map(|target| &target.uid).collect();
    let ahead = census
        .old()
        .filter(|member| barrier::point(member, census).is_some() && !reached.contains(member.uid()));
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
    moves: &Moves,
) -> Option<Duration> {
    let deadline = status
        .condition(condition::PROGRESSING)
        .and_then(|_| conditions::deadline(status, census.spec.progress_deadline_seconds));
    let until = held(status).and_then(|hold| hold.until.as_ref()).map(|until| until.0);
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
        uncompared::next(census),
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
