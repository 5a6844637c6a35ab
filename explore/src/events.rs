//! What can happen next: a decision carried out, something that is only waited for, or a disturbance.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_oracle::{Wrong, has_begun, judge};
use ordereddeployment_planner::{Act, Decision, DryRun, Read, Snapshot};
use ordereddeployment_preview::SimulatedCluster;

use crate::case::{Fixed, Mark, TEMPLATES, Trouble};
use crate::state::{Member, State, Statuses, id_of, now, old};

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The controller decides, and carries it out.
    Decide,
    /// A pod becomes ready.
    Ready(u16),
    /// A pod that terminates is gone.
    Ended(u16),
    /// The duration of the hold is over.
    HoldOver,
    /// The grace time of a blocked rollout is over.
    GraceOver,
    /// The creates have failed for ten seconds.
    FailureOver,
    /// The progress deadline passes.
    Deadline,
    /// Somebody resumes what the status names.
    Resume,
    /// Somebody ends the pause.
    Unpause,
    /// A pod becomes unready.
    Unready(u16),
    /// A pod becomes unready and stays so.
    Break(u16),
    /// A pod is gone at once.
    Lost(u16),
    /// Somebody deletes a pod.
    Deleted(u16),
    /// Somebody changes D.
    Scale(i32),
    /// Somebody annotates a pod, or takes the annotation away.
    Annotate(u16, Mark),
    /// Somebody changes the template.
    Template(u8),
    /// Somebody pauses the rollout.
    Pause,
    /// Another process takes over.
    Restart,
    /// The controller decides, and one create is refused.
    Refused(usize),
    /// The controller decides, and dies after so many writes.
    Crash(usize),
    /// The controller decides, and this happens after so many writes.
    Between(usize, Box<Event>),
    /// This happens, and the controller decides without having seen it.
    Stale(Box<Event>),
}

/// A state that follows.
pub struct Next {
    pub event: Event,
    pub state: State,
    /// Whether it comes by itself, once nothing disturbs any more.
    pub is_natural: bool,
}

/// What follows a state.
#[derive(Default)]
pub struct Successors {
    pub next: Vec<Next>,
    /// What the decision made here breaks.
    pub wrong: Vec<Wrong>,
    /// What that decision was made on, where it changes nothing.
    pub rest: Option<Box<Snapshot>>,
}

/// Everything that can follow.
pub fn successors(state: &State, fixed: &Fixed, statuses: &mut Statuses) -> Result<Successors> {
    let mut found = Successors::default();
    let world = state.world(fixed);
    let (snapshot, decision) = world.decide(|_| DryRun::Accepted);
    found.wrong = judge(&snapshot, &decision);
    if let Decision::Read(read) = &decision {
        let words = format!("it asks for what it has: {read:?}");
        found.wrong.push(Wrong { rule: "L1", oracle: "explore::reads", words });
        return Ok(found);
    }
    let decided = carried_out(state, &world, &decision, fixed, statuses, None)?.canonical(statuses)?;
    if decided.key() == state.key() {
        found.rest = Some(Box::new(snapshot));
    } else {
        found.next.push(Next { event: Event::Decide, state: decided, is_natural: true });
    }
    let rests = found.rest.is_some();
    let waited_for = if rests || !fixed.case.eager { natural(state, fixed, rests) } else { Vec::new() };
    for event in waited_for {
        let state = happened(state, &event, statuses)?.canonical(statuses)?;
        found.next.push(Next { event, state, is_natural: true });
    }
    let left = fixed.case.disturbances - state.used;
    if left == 0 {
        return Ok(found);
    }
    for event in disturbances(state, fixed) {
        let state = disturbed(state, &event, 1, statuses)?.canonical(statuses)?;
        found.next.push(Next { event, state, is_natural: false });
    }
    if fixed.case.trouble == Trouble::Any {
        if let Decision::Act(act) = &decision {
            interrupted(&mut found, state, &world, act, fixed, statuses)?;
        }
        stale(&mut found, state, &world, left, fixed, statuses)?;
    }
    Ok(found)
}

