//! Pods that come and go because of a number of replicas, not because of a template: D = 0, surplus, a held or paused rollout
//! that is kept at its sizes, a running rollout that is scaled.
//!
//! Scaling never advances a release: an old pod with a pause point that is not passed goes only where no other old pod can, and
//! the rollout is held at the first such point before the last of them goes.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_api::Rollout;

use crate::census::{Census, Member, count};
use crate::pausepoint;
use crate::rollout::{Budget, Moves, create, create_failed, groups, old_terminating};
use crate::sizes::{self, Sizes};
use crate::{Decision, Purpose, Record};

/// D = 0 allows no pod.
pub(crate) fn clear(census: &Census<'_>) -> Result<Moves, Box<Decision>> {
    let all: Vec<_> = census.members.iter().collect();
    keep_gate(census, &all)?;
    Ok(Moves { deletes: groups(census, &all, Purpose::Scale), ..Moves::default() })
}

/// No old pod is there: exactly the first of the order go, or what is missing comes.
pub(crate) fn settle(census: &Census<'_>) -> Moves {
    let mut moves = Moves { deletes: groups(census, &surplus(census), Purpose::Scale), ..Moves::default() };
    let old_runs = census.recreate() && old_terminating(census);
    if !old_runs {
        let missing = census.bounds.desired - census.updated_count();
        create(census, &mut moves, &census.hash, missing.min(census.room_below(census.bounds.ceiling)));
    }
    moves
}

/// Updated pods beyond D: the first of the order.
pub(crate) fn surplus<'c, 'a>(census: &'c Census<'a>) -> Vec<&'c Member<'a>> {
    first(census.updated(), census.updated_count() - census.bounds.desired)
}

/// Held or paused: as many old and as many updated pods as the stored sizes say for this D. Between the old sets nothing is
/// moved as long as their sum is right.
pub(crate) fn keep(census: &Census<'_>, wanted: &Sizes) -> Result<Moves, Box<Decision>> {
    let mut moves = Moves::default();
    let old = old_victims(census, wanted);
    if pausepoint::held(&census.status).is_none() {
        keep_gate(census, &old)?;
    }
    let size = updated_total(census, wanted);
    let present = census.by_set();
    let sizes = kept_sizes(census, wanted);
    let mut room = census.room_below(kept_ceiling(census, wanted.values().sum()));
    for (hash, kept) in &sizes {
        let is_current = *hash == census.hash;
        let missing = if is_current {
            size - census.updated_count()
        } else {
            kept - present.get(hash).copied().unwrap_or(0)
        };
        let can_be_filled =
            census.usable_sets().any(|set| set.hash == *hash) || (is_current && !census.spec.paused);
        let missing = missing.min(room);
        if can_be_filled && missing > 0 {
            room -= missing;
            create(census, &mut moves, hash, missing);
        }
    }
    let mut victims = old;
    let (updated, kept) = updated_victims(census, size, &victims);
    victims.extend(updated);
    victims.sort_unstable_by(|first, second| first.key.cmp(&second.key));
    moves.deletes = groups(census, &victims, Purpose::Scale);
    moves.kept_surge = kept;
    Ok(moves)
}

/// The sizes of the sets once a hold or a pause is kept: the old sets share their sum as their pods are now.
pub(crate) fn kept_sizes(census: &Census<'_>, wanted: &Sizes) -> Sizes {
    let mut sizes = census.by_set();
    for victim in old_victims(census, wanted) {
        if let Some(size) = sizes.get_mut(victim.hash) {
            *size -= 1;
        }
    }
    let mut missing = old_total(census, wanted) - census.old_count();
    for set in census.old_sets().filter(|set| !set.terminating) {
        let size = sizes.entry(set.hash.clone()).or_default();
        let more = (wanted.get(&set.hash).copied().unwrap_or(0) - *size).clamp(0, missing.max(0));
        *size += more;
        missing -= more;
    }
    // Pods of the current template may be in several sets; what those other sets have is not the current one's to have.
    let others = census.updated().filter(|member| *member.hash != census.hash);
    let current = updated_total(census, wanted) - count(others);
    sizes.insert(census.hash.clone(), current.max(0));
    sizes
}

