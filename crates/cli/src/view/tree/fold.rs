//! Which pods of a tree are shown. Pure functions.

use crate::view::overview::{Overview, PodRow, SetRow};

/// Trees with more pods are folded.
const MANY: usize = 50;
/// The number of pods of a folded set that are shown.
const SHOWN: usize = 15;

/// How a tree is folded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fold<'a> {
    /// Show all pods.
    pub(crate) all: bool,
    /// Show only pods with this text in their name, node, pool or status, and all of them.
    pub(crate) filter: Option<&'a str>,
    /// Whether a key shows all pods, and not the flag of a command.
    pub(crate) on_screen: bool,
}

/// The pods of the set that are shown, and how many are not.
pub(super) fn shown<'o>(set: &'o SetRow, overview: &Overview, fold: Fold<'_>) -> (Vec<&'o PodRow>, usize) {
    let total = set.pods.len();
    let kept: Vec<&PodRow> = if let Some(text) = fold.filter {
        set.pods.iter().filter(|pod| has(pod, text)).collect()
    } else if fold.all || overview.pods().count() <= MANY {
        set.pods.iter().collect()
    } else {
        folded(set, overview)
    };
    let hidden = total - kept.len();
    (kept, hidden)
}

/// The first pods of the order, the one of the pause point, and those that need attention. In a rollout, the
/// pods of the current revision have no place, so only the last are shown.
fn folded<'o>(set: &'o SetRow, overview: &Overview) -> Vec<&'o PodRow> {
    let is_barrier = |pod: &PodRow| overview.barrier.as_ref().is_some_and(|barrier| barrier.uid == pod.uid);
    let (mut ordered, mut others) = (0, 0);
    set.pods
        .iter()
        .filter(|pod| {
            let attention = !pod.ready || pod.point.is_some();
            if pod.place.is_some() && ordered < SHOWN {
                ordered += 1;
                return true;
            }
            if attention && others < SHOWN {
                others += 1;
                return true;
            }
            is_barrier(pod)
        })
        .collect()
}

fn has(pod: &PodRow, text: &str) -> bool {
    let optional = [&pod.node, &pod.pool].into_iter().flatten();
    [&pod.name, &pod.status].into_iter().chain(optional).any(|value| value.contains(text))
}
