//! Holds: their begin, their duration and their end.
//!
//! All functions return a status to store. No pod is deleted or created here.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    ConditionStatus, Hold, OrderedDeploymentStatus, Passed, Pause, PausePoint,
    names::{ALL_POINTS, condition, reason},
};

use crate::barrier::{Barrier, held, id, is_begun_after, revision};
use crate::conditions::seconds;
use crate::inventory::Inventory;
use crate::kept::{measure, narrow, sizes_now, sizes_to_keep, without_surge};
use crate::phase::State;
use crate::{Decision, Event, Malformed, Point, Read, Record, conditions, events};

/// A new hold at the barrier.
pub(crate) fn hold_at(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>) -> Decision {
    begin(inventory, barrier, barrier.side)
}

/// A hold at the barrier before the rollout has reached it, because scaling would delete its pod. No pod is deleted for this
/// hold: it holds before its pod, whatever its side.
pub(crate) fn hold_early(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>) -> Decision {
    begin(inventory, barrier, PausePoint::Before)
}

fn begin(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>, side: PausePoint) -> Decision {
    let pod = barrier.ranked.pod;
    let since = seconds(inventory.snapshot.now);
    let duration = match &pod.point {
        Point::At { duration: Ok(duration), .. } => *duration,
        _ => None,
    };
    let until = duration.and_then(|duration| end(since, duration));
    let after = side == PausePoint::After;
    let (sizes, replicas) = sizes_to_keep(inventory, after.then_some(barrier.ranked), until.is_some());
    let hold = Hold {
        id: id(inventory, barrier),
        pod: pod.name.clone(),
        pod_uid: pod.facts.uid.to_string(),
        node: pod.facts.node.as_ref().map(ToString::to_string),
        point: side,
        revision: revision(inventory),
        since: since.into(),
        until: until.map(Into::into),
        deleted: after.then_some(false),
        replicas,
        sizes,
    };
    let mut status = inventory.status.clone();
    let mut events = Vec::new();
    if !after {
        reached(inventory, &mut status, &hold, &mut events);
    }
    status.hold = Some(hold);
    status.blocked = None;
    Decision::Record(Record { status, events })
}

/// The events and conditions when the rollout is held.
fn reached(
    inventory: &Inventory<'_>,
    status: &mut OrderedDeploymentStatus,
    hold: &Hold,
    events: &mut Vec<Event>,
) {
    let name = inventory.snapshot.deployment.metadata.name.as_deref().unwrap_or_default();
    conditions::hold(status, hold, name, 0, inventory.snapshot.now);
    let message = conditions::hold_message(hold, name);
    events.push(events::normal(reason::PAUSE_POINT_REACHED, message));
    let left: i64 = hold.sizes.values().map(|size| i64::from(*size)).sum();
    if inventory.recreate() && left < inventory.bounds.desired {
        events.push(events::warning(
            reason::HOLD_BELOW_REPLICAS,
            format!(
                "The hold leaves {left} of {} pods: under Recreate deleted pods come back only after the last old one is gone",
                inventory.bounds.desired
            ),
        ));
    }
}

/// Changes of a hold or a pause that come before any other write: a resume, the end of a timed
/// pause, a removed annotation, `spec.paused`.
pub(crate) fn transition(state: &State<'_, '_>) -> Option<Decision> {
    let inventory = state.inventory;
    if let Some(requested) = inventory.status.resume_requested.as_deref() {
        return Some(resume(state, requested));
    }
    if let Some(hold) = &inventory.status.hold {
        return keep_or_end(state, hold).or_else(|| pause(inventory));
    }
    pause(inventory)
}