/// How many pods there may be once what a hold or a pause stored is filled up: its surge pods too, though `maxSurge` was lowered
/// since. More than twice D makes no pods: hardly anybody surges that far, and a status forged to billions must not count.
pub(crate) fn kept_ceiling(census: &Census<'_>, stored: i64) -> i64 {
    census.bounds.ceiling.max(stored.min(2 * census.bounds.desired))
}

/// How many old pods these sizes speak of.
fn old_total(census: &Census<'_>, sizes: &Sizes) -> i64 {
    census.old_sets().map(|set| sizes.get(&set.hash).copied().unwrap_or(0)).sum()
}

/// How many updated pods these sizes speak of.
fn updated_total(census: &Census<'_>, sizes: &Sizes) -> i64 {
    sizes.values().sum::<i64>() - old_total(census, sizes)
}

/// The old pods that go where the old sets are to have these sizes: of each set the first of the order, those with a pause point
/// that is not passed after all others of all sets, and the held one last.
fn old_victims<'c, 'a>(census: &'c Census<'a>, sizes: &Sizes) -> Vec<&'c Member<'a>> {
    let excess = usize::try_from(census.old_count() - old_total(census, sizes)).unwrap_or(0);
    if excess == 0 {
        return Vec::new();
    }
    let mut beyond = census.by_set();
    for (hash, active) in &mut beyond {
        *active -= sizes.get(hash).copied().unwrap_or(0);
    }
    let held = census.status.hold.as_ref().map(|hold| hold.pod_uid.as_str());
    let mut ranked: Vec<_> = census
        .old()
        .filter(|member| !member.collected)
        .map(|member| {
            let is_held = held == Some(member.uid());
            let gates = pausepoint::point(member, census).is_some();
            let beyond = beyond.get_mut(member.hash).filter(|beyond| **beyond > 0 && !gates && !is_held);
            let is_share = beyond.map(|beyond| *beyond -= 1).is_some();
            ((is_held, gates, !is_share), member)
        })
        .collect();
    // Stable: equal ones stay in the order.
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut victims: Vec<_> = ranked.into_iter().take(excess).map(|(_, member)| member).collect();
    victims.sort_by_key(|member| member.place);
    victims
}

/// The updated pods that go where there are to be `size` of them, and how many stay only since the floor forbids their deletion.
///
/// Those that a smaller D takes are the first of the order. Those that a hold without a duration has no use for (surge) go
/// unavailable ones first, and as far as the first floor allows.
fn updated_victims<'c, 'a>(
    census: &'c Census<'a>,
    size: i64,
    others: &[&Member<'_>],
) -> (Vec<&'c Member<'a>>, i64) {
    let updated = census.updated_count();
    let surplus = (updated - size).max(0);
    let untimed = pausepoint::held(&census.status).filter(|hold| hold.until.is_none() && !census.recreate());
    let Some(hold) = untimed else { return (first(census.updated(), surplus), 0) };
    let stored = hold.sizes.get(&census.hash).map_or(0, |size| i64::from(*size));
    let scaled = (updated - census.bounds.desired).max(stored.min(updated) - size).clamp(0, surplus);
    let mut victims = first(census.updated(), scaled);
    let taken: BTreeSet<&Arc<str>> = victims.iter().map(|member| member.uid()).collect();
    let leaving = others.iter().chain(&victims).filter(|member| member.available);
    let mut budget = Budget::of(census, count(leaving));
    let mut rest: Vec<_> = census.updated().filter(|member| !taken.contains(member.uid())).collect();
    rest.sort_by_key(|member| (member.available, member.place));
    let mut surge = surplus - scaled;
    for member in rest.into_iter().filter(|member| !member.collected) {
        if surge == 0 || !budget.take_available(member) {
            break;
        }
        surge -= 1;
        victims.push(member);
    }
    (victims, surge)
}

/// The first of these that can go.
fn first<'c, 'a: 'c>(members: impl Iterator<Item = &'c Member<'a>>, number: i64) -> Vec<&'c Member<'a>> {
    members.filter(|member| !member.collected).take(usize::try_from(number).unwrap_or(0)).collect()
}

