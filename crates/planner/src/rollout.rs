//! Which pods go and which come: a running rollout. What scaling, a hold or a pause moves is in `scaling`.
//!
//! One decision, over the active pods of all revisions. It never writes, and never looks past the barrier.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{Blocked, PausePoint, UnavailablePods, names::reason};

use crate::barrier::{self, Barrier, Divided};
use crate::census::{Census, Member, count};
use crate::conditions::seconds;
use crate::hold;
use crate::moves::{Budget, Moves, create, create_failed, groups, reliable};
use crate::phase::State;
use crate::scaling::{self, surplus};
use crate::{Decision, Hindrance, Proof, Purpose, Read};

/// How long a rollout is blocked at a pause point before `Stalled` says so: a pod that is unready for a moment is none of
/// anybody's business.
const BLOCKED_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// How long creates are refused, or wait for a back-off, before a rollout counts on none of them.
const NO_CREATES: SignedDuration = SignedDuration::from_secs(10);

/// How many pods a message names.
const NAMED: usize = 5;

/// Recreate: all old pods go, in order, then the new ones come.
pub(crate) fn recreate(state: &State<'_, '_>) -> Result<Moves, Box<Decision>> {
    let (census, divided) = (state.census, &state.divided);
    let go = go_ahead(census, divided)?;
    if go.is_empty() {
        return Ok(Moves::default());
    }
    if !is_proven(census) {
        return unproven(census, Moves::default());
    }
    let surplus = surplus(census);
    let mut deletes = groups(census, go, Purpose::Rollout);
    deletes.extend(groups(census, &surplus, Purpose::Scale));
    Ok(Moves { deletes, ..Moves::default() })
}

/// The pods that may go now, ahead of the barrier; a hold where there are none.
fn go_ahead<'m, 'c, 'a>(
    census: &Census<'_>,
    divided: &'m Divided<'c, 'a>,
) -> Result<&'m [&'c Member<'a>], Box<Decision>> {
    if census.revision.is_uncompared() {
        // No pod goes, and no hold begins, for a rollout that may not be the one that the spec asks for.
        return Ok(&[]);
    }
    let Some(barrier) = &divided.barrier else { return Ok(&divided.ahead) };
    let begun = barrier::begun_at(census, barrier.member).is_some();
    match (barrier.side, divided.ahead.len()) {
        (PausePoint::Before, 0) => Err(Box::new(hold::hold_at(census, barrier))),
        // Its turn has come: the hold is stored before its DELETE.
        (PausePoint::After, 1) if !begun => Err(Box::new(hold::hold_at(census, barrier))),
        (PausePoint::After, length) if !begun => Ok(&divided.ahead[..length - 1]),
        _ => Ok(&divided.ahead),
    }
}

/// A rolling update.
pub(crate) fn roll(state: &State<'_, '_>) -> Result<Moves, Box<Decision>> {
    let (census, divided) = (state.census, &state.divided);
    if let Some(scaled) = scaling::scale(state)? {
        return Ok(scaled);
    }
    let wanted = wanted(census, divided);
    let mut moves = Moves::default();
    let mut room = census.room_below(census.bounds.ceiling);

    // A pod lost comes back from the current revision, unless too few would be left to rely on.
    let reliable = reliable(census);
    if let Some(hash) = most_available_old_set(census) {
        let lost = (census.bounds.floor - reliable).clamp(0, room);
        room -= lost;
        create(census, &mut moves, &hash, lost);
    }
    let updated = census.updated_count();
    create(census, &mut moves, &census.hash, (wanted - updated).min(room));

    let go = go_ahead(census, divided)?;
    if !is_proven(census) && !go.is_empty() {
        // The first updated pod proves the template: nothing is deleted before it is there.
        let failed = create_failed(census);
        return if moves.creates.contains_key(&census.hash) && !failed {
            Ok(moves)
        } else {
            unproven(census, moves)
        };
    }
    let filled = census.active() >= census.bounds.ceiling || updated >= wanted || no_creates(census, &moves);
    // The surplus goes in the same round: the rollout cannot count on it.
    let surplus = surplus(census);
    let leaving = count(surplus.iter().filter(|member| member.available));
    let mut budget = Budget::of(census, leaving);
    let mut chosen: Vec<&Member<'_>> = Vec::new();
    for &member in go.iter().filter(|member| !member.collected) {
        if !budget.take(member) {
            break;
        }
        chosen.push(member);
    }
    if chosen.is_empty()
        && go.first().is_some_and(|head| head.available && budget.forbids_available())
        && filled
    {
        chosen = out_of_turn(census, divided, go, &mut budget, &mut moves);
    }
    moves.deletes = groups(census, &chosen, Purpose::Rollout);
    moves.deletes.extend(groups(census, &surplus, Purpose::Scale));
    Ok(moves)
}

