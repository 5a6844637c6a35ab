//! Holds: their begin, their duration and their end.
//!
//! All functions return a status to store. No pod is deleted or created here.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    Action, AheadPoint, ConditionStatus, HeldPoint, Hold, OrderedDeploymentStatus, PassedBy, PausePoint,
    Share,
    names::{ALL_POINTS, condition, reason},
};

use crate::conditions::seconds;
use crate::events::remember;
use crate::ids::Id;
use crate::inventory::{Inventory, narrow};
use crate::phase::State;
use crate::points::{Ahead, Kind};
use crate::seen::pass;
use crate::{Decision, Event, Read, Record, conditions, events, report};

/// The longest time that a hold is said to have lasted: a thousand years.
const MOST_SECONDS: i64 = 1_000 * 365 * 24 * 3600;

/// A hold that begins, or one that ends or changes. It comes before any other write.
pub(crate) fn transition(state: &State<'_, '_>) -> Option<Decision> {
    let inventory = state.inventory;
    if inventory.revision.needs_comparison() {
        return None;
    }
    if let Some(requested) = inventory.status.resume_requested.as_deref() {
        return Some(resume(state, requested));
    }
    inventory.status.hold.as_ref().and_then(|hold| keep_or_end(state, hold))
}

/// The hold that begins now: the points allow no further deletion, and the updated pods that they allow are
/// available. It is at the point with the smallest number where that is reached, else at the first barrier.
pub(crate) fn due(state: &State<'_, '_>) -> Option<Decision> {
    let (inventory, points) = (state.inventory, &state.points);
    let is_off = inventory.status.hold.is_some()
        || !inventory.invalid_points.is_empty()
        || inventory.revision.needs_comparison()
        || points.waits_at(inventory).is_some();
    if is_off {
        return None;
    }
    let (desired, old) = (inventory.bounds.desired, inventory.old_count());
    let are_there = |number: i64| inventory.recreate() || inventory.updated_available >= number;
    let (lowest, first) = (points.lowest()?, points.first());
    if old <= points.keep {
        let is_due = are_there(points.limit) && !matches!(lowest.kind, Kind::Paused);
        return is_due.then(|| begin(inventory, lowest, points.limit));
    }
    let first =
        first.filter(|_| points.barrier == 0 && are_there(desired - old) && !inventory.spec.paused)?;
    Some(begin(inventory, first, (desired - old).max(0)))
}

fn begin(inventory: &Inventory<'_>, point: &Ahead<'_>, limit: i64) -> Decision {
    let hold = at(inventory, point, limit);
    let replicas = hold.replicas;
    let limit = hold.limit.unwrap_or(i32::MAX);
    // Who waits for the hold reads the counts next: they are those that it was decided with.
    let mut status = report::counted(inventory);
    let stored = status.rollout.as_mut().and_then(|rollout| rollout.points.as_mut());
    let is_same = |kept: &&mut AheadPoint| kept.id == point.id && kept.share.is_some();
    if let Some(kept) = stored.into_iter().flatten().find(is_same)
        && i64::from(limit) < point.limit
    {
        // Its barrier stopped the rollout: nobody gets further than this.
        kept.share = Some(Share { limit, replicas });
    }
    let mut events = Vec::new();
    reached(inventory, &mut status, &hold, &mut events);
    status.hold = Some(hold);
    status.blocked = None;
    Decision::Record(Record { status, events })
}

/// A hold at that point.
pub(crate) fn at(inventory: &Inventory<'_>, point: &Ahead<'_>, limit: i64) -> Hold {
    let now = inventory.snapshot.now;
    let since = seconds(now);
    let until = point.seconds.and_then(|wait| since.checked_add(SignedDuration::from_secs(wait)).ok());
    let old = inventory.old();
    let (side, marked) = match &point.kind {
        Kind::Mark { pod, side } => (*side, Some(*pod)),
        _ => (PausePoint::Before, None),
    };
    let next = || old.get(point.barrier.unwrap_or(0)).or(old.first());
    let pod = match marked {
        Some(name) => inventory.ranked_pods.iter().find(|ranked| ranked.pod.name == name),
        None => next(),
    };
    let name = || marked.map_or_else(String::new, ToOwned::to_owned);
    Hold {
        id: point.id.clone(),
        pod: pod.map_or_else(name, |ranked| ranked.pod.name.clone()),
        pod_uid: pod.map(|ranked| ranked.uid().to_string()).unwrap_or_default(),
        node: pod.and_then(|ranked| ranked.pod.facts.node.as_ref()).map(ToString::to_string),
        point: side,
        declared: match &point.kind {
            Kind::Place(place) => Some(place.held()),
            Kind::Number | Kind::Invalid => {
                let name = Id::parse(&point.id).map(|id| id.name.to_owned()).unwrap_or_default();
                Some(HeldPoint { name, group: None })
            }
            Kind::Mark { .. } | Kind::Paused => None,
        },
        revision: inventory.rollout_revision(),
        since: since.into(),
        until: until.map(Into::into),
        elapsed: None,
        limit: Some(narrow(limit)),
        replicas: inventory.spec.replicas,
        sizes: std::collections::BTreeMap::new(),
    }
}

