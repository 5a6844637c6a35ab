//! The transitions of a state: a decision that is carried out, an expected event, or a fault.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_oracle::{History, View, Violation, check_idle, check_view};
use ordereddeployment_planner::{Act, Decision, DryRun, Read, decide};
use ordereddeployment_preview::decide_and_read;

use crate::case::{PodPausePoint, TEMPLATES};
use crate::pods::{PodState, id_of, now, old};
use crate::setup::Setup;
use crate::state::State;

/// How long a hold lasts at most, in seconds: as long as it is from what is old until now.
const WAITED: i64 = 100_000;

/// What a transition does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The controller makes a decision and carries it out.
    Decide,
    Ready(u16),
    /// A terminating pod is deleted.
    Terminated(u16),
    HoldExpired,
    /// The rollout has been blocked for a minute.
    BlockedGraceExpired,
    /// Creates have failed for ten seconds.
    CreateFailureGraceExpired,
    ProgressDeadlineExceeded,
    /// A user resumes the hold or the blocked point that the status names.
    Resume,
    /// A user unsets `spec.paused`.
    Unpause,
    Unready(u16),
    NeverReady(u16),
    /// A pod is deleted without a grace period.
    ForceDeletePod(u16),
    DeletePod(u16),
    Scale(i32),
    /// A user sets or removes the pause point of a pod.
    AnnotatePod(u16, PodPausePoint),
    SetTemplate(u8),
    /// A user sets `spec.paused`.
    Pause,
    Abort,
    Retry,
    RemovePoints,
    Restart,
    /// The controller carries out a decision, and one create is refused.
    CreateRefused(usize),
    /// The controller carries out a decision, and crashes after that many writes.
    Crash(usize),
    /// The controller carries out a decision, and after that many writes this fault happens.
    FaultBetweenWrites(usize, Box<Event>),
    /// This event happens, and the controller makes a decision on a cache that does not show it.
    StaleDecision(Box<Event>),
}

/// A transition to another state.
pub struct Transition {
    pub event: Event,
    pub state: State,
    /// Whether it also happens without further faults.
    pub is_expected: bool,
}

/// What follows a state.
#[derive(Default)]
pub struct Successors {
    pub transitions: Vec<Transition>,
    /// The rules that the decision in this state breaks.
    pub violations: Vec<Violation>,
}

impl Successors {
    fn add(&mut self, state: State, event: Event, is_expected: bool, setup: &Setup) -> Result<()> {
        let state = state.canonical(setup)?;
        self.transitions.push(Transition { event, state, is_expected });
        Ok(())
    }
}

/// All transitions from a state.
pub fn successors(state: &State, setup: &Setup) -> Result<Successors> {
    let mut found = Successors::default();
    let observed = state.snapshot(setup);
    let (snapshot, decision) = decide_and_read(observed, &BTreeMap::new(), |_| DryRun::Accepted);
    let view = View::of(&snapshot);
    found.violations = check_view(&view, &decision);
    let mut history = History::clone(&state.history);
    history.look(&snapshot);
    found.violations.extend(history.check(&snapshot, &decision));
    let looked = history.clone();
    history.decided(&snapshot, &decision);
    let seen = Arc::new(history);
    if let Decision::Read(read) = &decision {
        let message = format!("the planner reads again what it has just read: {read:?}");
        found.violations.push(Violation { rule: "L1", oracle: "explore::reads", message });
        return Ok(found);
    }
    let of_decision = State { history: seen, ..state.clone() };
    let decided = carry_out(&of_decision, &decision, setup, None)?.canonical(setup)?;
    let is_idle = decided.key() == state.key();
    if !is_idle {
        found.transitions.push(Transition { event: Event::Decide, state: decided, is_expected: true });
    }
    let expected = if is_idle || !setup.case.eager { expected(state, setup, is_idle) } else { Vec::new() };
    for event in expected {
        found.add(apply(state, &event, setup)?, event, true, setup)?;
    }
    if is_idle {
        let is_final = found.transitions.is_empty();
        found.violations.extend(check_idle(&looked, &view, is_final, state.failure.is_some()));
    }
    let left = setup.case.max_faults - state.faults;
    if left == 0 {
        return Ok(found);
    }
    for event in faults(state, setup) {
        found.add(with_fault(state, &event, 1, setup)?, event, false, setup)?;
    }
    if setup.case.all_faults {
        if let Decision::Act(act) = &decision {
            interrupted_act(&mut found, &of_decision, act, setup)?;
        }
        stale_decision(&mut found, &of_decision, left, setup)?;
    }
    Ok(found)
}

