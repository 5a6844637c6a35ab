//! Holds: their begin, their duration and their end.
//!
//! All functions return a status to store. No pod is deleted or created here.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    Action, ConditionStatus, Hold, OrderedDeploymentStatus, Passed, PassedPoint, Pause, PausePoint, limits,
    names::{ALL_POINTS, condition, reason},
};

use crate::barrier::{Barrier, held, id, is_begun_after, revision};
use crate::conditions::seconds;
use crate::declared;
use crate::events::remember;
use crate::inventory::Inventory;
use crate::kept::{is_reached, measure, narrow, sizes_now, sizes_to_keep, without_surge};
use crate::phase::{Phase, State};
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
    let duration = barrier.duration();
    let until = duration.and_then(|duration| end(since, duration));
    let after = side == PausePoint::After;
    let (sizes, replicas) = sizes_to_keep(inventory, after.then_some(barrier.ranked), until.is_some());
    let hold = Hold {
        id: id(inventory, barrier),
        pod: pod.name.clone(),
        pod_uid: pod.facts.uid.to_string(),
        node: pod.facts.node.as_ref().map(ToString::to_string),
        point: side,
        declared: barrier.declared.map(|declared| declared.held()),
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
    let until =
        hold.until.as_ref().map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", at.0));
    remember(status, Action::Held, Some(&hold.id), hold.revision, inventory.snapshot.now, &until);
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
/// pause, a removed point, `spec.paused`, declared points that the rollout has passed already.
pub(crate) fn transition(state: &State<'_, '_>) -> Option<Decision> {
    let inventory = state.inventory;
    if let Some(requested) = inventory.status.resume_requested.as_deref() {
        return Some(resume(state, requested));
    }
    let hold = inventory.status.hold.as_ref();
    hold.and_then(|hold| keep_or_end(state, hold))
        .or_else(|| pause(inventory))
        .or_else(|| unsuspend(state))
        .or_else(|| pass_declared(inventory))
}

/// Stores declared points that the rollout passes without a pause.
pub(crate) fn pass_declared(inventory: &Inventory<'_>) -> Option<Decision> {
    let rolls = inventory.old_count() > 0 || declared::most_updated(inventory).is_some();
    if inventory.revision.needs_comparison() || !rolls {
        return None;
    }
    let exceeded = declared::exceeded(inventory).into_iter().map(|name| (name, None));
    let passed: Vec<_> = exceeded.chain(declared::first_group(inventory)).collect();
    if passed.is_empty() {
        return None;
    }
    let mut status = inventory.status.clone();
    for (name, group) in passed {
        mark_point_passed(&mut status, name, group, inventory.snapshot.now);
    }
    Some(Decision::Record(Record { status, events: Vec::new() }))
}

/// Ends the suspension of a rollout at 0 replicas, once its sets have their sizes again.
fn unsuspend(state: &State<'_, '_>) -> Option<Decision> {
    let inventory = state.inventory;
    inventory.status.rollout.as_ref()?.suspended.as_ref()?;
    let Phase::Paused(sizes) = &state.phase else { return None };
    if inventory.bounds.desired == 0 || inventory.spec.paused || !is_reached(inventory, sizes) {
        return None;
    }
    let mut status = inventory.status.clone();
    if let Some(rollout) = &mut status.rollout {
        rollout.suspended = None;
        rollout.replicas = inventory.spec.replicas;
    }
    Some(Decision::Record(Record { status, events: Vec::new() }))
}

fn resume(state: &State<'_, '_>, requested: &str) -> Decision {
    let inventory = state.inventory;
    let mut status = inventory.status.clone();
    status.resume_requested = None;
    if inventory.aborts() {
        return dropped(status, requested, "the rollout is aborted");
    }
    let revision = inventory.status.rollout.as_ref().map(|rollout| rollout.revision);
    let all = requested
        .strip_prefix(ALL_POINTS)
        .and_then(|rest| rest.strip_prefix('@'))
        .is_some_and(|text| revision.is_some_and(|revision| revision.to_string() == text));
    let is_suspended = inventory.status.rollout.as_ref().is_some_and(|rollout| rollout.suspended.is_some());
    if all && (status.hold.is_some() || is_suspended || inventory.old_count() > 0) {
        return end_hold(
            inventory,
            status,
            Passes::All,
            "by request, with all further points of this rollout",
        );
    }
    match &inventory.status.hold {
        Some(hold) if hold.id == requested => end_hold(inventory, status, Passes::Hold, "by request"),
        hold => {
            if let Some(passed) = pass_blocked(state, &status, requested) {
                return passed;
            }
            let holds = match hold {
                Some(hold) => format!("the hold is {}", hold.id),
                None => "the rollout is not held".to_owned(),
            };
            dropped(status, requested, &holds)
        }
    }
}

fn dropped(status: OrderedDeploymentStatus, requested: &str, why: &str) -> Decision {
    let shown: String = requested.chars().take(100).collect();
    let message = format!("Dropped the request to resume {shown:?}: {why}");
    Decision::Record(Record { status, events: vec![events::warning(reason::RESUME_IGNORED, message)] })
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
    let now = inventory.snapshot.now;
    match &barrier.declared {
        Some(declared) => mark_point_passed(&mut status, &declared.point.name, declared.group, now),
        None => mark_passed(&mut status, barrier.ranked.uid(), now),
    }
    let by = "by request, while it was blocked";
    remember(&mut status, Action::Resumed, Some(requested), revision(inventory), now, by);
    status.blocked = None;
    conditions::progressing_again(
        &mut status,
        reason::ROLLOUT_RESUMED,
        "been resumed",
        inventory.snapshot.now,
    );
    let message = format!("Resumed {requested} ({by})");
    let events = vec![events::normal(reason::PAUSE_POINT_RESUMED, message)];
    Some(Decision::Record(Record { status, events }))
}

pub(crate) fn mark_passed(status: &mut OrderedDeploymentStatus, uid: &str, now: Timestamp) {
    let passed = status.passed.get_or_insert_default();
    if passed.iter().all(|passed| passed.pod_uid != uid) {
        passed.push(Passed { pod_uid: uid.to_owned(), resumed_at: seconds(now).into() });
        // The pods of the first ones are gone long since.
        passed.drain(..passed.len().saturating_sub(limits::PASSED));
    }
}

pub(crate) fn mark_point_passed(
    status: &mut OrderedDeploymentStatus,
    name: &str,
    group: Option<&str>,
    now: Timestamp,
) {
    let points = status.passed_points.get_or_insert_default();
    if points.iter().all(|point| point.name != name || point.group.as_deref() != group) {
        let (name, group) = (name.to_owned(), group.map(ToOwned::to_owned));
        points.push(PassedPoint { name, group, resumed_at: seconds(now).into() });
        points.drain(..points.len().saturating_sub(limits::PASSED));
    }
}

/// Which points the end of a hold passes.
enum Passes {
    /// None: the point is gone.
    None,
    /// The point of the hold.
    Hold,
    /// All points of this rollout.
    All,
}

/// Ends the hold, and the clock of the progress deadline restarts.
fn end_hold(
    inventory: &Inventory<'_>,
    mut status: OrderedDeploymentStatus,
    passes: Passes,
    by: &str,
) -> Decision {
    let now = inventory.snapshot.now;
    status.blocked = None;
    let hold = status.hold.take();
    match (passes, &hold) {
        (Passes::All, _) => mark_passed(&mut status, ALL_POINTS, now),
        (Passes::Hold, Some(Hold { declared: Some(point), .. })) => {
            mark_point_passed(&mut status, &point.name, point.group.as_deref(), now);
        }
        (Passes::Hold, Some(hold)) => mark_passed(&mut status, &hold.pod_uid, now),
        (Passes::Hold, None) | (Passes::None, _) => {}
    }
    let id = hold.as_ref().map(|hold| hold.id.as_str());
    remember(&mut status, Action::Resumed, id, revision(inventory), now, by);
    let message = match &hold {
        Some(hold) => format!("Resumed {} ({by})", hold.id),
        None => format!("Resumed ({by})"),
    };
    if let Some(hold) = hold.filter(|hold| !is_begun_after(hold)) {
        let kept = Pause { replicas: hold.replicas, sizes: hold.sizes };
        if inventory.spec.paused {
            status.pause = Some(kept);
        } else {
            suspend(inventory, &mut status, kept);
        }
    }
    conditions::not_held(&mut status, inventory.snapshot.now);
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_RESUMED, message)] })
}

