//! What is stored: the sizes of sets, how a hold begins, changes and ends, counts and conditions.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{ConditionStatus, Hold, OrderedDeploymentStatus, PausePoint};
use ordereddeployment_planner::{Act, Point, SetChange};

use crate::Messages;
use crate::declared;
use crate::view::{View, count, has_begun};

/// The published sizes add up to D, and between two writes to no less than before or after.
pub(crate) fn sizes(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let sets = &view.snapshot.sets;
    if sets.iter().any(|set| set.terminating) {
        return messages;
    }
    let mut sizes: BTreeMap<&str, i64> =
        sets.iter().map(|set| (&*set.uid, i64::from(set.replicas))).collect();
    let sum = |sizes: &BTreeMap<&str, i64>| sizes.values().sum::<i64>();
    let least = sum(&sizes).min(view.desired);
    for change in &act.sets {
        match change {
            SetChange::Create { replicas, .. } => {
                sizes.insert("", i64::from(*replicas));
            }
            SetChange::Update { uid, replicas: Some(replicas), .. } => {
                sizes.insert(uid, i64::from(*replicas));
            }
            SetChange::Update { .. } => {}
            SetChange::Equal { .. } => {
                if act.sets.len() > 1 || !act.creates.is_empty() || !act.deletes.is_empty() {
                    messages.push("the equal template is used before it is stored".to_owned());
                }
                return messages;
            }
            SetChange::Delete { uid } => {
                if sizes.remove(&**uid) != Some(0) {
                    messages.push(format!("set {uid} is deleted although its size is not 0"));
                }
                if view.snapshot.pods.iter().any(|pod| pod.set == *uid && !pod.finished) {
                    messages.push(format!("set {uid} is deleted although it has pods"));
                }
            }
        }
        if sum(&sizes) < least {
            messages.push("a set is made smaller before another grows".to_owned());
        }
    }
    if !sizes.is_empty() && sum(&sizes) != view.desired {
        messages.push(format!(
            "the published sizes add up to {}, not to {}: {sizes:?}",
            sum(&sizes),
            view.desired
        ));
    }
    messages
}

/// How much larger than those of the sets the number of a rollout may be.
const AHEAD: i64 = 16;

/// A set gets a revision that follows those of all sets, and no smaller one than it has. It is marked as one that served only where
/// it serves.
pub(crate) fn revisions(view: &View<'_>, act: &Act) -> Messages {
    let sets = &view.snapshot.sets;
    let newest = sets.iter().map(|set| set.revision).max().unwrap_or(0);
    let mut messages = Messages::new();
    for change in &act.sets {
        let (own, given, served) = match change {
            SetChange::Create { revision, .. } => (None, Some(*revision), None),
            SetChange::Update { uid, revision, served, .. } => {
                (sets.iter().find(|set| set.uid == *uid), *revision, *served)
            }
            SetChange::Equal { .. } | SetChange::Delete { .. } => continue,
        };
        let least = own.map_or(1, |set| set.revision.max(1));
        if given.is_some_and(|given| given < least || given > newest.saturating_add(AHEAD)) {
            messages.push(format!("a set gets the revision {given:?}, the largest is {newest}"));
        }
        let believed = sets.iter().all(|set| set.served.is_none());
        let does = own.is_some_and(|set| view.current.contains(&*set.uid))
            && view.old().next().is_none()
            && view.updated_available() >= view.floor.max(1);
        if served.is_some() && !does && !believed {
            messages.push(format!("a set is marked as one that served ({served:?}), and does not serve"));
        }
    }
    messages
}

/// Exactly one of Complete, Reconciling and Stalled is True.
pub(crate) fn one_state(_: &View<'_>, act: &Act) -> Messages {
    let holds =
        |type_: &&str| act.status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True);
    let states: Vec<_> =
        [condition::COMPLETE, condition::RECONCILING, condition::STALLED].into_iter().filter(holds).collect();
    let mut messages = Messages::new();
    if states.len() != 1 {
        messages.push(format!("of Complete, Reconciling and Stalled {states:?} are True"));
    }
    let missing = condition::ALWAYS.iter().filter(|type_| act.status.condition(type_).is_none());
    messages.extend(missing.map(|type_| format!("{type_} is missing")));
    messages
}

/// The stored `observedGeneration` is not later than the generation of the decision.
#[must_use]
pub fn generation(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
) -> Option<String> {
    let seen = view.snapshot.deployment.metadata.generation;
    let moved = before.observed_generation != after.observed_generation;
    (moved && after.observed_generation > seen).then(|| {
        format!(
            "observedGeneration {:?} is stored, the decision observed {seen:?}",
            after.observed_generation
        )
    })
}

