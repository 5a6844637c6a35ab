//! Pods to create and delete in a rollout. `scaling` handles its scaling, `hold` its holds.
//!
//! One decision covers the active pods of all revisions. It writes nothing and ignores pods beyond the
//! barrier.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{Blocked, UnavailablePods, names::reason};

use crate::conditions::seconds;
use crate::inventory::{Inventory, RankedPod};
use crate::phase::{Phase, State};
use crate::pod_changes::{
    Budget, NO_CREATES, PodChanges, are_creates_refused, create, create_failed, groups, old_terminating,
    reliable,
};
use crate::points::Ahead;
use crate::{Decision, DryRun, FailureKind, Purpose, Read, hold, scaling};

/// How long a rollout is blocked at a pause point before `Stalled` says so.
const BLOCKED_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// The most pods that a message names.
const NAMED: usize = 5;

/// A rollout: what a smaller D takes is first, then a hold, then missing pods and the rollout's deletions.
pub(crate) fn roll(state: &State<'_, '_>) -> Result<PodChanges, Box<Decision>> {
    let inventory = state.inventory;
    let (scaled, scaling) = scaling::scale_down(state)?;
    if !scaled.deletes.is_empty() {
        return Ok(PodChanges { scaling: Some(scaling), ..scaled });
    }
    if let Some(hold) = hold::due(state) {
        return Err(Box::new(hold));
    }
    let mut changes = PodChanges { scaling: Some(scaling), ..PodChanges::default() };
    make_missing(state, &mut changes);
    let go = may_go(state);
    if !is_accepted(inventory) && !go.is_empty() {
        // The first updated pod verifies the template: no pod is deleted before it exists.
        let failed = create_failed(inventory);
        return if changes.creates.contains_key(&inventory.hash) && !failed {
            Ok(changes)
        } else {
            awaiting_dry_run(inventory, changes)
        };
    }
    let mut budget = Budget::of(inventory);
    // The surplus is deleted in the same round: the rollout cannot count on it.
    let surplus = scaling::surplus(inventory, &mut budget);
    let mut most = inventory.old_count() - state.points.keep;
    let mut chosen: Vec<&RankedPod<'_>> = Vec::new();
    for ranked in go.iter().filter(|ranked| !ranked.collected) {
        if most <= 0 || !budget.take(ranked) {
            break;
        }
        most -= 1;
        chosen.push(ranked);
    }
    let is_full = inventory.active() >= inventory.bounds.ceiling
        || inventory.updated_count() >= inventory.bounds.desired.min(state.points.limit)
        || no_creates(inventory, &changes);
    let is_head_kept = go.first().is_some_and(|head| head.available && budget.forbids_available());
    if chosen.is_empty() && most > 0 && is_head_kept && is_full {
        chosen = out_of_turn(state, go, most, &mut budget, &mut changes);
    }
    changes.deletes = groups(inventory, chosen, Purpose::Rollout);
    changes.deletes.extend(groups(inventory, surplus, Purpose::Scale));
    if let Some(point) = state.points.waits_at(inventory).filter(|_| !inventory.spec.paused) {
        waits(inventory, point, &mut changes);
    }
    Ok(changes)
}

/// The old pods ahead of the barrier, if the rollout may delete any.
fn may_go<'c, 'a>(state: &State<'c, 'a>) -> &'c [RankedPod<'a>] {
    let inventory = state.inventory;
    let stands =
        state.is_held || inventory.revision.needs_comparison() || inventory.old_count() <= state.points.keep;
    if stands { &[] } else { inventory.old().get(..state.points.barrier).unwrap_or_default() }
}

/// Whether the points let so few updated pods exist that old ones are created. Those beyond a number take the
/// place of old ones.
fn old_missing(state: &State<'_, '_>) -> i64 {
    let (inventory, points) = (state.inventory, &state.points);
    let beyond = (inventory.updated_count() - points.limit).max(0);
    if points.is_empty() { 0 } else { (points.keep - beyond - inventory.old_count()).max(0) }
}

fn updated_missing(state: &State<'_, '_>) -> i64 {
    let inventory = state.inventory;
    let desired = inventory.bounds.desired;
    let missing = desired.min(state.points.limit) - inventory.updated_count();
    // A revision that served replaces all missing pods, also while `spec.paused` is set.
    let lost = if inventory.returns() { desired - inventory.active() } else { 0 };
    missing.max(lost).max(0)
}

/// Whether the rollout wants more pods than there are.
pub(crate) fn is_short(state: &State<'_, '_>) -> bool {
    updated_missing(state) > 0 || old_missing(state) > 0
}

