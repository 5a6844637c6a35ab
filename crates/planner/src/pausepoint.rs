//! Pause points: where the barrier stands, and what makes, keeps and ends a hold.
//!
//! Everything here ends in a status to store. It never deletes or creates.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{
    ConditionStatus, Hold, OrderedDeploymentStatus, Passed, Pause, PausePoint,
    names::{ALL_POINTS, condition, reason},
};

use crate::census::{Bounds, Census, Member};
use crate::conditions::seconds;
use crate::sizes::{self, Sizes, Stored};
use crate::{Decision, Event, Malformed, Point, Read, Record, conditions, events};

/// The first pause point of the order that was not passed.
#[derive(Debug)]
pub(crate) struct Barrier<'c, 'a> {
    pub(crate) member: &'c Member<'a>,
    pub(crate) side: PausePoint,
}

/// The old pods as the barrier divides them.
#[derive(Debug)]
pub(crate) struct Divided<'c, 'a> {
    /// Those that may go, in order. With a point `after`, its pod is the last of them.
    pub(crate) ahead: Vec<&'c Member<'a>>,
    /// Those at or behind the barrier (`after`: behind it).
    pub(crate) behind: Vec<&'c Member<'a>>,
    pub(crate) barrier: Option<Barrier<'c, 'a>>,
}

/// Divides the old pods by the barrier.
pub(crate) fn divide<'c, 'a>(census: &'c Census<'a>) -> Divided<'c, 'a> {
    let old: Vec<_> = census.old().collect();
    let Ok(position) = barrier_of(census, &old) else {
        return Divided { ahead: Vec::new(), behind: old, barrier: None };
    };
    let Some((at, side)) = position else {
        return Divided { ahead: old, behind: Vec::new(), barrier: None };
    };
    let member = old[at];
    let split = if side == PausePoint::After { at + 1 } else { at };
    let behind = old[split..].to_vec();
    let mut ahead = old;
    ahead.truncate(split);
    Divided { ahead, behind, barrier: Some(Barrier { member, side }) }
}

/// The pod of a hold that was stored before its DELETE is not among those given. Until that is told, nothing lies ahead.
pub(crate) struct HeldPodIsGone;

/// The place of the barrier among these pods, given in order, if there is one.
///
/// A pod whose hold was stored ahead of its DELETE is a barrier even if its value became malformed or nothing is behind it any
/// more. As long as it is there it is one among others, though: a point that came to stand ahead of it is reached first.
pub(crate) fn barrier_of(
    census: &Census<'_>,
    members: &[&Member<'_>],
) -> Result<Option<(usize, PausePoint)>, HeldPodIsGone> {
    let begun = census.status.hold.as_ref().filter(|hold| is_begun_after(hold));
    if begun.is_some_and(|hold| members.iter().all(|member| **member.uid() != *hold.pod_uid)) {
        return Err(HeldPodIsGone);
    }
    let mut all = members.iter().enumerate();
    Ok(all.find_map(|(at, member)| {
        let side = point(member, census);
        if begun_at(census, member).is_some() {
            return Some((at, side.unwrap_or(PausePoint::After)));
        }
        // With nothing behind it, a point `after` holds nothing.
        side.filter(|side| *side == PausePoint::Before || at + 1 < members.len()).map(|side| (at, side))
    }))
}

/// The hold that was stored ahead of the DELETE of this pod.
pub(crate) fn begun_at<'c>(census: &'c Census<'_>, member: &Member<'_>) -> Option<&'c Hold> {
    census.status.hold.as_ref().filter(|hold| is_begun_after(hold) && **member.uid() == *hold.pod_uid)
}

/// The pause point of the pod, unless the rollout has passed it.
pub(crate) fn point(member: &Member<'_>, census: &Census<'_>) -> Option<PausePoint> {
    let Point::At { side, .. } = &member.pod.point else { return None };
    (!census.has_passed(member.uid())).then_some(*side)
}

/// Whether the hold was stored ahead of the DELETE of its pod, which is still there as far as known.
pub(crate) fn is_begun_after(hold: &Hold) -> bool {
    hold.point == PausePoint::After && hold.deleted == Some(false)
}

/// The hold that keeps the sets at their sizes now, if there is one.
pub(crate) fn held(status: &OrderedDeploymentStatus) -> Option<&Hold> {
    status.hold.as_ref().filter(|hold| !is_begun_after(hold))
}

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

