//! Pods to create and delete in a running rollout. `scaling` handles scaling, holds and pauses.
//!
//! One decision covers the active pods of all revisions. It writes nothing and ignores pods beyond the barrier.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{Blocked, PausePoint, UnavailablePods, names::reason};

use crate::barrier::{self, Barrier, Divided};
use crate::conditions::seconds;
use crate::declared;
use crate::hold;
use crate::inventory::{Inventory, RankedPod, count};
use crate::kept;
use crate::phase::State;
use crate::pod_changes::{Budget, PodChanges, create, create_failed, groups, reliable};
use crate::scaling::{self, surplus};
use crate::{Decision, DryRun, FailureKind, Purpose, Read};

/// How long a rollout is blocked at a pause point before `Stalled` says so: a pod that is
/// unready for a moment needs no attention.
const BLOCKED_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// How long creates must be refused, or wait for a backoff, before a rollout no longer counts on them.
const NO_CREATES: SignedDuration = SignedDuration::from_secs(10);

/// The most pods that a message names.
const NAMED: usize = 5;

/// Recreate: all old pods are deleted in order, then the new ones are created.
pub(crate) fn recreate(state: &State<'_, '_>) -> Result<PodChanges, Box<Decision>> {
    let (inventory, divided) = (state.inventory, &state.divided);
    let go = pods_ahead(inventory, divided)?;
    if go.is_empty() {
        return Ok(PodChanges::default());
    }
    if !is_accepted(inventory) {
        return awaiting_dry_run(inventory, PodChanges::default());
    }
    let surplus = surplus(inventory);
    let mut deletes = groups(inventory, go, Purpose::Rollout);
    deletes.extend(groups(inventory, surplus, Purpose::Scale));
    Ok(PodChanges { deletes, ..PodChanges::default() })
}

/// The pods ahead of the barrier, which may be deleted now; a hold if there are none.
fn pods_ahead<'c, 'a>(
    inventory: &Inventory<'_>,
    divided: &Divided<'c, 'a>,
) -> Result<&'c [RankedPod<'a>], Box<Decision>> {
    if inventory.revision.needs_comparison() {
        // No pod is deleted and no hold begins for a rollout that the spec may not ask for.
        return Ok(&[]);
    }
    let Some(barrier) = &divided.barrier else { return Ok(divided.ahead) };
    let begun = barrier::begun_at(inventory, barrier.ranked).is_some();
    if barrier.declared.is_some_and(|declared| divided.ahead.is_empty() && !declared.is_reached(inventory)) {
        // The updated pods that it counts are not available yet.
        return Ok(&[]);
    }
    match (barrier.side, divided.ahead.len()) {
        (PausePoint::Before, 0) => Err(Box::new(hold::hold_at(inventory, barrier))),
        // Its pod is next: the hold is stored before its DELETE.
        (PausePoint::After, 1) if !begun => Err(Box::new(hold::hold_at(inventory, barrier))),
        (PausePoint::After, length) if !begun => Ok(&divided.ahead[..length - 1]),
        _ => Ok(divided.ahead),
    }
}

/// A rolling update.
pub(crate) fn rolling_update(state: &State<'_, '_>) -> Result<PodChanges, Box<Decision>> {
    let (inventory, divided) = (state.inventory, &state.divided);
    if let Some(scaled) = scaling::scale(state)? {
        return Ok(scaled);
    }
    let wanted = wanted(inventory, divided);
    let mut changes = PodChanges::default();
    let mut room = inventory.room_below(inventory.bounds.ceiling);

    // A lost pod is replaced by one of the current revision; if too few reliable pods are left, or a declared point lets no more
    // updated pods exist, by one of the old set with the most available pods. An abort creates no pods of the aborted revision.
    let reliable = reliable(inventory);
    if let Some(hash) = kept::old_set(inventory, &inventory.by_set()).filter(|_| !inventory.aborts()) {
        let most = declared::most_updated(inventory);
        let beyond = most.map_or(0, |most| inventory.bounds.desired - most - inventory.old_count());
        let lost = (inventory.bounds.floor - reliable).max(beyond).clamp(0, room);
        room -= lost;
        create(inventory, &mut changes, &hash, lost);
    }
    let updated = inventory.updated_count();
    create(inventory, &mut changes, &inventory.hash, (wanted - updated).min(room));

    let go = pods_ahead(inventory, divided)?;
    if !is_accepted(inventory) && !go.is_empty() {
        // The first updated pod verifies the template: no pod is deleted before it exists.
        let failed = create_failed(inventory);
        return if changes.creates.contains_key(&inventory.hash) && !failed {
            Ok(changes)
        } else {
            awaiting_dry_run(inventory, changes)
        };
    }
    let filled = inventory.active() >= inventory.bounds.ceiling
        || updated >= wanted
        || no_creates(inventory, &changes);
    // The surplus is deleted in the same round: the rollout cannot count on it.
    let surplus = surplus(inventory);
    let leaving = count(surplus.iter().filter(|ranked| ranked.available));
    let mut budget = Budget::of(inventory, leaving);
    let mut chosen: Vec<&RankedPod<'_>> = Vec::new();
    for ranked in go.iter().filter(|ranked| !ranked.collected) {
        if !budget.take(ranked) {
            break;
        }
        chosen.push(ranked);
    }
    if chosen.is_empty()
        && go.first().is_some_and(|head| head.available && budget.forbids_available())
        && filled
    {
        chosen = out_of_turn(inventory, divided, go, &mut budget, &mut changes);
    }
    changes.deletes = groups(inventory, chosen, Purpose::Rollout);
    changes.deletes.extend(groups(inventory, surplus, Purpose::Scale));
    Ok(changes)
}