/// The events and conditions when the rollout is held.
fn reached(
    inventory: &Inventory<'_>,
    status: &mut OrderedDeploymentStatus,
    hold: &Hold,
    events: &mut Vec<Event>,
) {
    let name = inventory.name();
    conditions::hold(status, hold, name, inventory.snapshot.now);
    let message = conditions::hold_message(hold, name);
    let until =
        hold.until.as_ref().map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", at.0));
    remember(status, Action::Held, Some(&hold.id), hold.revision, inventory.snapshot.now, &until);
    events.push(events::normal(reason::PAUSE_POINT_REACHED, message));
    let (left, desired) = (inventory.old_count(), inventory.bounds.desired);
    if inventory.recreate() && left < desired {
        let message = format!(
            "The hold leaves {left} of {desired} pods: under Recreate deleted pods come back only after the \
             last old one is gone"
        );
        events.push(events::warning(reason::HOLD_BELOW_REPLICAS, message));
    }
}

fn resume(state: &State<'_, '_>, requested: &str) -> Decision {
    let inventory = state.inventory;
    let mut status = inventory.status.clone();
    status.resume_requested = None;
    if inventory.aborts() {
        return dropped(status, requested, "the rollout is aborted");
    }
    let all = format!("{ALL_POINTS}@{}", inventory.rollout_revision());
    if requested == all && (inventory.is_rollout() || status.hold.is_some()) {
        pass(&mut status, ALL_POINTS, "", PassedBy::Resume, inventory.snapshot.now);
        if let Some(rollout) = &mut status.rollout {
            rollout.points = Some(Vec::new());
        }
        return ended(inventory, status, "by request, with all further points of this rollout");
    }
    let why = match &inventory.status.hold {
        Some(hold) if hold.id == requested => {
            return passed(inventory, status, requested, PassedBy::Resume, "by request");
        }
        Some(hold) => format!("the hold is {}", hold.id),
        None => "the rollout is not held".to_owned(),
    };
    if stands_at(state, requested) {
        return passed(inventory, status, requested, PassedBy::Resume, "by request, while it stood there");
    }
    dropped(status, requested, &why)
}

/// Whether the condition says that the rollout is blocked or waits at that point, which is still ahead.
fn stands_at(state: &State<'_, '_>, requested: &str) -> bool {
    let status = state.inventory.status;
    let stands = [reason::BLOCKED, reason::WAITS_AT_PAUSE_POINT];
    let stalled = status.condition(condition::STALLED).filter(|found| found.status == ConditionStatus::True);
    stalled.is_some_and(|found| stands.contains(&found.reason.as_str()))
        && status.blocked.as_ref().is_some_and(|blocked| blocked.id == requested)
        && state.points.get(requested).is_some_and(|point| !matches!(point.kind, Kind::Paused))
}

fn dropped(status: OrderedDeploymentStatus, requested: &str, why: &str) -> Decision {
    let shown: String = requested.chars().take(100).collect();
    let message = format!("Dropped the request to resume {shown:?}: {why}");
    Decision::Record(Record { status, events: vec![events::warning(reason::RESUME_IGNORED, message)] })
}

/// The point of that id is passed.
fn passed(
    inventory: &Inventory<'_>,
    mut status: OrderedDeploymentStatus,
    id: &str,
    by: PassedBy,
    why: &str,
) -> Decision {
    let uid = uid_of_mark(inventory, id);
    pass(&mut status, id, &uid, by, inventory.snapshot.now);
    if status.hold.as_ref().is_some_and(|hold| hold.id != id) {
        return Decision::Record(Record { status, events: Vec::new() });
    }
    let id = id.to_owned();
    end(inventory, status, Some(&id), why)
}