/// What a resume names to pass the barrier.
pub(crate) fn id(census: &Census<'_>, barrier: &Barrier<'_, '_>) -> String {
    Hold::id(&barrier.member.pod.name, revision(census))
}

fn revision(census: &Census<'_>) -> i64 {
    census.status.rollout.as_ref().map_or(0, |rollout| rollout.revision)
}

/// The sizes that a hold stores, and the number of replicas that they speak of. Where a hold or a pause stands already, they are
/// those that it stored. A hold without a duration keeps no surge, but under Recreate, which has none.
fn sizes_to_keep(
    census: &Census<'_>,
    leaving: Option<&Member<'_>>,
    timed: bool,
) -> (BTreeMap<String, i32>, i32) {
    let stored = stored(census);
    let (mut sizes, replicas) = match stored {
        Some((sizes, replicas)) => (sizes.clone(), replicas),
        None => (narrow(&sizes_now(census, leaving)), scaled_for(census)),
    };
    if !timed && !census.recreate() {
        sizes = without_surge(sizes, &census.hash, replicas);
    }
    let replicas = if stored.is_some() { replicas } else { measure(census, &sizes) };
    (sizes, replicas)
}

/// These sizes without updated pods beyond what the old ones leave of the replicas.
fn without_surge(mut sizes: BTreeMap<String, i32>, current: &str, replicas: i32) -> BTreeMap<String, i32> {
    let old = sizes.iter().filter(|(hash, _)| *hash != current);
    let old = old.fold(0, |sum: i32, (_, size)| sum.saturating_add(*size));
    if let Some(size) = sizes.get_mut(current) {
        *size = (*size).min(replicas.saturating_sub(old).max(0));
    }
    sizes
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

/// The number of replicas that the sets were last scaled for: what their sizes now are measured by.
fn scaled_for(census: &Census<'_>) -> i32 {
    census.status.rollout.as_ref().map_or(census.spec.replicas, |rollout| rollout.replicas)
}

/// The number of replicas that these sizes speak of. Where they are more than belongs to those that the sets were last scaled
/// for (scaling goes on, or Recreate, which does not scale a running rollout), it is as many as there are.
fn measure(census: &Census<'_>, sizes: &BTreeMap<String, i32>) -> i32 {
    let mut before = census.spec.clone();
    before.replicas = scaled_for(census);
    let total = sizes.values().fold(0, |sum: i32, size| sum.saturating_add(*size));
    if i64::from(total) > Bounds::of(&before).ceiling { total } else { before.replicas }
}

/// The sizes that the sets have now, as a hold or a pause keeps them: the old ones what is there, without `leaving`; what is
/// missing belongs to the current set, or where that one is not there to the largest old one.
pub(crate) fn sizes_now(census: &Census<'_>, leaving: Option<&Member<'_>>) -> Sizes {
    let rollout = census.status.rollout.as_ref().filter(|_| !census.recreate() && census.old_count() > 0);
    // Where scaling was interrupted, the sizes are those that it began from.
    let scaled_from = rollout.and_then(|rollout| rollout.scaled_from.as_ref());
    let mut sizes = scaled_from.map_or_else(|| census.by_set(), sizes::widen);
    if let Some(size) = leaving.and_then(|member| sizes.get_mut(member.hash)) {
        *size -= 1;
    }
    if census.recreate() && census.old_count() > 0 {
        return sizes;
    }
    let total: i64 = sizes.values().sum();
    let missing = (i64::from(scaled_for(census)) - total).max(0);
    *sizes.entry(fallback(census)).or_default() += missing;
    sizes
}

/// The set that gets what no other rule assigns: the current one; where it is not there, the largest old one.
pub(crate) fn fallback(census: &Census<'_>) -> String {
    if census.current.is_some() || !census.spec.paused {
        return census.hash.clone();
    }
    let sizes = census.by_set();
    let newest = census.usable_sets().max_by_key(|set| (sizes.get(&set.hash).copied(), set.revision));
    newest.map_or_else(|| census.hash.clone(), |set| set.hash.clone())
}

/// What a hold or a pause stored: the sizes, and the number of replicas they speak of; `None`: the rollout runs.
fn stored<'c>(census: &'c Census<'_>) -> Option<(&'c BTreeMap<String, i32>, i32)> {
    match (held(&census.status), &census.status.pause) {
        (Some(hold), _) => Some((&hold.sizes, hold.replicas)),
        (None, Some(pause)) if census.spec.paused => Some((&pause.sizes, pause.replicas)),
        _ => None,
    }
}