/// What is only waited for.
fn natural(state: &State, fixed: &Fixed, rests: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for (pod, other) in state.pods.iter().zip(state.pods.iter().skip(1).map(Some).chain([None])) {
        // Of neighbours that are alike one is enough.
        if other.is_some_and(|other| Member { id: 0, ..*pod } == Member { id: 0, ..*other })
            && !is_named(state, pod)
        {
            continue;
        }
        if pod.terminating {
            events.push(Event::Ended(pod.id));
        } else if !pod.ready && !pod.broken && fixed.case.bad != Some(pod.template) {
            events.push(Event::Ready(pod.id));
        }
    }
    let pods_move = !events.is_empty();
    let status = &state.status.status;
    let hold = status.hold.as_ref().filter(|hold| !has_begun(hold));
    match hold {
        Some(hold) if hold.until.is_none() && status.resume_requested.is_none() => events.push(Event::Resume),
        Some(hold) if hold.until.as_ref().is_some_and(|until| until.0 > now()) => {
            events.push(Event::HoldOver);
        }
        _ => {}
    }
    if let Some(blocked) = &status.blocked {
        if blocked.since.0 == now() {
            events.push(Event::GraceOver);
        } else if rests && hold.is_none() && status.resume_requested.is_none() {
            events.push(Event::Resume);
        }
    }
    if state.refused_since == Some(now()) {
        events.push(Event::FailureOver);
    }
    if state.paused {
        events.push(Event::Unpause);
    }
    let deadline = status.condition(condition::PROGRESSING).is_some_and(|found| {
        found.last_update_time.0 == now()
            && found.status == ConditionStatus::True
            && found.reason != reason::NEW_REPLICA_SET_AVAILABLE
    });
    // Ten minutes are long: whatever pods do has been done by then.
    if deadline && rests && !pods_move && hold.is_none() {
        events.push(Event::Deadline);
    }
    events
}

/// Whether the status names that pod.
fn is_named(state: &State, pod: &Member) -> bool {
    let status = &state.status.status;
    let named = |uid: &str| id_of(uid) == Some(pod.id);
    status.hold.as_ref().is_some_and(|hold| named(&hold.pod_uid))
        || status.passed.iter().flatten().any(|passed| named(&passed.pod_uid))
}

/// What may come between.
fn disturbances(state: &State, fixed: &Fixed) -> Vec<Event> {
    let mut events = Vec::new();
    let any = fixed.case.trouble == Trouble::Any;
    for (pod, other) in state.pods.iter().zip(state.pods.iter().skip(1).map(Some).chain([None])) {
        if other.is_some_and(|other| Member { id: 0, ..*pod } == Member { id: 0, ..*other })
            && !is_named(state, pod)
        {
            continue;
        }
        if !pod.is_active() {
            continue;
        }
        if pod.ready {
            events.push(Event::Unready(pod.id));
        }
        if !pod.broken {
            events.push(Event::Break(pod.id));
        }
        events.push(Event::Lost(pod.id));
        if any {
            events.push(Event::Deleted(pod.id));
        }
        if pod.template != state.template {
            if pod.mark == Mark::None {
                events.push(Event::Annotate(pod.id, Mark::Before));
                if any {
                    events.push(Event::Annotate(pod.id, Mark::After));
                }
            } else {
                events.push(Event::Annotate(pod.id, Mark::None));
            }
        }
    }
    let replicas = fixed.case.replicas;
    let sizes = [0, replicas - 1, replicas, replicas + 1];
    let mut sizes: Vec<i32> =
        sizes.into_iter().filter(|size| *size >= 0 && *size != state.replicas).collect();
    sizes.dedup();
    events.extend(sizes.into_iter().map(Event::Scale));
    if any {
        let templates = (0..TEMPLATES).filter(|number| *number != state.template);
        // Back to what there was, and on to what comes next.
        let known = templates.filter(|number| {
            state.sets.iter().any(|set| set.template == *number) || *number == fixed.case.template + 1
        });
        events.extend(known.map(Event::Template));
        if !state.paused {
            events.push(Event::Pause);
        }
        if state.failure.is_some() {
            events.push(Event::Restart);
        }
    }
    events
}

fn disturbed(state: &State, event: &Event, cost: u8, statuses: &mut Statuses) -> Result<State> {
    let mut next = happened(state, event, statuses)?;
    next.used += cost;
    Ok(next)
}