/// Holds the rollout at its barrier before the last old pod with a pause point goes: as if the point were reached.
fn keep_gate(census: &Census<'_>, victims: &[&Member<'_>]) -> Result<(), Box<Decision>> {
    let divided = pausepoint::divide(census);
    let Some(barrier) = divided.barrier.filter(|_| pausepoint::held(&census.status).is_none()) else {
        return Ok(());
    };
    let leaving: BTreeSet<&Arc<str>> = victims.iter().map(|member| member.uid()).collect();
    let stays = |member: &Member<'_>| {
        let gates = pausepoint::point(member, census).is_some() || member.uid() == barrier.member.uid();
        gates && !leaving.contains(member.uid())
    };
    if census.old().any(stays) {
        return Ok(());
    }
    Err(Box::new(pausepoint::hold_early(census, &barrier)))
}

/// Whether a running rollout was being scaled when it was last looked at.
pub(crate) fn is_being_scaled(census: &Census<'_>) -> bool {
    census.status.rollout.as_ref().is_some_and(|rollout| rollout.scaled_from.is_some())
}

/// D has changed in the running rollout: the sets are scaled in proportion before anything else. What they are scaled from is stored
/// first, so that an interruption, or another change of D meanwhile, ends in the same split.
pub(crate) fn scale(census: &Census<'_>) -> Result<Option<Moves>, Box<Decision>> {
    let Some(rollout) = &census.status.rollout else { return Ok(None) };
    if rollout.replicas == census.spec.replicas && !is_being_scaled(census) {
        return Ok(None);
    }
    let now = census.by_set();
    let target = scaled(census, rollout, &now);
    let mut moves = Moves::default();
    // A smaller D never creates a pod.
    if census.spec.replicas >= rollout.replicas && !create_failed(census) {
        let behind = count(pausepoint::divide(census).behind.iter());
        let mut room = census.room_below(census.bounds.ceiling);
        for (hash, size) in &target {
            let mut missing = size - now.get(hash).copied().unwrap_or(0);
            if *hash == census.hash {
                missing = missing.min((census.bounds.desired - behind).max(0) - census.updated_count());
            }
            let usable = census.usable_sets().any(|set| set.hash == *hash) || *hash == census.hash;
            let missing = missing.min(room);
            if usable && missing > 0 {
                room -= missing;
                create(census, &mut moves, hash, missing);
            }
        }
    }
    let mut victims = old_victims(census, &target);
    keep_gate(census, &victims)?;
    victims.extend(first(census.updated(), census.updated_count() - updated_total(census, &target)));
    victims.sort_unstable_by(|first, second| first.key.cmp(&second.key));
    moves.deletes = groups(census, &victims, Purpose::Scale);
    let is_done = moves.creates.is_empty() && moves.deletes.is_empty();
    if !is_done && rollout.scaled_from.is_some() {
        return Ok(Some(moves));
    }
    let mut status = census.status.clone();
    if let Some(rollout) = &mut status.rollout {
        if is_done {
            rollout.replicas = census.spec.replicas;
        }
        rollout.scaled_from = (!is_done).then(|| pausepoint::narrow(&now));
    }
    Err(Box::new(Decision::Record(Record { status, events: Vec::new() })))
}

/// The sizes of the sets once they are scaled: a pure function of those before and of D.
fn scaled(census: &Census<'_>, rollout: &Rollout, now: &Sizes) -> Sizes {
    let stored = rollout.scaled_from.as_ref();
    let base = stored.map_or_else(|| now.clone(), sizes::widen);
    if rollout.replicas == census.spec.replicas {
        return base;
    }
    let mut before = census.spec.clone();
    before.replicas = rollout.replicas;
    let before = i64::from(rollout.replicas.max(0)) + before.max_surge();
    sizes::proportional(&base, before, census.bounds.ceiling)
}