/// How many updated pods the rollout wants now.
fn wanted(census: &Census<'_>, divided: &Divided<'_, '_>) -> i64 {
    let behind = i64::try_from(divided.behind.len()).unwrap_or(i64::MAX);
    if divided.barrier.is_some() { (census.bounds.desired - behind).max(0) } else { census.bounds.desired }
}

/// Whether a rolling update wants pods that are not there.
pub(crate) fn is_short(state: &State<'_, '_>) -> bool {
    let census = state.census;
    census.updated_count() < wanted(census, &state.divided) || reliable(census) < census.bounds.floor
}

/// The head may not go since too few pods are available, and nothing can be created: the rollout could only go on with
/// unavailable pods behind the head.
fn out_of_turn<'c, 'a>(
    census: &Census<'_>,
    divided: &Divided<'_, '_>,
    go: &[&'c Member<'a>],
    budget: &mut Budget,
    moves: &mut Moves,
) -> Vec<&'c Member<'a>> {
    let barrier = divided.barrier.as_ref().map(|barrier| barrier.member);
    let is_barrier = |member: &Member<'_>| barrier.is_some_and(|barrier| barrier.uid() == member.uid());
    let unavailable: Vec<_> = go
        .iter()
        .copied()
        .filter(|member| !member.available && !member.collected && !is_barrier(member))
        .collect();
    let all_available = census.updated_available() == census.updated_count();
    let mut in_the_way = barrier
        .into_iter()
        .filter(|member| !divided.behind.iter().any(|one| one.uid() == member.uid()))
        .chain(divided.behind.iter().copied())
        .filter(|member| !member.available)
        .peekable();
    let at_or_behind = in_the_way.peek().is_some();
    if let Some(barrier) = &divided.barrier
        && unavailable.is_empty()
        && at_or_behind
        && all_available
    {
        let pods: Vec<_> = in_the_way.map(|member| member.pod.name.as_str()).collect();
        blocked(census, barrier, &pods, moves);
        return Vec::new();
    }
    if !all_available && !crate::conditions::is_overdue(&census.status) {
        // It may go on once they are.
        return Vec::new();
    }
    let mode = census.spec.deletion_order.as_ref().map(|order| order.unavailable_pods).unwrap_or_default();
    if mode == UnavailablePods::InOrder {
        if !unavailable.is_empty() || at_or_behind {
            let head = go.first().map(|member| member.pod.name.as_str()).unwrap_or_default();
            moves.stalled = Some((
                reason::WAITING_IN_ORDER,
                format!(
                    "Pod {head} is next, but deleting it would leave too few available pods, and unavailable pods \
                     wait for their turn (unavailablePods: InOrder)"
                ),
            ));
        }
        return Vec::new();
    }
    unavailable.into_iter().take_while(|member| budget.take(member)).collect()
}

