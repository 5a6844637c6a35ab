//! Shrinks a case to the shortest one with the same violation.

use crate::Case;
use crate::case::Fault;

/// Removes faults and steps and makes the others smaller, as long as `fails` returns true.
pub fn shrink(case: &Case, fails: impl Fn(&Case) -> bool) -> Case {
    let mut best = case.clone();
    while let Some(smaller) = smaller(&best).into_iter().find(|smaller| fails(smaller)) {
        best = smaller;
    }
    best
}

/// Every case that is one step smaller, the largest steps first.
fn smaller(case: &Case) -> Vec<Case> {
    let with = |change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        smaller
    };
    let mut all = Vec::new();
    if case.faults.len() > 3 {
        let half = case.faults.len() / 2;
        all.push(with(&|case| _ = case.faults.drain(half..)));
        all.push(with(&|case| _ = case.faults.drain(..half)));
    }
    all.extend((0..case.faults.len()).rev().map(|place| with(&|case| _ = case.faults.remove(place))));
    all.extend((0..case.steps.len()).rev().map(|place| with(&|case| _ = case.steps.remove(place))));
    if case.cluster.instances > 1 {
        all.push(with(&|case| case.cluster.instances = 1));
    }
    if case.cluster.page_limit > 0 {
        all.push(with(&|case| case.cluster.page_limit = 0));
    }
    for (place, fault) in case.faults.iter().enumerate() {
        all.extend(less(fault).into_iter().map(|less| with(&|case| case.faults[place] = less.clone())));
    }
    all
}

/// What is halved in a fault, and its least value.
const HALVED: [(&str, u64); 5] =
    [("times", 1), ("skip", 0), ("restart_after", 1000), ("span/duration", 1000), ("effect/Delay", 100)];

/// Smaller variants of a fault.
fn less(fault: &Fault) -> Vec<Fault> {
    let less = HALVED.iter().filter_map(|(field, least)| {
        let mut smaller = serde_json::to_value(fault).ok()?;
        let (kind, _) = smaller.as_object()?.iter().next()?;
        let number = smaller.pointer_mut(&format!("/{kind}/{field}"))?;
        let whole = number.as_u64().filter(|whole| whole > least)?;
        *number = (whole / 2).max(*least).into();
        serde_json::from_value(smaller).ok()
    });
    less.collect()
}