/// The counts that an act stores are those of the observed pods.
#[must_use]
pub fn counts(view: &View<'_>, after: &OrderedDeploymentStatus) -> Option<String> {
    if !view.is_valid() {
        return None;
    }
    let counts = [
        ("replicas", after.replicas, count(view.pods.len())),
        ("updatedReplicas", after.updated_replicas, view.with_spec_template()),
        ("readyReplicas", after.ready_replicas, view.ready()),
        ("availableReplicas", after.available_replicas, view.available()),
        ("terminatingReplicas", after.terminating_replicas, view.terminating()),
    ];
    let wrong = counts.into_iter().find(|(_, stored, seen)| stored.map(i64::from) != Some(*seen));
    wrong.map(|(field, stored, seen)| format!("{field} {stored:?} is stored, the decision observed {seen}"))
}

/// Complete, Available and Held are stored as they were observed.
#[must_use]
pub fn conditions(view: &View<'_>, after: &OrderedDeploymentStatus) -> Option<String> {
    let mut annotations = view.snapshot.deployment.metadata.annotations.iter().flatten();
    if !view.is_valid() || annotations.any(|(key, _)| key == annotation::HANDING_BACK) {
        return None;
    }
    let done = !view.is_uncompared()
        && !view.aborts
        && !view.lacks_old()
        && view.old().next().is_none()
        && !view.keeps_old()
        && after.hold.is_none()
        && view.updated() == view.desired
        && view.updated_available() == view.desired;
    let floor = if view.recreates() { view.desired } else { view.floor };
    let held = after.hold.as_ref().is_some_and(|hold| !has_begun(hold));
    let all = [
        (condition::COMPLETE, done),
        (condition::AVAILABLE, view.available() >= floor),
        (condition::HELD, held),
    ];
    let stored = |type_: &str| Some(after.condition(type_)?.status == ConditionStatus::True);
    let wrong = all.into_iter().find(|(type_, is)| stored(type_) != Some(*is));
    wrong.map(|(type_, is)| format!("{type_} is stored as {:?}, the decision observed {is}", stored(type_)))
}

/// A hold begins at the barrier, one at a time, and ends only as the contract says. A new rollout begins with a clear status.
#[must_use]
pub fn transitions(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
) -> Option<String> {
    let revision =
        |status: &OrderedDeploymentStatus| status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    let is_renamed = before.collision_count != after.collision_count;
    // Another set of the same template may have become the oldest: that is another rollout of the same revision.
    if revision(after) != revision(before) || (!is_renamed && template_hash(after) != template_hash(before)) {
        let cleared = (&after.hold, &after.passed, &after.resume_requested) == (&None, &None, &None)
            && (&after.passed_points, &after.aborted, after.abort_requested, after.retry_requested)
                == (&None, &None, None, None);
        let is_retry = before.aborted.is_some() && before.retry_requested == Some(revision(before));
        return (!cleared || (template_hash(before) == template_hash(after) && !is_retry))
            .then(|| "a new rollout does not begin with a clear status".to_owned());
    }
    if is_renamed {
        let same = (&before.hold, &before.passed, &before.passed_points, &before.aborted)
            == (&after.hold, &after.passed, &after.passed_points, &after.aborted);
        return (!same).then(|| "a new name of the set changes the hold or the passed points".to_owned());
    }
    if before.aborted != after.aborted {
        return declared::abort(view, before, after);
    }
    let requested = before.resume_requested.as_deref();
    let named = before.hold.as_ref().is_some_and(|hold| Some(hold.id.as_str()) == requested);
    let all = requested.is_some_and(|requested| requested == format!("*@{}", revision(before)));
    let answered = named || all;
    // Until it is stored whether the template is new, it is unknown which rollout is to be resumed.
    let may_be_answered = view.is_valid() && !view.is_uncompared();
    // Requests to abort and to retry are answered first.
    let is_first = before.abort_requested.is_none() && before.retry_requested.is_none();
    if requested.is_some() && after.resume_requested.is_some() && may_be_answered && is_first {
        return Some("a request to resume is not answered in one write".to_owned());
    }
    let is_answered = after.abort_requested.is_none() && after.retry_requested.is_none();
    if !is_first && !is_answered && may_be_answered {
        return Some("a request to abort or to retry is not answered in one write".to_owned());
    }
    let blocked = blocked_pod(view, before, requested);
    let expired = before.hold.as_ref().filter(|hold| may_end(view, hold));
    let ended = [expired.map(|hold| hold.pod_uid.as_str()), blocked.as_deref()];
    let declared =
        blocked.is_some().then(|| view.declared_barrier().filter(|_| view.is_declared())).flatten();
    let is_ended = named || expired.is_some();
    passed(before, after, named, all, ended)
        .or_else(|| declared::passed_points(view, before, after, is_ended, declared.as_ref()))
        .or_else(|| held(view, before, after, answered))
}