fn keep_or_end(state: &State<'_, '_>, hold: &Hold) -> Option<Decision> {
    let inventory = state.inventory;
    let now = inventory.snapshot.now;
    let status = || inventory.status.clone();
    if let Some(held) = &hold.declared {
        let point = inventory.spec.strategy.points().find(|point| point.name == held.name);
        let Some(point) = point else {
            return Some(end_hold(inventory, status(), Passes::None, "its pause point was removed"));
        };
        if let Some(changed) = with_duration(inventory, hold, point.pause_duration()) {
            return Some(changed);
        }
    }
    let pod = inventory.snapshot.pods.iter().find(|pod| *pod.facts.uid == *hold.pod_uid);
    let active = pod.filter(|pod| !pod.terminating && !pod.finished);
    if let Some(pod) = active.filter(|_| hold.declared.is_none()) {
        match &pod.point {
            Point::None if !inventory.snapshot.live => return Some(Decision::Read(Read::Live)),
            Point::None => {
                return Some(end_hold(inventory, status(), Passes::None, "its annotation was taken away"));
            }
            Point::At { duration: Ok(duration), .. } => {
                if let Some(changed) = with_duration(inventory, hold, *duration) {
                    return Some(changed);
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
        return Some(end_hold(inventory, status(), Passes::Hold, "its time is over"));
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
        return Some(end_hold(inventory, status(), Passes::Hold, "no old pod is left"));
    }
    None
}

/// The hold with this duration, if it has another one.
fn with_duration(inventory: &Inventory<'_>, hold: &Hold, duration: Option<Duration>) -> Option<Decision> {
    let until = duration.and_then(|duration| end(hold.since.0, duration));
    if until == hold.until.as_ref().map(|until| until.0) {
        return None;
    }
    let mut status = inventory.status.clone();
    let mut changed = Hold { until: until.map(Into::into), ..hold.clone() };
    if until.is_none() && !inventory.recreate() {
        changed.sizes = without_surge(changed.sizes, &inventory.hash, changed.replicas);
    }
    if !is_begun_after(&changed) {
        let name = inventory.snapshot.deployment.metadata.name.as_deref().unwrap_or_default();
        conditions::hold(&mut status, &changed, name, 0, inventory.snapshot.now);
    }
    status.hold = Some(changed);
    Some(Decision::Record(Record { status, events: Vec::new() }))
}

/// Suspends the rollout at 0 replicas: the sizes to restore are stored, since its declared points are still ahead.
pub(crate) fn suspend(inventory: &Inventory<'_>, status: &mut OrderedDeploymentStatus, sizes: Pause) {
    let is_old = |hash: &str| hash != inventory.hash && inventory.usable_sets().any(|set| set.hash == hash);
    let keeps_old = sizes.sizes.iter().any(|(hash, size)| *size > 0 && is_old(hash));
    let is_ahead = declared::any(inventory) && !status.has_passed_all();
    if let Some(rollout) = status.rollout.as_mut()
        && inventory.bounds.desired == 0
        && rollout.suspended.is_none()
        && keeps_old
        && is_ahead
    {
        rollout.suspended = Some(sizes);
        rollout.scaled_from = None;
    }
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
        (false, Some(pause)) => {
            status = inventory.status.clone();
            status.pause = None;
            suspend(inventory, &mut status, pause.clone());
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
pub(crate) fn end(since: Timestamp, duration: Duration) -> Option<Timestamp> {
    let duration = SignedDuration::try_from(duration).ok()?;
    let exact = since.checked_add(duration).ok()?;
    let whole = seconds(exact);
    if whole == exact { Some(exact) } else { whole.checked_add(SignedDuration::from_secs(1)).ok() }
}
