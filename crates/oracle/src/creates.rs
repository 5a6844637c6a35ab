//! How many pods an act creates, and of which set.

use jiff::Timestamp;
use ordereddeployment_api::StrategyType;
use ordereddeployment_planner::Act;

use crate::Messages;
use crate::view::{View, count, current_set};

/// A pod that fails after this time, in seconds, is replaced at once.
const EARLY: i64 = 600;
/// The longest back-off of a replacement, in seconds.
const MAX_BACKOFF: i64 = 300;

fn created(act: &Act) -> i64 {
    count(act.creates.iter().map(|create| create.count).sum())
}

/// An act creates no more pods than the ceiling allows.
pub(crate) fn ceiling(view: &View<'_>, act: &Act) -> Messages {
    above_ceiling(view, created(act))
}

/// Creating that many pods leaves no more active pods than D and the surge, and none where D is 0.
#[must_use]
pub fn above_ceiling(view: &View<'_>, created: i64) -> Messages {
    let mut messages = Messages::new();
    if created == 0 {
        return messages;
    }
    let after = view.present() + created;
    if after > view.ceiling {
        messages.push(format!("{after} active pods, {} are allowed", view.ceiling));
    }
    let old_there = view.snapshot.pods.iter().any(|pod| !pod.finished && !view.current.contains(&*pod.set));
    if view.recreates() && !view.keeps_sizes() && old_there {
        messages.push("Recreate creates a pod while an old pod exists".to_owned());
    }
    messages
}

/// Pods are created only of the current template, of revisions that have pods, and of the one that an abort rolls back to.
pub(crate) fn revisions(view: &View<'_>, act: &Act) -> Messages {
    let is_out = |hash: &str| {
        let mut sets =
            view.snapshot.sets.iter().filter(|set| !set.terminating && set.hash == hash).peekable();
        sets.peek().is_some() && !sets.any(|set| view.takes_part(set))
    };
    let wrong = act.creates.iter().filter(|create| create.count > 0 && is_out(&create.hash));
    wrong
        .map(|create| format!("{} pods of {} are created, which takes no part", create.count, create.hash))
        .collect()
}

/// A running rolling update creates updated pods, D − B of them while there is a barrier. It creates old pods only where fewer than the
/// floor are old or available, or where it is scaled.
pub(crate) fn wanted(view: &View<'_>, act: &Act) -> Messages {
    let snapshot = view.snapshot;
    let spec = &snapshot.deployment.spec;
    let runs = spec.replicas > 0 && spec.strategy.type_ == StrategyType::RollingUpdate && !view.keeps_sizes();
    if !runs || view.old().next().is_none() {
        return Messages::new();
    }
    let current = current_set(view);
    let is_new = |hash: &str| {
        let other = || snapshot.sets.iter().all(|set| set.terminating || set.hash != hash);
        current.map_or_else(other, |set| set.hash == hash)
    };
    let sum = |new: bool| -> i64 {
        let creates = act.creates.iter().filter(|create| is_new(&create.hash) == new);
        creates.map(|create| count(create.count)).sum()
    };
    let (new, old) = (sum(true), sum(false));
    let mut messages = Messages::new();
    if new > 0 && view.updated() + new > view.wanted() {
        messages.push(format!(
            "{new} updated pods are created in addition to {}, {} are wanted",
            view.updated(),
            view.wanted()
        ));
    }
    if view.aborts {
        // An abort scales no set in proportion.
        if old > 0 {
            messages
                .push(format!("an abort creates {old} pods of another revision than the last complete one"));
        }
        return messages;
    }
    let rollout = view.status.rollout.as_ref();
    let before = rollout.map_or(0, |rollout| rollout.replicas);
    let is_scaled = rollout.is_some_and(|rollout| rollout.scaled_from.is_some());
    if before == spec.replicas {
        // Where D is changed and changed back in between, each set gets back its size.
        // A declared point lets no more updated pods exist.
        let kept = view.most_updated().map_or(0, |most| view.desired - most);
        let lost = count(view.old().count()) + old > kept;
        if !is_scaled && old > 0 && view.reliable() + old > view.floor && lost {
            messages
                .push(format!("{old} old pods are created; lost pods are to be replaced by updated ones"));
        }
    } else if before > spec.replicas && !act.creates.is_empty() {
        messages.push("pods are created although D is smaller than before".to_owned());
    }
    messages
}

/// The replacement of each pod that failed early waits, twice as long as the one before.
pub(crate) fn replacements_wait(view: &View<'_>, act: &Act) -> Messages {
    let snapshot = view.snapshot;
    let mut messages = Messages::new();
    if view.keeps_sizes() {
        return messages;
    }
    for create in &act.creates {
        let Some(set) = snapshot.sets.iter().find(|set| set.hash == create.hash && !set.terminating) else {
            continue;
        };
        let of_set = snapshot.pods.iter().filter(|pod| pod.set == set.uid && !pod.terminating);
        let mut failures: Vec<(i64, i64, Timestamp, i64)> = of_set
            .filter_map(|pod| {
                let failed = pod.failed.as_ref()?;
                Some((pod.facts.created?.as_second(), failed.at.as_second(), failed.seen, 1))
            })
            .filter(|(created, at, ..)| at - created < EARLY)
            .collect();
        failures.sort_unstable();
        for index in 0..failures.len() {
            let created = failures[index].0;
            let before = failures[..index].iter().filter(|(_, at, ..)| (1..EARLY).contains(&(created - at)));
            failures[index].3 = before.map(|(.., wait)| (wait * 2).min(MAX_BACKOFF)).max().unwrap_or(1);
        }
        let waits = |(_, _, seen, wait): &&(i64, i64, Timestamp, i64)| {
            seen.as_second() + wait > snapshot.now.as_second()
        };
        let waiting = count(failures.iter().filter(waits).count());
        let room = view.ceiling - count(view.pods.len());
        if count(create.count) + waiting > room {
            messages.push(format!("{} pods are created, {waiting} replacements are to wait", create.count));
        }
    }
    messages
}