/// How many updated pods the rollout wants now.
fn wanted(inventory: &Inventory<'_>, divided: &Divided<'_, '_>) -> i64 {
    let behind = i64::try_from(divided.behind.len()).unwrap_or(i64::MAX);
    let wanted = if divided.barrier.is_some() {
        (inventory.bounds.desired - behind).max(0)
    } else {
        inventory.bounds.desired
    };
    declared::most_updated(inventory).map_or(wanted, |most| wanted.min(most))
}

/// Whether a rolling update wants more pods than there are.
pub(crate) fn is_short(state: &State<'_, '_>) -> bool {
    let inventory = state.inventory;
    inventory.updated_count() < wanted(inventory, &state.divided)
        || reliable(inventory) < inventory.bounds.floor
}

/// The first pod of the order may not be deleted since too few pods are available, and no pod can be created: the rollout
/// can continue only with unavailable pods behind the first one.
fn out_of_turn<'c, 'a>(
    inventory: &Inventory<'_>,
    divided: &Divided<'_, '_>,
    go: &'c [RankedPod<'a>],
    budget: &mut Budget,
    changes: &mut PodChanges,
) -> Vec<&'c RankedPod<'a>> {
    let barrier = divided.barrier.as_ref().map(|barrier| barrier.ranked);
    let is_barrier = |ranked: &RankedPod<'_>| barrier.is_some_and(|barrier| barrier.uid() == ranked.uid());
    let unavailable: Vec<_> =
        go.iter().filter(|ranked| !ranked.available && !ranked.collected && !is_barrier(ranked)).collect();
    let all_available = inventory.updated_available() == inventory.updated_count();
    let mut in_the_way = barrier
        .into_iter()
        .filter(|ranked| !divided.behind.iter().any(|one| one.uid() == ranked.uid()))
        .chain(divided.behind)
        .filter(|ranked| !ranked.available)
        .peekable();
    let at_or_behind = in_the_way.peek().is_some();
    if let Some(barrier) = &divided.barrier
        && unavailable.is_empty()
        && at_or_behind
        && all_available
    {
        let pods: Vec<_> = in_the_way.map(|ranked| ranked.pod.name.as_str()).collect();
        blocked(inventory, barrier, &pods, changes);
        return Vec::new();
    }
    if !all_available && !crate::conditions::is_overdue(inventory.status) {
        // The rollout may continue once they are.
        return Vec::new();
    }
    let mode = inventory.spec.deletion_order.as_ref().map(|order| order.unavailable_pods).unwrap_or_default();
    if mode == UnavailablePods::InOrder {
        if !unavailable.is_empty() || at_or_behind {
            let head = go.first().map(|ranked| ranked.pod.name.as_str()).unwrap_or_default();
            changes.stalled = Some((
                reason::WAITING_IN_ORDER,
                format!(
                    "Pod {head} is next, but deleting it would leave too few available pods, and unavailable pods \
                     wait for their turn (unavailablePods: InOrder)"
                ),
            ));
        }
        return Vec::new();
    }
    unavailable.into_iter().take_while(|ranked| budget.take(ranked)).collect()
}

/// The rollout cannot reach its barrier. The status stores since when; after a grace time the condition says so.
fn blocked(inventory: &Inventory<'_>, barrier: &Barrier<'_, '_>, pods: &[&str], changes: &mut PodChanges) {
    let id = barrier::id(inventory, barrier);
    let now = seconds(inventory.snapshot.now);
    let known =
        inventory.status.blocked.as_ref().filter(|blocked| blocked.id == id && blocked.since.0 <= now);
    let since = known.map_or(now, |blocked| blocked.since.0);
    if since.checked_add(BLOCKED_GRACE).is_ok_and(|stands| stands <= now) {
        let name = inventory.snapshot.deployment.metadata.name.as_deref().unwrap_or_default();
        let named = pods.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match pods.len().saturating_sub(NAMED) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let message = format!(
            "Blocked at pause point {id}: deleting the next pod leaves too few available pods, and the only unavailable \
             old pods are at or behind the pause point: {named}{more}. Repair or delete these pods, raise maxUnavailable, \
             pass the point with kubectl ordered resume {name} --hold {id}, or roll back with kubectl ordered undo {name}"
        );
        changes.stalled = Some((reason::BLOCKED, message));
    }
    changes.blocked = Some(Blocked { id, since: since.into() });
}

/// Whether no updated pod can be created for now: creates have been refused for some time, for instance by a quota, or all
/// wanted pods have waited that long for a backoff. That counts like a reached ceiling.
fn no_creates(inventory: &Inventory<'_>, changes: &PodChanges) -> bool {
    let waited = |since: Timestamp| inventory.snapshot.now.duration_since(since) >= NO_CREATES;
    let refused = inventory.snapshot.failure.as_ref().filter(|failure| failure.what == FailureKind::Create);
    let backed_off = !changes.creates.contains_key(&inventory.hash) && inventory.delayed_since().any(waited);
    refused.is_some_and(|failure| waited(failure.since)) || backed_off
}

/// When refused creates count as impossible, if that is in the future.
pub(crate) fn no_creates_at(inventory: &Inventory<'_>) -> Option<Timestamp> {
    if inventory.old_count() == 0 || inventory.recreate() {
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