fn template_hash(status: &OrderedDeploymentStatus) -> Option<&str> {
    status.rollout.as_ref().map(|rollout| rollout.template_hash.as_str())
}

/// How long a rollout is blocked before Stalled says so.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The pod of the point at which Stalled reports the rollout to be blocked, where the request names it.
fn blocked_pod(view: &View<'_>, before: &OrderedDeploymentStatus, requested: Option<&str>) -> Option<String> {
    let stalled = before.condition(condition::STALLED)?;
    let stands = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    before.blocked.as_ref().filter(|blocked| stands && Some(blocked.id.as_str()) == requested)?;
    let (at, ..) = view.barrier()?;
    view.old().nth(at).map(|active| active.pod.facts.uid.to_string())
}

/// `status.blocked` names the barrier, only while the rollout is blocked; Stalled reports it after a minute.
pub(crate) fn blocked(view: &View<'_>, act: &Act) -> Messages {
    let stalled = act.status.condition(condition::STALLED);
    let is_reported = stalled.is_some_and(|found| found.reason == reason::BLOCKED);
    let Some(blocked) = &act.status.blocked else {
        return if is_reported {
            vec!["Stalled reports Blocked, and status.blocked is not set".to_owned()]
        } else {
            Messages::new()
        };
    };
    let old: Vec<_> = view.old().collect();
    let at = view.barrier().map(|(at, ..)| at).filter(|at| *at < old.len());
    let Some(at) = at else { return vec!["status.blocked is set, and there is no barrier".to_owned()] };
    let mut messages = Messages::new();
    let declared = view.declared_barrier().filter(|_| view.is_declared());
    let point = declared.map_or_else(|| old[at].pod.name.clone(), |declared| declared.label());
    if !blocked.id.starts_with(&point) {
        messages.push(format!("status.blocked names {}, the barrier is {point}", blocked.id));
    }
    let forbidden = old[0].available && view.available() - 1 < view.floor;
    if !(forbidden && view.all_updated_available() && old[at..].iter().any(|active| !active.available)) {
        messages.push("status.blocked is set although the rollout can go on".to_owned());
    }
    let since = blocked.since.0;
    if is_reported != (view.snapshot.now.duration_since(since) >= GRACE) || since > view.snapshot.now {
        messages
            .push(format!("Stalled reports Blocked: {is_reported}; the rollout is blocked since {since}"));
    }
    messages
}

/// Points are passed by a request that names the hold, the point at which the rollout is blocked or all points of the revision, or
/// when their duration ends.
fn passed(
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
    named: bool,
    all: bool,
    ended: [Option<&str>; 2],
) -> Option<String> {
    let held = before.hold.as_ref().map(|hold| hold.pod_uid.as_str());
    let mut new = after
        .passed
        .iter()
        .flatten()
        .filter(|passed| !before.passed.iter().flatten().any(|earlier| earlier == *passed));
    let wrong = new.find(|passed| {
        let uid = passed.pod_uid.as_str();
        let by_request = named && held == Some(uid) || all && uid == "*";
        !by_request && !ended.contains(&Some(uid))
    });
    wrong.map(|passed| format!("{} is passed without a request", passed.pod_uid))
}

fn held(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
    answered: bool,
) -> Option<String> {
    match (&before.hold, &after.hold) {
        (Some(hold), None) => (!answered && !may_end(view, hold))
            .then(|| format!("the hold {} ended without a reason", hold.id)),
        (Some(hold), Some(next)) => {
            let again = (hold.point, &hold.id) != (next.point, &next.id);
            if has_begun(hold) && next.deleted != Some(true) && again {
                // Its pod still exists, and another point, or its other side, is reached first.
                return begins(view, next);
            }
            if hold.until.is_some() && next.until.is_none() && hold.id != next.id {
                // Scaling is about to delete the last point that waits for a user.
                return begins(view, next).or_else(|| keeps_surge(view, next));
            }
            if (&hold.id, &hold.pod_uid) != (&next.id, &next.pod_uid) {
                return Some(format!("the hold {} became {}", hold.id, next.id));
            }
            let there = view.pods.iter().any(|active| active.is(&hold.pod_uid));
            if next.deleted == Some(true) && hold.deleted != Some(true) && there {
                return Some(format!("{} is stored as deleted, and exists", hold.pod));
            }
            // A hold that loses its duration deletes its surge pods.
            let untimed = hold.until.is_some() && next.until.is_none();
            if !has_begun(hold) && !untimed && hold.sizes != next.sizes {
                return Some("the stored sizes changed".to_owned());
            }
            (has_begun(hold) || untimed).then(|| keeps_surge(view, next)).flatten()
        }
        (None, Some(hold)) => begins(view, hold).or_else(|| keeps_surge(view, hold)),
        (None, None) => None,
    }
}

