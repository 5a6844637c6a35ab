//! Holds: what makes, keeps and ends one.
//!
//! Everything here ends in a status to store. It never deletes or creates.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    ConditionStatus, Hold, OrderedDeploymentStatus, Passed, Pause, PausePoint,
    names::{ALL_POINTS, condition, reason},
};

use crate::barrier::{Barrier, held, id, is_begun_after, revision};
use crate::census::Census;
use crate::conditions::seconds;
use crate::kept::{measure, narrow, sizes_now, sizes_to_keep, without_surge};
use crate::phase::State;
use crate::{Decision, Event, Malformed, Point, Read, Record, conditions, events};

/// A new hold at the barrier.
pub(crate) fn hold_at(census: &Census<'_>, barrier: &Barrier<'_, '_>) -> Decision {
    begin(census, barrier, barrier.side)
}

/// A hold at the barrier before the rollout has reached it: scaling would take its pod away. No pod is deleted for it, so that it
/// holds before its pod, whatever its side.
pub(crate) fn hold_early(census: &Census<'_>, barrier: &Barrier<'_, '_>) -> Decision {
    begin(census, barrier, PausePoint::Before)
}

fn begin(census: &Census<'_>, barrier: &Barrier<'_, '_>, side: PausePoint) -> Decision {
    let pod = barrier.member.pod;
    let since = seconds(census.observed.now);
    let duration = match &pod.point {
        Point::At { duration: Ok(duration), .. } => *duration,
        _ => None,
    };
    let until = duration.and_then(|duration| end(since, duration));
    let after = side == PausePoint::After;
    let (sizes, replicas) = sizes_to_keep(census, after.then_some(barrier.member), until.is_some());
    let hold = Hold {
        id: id(census, barrier),
        pod: pod.name.clone(),
        pod_uid: pod.facts.uid.to_string(),
        node: pod.facts.node.as_ref().map(ToString::to_string),
        point: side,
        revision: revision(census),
        since: since.into(),
        until: until.map(Into::into),
        deleted: after.then_some(false),
        replicas,
        sizes,
    };
    let mut status = census.status.clone();
    let mut events = Vec::new();
    if !after {
        reached(census, &mut status, &hold, &mut events);
    }
    status.hold = Some(hold);
    status.blocked = None;
    Decision::Record(Record { status, events })
}

/// What is to be told once the rollout stands at its hold.
fn reached(census: &Census<'_>, status: &mut OrderedDeploymentStatus, hold: &Hold, told: &mut Vec<Event>) {
    let name = census.observed.deployment.metadata.name.as_deref().unwrap_or_default();
    conditions::hold(status, hold, name, 0, census.observed.now);
    let message = conditions::hold_message(hold, name);
    told.push(events::normal(reason::PAUSE_POINT_REACHED, message));
    let left: i64 = hold.sizes.values().map(|size| i64::from(*size)).sum();
    if census.recreate() && left < census.bounds.desired {
        told.push(events::warning(
            reason::HOLD_BELOW_REPLICAS,
            format!(
                "The hold leaves {left} of {} pods: under Recreate deleted pods come back only after the last old one is gone",
                census.bounds.desired
            ),
        ));
    }
}

/// What changes a hold or a pause before anything else may be done: a resume, the end of a timed pause, an annotation taken away,
/// `spec.paused`.
pub(crate) fn transition(state: &State<'_, '_>) -> Option<Decision> {
    let census = state.census;
    if let Some(requested) = census.status.resume_requested.as_deref() {
        return Some(resume(state, requested));
    }
    if let Some(hold) = &census.status.hold {
        return keep_or_end(state, hold).or_else(|| pause(census));
    }
    pause(census)
}

fn resume(state: &State<'_, '_>, requested: &str) -> Decision {
    let census = state.census;
    let mut status = census.status.clone();
    status.resume_requested = None;
    let revision = census.status.rollout.as_ref().map(|rollout| rollout.revision);
    let all = requested
        .strip_prefix(ALL_POINTS)
        .and_then(|rest| rest.strip_prefix('@'))
        .is_some_and(|text| revision.is_some_and(|revision| revision.to_string() == text));
    if all && (status.hold.is_some() || census.old_count() > 0) {
        return end_hold(census, status, ALL_POINTS, "by request, with all further points of this rollout");
    }
    match &census.status.hold {
        Some(hold) if hold.id == requested => {
            let uid = hold.pod_uid.clone();
            end_hold(census, status, &uid, "by request")
        }
        hold => {
            if let Some(passed) = pass_blocked(state, &status, requested) {
                return passed;
            }
            let holds = match hold {
                Some(hold) => format!("the hold is {}", hold.id),
                None => "the rollout is not held".to_owned(),
            };
            let shown: String = requested.chars().take(100).collect();
            let message = format!("Dropped the request to resume {shown:?}: {holds}");
            Decision::Record(Record {
                status,
                events: vec![events::warning(reason::RESUME_IGNORED, message)],
            })
        }
    }
}

/// Passes the point at which the rollout is blocked, where the condition says so and the request names it.
fn pass_blocked(
    state: &State<'_, '_>,
    status: &OrderedDeploymentStatus,
    requested: &str,
) -> Option<Decision> {
    let census = state.census;
    let stalled = census.status.condition(condition::STALLED)?;
    let stands = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    census.status.blocked.as_ref().filter(|blocked| stands && blocked.id == requested)?;
    let barrier = state.divided.barrier.as_ref().filter(|barrier| id(census, barrier) == requested)?;
    let mut status = status.clone();
    pass(&mut status, barrier.member.uid(), census.observed.now);
    status.blocked = None;
    conditions::progressing_again(&mut status, reason::ROLLOUT_RESUMED, "been resumed", census.observed.now);
    let message = format!("Resumed {requested} (by request, while it was blocked)");
    let events = vec![events::normal(reason::PAUSE_POINT_RESUMED, message)];
    Some(Decision::Record(Record { status, events }))
}