/// The missing pods: updated ones while the points allow it, else old ones.
fn make_missing(state: &State<'_, '_>, changes: &mut PodChanges) {
    let inventory = state.inventory;
    let mut room = inventory.room_below(inventory.bounds.ceiling);
    let (old_missing, new_missing) = (old_missing(state), updated_missing(state));
    let old_set = inventory.old_target().map(|set| set.hash.as_str());
    if inventory.recreate() {
        let (updated, old) = (inventory.updated_count(), inventory.old_count());
        if old == 0 && (updated > 0 || state.points.is_empty() || inventory.returns()) {
            if !old_terminating(inventory) {
                create(inventory, changes, &inventory.hash, new_missing.min(room));
            }
        } else if let Some(hash) = old_set.filter(|_| updated == 0) {
            create(inventory, changes, hash, old_missing.min(room));
        }
        return;
    }
    let mut left = old_missing;
    if let Some(hash) = old_set {
        // Where too few pods serve, old ones come first, in a hold up to as many as its points keep.
        let from = inventory.status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref());
        let before = from.map_or(0, |from| i64::from(from.replicas.max(0))).min(inventory.bounds.desired);
        let unavailable = from.map_or(0, |from| i64::from(from.max_unavailable.max(0)));
        let unavailable = unavailable.max(inventory.bounds.desired - inventory.bounds.floor);
        let lacking = before - unavailable - reliable(inventory);
        let most = if state.is_held { old_missing } else { lacking };
        let first = lacking.min(most).clamp(0, room);
        create(inventory, changes, hash, first);
        (room, left) = (room - first, left - first);
    }
    let updated = new_missing.min(room);
    create(inventory, changes, &inventory.hash, updated);
    if let Some(hash) = old_set {
        create(inventory, changes, hash, left.min(room - updated));
    }
}

/// Says that a point keeps old pods, and that there is no set to make the missing ones of.
pub(crate) fn no_earlier_revision(state: &State<'_, '_>) -> Option<(&'static str, String)> {
    let inventory = state.inventory;
    // Recreate makes no old pods beside updated ones.
    let counts =
        matches!(state.phase, Phase::Rolling) && !(inventory.recreate() && inventory.updated_count() > 0);
    if !counts
        || old_missing(state) == 0
        || inventory.old_target().is_some()
        || inventory.aborts()
        || inventory.returns()
    {
        return None;
    }
    let name = inventory.name();
    let next = if inventory.spec.paused {
        format!("Continue with kubectl ordered unpause {name}")
    } else {
        format!(
            "Once the rollout is held, pass the point with kubectl ordered resume {name}. Until then, only \
             another template helps"
        )
    };
    let message = format!(
        "Pods are missing: a pause keeps pods of an earlier revision, and no set of one that served exists. \
         {next}"
    );
    Some((reason::NO_EARLIER_REVISION, message))
}

/// With one replica and no surge, no pod of each kind can be there: the rollout waits.
fn waits(inventory: &Inventory<'_>, point: &Ahead<'_>, changes: &mut PodChanges) {
    let name = inventory.name();
    let message = format!(
        "Waits at pause point {}: with one replica and no surge, no updated pod can be beside the old one. \
         Set maxSurge or more replicas, or pass the point with kubectl ordered resume {name} {}",
        point.id, point.id
    );
    changes.stalled = Some((reason::WAITS_AT_PAUSE_POINT, message));
    changes.blocked = Some(blocked_since(inventory, &point.id));
}

/// The first pod of the order may not be deleted since too few pods are available, and no pod can be created:
/// the rollout can continue only with unavailable pods behind the first one.
fn out_of_turn<'c, 'a>(
    state: &State<'c, 'a>,
    go: &'c [RankedPod<'a>],
    most: i64,
    budget: &mut Budget,
    changes: &mut PodChanges,
) -> Vec<&'c RankedPod<'a>> {
    let inventory = state.inventory;
    let unavailable: Vec<_> = go.iter().filter(|ranked| !ranked.available && !ranked.collected).collect();
    let all_available = inventory.updated_available == inventory.updated_count();
    let behind = inventory.old().get(state.points.barrier..).unwrap_or_default();
    let mut in_the_way = behind.iter().filter(|ranked| !ranked.available).peekable();
    let at_or_behind = in_the_way.peek().is_some();
    if let Some(first) = state.points.first()
        && at_or_behind
        && unavailable.is_empty()
        && all_available
    {
        let pods: Vec<_> = in_the_way.map(|ranked| ranked.pod.name.as_str()).collect();
        blocked(inventory, first, &pods, changes);
        return Vec::new();
    }
    if !all_available && !crate::conditions::is_overdue(inventory.status) {
        // The rollout may continue once they are.
        return Vec::new();
    }
    let mode = inventory.spec.deletion_order.as_ref().map(|order| order.unavailable_pods).unwrap_or_default();
    if mode == UnavailablePods::InOrder && !inventory.aborts() {
        if !unavailable.is_empty() || at_or_behind {
            let head = go.first().map(|ranked| ranked.pod.name.as_str()).unwrap_or_default();
            changes.stalled = Some((
                reason::WAITING_IN_ORDER,
                format!(
                    "Pod {head} is next, but deleting it would leave too few available pods, and unavailable \
                     pods wait for their turn (unavailablePods: InOrder)"
                ),
            ));
        }
        return Vec::new();
    }
    let most = usize::try_from(most).unwrap_or(0);
    unavailable.into_iter().take(most).take_while(|ranked| budget.take(ranked)).collect()
}

