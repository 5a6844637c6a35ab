//! Pods that come and go because of a number of replicas, not because of a template: D = 0, surplus, a held or paused rollout
//! that is kept at its sizes, a running rollout that is scaled.
//!
//! Scaling never advances a release: an old pod with a pause point that is not passed goes only where no other old pod can, and
//! the rollout is held at such a point before none is left that would hold it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_api::{PausePoint, Rollout};

use crate::barrier::{self, Barrier, held};
use crate::census::{Census, Member, count};
use crate::hold;
use crate::kept::narrow;
use crate::moves::{Budget, Moves, create, create_failed, groups, old_terminating};
use crate::phase::State;
use crate::sizes::{self, Sizes};
use crate::{Decision, Point, Purpose, Record};

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
    keep_gate(census, &old)?;
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
    let updated = updated_victims(census, size, &victims);
    victims.extend(updated.scaled);
    victims.sort_unstable_by(|first, second| first.key.cmp(&second.key));
    moves.deletes = groups(census, &victims, Purpose::Scale);
    // Unavailable ones first, which no budget can refuse.
    moves.deletes.extend(groups(census, &updated.surge, Purpose::Scale));
    moves.kept_surge = updated.kept;
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
    let mut missing = old_total(census, wanted) - old_count(census);
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

/// How many old pods there are, without those of sets that are being deleted: these are the garbage collector's.
fn old_count(census: &Census<'_>) -> i64 {
    count(census.old().filter(|member| !member.collected))
}

/// How many such pods these sizes speak of.
fn old_total(census: &Census<'_>, sizes: &Sizes) -> i64 {
    let sets = census.old_sets().filter(|set| !set.terminating);
    sets.map(|set| sizes.get(&set.hash).copied().unwrap_or(0)).sum()
}

/// How many updated pods these sizes speak of.
fn updated_total(census: &Census<'_>, sizes: &Sizes) -> i64 {
    sizes.values().sum::<i64>() - old_total(census, sizes)
}

/// What an old pod keeps the rollout from: scaling takes those first that keep it from least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gate {
    /// It has no pause point, or one that is passed.
    None,
    /// The rollout is held at it: the hold outlives the pod.
    Held,
    /// Its pause point ends by itself.
    Timed,
    /// Its pause point waits for somebody.
    Untimed,
}

fn gate(census: &Census<'_>, member: &Member<'_>) -> Gate {
    if held(&census.status).is_some_and(|hold| *hold.pod_uid == **member.uid()) {
        return Gate::Held;
    }
    let timed = match (barrier::point(member, census), &member.pod.point) {
        (Some(_), Point::At { duration, .. }) => matches!(duration, Ok(Some(_))),
        _ => match barrier::begun_at(census, member) {
            Some(hold) => hold.until.is_some(),
            None => return Gate::None,
        },
    };
    if timed { Gate::Timed } else { Gate::Untimed }
}

/// The old pods that go where the old sets are to have these sizes: of each set the first of the order, those with a pause point
/// that is not passed after all others of all sets.
fn old_victims<'c, 'a>(census: &'c Census<'a>, sizes: &Sizes) -> Vec<&'c Member<'a>> {
    let excess = usize::try_from(old_count(census) - old_total(census, sizes)).unwrap_or(0);
    if excess == 0 {
        return Vec::new();
    }
    let mut beyond = census.by_set();
    for (hash, active) in &mut beyond {
        *active -= sizes.get(hash).copied().unwrap_or(0);
    }
    let mut ranked: Vec<_> = census
        .old()
        .filter(|member| !member.collected)
        .map(|member| {
            let gate = gate(census, member);
            let beyond = beyond.get_mut(member.hash).filter(|beyond| **beyond > 0 && gate == Gate::None);
            let is_share = beyond.map(|beyond| *beyond -= 1).is_some();
            ((gate, !is_share), member)
        })
        .collect();
    // Stable: equal ones stay in the order.
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut victims: Vec<_> = ranked.into_iter().take(excess).map(|(_, member)| member).collect();
    victims.sort_by_key(|member| member.place);
    victims
}

/// The updated pods that go where there are to be fewer.
#[derive(Default)]
struct Updated<'c, 'a> {
    /// Those that a smaller D takes: the first of the order.
    scaled: Vec<&'c Member<'a>>,
    /// Those that a hold without a duration has no use for: unavailable ones first, as far as the first floor allows.
    surge: Vec<&'c Member<'a>>,
    /// How many stay only since the floor forbids their deletion.
    kept: i64,
}