/// The rollout cannot reach its barrier. Since when is stored with the status; after a grace time the condition says so.
fn blocked(census: &Census<'_>, barrier: &Barrier<'_, '_>, pods: &[&str], moves: &mut Moves) {
    let id = barrier::id(census, barrier);
    let now = seconds(census.observed.now);
    let known = census.status.blocked.as_ref().filter(|blocked| blocked.id == id && blocked.since.0 <= now);
    let since = known.map_or(now, |blocked| blocked.since.0);
    if since.checked_add(BLOCKED_GRACE).is_ok_and(|stands| stands <= now) {
        let name = census.observed.deployment.metadata.name.as_deref().unwrap_or_default();
        let named = pods.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = match pods.len().saturating_sub(NAMED) {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let message = format!(
            "Blocked at the pause point {id}: deleting the next pod leaves too few available pods, and the only unavailable \
             old pods are at or behind the pause point: {named}{more}. Repair or delete these pods, raise maxUnavailable, \
             pass the point with kubectl ordered resume {name} --hold {id}, or go back with kubectl ordered undo {name}"
        );
        moves.stalled = Some((reason::BLOCKED, message));
    }
    moves.blocked = Some(Blocked { id, since: since.into() });
}

/// Whether no updated pod can be created for the time being: creates have been refused for a while, by a quota for instance, or
/// all that are wanted have waited as long for a back-off. That counts as the ceiling reached.
fn no_creates(census: &Census<'_>, moves: &Moves) -> bool {
    let waited = |since: Timestamp| census.observed.now.duration_since(since) >= NO_CREATES;
    let refused = census.observed.failure.as_ref().filter(|failure| failure.what == Hindrance::Create);
    let backed_off = !moves.creates.contains_key(&census.hash) && census.delayed_since().any(waited);
    refused.is_some_and(|failure| waited(failure.since)) || backed_off
}

/// When creates that are refused count as impossible, where that is still ahead.
pub(crate) fn no_creates_at(census: &Census<'_>) -> Option<Timestamp> {
    if census.old_count() == 0 || census.recreate() {
        return None;
    }
    let refused = census.observed.failure.as_ref().filter(|failure| failure.what == Hindrance::Create);
    let since = refused.map(|failure| failure.since).into_iter().chain(census.delayed_since());
    let times = since.filter_map(|since| since.checked_add(NO_CREATES).ok());
    times.filter(|at| *at > census.observed.now).min()
}

/// When the condition is to say that the rollout is blocked.
pub(crate) fn blocked_stands_at(blocked: &Blocked) -> Option<Timestamp> {
    blocked.since.0.checked_add(BLOCKED_GRACE).ok()
}

/// Whether the API server is known to take pods of the current template.
fn is_proven(census: &Census<'_>) -> bool {
    let created = census.observed.pods.iter().any(|pod| census.is_current_set(&pod.set));
    created || census.observed.proof == Proof::Accepted
}

/// No updated pod can come first: a dry run must prove the template before a pod is deleted for it.
fn unproven(census: &Census<'_>, mut moves: Moves) -> Result<Moves, Box<Decision>> {
    match &census.observed.proof {
        Proof::Refused(message) => {
            moves.stalled = Some((
                reason::TEMPLATE_REFUSED,
                format!(
                    "The API server refuses pods of this template, and no pod is deleted for it: {message}"
                ),
            ));
            Ok(moves)
        }
        Proof::NoAnswer(message) => {
            moves.unproven = Some(format!(
                "No pod is deleted for this template before a dry run of it is answered: {message}"
            ));
            Ok(moves)
        }
        _ => Err(Box::new(Decision::Read(Read::DryRun { hash: census.hash.clone() }))),
    }
}

fn most_available_old_set(census: &Census<'_>) -> Option<String> {
    let mut available: BTreeMap<&str, i64> = BTreeMap::new();
    for member in census.old() {
        *available.entry(member.hash).or_default() += i64::from(member.available);
    }
    let usable = census.usable_sets().filter(|set| available.contains_key(set.hash.as_str()));
    let most = usable.max_by_key(|set| (available.get(set.hash.as_str()).copied(), set.revision));
    most.map(|set| set.hash.clone())
}
