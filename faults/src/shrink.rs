//! The shortest case that still shows what a longer one showed.

use crate::Case;
use crate::case::{Fault, Span, WatchHow};

/// Leaves out faults and steps, and makes what is left smaller, as long as `shows` still says yes.
#[must_use]
pub fn shrink(case: &Case, shows: impl Fn(&Case) -> bool) -> Case {
    let mut best = case.clone();
    while let Some(smaller) = smaller(&best).into_iter().find(|smaller| shows(smaller)) {
        best = smaller;
    }
    best
}

/// Every case that is one step smaller, the boldest steps first.
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
    if case.cluster.page > 0 {
        all.push(with(&|case| case.cluster.page = 0));
    }
    for (place, fault) in case.faults.iter().enumerate() {
        all.extend(less(fault).into_iter().map(|less| with(&|case| case.faults[place] = less.clone())));
    }
    all
}

/// The same fault, striking less.
fn less(fault: &Fault) -> Vec<Fault> {
    let half = |span: Span| (span.lasts > 1000).then_some(Span { lasts: span.lasts / 2, ..span });
    match fault.clone() {
        Fault::Request { class, skip, times, how } => {
            let mut less = Vec::new();
            if times > 1 {
                less.push(Fault::Request { class: class.clone(), skip, times: times / 2, how: how.clone() });
            }
            if skip > 0 {
                less.push(Fault::Request { class, skip: skip / 2, times, how });
            }
            less
        }
        Fault::Crash { write, moment, back } if back > 1000 => {
            vec![Fault::Crash { write, moment, back: 1000 }]
        }
        Fault::Watch { plural, span, how } => {
            let mut less = Vec::new();
            less.extend(half(span).map(|span| Fault::Watch { plural: plural.clone(), span, how }));
            if let WatchHow::Delay(millis) = how
                && millis > 100
            {
                less.push(Fault::Watch { plural, span, how: WatchHow::Delay(millis / 2) });
            }
            less
        }
        Fault::Cut { instance, span } => {
            half(span).map(|span| Fault::Cut { instance, span }).into_iter().collect()
        }
        Fault::Freeze { instance, span } => {
            half(span).map(|span| Fault::Freeze { instance, span }).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