/// Whether a hold may end without a request.
fn may_end(view: &View<'_>, hold: &Hold) -> bool {
    let snapshot = view.snapshot;
    let over = !has_begun(hold) && hold.until.as_ref().is_some_and(|until| until.0 <= snapshot.now);
    if let Some(held) = &hold.declared {
        let mut points = snapshot.deployment.spec.strategy.pause_points.iter().flatten();
        if points.all(|point| point.name != held.name) {
            return true;
        }
    }
    let pod = view.pods.iter().find(|active| active.is(&hold.pod_uid));
    let unmarked = hold.declared.is_none() && pod.is_some_and(|active| active.pod.point == Point::None);
    let none_left = view.desired > 0 && view.old().next().is_none();
    snapshot.live && (over || unmarked) || none_left
}

/// The numbers of replicas that the rollout, the hold and the pause stored.
fn replicas_stored(view: &View<'_>) -> impl Iterator<Item = i64> {
    let stored = [
        view.status.rollout.as_ref().map(|rollout| rollout.replicas),
        view.held().map(|hold| hold.replicas),
        view.status.pause.as_ref().map(|pause| pause.replicas),
        view.stored_sizes().map(|(_, replicas)| replicas),
    ];
    stored.into_iter().flatten().map(i64::from)
}

fn begins(view: &View<'_>, hold: &Hold) -> Option<String> {
    let wrong = |words: &str| Some(format!("the hold {} began {words}", hold.id));
    let old: Vec<_> = view.old().collect();
    let rollout = view.status.rollout.as_ref();
    let scaled = replicas_stored(view).any(|replicas| replicas != view.desired)
        || rollout.is_some_and(|rollout| rollout.scaled_from.is_some())
        || view.stored_sizes().is_some_and(|(sizes, _)| old_size(view, sizes) < count(old.len()));
    let of_pod = hold.declared.is_none();
    if of_pod && hold.point == PausePoint::Before && (scaled || view.desired == 0) {
        // Scaling is about to delete the last point that holds the rollout, or the last pod behind it. So are the old pods
        // that replaced updated ones while `spec.paused` allowed no new revision, or that were created for a larger D.
        let is_point = old.iter().any(|active| active.is(&hold.pod_uid) && view.has_pause_point(active));
        return if is_point { None } else { wrong("at no pause point") };
    }
    if view.held().is_some() {
        return wrong("in another hold");
    }
    let Some((at, side, _)) = view.barrier() else { return wrong("where there is no barrier") };
    if !old.get(at).is_some_and(|active| active.is(&hold.pod_uid)) {
        return wrong("not at the barrier");
    }
    if hold.point != side {
        return wrong("on the wrong side of its pod");
    }
    if at > 0 {
        return wrong("while pods are ahead of it");
    }
    let declared = view.declared_barrier().filter(|_| view.is_declared());
    match (&declared, &hold.declared) {
        (Some(barrier), Some(point)) if barrier.is(point) => {
            if barrier.updated.is_some_and(|updated| view.updated_available() < updated) {
                return wrong("before the updated pods are available");
            }
        }
        (None, None) => {}
        _ => return wrong("at another point than the barrier"),
    }
    let is_deleted = hold.point == PausePoint::After && hold.deleted != Some(false);
    if is_deleted { wrong("with its pod deleted") } else { None }
}

/// A hold without a duration keeps no surge: its sizes add up to the replicas, or to the number of old pods if that is larger.
fn keeps_surge(view: &View<'_>, hold: &Hold) -> Option<String> {
    if hold.until.is_some() || has_begun(hold) || view.recreates() {
        return None;
    }
    let sum: i64 = hold.sizes.values().map(|size| i64::from(*size)).sum();
    let replicas = replicas_stored(view).max().unwrap_or(view.desired);
    (sum > old_size(view, &hold.sizes).max(replicas))
        .then(|| format!("the hold {} stores surge: {:?} for {replicas}", hold.id, hold.sizes))
}

/// The sum of these sizes over the old sets.
fn old_size(view: &View<'_>, sizes: &BTreeMap<String, i32>) -> i64 {
    let rollout = view.status.rollout.as_ref();
    let is_current = |hash: &str| match view.snapshot.sets.iter().find(|set| set.hash == hash) {
        Some(set) => view.current.contains(&*set.uid),
        None => rollout.is_some_and(|rollout| rollout.template_hash == hash),
    };
    let old = sizes.iter().filter(|(hash, _)| !is_current(hash)).map(|(_, size)| i64::from(*size));
    old.sum()
}