/// The events that happen without further faults.
fn expected(state: &State, setup: &Setup, is_idle: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for pod in distinct(state) {
        if pod.terminating {
            events.push(Event::Terminated(pod.id));
        } else if !pod.ready && !pod.never_ready && setup.case.broken_template != Some(pod.template) {
            events.push(Event::Ready(pod.id));
        }
    }
    let pods_move = !events.is_empty();
    let status = &state.status.status;
    let hold = status.hold.as_ref();
    match hold {
        Some(hold) if hold.until.is_none() && status.resume_requested.is_none() => events.push(Event::Resume),
        Some(hold) if hold.until.as_ref().is_some_and(|until| until.0 > now()) => {
            events.push(Event::HoldExpired);
        }
        _ => {}
    }
    if let Some(blocked) = &status.blocked {
        if blocked.since.0 == now() {
            events.push(Event::BlockedGraceExpired);
        } else if is_idle && hold.is_none() && status.resume_requested.is_none() {
            events.push(Event::Resume);
        }
    }
    if state.refused_since == Some(now()) {
        events.push(Event::CreateFailureGraceExpired);
    }
    if state.paused {
        events.push(Event::Unpause);
    }
    let deadline = status.condition(condition::PROGRESSING).is_some_and(|found| {
        found.last_update_time.0 == now()
            && found.status == ConditionStatus::True
            && found.reason != reason::NEW_REPLICA_SET_AVAILABLE
    });
    // The deadline is ten minutes: pods have become ready or terminated by then.
    if deadline && is_idle && !pods_move && hold.is_none() {
        events.push(Event::ProgressDeadlineExceeded);
    }
    events
}

/// The pods: of equal neighbours that the status does not name, one is enough.
fn distinct(state: &State) -> impl Iterator<Item = &PodState> {
    let next = state.pods.iter().skip(1).map(Some).chain([None]);
    let distinct = state.pods.iter().zip(next).filter(|(pod, next)| {
        let like = |other: &PodState| PodState { id: pod.id, ..*other } == **pod;
        !next.is_some_and(like) || is_named(state, pod)
    });
    distinct.map(|(pod, _)| pod)
}

/// Whether the status names that pod.
fn is_named(state: &State, pod: &PodState) -> bool {
    let status = &state.status.status;
    let named = |uid: &str| id_of(uid) == Some(pod.id);
    let points = status.rollout.iter().flat_map(|rollout| rollout.points.iter().flatten());
    let name = format!("pod-{:04}@", pod.id);
    status.hold.as_ref().is_some_and(|hold| named(&hold.pod_uid))
        || status.passed.iter().flatten().any(|passed| passed.id.starts_with(&name))
        || points.map(|point| &point.id).any(|id| id.starts_with(&name))
}

/// The faults that may happen in a state.
fn faults(state: &State, setup: &Setup) -> Vec<Event> {
    let mut events = Vec::new();
    let all = setup.case.all_faults;
    for pod in distinct(state).filter(|pod| !pod.terminating) {
        if pod.ready {
            events.push(Event::Unready(pod.id));
        }
        if !pod.never_ready {
            events.push(Event::NeverReady(pod.id));
        }
        events.push(Event::ForceDeletePod(pod.id));
        if all {
            events.push(Event::DeletePod(pod.id));
        }
        if pod.template != state.template {
            if pod.point == PodPausePoint::None {
                events.push(Event::AnnotatePod(pod.id, PodPausePoint::Before));
                if all {
                    events.push(Event::AnnotatePod(pod.id, PodPausePoint::After));
                }
            } else {
                events.push(Event::AnnotatePod(pod.id, PodPausePoint::None));
            }
        }
    }
    let replicas = setup.case.replicas;
    let sizes = [0, replicas - 1, replicas, replicas + 1];
    let mut sizes: Vec<i32> =
        sizes.into_iter().filter(|size| *size >= 0 && *size != state.replicas).collect();
    sizes.dedup();
    events.extend(sizes.into_iter().map(Event::Scale));
    let status = &state.status.status;
    if setup.case.aborts && status.abort_requested.is_none() && status.retry_requested.is_none() {
        events.push(if status.aborted.is_some() { Event::Retry } else { Event::Abort });
    }
    if all {
        if !setup.case.points.is_empty() && !state.without_points {
            events.push(Event::RemovePoints);
        }
        let templates = (0..TEMPLATES).filter(|number| *number != state.template);
        // Back to a template that has a set, and on to the next one.
        let known = templates.filter(|number| {
            state.sets.iter().any(|set| set.template == *number) || *number == setup.case.template + 1
        });
        events.extend(known.map(Event::SetTemplate));
        if !state.paused {
            events.push(Event::Pause);
        }
        if state.failure.is_some() {
            events.push(Event::Restart);
        }
    }
    events
}

