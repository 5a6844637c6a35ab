//! Shrinks a case to the shortest one with the same violation.

use crate::Case;
use crate::case::{Fault, Span, WatchFault};

/// Removes faults and steps and makes the others smaller, as long as `fails` returns true.
#[must_use]
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

/// Smaller variants of a fault.
fn less(fault: &Fault) -> Vec<Fault> {
    let half = |span: Span| (span.duration > 1000).then_some(Span { duration: span.duration / 2, ..span });
    match fault.clone() {
        Fault::Request { matcher, skip, times, effect } => {
            let mut less = Vec::new();
            if times > 1 {
                less.push(Fault::Request {
                    matcher: matcher.clone(),
                    skip,
                    times: times / 2,
                    effect: effect.clone(),
                });
            }
            if skip > 0 {
                less.push(Fault::Request { matcher, skip: skip / 2, times, effect });
            }
            less
        }
        Fault::Crash { write, moment, restart_after } if restart_after > 1000 => {
            vec![Fault::Crash { write, moment, restart_after: 1000 }]
        }
        Fault::Watch { plural, span, effect } => {
            let mut less = Vec::new();
            less.extend(half(span).map(|span| Fault::Watch { plural: plural.clone(), span, effect }));
            if let WatchFault::Delay(millis) = effect
                && millis > 100
            {
                less.push(Fault::Watch { plural, span, effect: WatchFault::Delay(millis / 2) });
            }
            less
        }
        Fault::Partition { instance, span } => {
            half(span).map(|span| Fault::Partition { instance, span }).into_iter().collect()
        }
        Fault::Freeze { instance, span } => {
            half(span).map(|span| Fault::Freeze { instance, span }).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