/// The state once that has happened, with its pods' names as they are.
fn happened(state: &State, event: &Event, statuses: &mut Statuses) -> Result<State> {
    let mut next = state.clone();
    let mut status = None;
    match event {
        Event::Ready(id) => change(&mut next, *id, |pod| (pod.ready, pod.started) = (true, true)),
        Event::Unready(id) => change(&mut next, *id, |pod| pod.ready = false),
        Event::Break(id) => change(&mut next, *id, |pod| (pod.ready, pod.broken) = (false, true)),
        Event::Deleted(id) => change(&mut next, *id, |pod| pod.terminating = true),
        Event::Annotate(id, mark) => change(&mut next, *id, |pod| pod.mark = *mark),
        Event::Ended(id) | Event::Lost(id) => next.pods.retain(|pod| pod.id != *id),
        Event::Scale(replicas) => next.replicas = *replicas,
        Event::Template(template) => next.template = *template,
        Event::Pause => next.paused = true,
        Event::Unpause => next.paused = false,
        Event::Restart => (next.failure, next.refused_since) = (None, None),
        Event::HoldOver => {
            let mut changed = state.status.status.clone();
            if let Some(hold) = &mut changed.hold {
                let lasts = hold.until.as_ref().map(|until| until.0.duration_since(hold.since.0));
                hold.since = old().into();
                hold.until = lasts.and_then(|lasts| old().checked_add(lasts).ok()).map(Into::into);
            }
            status = Some(changed);
        }
        Event::Deadline => {
            let mut changed = state.status.status.clone();
            let found =
                changed.conditions.iter_mut().flatten().filter(|one| one.type_ == condition::PROGRESSING);
            found.for_each(|found| found.last_update_time = old().into());
            status = Some(changed);
        }
        Event::GraceOver => {
            let mut changed = state.status.status.clone();
            if let Some(blocked) = &mut changed.blocked {
                blocked.since = old().into();
            }
            status = Some(changed);
        }
        Event::FailureOver => {
            next.refused_since = Some(old());
            if let Some(failure) = &mut next.failure {
                failure.since = old();
            }
        }
        Event::Resume => {
            let mut changed = state.status.status.clone();
            let hold = changed.hold.as_ref().map(|hold| hold.id.clone());
            changed.resume_requested =
                hold.or_else(|| changed.blocked.as_ref().map(|blocked| blocked.id.clone()));
            status = Some(changed);
        }
        // These are decisions.
        Event::Decide | Event::Refused(_) | Event::Crash(_) | Event::Between(..) | Event::Stale(_) => {}
    }
    if let Some(status) = status {
        let names: BTreeMap<u16, u16> = next.pods.iter().map(|pod| (pod.id, pod.id)).collect();
        next.status = statuses.canonical(&status, &names)?;
    }
    Ok(next)
}

fn change(state: &mut State, id: u16, change: impl FnOnce(&mut Member)) {
    if let Some(pod) = state.pods.iter_mut().find(|pod| pod.id == id) {
        change(pod);
    }
}

/// The state once a decision is carried out, with its pods' names as they are. The create of that number is refused.
fn carried_out(
    state: &State,
    world: &SimulatedCluster,
    decision: &Decision,
    fixed: &Fixed,
    statuses: &mut Statuses,
    refused: Option<usize>,
) -> Result<State> {
    let mut world = world.clone();
    match decision {
        Decision::Read(_) => {}
        Decision::Record(record) => {
            world.store(&record.status);
        }
        Decision::Act(act) => {
            let mut created = 0;
            world.carry_out(act, |world, _| {
                created += 1;
                let full = fixed.case.quota.is_some_and(|quota| world.pods.len() >= quota);
                if full || refused == Some(created) { Err("exceeded quota".to_owned()) } else { Ok(()) }
            });
        }
    }
    state.after(&world, fixed, statuses)
}

/// How many pods an act creates and deletes.
fn writes(act: &Act) -> (usize, usize) {
    let creates = act.creates.iter().map(|create| create.count).sum();
    let deletes = act.deletes.iter().map(|group| group.targets.len()).sum();
    (creates, deletes)
}

/// The first so many writes of an act, and the rest of it.
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

/// What can become of an act that is not carried out in peace.
fn interrupted(
    found: &mut Successors,
    state: &State,
    world: &SimulatedCluster,
    act: &Act,
    fixed: &Fixed,
    statuses: &mut Statuses,
) -> Result<()> {
    let (creates, deletes) = writes(act);
    for number in 1..=creates {
        let decision = Decision::Act(act.clone());
        let mut next =
            carried_out(state, world, &decision, fixed, statuses, Some(number))?.canonical(statuses)?;
        next.used += 1;
        found.next.push(Next { event: Event::Refused(number), state: next, is_natural: false });
    }
    for at in usize::from(act.sets.is_empty())..creates + deletes {
        let (first, rest) = split(act, at);
        let begun = carried_out(state, world, &Decision::Act(first), fixed, statuses, None)?;
        if begun.failure.is_some() {
            // The rest is not sent.
            break;
        }
        let mut crashed = begun.clone().canonical(statuses)?;
        (crashed.failure, crashed.refused_since) = (None, None);
        crashed.used += 1;
        found.next.push(Next { event: Event::Crash(at), state: crashed, is_natural: false });
        for event in disturbances(&begun, fixed) {
            let real = disturbed(&begun, &event, 1, statuses)?;
            let next = late(&begun, &real, &rest, fixed, statuses)?.canonical(statuses)?;
            let event = Event::Between(at, Box::new(event));
            found.next.push(Next { event, state: next, is_natural: false });
        }
    }
    Ok(())
}