fn with_fault(state: &State, event: &Event, cost: u8, setup: &Setup) -> Result<State> {
    let mut next = apply(state, event, setup)?;
    next.faults += cost;
    Ok(next)
}

/// The state after an event. Its pods keep their names.
fn apply(state: &State, event: &Event, setup: &Setup) -> Result<State> {
    let mut next = state.clone();
    let mut status = state.status.status.clone();
    match event {
        Event::Ready(id) => change_pod(&mut next, *id, |pod| (pod.ready, pod.started) = (true, true)),
        Event::Unready(id) => change_pod(&mut next, *id, |pod| pod.ready = false),
        Event::NeverReady(id) => {
            change_pod(&mut next, *id, |pod| (pod.ready, pod.never_ready) = (false, true));
        }
        Event::DeletePod(id) => change_pod(&mut next, *id, |pod| pod.terminating = true),
        Event::AnnotatePod(id, point) => change_pod(&mut next, *id, |pod| pod.point = *point),
        Event::Terminated(id) | Event::ForceDeletePod(id) => next.pods.retain(|pod| pod.id != *id),
        Event::Scale(replicas) => next.replicas = *replicas,
        Event::SetTemplate(template) => next.template = *template,
        Event::Pause => next.paused = true,
        Event::Unpause => next.paused = false,
        Event::RemovePoints => next.without_points = true,
        Event::Abort => status.abort_requested = status.rollout.as_ref().map(|rollout| rollout.revision),
        Event::Retry => status.retry_requested = status.rollout.as_ref().map(|rollout| rollout.revision),
        Event::Restart => (next.failure, next.refused_since) = (None, None),
        Event::HoldExpired => {
            if let Some(hold) = &mut status.hold {
                let lasts = hold.until.as_ref().map(|until| until.0.duration_since(hold.since.0));
                hold.since = old().into();
                hold.until = lasts.and_then(|lasts| old().checked_add(lasts).ok()).map(Into::into);
            }
            Arc::make_mut(&mut next.history).elapse(WAITED);
        }
        Event::ProgressDeadlineExceeded => {
            let found =
                status.conditions.iter_mut().flatten().filter(|one| one.type_ == condition::PROGRESSING);
            found.for_each(|found| found.last_update_time = old().into());
        }
        Event::BlockedGraceExpired => {
            status.blocked.iter_mut().for_each(|blocked| blocked.since = old().into());
        }
        Event::CreateFailureGraceExpired => {
            next.refused_since = Some(old());
            next.failure.iter_mut().for_each(|failure| failure.since = old());
        }
        Event::Resume => {
            let hold = status.hold.as_ref().map(|hold| &hold.id);
            let blocked = status.blocked.as_ref().map(|blocked| &blocked.id);
            status.resume_requested = hold.or(blocked).cloned();
        }
        // Decisions are carried out elsewhere.
        Event::Decide
        | Event::CreateRefused(_)
        | Event::Crash(_)
        | Event::FaultBetweenWrites(..)
        | Event::StaleDecision(_) => {}
    }
    next.with_status(&status, setup)
}

fn change_pod(state: &mut State, id: u16, change: impl FnOnce(&mut PodState)) {
    if let Some(pod) = state.pods.iter_mut().find(|pod| pod.id == id) {
        change(pod);
    }
}

/// The state after a decision is carried out. The create of that number is refused. Its pods keep their
/// names.
fn carry_out(state: &State, decision: &Decision, setup: &Setup, refused: Option<usize>) -> Result<State> {
    match decision {
        Decision::Read(_) => Ok(state.clone()),
        Decision::Record(record) => state.clone().with_status(&record.status, setup),
        // It only reports, and nothing fails any more.
        Decision::Act(act) if act.is_idle() => {
            let mut next = state.clone().with_status(&act.status, setup)?;
            (next.failure, next.refused_since) = (None, None);
            Ok(next)
        }
        Decision::Act(act) => {
            let mut cluster = state.cluster(setup);
            let mut created = 0;
            cluster.carry_out(act, |cluster, _| {
                created += 1;
                let full = setup.case.quota.is_some_and(|quota| cluster.pods.len() >= quota);
                if full || refused == Some(created) { Err("exceeded quota".to_owned()) } else { Ok(()) }
            });
            state.after(&cluster, setup)
        }
    }
}