/// Whether a hold or a pause stored pods of an old set, which come back with D.
pub(crate) fn keeps_old(census: &Census<'_>) -> bool {
    let share =
        |hash: &str| stored(census).and_then(|(sizes, _)| sizes.get(hash)).is_some_and(|size| *size > 0);
    census.old_sets().any(|set| !set.terminating && share(&set.hash))
}

/// The sizes that a hold or a pause keeps now; `None`: the rollout runs.
pub(crate) fn kept_sizes(census: &Census<'_>) -> Option<Sizes> {
    let mut sizes = sizes_for(census, &census.hash)?;
    // Surplus updated pods go, held or not.
    if let Some(size) = sizes.get_mut(&census.hash) {
        *size = (*size).min(census.bounds.desired);
    }
    Some(sizes)
}

/// A new template while `spec.paused` is set: the pause goes on over the sets as they were kept. Which pods are old is told
/// anew, and must not move any: where D changed since, the sizes are stored as they are now.
pub(crate) fn pause_of_the_rollout_before(census: &Census<'_>) -> Option<Pause> {
    let (sizes, replicas) = stored(census)?;
    let desired = census.spec.replicas;
    let before = census.status.rollout.as_ref().filter(|_| desired > 0 && desired != replicas);
    let now = before.and_then(|before| sizes_for(census, &before.template_hash));
    Some(match now {
        Some(now) => Pause { replicas: desired, sizes: narrow(&now) },
        None => Pause { replicas, sizes: sizes.clone() },
    })
}

/// The sizes stored, for D as it is now, where all sets but `current` are old.
fn sizes_for(census: &Census<'_>, current: &str) -> Option<Sizes> {
    let (sizes, replicas) = stored(census)?;
    let hold = held(&census.status);
    let mut usable: Vec<&str> = census.usable_sets().map(|set| set.hash.as_str()).collect();
    if !census.spec.paused {
        // The current set is made where it is missing.
        usable.push(&census.hash);
    }
    let fallback = if current != census.hash && usable.contains(&current) {
        current.to_owned()
    } else {
        fallback(census)
    };
    let held_set = hold.and_then(|hold| {
        let pod = census.members.iter().find(|member| **member.uid() == *hold.pod_uid);
        pod.map(|member| member.hash)
    });
    // An old set that has more pods than were stored for it got them while `spec.paused` left no other one to fill: that
    // the pause is over moves none of them.
    let present = census.by_set();
    let beyond = |hash: &str| {
        present.get(hash).copied().unwrap_or(0) - i64::from(sizes.get(hash).copied().unwrap_or(0))
    };
    let old = usable.iter().copied().filter(|hash| *hash != current && beyond(hash) > 0);
    let heir = old.max_by_key(|hash| beyond(hash));
    let stored = Stored { sizes, replicas, usable, fallback: &fallback, heir, current, held: held_set };
    Some(stored.for_replicas(census.bounds.desired, &census.spec.strategy))
}

/// What changes a hold or a pause before anything else may be done: a resume, the end of a timed pause, an annotation taken away,
/// `spec.paused`.
pub(crate) fn transition(census: &Census<'_>) -> Option<Decision> {
    if let Some(requested) = census.status.resume_requested.as_deref() {
        return Some(resume(census, requested));
    }
    if let Some(hold) = &census.status.hold {
        return keep_or_end(census, hold).or_else(|| pause(census));
    }
    pause(census)
}

fn resume(census: &Census<'_>, requested: &str) -> Decision {
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
            if let Some(passed) = pass_blocked(census, &status, requested) {
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
fn pass_blocked(census: &Census<'_>, status: &OrderedDeploymentStatus, requested: &str) -> Option<Decision> {
    let stalled = census.status.condition(condition::STALLED)?;
    let stands = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    census.status.blocked.as_ref().filter(|blocked| stands && blocked.id == requested)?;
    let barrier = divide(census).barrier.filter(|barrier| id(census, barrier) == requested)?;
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

fn keep_or_end(census: &Census<'_>, hold: &Hold) -> Option<Decision> {
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
    let sizes = kept_sizes(census).unwrap_or_default();
    let keeps_old = sizes.iter().any(|(hash, size)| *hash != census.hash && *size > 0);
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

pub(crate) fn narrow(sizes: &Sizes) -> BTreeMap<String, i32> {
    sizes
        .iter()
        .map(|(hash, size)| (hash.clone(), i32::try_from((*size).max(0)).unwrap_or(i32::MAX)))
        .collect()
}