/// A decision that was made on less than there is.
fn stale(
    found: &mut Successors,
    state: &State,
    world: &SimulatedCluster,
    left: u8,
    fixed: &Fixed,
    statuses: &mut Statuses,
) -> Result<()> {
    let decision = ordereddeployment_planner::decide(&world.observed());
    let decision = match decision {
        // What has to be read live is not stale.
        Decision::Read(Read::Live) => return Ok(()),
        Decision::Read(_) => world.decide(|_| DryRun::Accepted).1,
        decided => decided,
    };
    let unseen = natural(state, fixed, false).into_iter().map(|event| (event, 1));
    let unseen = unseen.chain(disturbances(state, fixed).into_iter().map(|event| (event, 2)));
    let of_pods = |event: &Event| {
        matches!(
            event,
            Event::Ready(_)
                | Event::Ended(_)
                | Event::Unready(_)
                | Event::Break(_)
                | Event::Lost(_)
                | Event::Deleted(_)
                | Event::Annotate(..)
        )
    };
    for (event, cost) in unseen.filter(|(event, cost)| *cost <= left && of_pods(event)) {
        let real = disturbed(state, &event, cost, statuses)?;
        let next = match &decision {
            Decision::Read(_) => continue,
            Decision::Record(record) => {
                let mut world = real.world(fixed);
                world.store(&record.status);
                real.after(&world, fixed, statuses)?
            }
            Decision::Act(act) => late(state, &real, act, fixed, statuses)?,
        };
        let event = Event::Stale(Box::new(event));
        found.next.push(Next { event, state: next.canonical(statuses)?, is_natural: false });
    }
    Ok(())
}

/// Carries out what was decided when the world looked otherwise: a delete of a pod that has changed since is refused, and ends it.
fn late(seen: &State, real: &State, act: &Act, fixed: &Fixed, statuses: &mut Statuses) -> Result<State> {
    let mut act = act.clone();
    let mut ended = false;
    for group in &mut act.deletes {
        group.targets.retain(|target| {
            let of =
                |state: &State| state.pods.iter().find(|pod| Some(pod.id) == id_of(target.uid())).copied();
            let Some(there) = of(real) else { return false };
            ended |= of(seen) != Some(there);
            !ended
        });
    }
    act.deletes.retain(|group| !group.targets.is_empty());
    let world = real.world(fixed);
    carried_out(real, &world, &Decision::Act(act), fixed, statuses, None)
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pod = |id: &u16| format!("pod-{id:04}");
        match self {
            Self::Decide => write!(f, "the controller decides, and carries it out"),
            Self::Ready(id) => write!(f, "{} becomes ready", pod(id)),
            Self::Ended(id) => write!(f, "{} has terminated", pod(id)),
            Self::HoldOver => write!(f, "the duration of the hold is over"),
            Self::GraceOver => write!(f, "the rollout has been blocked for 60 s"),
            Self::FailureOver => write!(f, "creates have been refused for 10 s"),
            Self::Deadline => write!(f, "the progress deadline passes"),
            Self::Resume => write!(f, "a user resumes what the status names"),
            Self::Unpause => write!(f, "a user ends the pause"),
            Self::Unready(id) => write!(f, "{} becomes unready", pod(id)),
            Self::Break(id) => write!(f, "{} becomes unready and stays so", pod(id)),
            Self::Lost(id) => write!(f, "{} is gone at once", pod(id)),
            Self::Deleted(id) => write!(f, "a user deletes {}", pod(id)),
            Self::Scale(replicas) => write!(f, "a user scales to {replicas}"),
            Self::Annotate(id, Mark::None) => write!(f, "a user takes the pause point of {} away", pod(id)),
            Self::Annotate(id, mark) => write!(f, "a user gives {} a pause point ({mark:?})", pod(id)),
            Self::Template(number) => write!(f, "a user sets the template v{}", number + 1),
            Self::Pause => write!(f, "a user pauses the rollout"),
            Self::Restart => write!(f, "the controller restarts"),
            Self::Refused(number) => {
                write!(f, "the controller decides; its create number {number} is refused")
            }
            Self::Crash(writes) => write!(f, "the controller decides, and crashes after {writes} writes"),
            Self::Between(writes, event) => {
                write!(f, "the controller decides; after {writes} writes {event}; then it goes on")
            }
            Self::Stale(event) => write!(f, "{event}; the controller decides without having seen it"),
        }
    }
}