fn pass(status: &mut OrderedDeploymentStatus, uid: &str, now: Timestamp) {
    let passed = Passed { pod_uid: uid.to_owned(), resumed_at: seconds(now).into() };
    status.passed.get_or_insert_default().push(passed);
}

/// Ends the hold: its point is passed, and the clock of the progress deadline starts anew.
fn end_hold(census: &Census<'_>, mut status: OrderedDeploymentStatus, passed: &str, by: &str) -> Decision {
    if !passed.is_empty() {
        pass(&mut status, passed, census.observed.now);
    }
    status.blocked = None;
    let hold = status.hold.take();
    let message = match &hold {
        Some(hold) => format!("Resumed {} ({by})", hold.id),
        None => format!("Resumed ({by})"),
    };
    if let Some(hold) = hold.filter(|hold| census.spec.paused && !is_begun_after(hold)) {
        status.pause = Some(Pause { replicas: hold.replicas, sizes: hold.sizes });
    }
    conditions::not_held(&mut status, census.observed.now);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_RESUMED, message)] })
}

fn keep_or_end(state: &State<'_, '_>, hold: &Hold) -> Option<Decision> {
    let census = state.census;
    let now = census.observed.now;
    let status = || census.status.clone();
    let pod = census.observed.pods.iter().find(|pod| *pod.facts.uid == *hold.pod_uid);
    let active = pod.filter(|pod| !pod.terminating && !pod.finished);
    if let Some(pod) = active {
        match &pod.point {
            Point::None if !census.observed.live => return Some(Decision::Read(Read::Live)),
            Point::None => return Some(end_hold(census, status(), "", "its annotation was taken away")),
            Point::At { duration: Ok(duration), .. } => {
                let until = duration.and_then(|duration| end(hold.since.0, duration));
                if until != hold.until.as_ref().map(|until| until.0) {
                    let mut status = status();
                    let mut changed = Hold { until: until.map(Into::into), ..hold.clone() };
                    if until.is_none() && !census.recreate() {
                        changed.sizes = without_surge(changed.sizes, &census.hash, changed.replicas);
                    }
                    if !is_begun_after(&changed) {
                        let name = census.observed.deployment.metadata.name.as_deref().unwrap_or_default();
                        conditions::hold(&mut status, &changed, name, 0, now);
                    }
                    status.hold = Some(changed);
                    return Some(Decision::Record(Record { status, events: Vec::new() }));
                }
            }
            Point::Malformed | Point::At { duration: Err(Malformed), .. } => {}
        }
    }
    // With a point `after` the time runs from when its pod is gone.
    if !is_begun_after(hold) && hold.until.as_ref().is_some_and(|until| until.0 <= now) {
        if !census.observed.live {
            return Some(Decision::Read(Read::Live));
        }
        return Some(end_hold(census, status(), &hold.pod_uid, "its time is over"));
    }
    if is_begun_after(hold) {
        if active.is_some() {
            return None;
        }
        let mut status = status();
        let mut told = Vec::new();
        let (sizes, replicas) = sizes_to_keep(census, None, hold.until.is_some());
        let since = seconds(now);
        let until = hold
            .until
            .as_ref()
            .and_then(|until| since.checked_add(until.0.duration_since(hold.since.0)).ok());
        let deleted = Hold {
            deleted: Some(true),
            since: since.into(),
            until: until.map(Into::into),
            replicas,
            sizes,
            ..hold.clone()
        };
        reached(census, &mut status, &deleted, &mut told);
        status.hold = Some(deleted);
        return Some(Decision::Record(Record { status, events: told }));
    }
    let sizes = state.kept().into_iter().flatten();
    let keeps_old = sizes.into_iter().any(|(hash, size)| *hash != census.hash && *size > 0);
    if census.bounds.desired > 0 && census.old_count() == 0 && !keeps_old {
        return Some(end_hold(census, status(), &hold.pod_uid, "no old pod is left"));
    }
    None
}

/// Entering and leaving `spec.paused`: the sizes are stored before pods are moved.
fn pause(census: &Census<'_>) -> Option<Decision> {
    let mut status = census.status.clone();
    match (census.spec.paused, &census.status.pause) {
        (true, None) if held(&status).is_none() => {
            let sizes = narrow(&sizes_now(census, None));
            status.pause = Some(Pause { replicas: measure(census, &sizes), sizes });
        }
        (false, Some(_)) => {
            status.pause = None;
            conditions::progressing_again(
                &mut status,
                reason::DEPLOYMENT_RESUMED,
                "resumed",
                census.observed.now,
            );
        }
        _ => return None,
    }
    Some(Decision::Record(Record { status, events: Vec::new() }))
}

/// The end of a pause: whole seconds, never too early.
fn end(since: Timestamp, duration: std::time::Duration) -> Option<Timestamp> {
    let duration = SignedDuration::try_from(duration).ok()?;
    let exact = since.checked_add(duration).ok()?;
    let whole = seconds(exact);
    if whole == exact { Some(exact) } else { whole.checked_add(SignedDuration::from_secs(1)).ok() }
}
