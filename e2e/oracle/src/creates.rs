//! How many pods an act creates, and of which set.

use jiff::Timestamp;
use ordereddeployment_planner::Act;

use crate::view::{Messages, View, count, current_sets};

/// A pod that fails after this time, in seconds, is replaced at once.
const EARLY: i64 = 600;
/// The longest back-off of a replacement, in seconds.
const MAX_BACKOFF: i64 = 300;

/// An act creates no more pods than the ceiling allows.
pub(crate) fn ceiling(view: &View<'_>, act: &Act) -> Messages {
    above_ceiling(view, count(act.creates.iter().map(|create| create.count).sum()))
}

/// Creating that many pods leaves no more active pods than D and the surge, and none where D is 0.
pub fn above_ceiling(view: &View<'_>, created: i64) -> Messages {
    let after = view.present() + created;
    let is_above = created > 0 && after > view.ceiling;
    is_above.then(|| format!("{after} active pods, {} are allowed", view.ceiling)).into_iter().collect()
}

/// No pod is made of a revision that another template stopped before it served, except of the first release.
pub(crate) fn served(view: &View<'_>, act: &Act) -> Messages {
    let sets = &view.snapshot.sets;
    let current = current_sets(view.snapshot);
    let of = |hash: &str| sets.iter().find(|set| set.hash == hash && !set.terminating);
    let created = act.creates.iter().filter(|create| create.count > 0).filter_map(|create| of(&create.hash));
    let stopped =
        created.filter(|set| set.served == Some(0) && set.revision != 1 && !current.contains(&*set.uid));
    stopped.map(|set| format!("pods are made of {}, whose revision did not serve", set.name)).collect()
}

/// The replacement of each pod that failed early waits, twice as long as the one before.
pub(crate) fn replacements_wait(view: &View<'_>, act: &Act) -> Messages {
    let snapshot = view.snapshot;
    let mut messages = Messages::new();
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