/// The first writes of an act, as many as `at`, and the rest.
fn split(act: &Act, at: usize) -> (Act, Act) {
    let (mut first, mut rest) = (act.clone(), act.clone());
    rest.sets.clear();
    let mut left = at;
    for (first, rest) in first.creates.iter_mut().zip(&mut rest.creates) {
        first.count = first.count.min(left);
        rest.count -= first.count;
        left -= first.count;
    }
    for (first, rest) in first.deletes.iter_mut().zip(&mut rest.deletes) {
        first.targets.truncate(left);
        rest.targets.drain(..first.targets.len());
        left -= first.targets.len();
    }
    (first, rest)
}

/// An act with a refused create, a crash or a fault between two of its writes.
fn interrupted_act(found: &mut Successors, state: &State, act: &Act, setup: &Setup) -> Result<()> {
    let creates: usize = act.creates.iter().map(|create| create.count).sum();
    let deletes: usize = act.deletes.iter().map(|group| group.targets.len()).sum();
    for number in 1..=creates {
        let mut next = carry_out(state, &Decision::Act(act.clone()), setup, Some(number))?;
        next.faults += 1;
        found.add(next, Event::CreateRefused(number), false, setup)?;
    }
    for at in usize::from(act.sets.is_empty())..creates + deletes {
        let (first, rest) = split(act, at);
        let begun = carry_out(state, &Decision::Act(first), setup, None)?;
        if begun.failure.is_some() {
            // The rest is not sent.
            break;
        }
        let mut crashed = begun.clone();
        (crashed.failure, crashed.refused_since) = (None, None);
        crashed.faults += 1;
        found.add(crashed, Event::Crash(at), false, setup)?;
        for event in faults(&begun, setup) {
            let actual = with_fault(&begun, &event, 1, setup)?;
            let next = carry_out_late(&begun, &actual, &rest, setup)?;
            found.add(next, Event::FaultBetweenWrites(at, Box::new(event)), false, setup)?;
        }
    }
    Ok(())
}

/// A decision on a cache that does not show the latest event.
fn stale_decision(found: &mut Successors, state: &State, left: u8, setup: &Setup) -> Result<()> {
    let observed = state.snapshot(setup);
    let decision = match decide(&observed) {
        // A live read is not stale.
        Decision::Read(Read::Live) => return Ok(()),
        Decision::Read(_) => decide_and_read(observed, &BTreeMap::new(), |_| DryRun::Accepted).1,
        decided => decided,
    };
    let unseen = expected(state, setup, false).into_iter().map(|event| (event, 1));
    let unseen = unseen.chain(faults(state, setup).into_iter().map(|event| (event, 2)));
    let of_pods = |event: &Event| {
        matches!(
            event,
            Event::Ready(_)
                | Event::Terminated(_)
                | Event::Unready(_)
                | Event::NeverReady(_)
                | Event::ForceDeletePod(_)
                | Event::DeletePod(_)
                | Event::AnnotatePod(..)
        )
    };
    for (event, cost) in unseen.filter(|(event, cost)| *cost <= left && of_pods(event)) {
        let actual = with_fault(state, &event, cost, setup)?;
        let next = match &decision {
            Decision::Read(_) => continue,
            Decision::Record(record) => actual.with_status(&record.status, setup)?,
            Decision::Act(act) => carry_out_late(state, &actual, act, setup)?,
        };
        found.add(next, Event::StaleDecision(Box::new(event)), false, setup)?;
    }
    Ok(())
}

/// Carries out an act that was decided on an earlier state. The delete of a pod that has changed since is
/// refused, which ends the act.
fn carry_out_late(seen: &State, actual: &State, act: &Act, setup: &Setup) -> Result<State> {
    let mut act = act.clone();
    let mut ended = false;
    for group in &mut act.deletes {
        group.targets.retain(|target| {
            let of =
                |state: &State| state.pods.iter().find(|pod| Some(pod.id) == id_of(target.uid())).copied();
            let Some(there) = of(actual) else { return false };
            ended |= of(seen) != Some(there);
            !ended
        });
    }
    act.deletes.retain(|group| !group.targets.is_empty());
    carry_out(actual, &Decision::Act(act), setup, None)
}