fn resume(state: &State<'_, '_>, requested: &str) -> Decision {
    let inventory = state.inventory;
    let mut status = inventory.status.clone();
    status.resume_requested = None;
    let revision = inventory.status.rollout.as_ref().map(|rollout| rollout.revision);
    let all = requested
        .strip_prefix(ALL_POINTS)
        .and_then(|rest| rest.strip_prefix('@'))
        .is_some_and(|text| revision.is_some_and(|revision| revision.to_string() == text));
    if all && (status.hold.is_some() || inventory.old_count() > 0) {
        return end_hold(
            inventory,
            status,
            ALL_POINTS,
            "by request, with all further points of this rollout",
        );
    }
    match &inventory.status.hold {
        Some(hold) if hold.id == requested => {
            let uid = hold.pod_uid.clone();
            end_hold(inventory, status, &uid, "by request")
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

/// Passes the point at which the rollout is blocked, if the condition says so and the request names it.
fn pass_blocked(
    state: &State<'_, '_>,
    status: &OrderedDeploymentStatus,
    requested: &str,
) -> Option<Decision> {
    let inventory = state.inventory;
    let stalled = inventory.status.condition(condition::STALLED)?;
    let stands = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    inventory.status.blocked.as_ref().filter(|blocked| stands && blocked.id == requested)?;
    let barrier = state.divided.barrier.as_ref().filter(|barrier| id(inventory, barrier) == requested)?;
    let mut status = status.clone();
    mark_passed(&mut status, barrier.ranked.uid(), inventory.snapshot.now);
    status.blocked = None;
    conditions::progressing_again(
        &mut status,
        reason::ROLLOUT_RESUMED,
        "been resumed",
        inventory.snapshot.now,
    );
    let message = format!("Resumed {requested} (by request, while it was blocked)");
    let events = vec![events::normal(reason::PAUSE_POINT_RESUMED, message)];
    Some(Decision::Record(Record { status, events }))
}

fn mark_passed(status: &mut OrderedDeploymentStatus, uid: &str, now: Timestamp) {
    let passed = Passed { pod_uid: uid.to_owned(), resumed_at: seconds(now).into() };
    status.passed.get_or_insert_default().push(passed);
}

/// Ends the hold: its point is passed, and the clock of the progress deadline restarts.
fn end_hold(
    inventory: &Inventory<'_>,
    mut status: OrderedDeploymentStatus,
    passed: &str,
    by: &str,
) -> Decision {
    if !passed.is_empty() {
        mark_passed(&mut status, passed, inventory.snapshot.now);
    }
    status.blocked = None;
    let hold = status.hold.take();
    let message = match &hold {
        Some(hold) => format!("Resumed {} ({by})", hold.id),
        None => format!("Resumed ({by})"),
    };
    if let Some(hold) = hold.filter(|hold| inventory.spec.paused && !is_begun_after(hold)) {
        status.pause = Some(Pause { replicas: hold.replicas, sizes: hold.sizes });
    }
    conditions::not_held(&mut status, inventory.snapshot.now);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_RESUMED, message)] })
}

fn keep_or_end(state: &State<'_, '_>, hold: &Hold) -> Option<Decision> {
    let inventory = state.inventory;
    let now = inventory.snapshot.now;
    let status = || inventory.status.clone();
    let pod = inventory.snapshot.pods.iter().find(|pod| *pod.facts.uid == *hold.pod_uid);
    let active = pod.filter(|pod| !pod.terminating && !pod.finished);
    if let Some(pod) = active {
        match &pod.point {
            Point::None if !inventory.snapshot.live => return Some(Decision::Read(Read::Live)),
            Point::None => return Some(end_hold(inventory, status(), "", "its annotation was taken away")),
            Point::At { duration: Ok(duration), .. } => {
                let until = duration.and_then(|duration| end(hold.since.0, duration));
                if until != hold.until.as_ref().map(|until| until.0) {
                    let mut status = status();
                    let mut changed = Hold { until: until.map(Into::into), ..hold.clone() };
                    if until.is_none() && !inventory.recreate() {
                        changed.sizes = without_surge(changed.sizes, &inventory.hash, changed.replicas);
                    }
                    if !is_begun_after(&changed) {
                        let name = inventory.snapshot.deployment.metadata.name.as_deref().unwrap_or_default();
                        conditions::hold(&mut status, &changed, name, 0, now);
                    }
                    status.hold = Some(changed);
                    return Some(Decision::Record(Record { status, events: Vec::new() }));
                }
            }
            Point::Malformed | Point::At { duration: Err(Malformed), .. } => {}
        }
    }
    // With an `after` point the time starts when its pod is gone.
    if !is_begun_after(hold) && hold.until.as_ref().is_some_and(|until| until.0 <= now) {
        if !inventory.snapshot.live {
            return Some(Decision::Read(Read::Live));
        }
        return Some(end_hold(inventory, status(), &hold.pod_uid, "its time is over"));
    }
    if is_begun_after(hold) {
        if active.is_some() {
            return None;
        }
        let mut status = status();
        let mut events = Vec::new();
        let (sizes, replicas) = sizes_to_keep(inventory, None, hold.until.is_some());
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
        reached(inventory, &mut status, &deleted, &mut events);
        status.hold = Some(deleted);
        return Some(Decision::Record(Record { status, events }));
    }
    let sizes = state.kept().into_iter().flatten();
    let keeps_old = sizes.into_iter().any(|(hash, size)| *hash != inventory.hash && *size > 0);
    if inventory.bounds.desired > 0 && inventory.old_count() == 0 && !keeps_old {
        return Some(end_hold(inventory, status(), &hold.pod_uid, "no old pod is left"));
    }
    None
}

/// The begin and the end of `spec.paused`: the sizes are stored before pods are moved.
fn pause(inventory: &Inventory<'_>) -> Option<Decision> {
    let mut status;
    match (inventory.spec.paused, &inventory.status.pause) {
        (true, None) if held(inventory.status).is_none() => {
            let sizes = narrow(&sizes_now(inventory, None));
            status = inventory.status.clone();
            status.pause = Some(Pause { replicas: measure(inventory, &sizes), sizes });
        }
        (false, Some(_)) => {
            status = inventory.status.clone();
            status.pause = None;
            conditions::progressing_again(
                &mut status,
                reason::DEPLOYMENT_RESUMED,
                "resumed",
                inventory.snapshot.now,
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
