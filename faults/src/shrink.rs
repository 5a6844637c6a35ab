//! The shortest case that still shows what a longer one showed.

use crate::Case;

/// Leaves out faults and steps as long as `shows` still says yes.
#[must_use]
pub fn shrink(case: &Case, shows: impl Fn(&Case) -> bool) -> Case {
    let mut best = case.clone();
    loop {
        let without_fault = (0..best.faults.len()).rev().map(|place| {
            let mut smaller = best.clone();
            smaller.faults.remove(place);
            smaller
        });
        let without_step = (0..best.steps.len()).rev().map(|place| {
            let mut smaller = best.clone();
            smaller.steps.remove(place);
            smaller
        });
        let Some(smaller) = without_fault.chain(without_step).find(|smaller| shows(smaller)) else {
            return best;
        };
        best = smaller;
    }
}