/// The rollout cannot reach its barrier. The status says since when, and the condition after a grace time.
fn blocked(inventory: &Inventory<'_>, point: &Ahead<'_>, pods: &[&str], changes: &mut PodChanges) {
    let blocked = blocked_since(inventory, &point.id);
    let (id, since, now) = (&blocked.id, blocked.since.0, seconds(inventory.snapshot.now));
    if since.checked_add(BLOCKED_GRACE).is_ok_and(|stands| stands <= now) {
        let name = inventory.name();
        let named = pods.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match pods.len().saturating_sub(NAMED) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let message = format!(
            "Blocked at pause point {id}: deleting the next pod leaves too few available pods, and the only \
             unavailable old pods are at or behind the pause point: {named}{more}. Repair or delete these \
             pods, raise maxUnavailable, pass the point with kubectl ordered resume {name} {id}, or roll \
             back with kubectl ordered undo {name}"
        );
        changes.stalled = Some((reason::BLOCKED, message));
    }
    changes.blocked = Some(blocked);
}

/// The rollout stands at that point, since the time that is stored for it, or since now.
fn blocked_since(inventory: &Inventory<'_>, id: &str) -> Blocked {
    let now = seconds(inventory.snapshot.now);
    let known = inventory.status.blocked.as_ref();
    let known = known.filter(|blocked| blocked.id == *id && blocked.since.0 <= now);
    known.cloned().unwrap_or_else(|| Blocked { id: id.to_owned(), since: now.into() })
}

/// Whether no updated pod can be created for now: creates have been refused for some time, for instance by a
/// quota, or all wanted pods have waited that long for a backoff. That counts like a reached ceiling.
fn no_creates(inventory: &Inventory<'_>, changes: &PodChanges) -> bool {
    let waited = |since: Timestamp| inventory.snapshot.now.duration_since(since) >= NO_CREATES;
    let backed_off = !changes.creates.contains_key(&inventory.hash) && inventory.delayed_since().any(waited);
    are_creates_refused(inventory) || backed_off
}

/// When refused creates count as impossible, if that is in the future.
pub(crate) fn no_creates_at(inventory: &Inventory<'_>) -> Option<Timestamp> {
    if inventory.old_count() == 0 && !inventory.is_rollout() {
        return None;
    }
    let refused = inventory.snapshot.failure.as_ref().filter(|failure| failure.what == FailureKind::Create);
    let since = refused.map(|failure| failure.since).into_iter().chain(inventory.delayed_since());
    let times = since.filter_map(|since| since.checked_add(NO_CREATES).ok());
    times.filter(|at| *at > inventory.snapshot.now).min()
}

/// When the condition starts to say that the rollout is blocked.
pub(crate) fn blocked_stands_at(blocked: &Blocked) -> Option<Timestamp> {
    blocked.since.0.checked_add(BLOCKED_GRACE).ok()
}

/// Whether the API server is known to accept pods of the current template.
fn is_accepted(inventory: &Inventory<'_>) -> bool {
    // The pods of an abort have run before.
    inventory.has_created || inventory.aborts() || inventory.snapshot.dry_run == DryRun::Accepted
}

/// No updated pod can be created first: a dry run must verify the template before a pod is deleted for it.
fn awaiting_dry_run(inventory: &Inventory<'_>, mut changes: PodChanges) -> Result<PodChanges, Box<Decision>> {
    match &inventory.snapshot.dry_run {
        DryRun::Refused(message) => {
            changes.stalled = Some((
                reason::TEMPLATE_REFUSED,
                format!(
                    "The API server refuses pods of this template, and no pod is deleted for it: {message}"
                ),
            ));
            Ok(changes)
        }
        DryRun::NoAnswer(message) => {
            changes.awaiting_dry_run = Some(format!(
                "No pod is deleted for this template before a dry run of it is answered: {message}"
            ));
            Ok(changes)
        }
        _ => Err(Box::new(Decision::Read(Read::DryRun { hash: inventory.hash.clone() }))),
    }
}
