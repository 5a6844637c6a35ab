//! How many pods an act creates, and of which set.

use jiff::Timestamp;
use ordereddeployment_api::StrategyType;
use ordereddeployment_planner::Act;

use crate::Found;
use crate::view::{View, count, current_set, current_sets};

/// How long a pod must have lived for its failure to be one of its own, in seconds.
const MATURE: i64 = 600;
/// The longest that a replacement waits, in seconds.
const LONGEST: i64 = 300;

fn created(act: &Act) -> i64 {
    count(act.creates.iter().map(|create| create.count).sum())
}

/// A create leaves no more active pods than D and the surge; none where D is 0.
pub(crate) fn ceiling(view: &View<'_>, act: &Act) -> Found {
    let mut found = Found::new();
    if created(act) == 0 {
        return found;
    }
    let after = view.present() + created(act);
    // What a hold or a pause stored may include surge pods of a larger maxSurge, and grows with D.
    let stored = match (view.held(), &view.status.pause) {
        (Some(hold), _) => Some((&hold.sizes, hold.replicas)),
        (None, Some(pause)) if view.is_kept() => Some((&pause.sizes, pause.replicas)),
        _ => None,
    };
    let stored = stored.map_or(0, |(sizes, replicas)| {
        let stored: i64 = sizes.values().map(|size| i64::from(*size)).sum();
        stored + (view.desired - i64::from(replicas)).max(0)
    });
    let ceiling = if view.desired == 0 { 0 } else { view.ceiling.max(stored) };
    if after > ceiling {
        found.push(format!("{after} active pods, where {ceiling} are allowed"));
    }
    let current = current_sets(view.snapshot);
    let old_there = view.snapshot.pods.iter().any(|pod| !pod.finished && !current.contains(&*pod.set));
    if view.recreates() && !view.is_kept() && old_there {
        found.push("a pod is created while an old one is there, under Recreate".to_owned());
    }
    found
}

/// Whatever is stored, there are never many more pods than D.
pub(crate) fn few(view: &View<'_>, act: &Act) -> Found {
    let after = count(view.pods.len()) + created(act);
    let many = created(act) > 0 && after > view.ceiling.max(2 * view.desired);
    if many { vec![format!("{after} of {} pods", view.desired)] } else { Found::new() }
}

/// A running rolling update creates updated pods, D − B of them while there is a barrier, and old ones only where too few are left
/// to rely on or where it is scaled.
pub(crate) fn wanted(view: &View<'_>, act: &Act) -> Found {
    let snapshot = view.snapshot;
    let spec = &snapshot.deployment.spec;
    let runs = spec.replicas > 0 && spec.strategy.type_ == StrategyType::RollingUpdate && !view.is_kept();
    if !runs || view.old().next().is_none() {
        return Found::new();
    }
    let current = current_set(snapshot);
    let is_new = |hash: &str| {
        let other = || snapshot.sets.iter().all(|set| set.terminating || set.hash != hash);
        current.map_or_else(other, |set| set.hash == hash)
    };
    let sum = |new: bool| -> i64 {
        let creates = act.creates.iter().filter(|create| is_new(&create.hash) == new);
        creates.map(|create| count(create.count)).sum()
    };
    let (new, old) = (sum(true), sum(false));
    let mut found = Found::new();
    if new > 0 && view.updated() + new > view.wanted() {
        found.push(format!(
            "{new} updated pods are created beside {}, where {} are wanted",
            view.updated(),
            view.wanted()
        ));
    }
    let rollout = view.status.rollout.as_ref();
    let before = rollout.map_or(0, |rollout| rollout.replicas);
    let is_scaled = rollout.is_some_and(|rollout| rollout.scaled_from.is_some());
    if before == spec.replicas {
        // Where D came back before its change was carried out, each set gets back what it had.
        if !is_scaled && old > 0 && view.reliable() + old > view.floor {
            found.push(format!("{old} old pods are created, where lost pods come back updated"));
        }
    } else if before > spec.replicas && !act.creates.is_empty() {
        found.push("a smaller D creates pods".to_owned());
    }
    found
}

/// Each pod that failed young keeps one replacement waiting, twice as long as the failure that it follows.
pub(crate) fn replacements_wait(view: &View<'_>, act: &Act) -> Found {
    let snapshot = view.snapshot;
    let mut found = Found::new();
    if view.is_kept() {
        return found;
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
            .filter(|(created, at, ..)| at - created < MATURE)
            .collect();
        failures.sort_unstable();
        for index in 0..failures.len() {
            let created = failures[index].0;
            let before = failures[..index].iter().filter(|(_, at, ..)| (1..MATURE).contains(&(created - at)));
            failures[index].3 = before.map(|(.., wait)| (wait * 2).min(LONGEST)).max().unwrap_or(1);
        }
        let waits = |(_, _, seen, wait): &&(i64, i64, Timestamp, i64)| {
            seen.as_second() + wait > snapshot.now.as_second()
        };
        let waiting = count(failures.iter().filter(waits).count());
        let room = view.ceiling - count(view.pods.len());
        if count(create.count) + waiting > room {
            found.push(format!("{} pods are created although {waiting} have to wait", create.count));
        }
    }
    found
}