/// The updated pods that go where there are to be `size` of them, and these others go.
fn updated_victims<'c, 'a>(census: &'c Census<'a>, size: i64, others: &[&Member<'_>]) -> Updated<'c, 'a> {
    let updated = census.updated_count();
    let surplus = (updated - size).max(0);
    let untimed = held(&census.status).filter(|hold| hold.until.is_none() && !census.recreate());
    let Some(hold) = untimed else {
        return Updated { scaled: first(census.updated(), surplus), ..Updated::default() };
    };
    let stored = hold.sizes.get(&census.hash).map_or(0, |size| i64::from(*size));
    let scaled = (updated - census.bounds.desired).max(stored.min(updated) - size).clamp(0, surplus);
    let mut victims = Updated { scaled: first(census.updated(), scaled), ..Updated::default() };
    let taken: BTreeSet<&Arc<str>> = victims.scaled.iter().map(|member| member.uid()).collect();
    let leaving = others.iter().chain(&victims.scaled).filter(|member| member.available);
    let mut budget = Budget::of(census, count(leaving));
    let mut rest: Vec<_> = census.updated().filter(|member| !taken.contains(member.uid())).collect();
    rest.sort_by_key(|member| (member.available, member.place));
    victims.kept = surplus - scaled;
    for member in rest.into_iter().filter(|member| !member.collected) {
        if victims.kept == 0 || !budget.take_available(member) {
            break;
        }
        victims.kept -= 1;
        victims.surge.push(member);
    }
    victims
}

/// The first of these that can go.
fn first<'c, 'a: 'c>(members: impl Iterator<Item = &'c Member<'a>>, number: i64) -> Vec<&'c Member<'a>> {
    members.filter(|member| !member.collected).take(usize::try_from(number).unwrap_or(0)).collect()
}

/// Holds the rollout before old pods go with which it would lose the last pause point that holds it: as if that one were reached.
/// A hold that waits for somebody outlives its pod. Neither a hold nor a point that a time ends stands for one that waits for
/// somebody. What goes with a set that is being deleted, scaling does not take.
fn keep_gate(census: &Census<'_>, victims: &[&Member<'_>]) -> Result<(), Box<Decision>> {
    let kinds: &[Gate] = match held(&census.status) {
        // A point that ends by itself does not stand for one that waits for somebody.
        None => &[Gate::Untimed, Gate::Timed],
        Some(hold) if hold.until.is_some() => &[Gate::Untimed],
        Some(_) => return Ok(()),
    };
    let leaving: BTreeSet<&Arc<str>> = victims.iter().map(|member| member.uid()).collect();
    let old: Vec<_> = census.old().filter(|member| !member.collected).collect();
    let left: Vec<_> = old.iter().copied().filter(|member| !leaving.contains(member.uid())).collect();
    if left.len() == old.len() {
        return Ok(());
    }
    let mut lost = kinds.iter().filter(|least| gates(census, &left, **least).is_empty());
    let first = lost.find_map(|least| gates(census, &old, *least).into_iter().next());
    first.map_or(Ok(()), |barrier| Err(Box::new(hold::hold_early(census, &barrier))))
}

/// The pause points of at least that kind at which a rollout of these pods would be held. With nothing behind it, a point
/// `after` holds nothing.
fn gates<'c, 'a>(census: &Census<'_>, members: &[&'c Member<'a>], least: Gate) -> Vec<Barrier<'c, 'a>> {
    let behind = |at: usize| at + 1 < members.len();
    let some = members.iter().enumerate().filter(|(_, member)| gate(census, member) >= least);
    let barriers = some.map(|(at, member)| {
        let side = barrier::point(member, census).unwrap_or(PausePoint::After);
        (at, Barrier { member, side })
    });
    let holding = barriers.filter(|(at, barrier)| barrier.side == PausePoint::Before || behind(*at));
    holding.map(|(_, barrier)| barrier).collect()
}

/// Whether a running rollout was being scaled when it was last looked at.
pub(crate) fn is_being_scaled(census: &Census<'_>) -> bool {
    census.status.rollout.as_ref().is_some_and(|rollout| rollout.scaled_from.is_some())
}

/// D has changed in the running rollout: the sets are scaled in proportion before anything else. What they are scaled from is stored
/// first, so that an interruption, or another change of D meanwhile, ends in the same split.
pub(crate) fn scale(state: &State<'_, '_>) -> Result<Option<Moves>, Box<Decision>> {
    let census = state.census;
    let Some(rollout) = &census.status.rollout else { return Ok(None) };
    if rollout.replicas == census.spec.replicas && !is_being_scaled(census) {
        return Ok(None);
    }
    let now = census.by_set();
    let target = scaled(census, rollout, &now);
    let mut moves = Moves::default();
    // A smaller D never creates a pod.
    if census.spec.replicas >= rollout.replicas && !create_failed(census) {
        let behind = count(state.divided.behind.iter());
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
        rollout.scaled_from = (!is_done).then(|| narrow(&now));
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