/// The UID of the pod with that mark; empty for a declared point. `?` if the pod is gone.
pub(crate) fn uid_of_mark(inventory: &Inventory<'_>, id: &str) -> String {
    let mut stored = inventory.status.points();
    let is_mark = stored.any(|point| point.id == id && point.side.is_some());
    let name = Id::parse(id).map(|id| id.name).filter(|_| is_mark);
    let Some(name) = name else { return String::new() };
    let pod = inventory.snapshot.pods.iter().find(|pod| pod.name == name);
    pod.map_or_else(|| "?".to_owned(), |pod| pod.facts.uid.to_string())
}

/// The hold ends.
fn ended(inventory: &Inventory<'_>, status: OrderedDeploymentStatus, why: &str) -> Decision {
    let id = status.hold.as_ref().map(|hold| hold.id.clone());
    end(inventory, status, id.as_deref(), why)
}

/// The rollout goes on, and the clock of the progress deadline restarts.
fn end(
    inventory: &Inventory<'_>,
    mut status: OrderedDeploymentStatus,
    id: Option<&str>,
    why: &str,
) -> Decision {
    let now = inventory.snapshot.now;
    (status.hold, status.blocked) = (None, None);
    remember(&mut status, Action::Resumed, id, inventory.rollout_revision(), now, why);
    conditions::not_held(&mut status, now);
    let message = match id {
        Some(id) => format!("Resumed {id} ({why})"),
        None => format!("Resumed ({why})"),
    };
    Decision::Record(Record { status, events: vec![events::normal(reason::PAUSE_POINT_RESUMED, message)] })
}

fn keep_or_end(state: &State<'_, '_>, hold: &Hold) -> Option<Decision> {
    let inventory = state.inventory;
    let status = || inventory.status.clone();
    let live = |decision: Decision| {
        if inventory.snapshot.live { Some(decision) } else { Some(Decision::Read(Read::Live)) }
    };
    let Some(point) = state.points.get(&hold.id) else {
        let why = if state.points.is_empty() && inventory.old_count() == 0 {
            "no old pod is left"
        } else {
            "its pause point was removed"
        };
        return Some(ended(inventory, status(), why));
    };
    let stands = inventory.bounds.desired == 0 || state.points.waits_at(inventory).is_some();
    if let Some(changed) = with_time(inventory, hold, point, stands) {
        return Some(changed);
    }
    let is_over = hold.until.as_ref().is_some_and(|until| until.0 <= inventory.snapshot.now);
    if is_over && !stands {
        return live(passed(inventory, status(), &hold.id, PassedBy::Duration, "its time is over"));
    }
    None
}

/// The hold with the time of its point, which stands still without replicas, and while the rollout waits.
pub(crate) fn with_time(
    inventory: &Inventory<'_>,
    hold: &Hold,
    point: &Ahead<'_>,
    stands: bool,
) -> Option<Decision> {
    let now = seconds(inventory.snapshot.now);
    let add = |time: Timestamp, wait: i64| time.checked_add(SignedDuration::from_secs(wait)).ok();
    let mut changed = hold.clone();
    match (stands, hold.elapsed) {
        (true, None) => {
            let elapsed = now.duration_since(hold.since.0).as_secs().max(0);
            (changed.elapsed, changed.until) = (Some(elapsed), None);
        }
        (true, Some(_)) => {}
        (false, elapsed) => {
            // As if it had begun later.
            let since = elapsed.map(|elapsed| add(now, -elapsed.clamp(0, MOST_SECONDS)));
            let since = since.map_or(Some(hold.since.0), |since| since)?;
            (changed.elapsed, changed.since) = (None, since.into());
            changed.until = point.seconds.and_then(|wait| add(since, wait)).map(Into::into);
        }
    }
    if changed == *hold {
        return None;
    }
    let mut status = inventory.status.clone();
    let name = inventory.name();
    conditions::hold(&mut status, &changed, name, inventory.snapshot.now);
    status.hold = Some(changed);
    Some(Decision::Record(Record { status, events: Vec::new() }))
}
