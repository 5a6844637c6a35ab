//! What the demo promises, and whether it was kept. Pure.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Result, bail, ensure};

use crate::overview::PodRow;

/// A pod that the rollout deleted, as it was shown before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deleted {
    pub(crate) name: String,
    place: String,
    why: String,
}

impl Deleted {
    pub(crate) fn new(name: &str, row: Option<&PodRow>) -> Self {
        let mut place: Vec<String> =
            row.iter().flat_map(|row| [row.node.clone(), row.pool.clone()]).flatten().collect();
        place.extend(row.map(|row| format!("priority {}", row.priority)));
        let why = row.map(|row| row.why.clone().unwrap_or_else(|| "the last one".to_owned()));
        Self {
            name: name.to_owned(),
            place: place.join(", "),
            why: why.unwrap_or_else(|| "never seen before".to_owned()),
        }
    }
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deleted {} ({}): {}", self.name, self.place, self.why)
    }
}

/// Which pods are to go when.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    /// These first, in any order: their priorities are equal.
    pub(crate) first: BTreeSet<String>,
    /// Then the rollout halts before this one.
    pub(crate) halt: String,
    /// Then these, in any order.
    pub(crate) rest: BTreeSet<String>,
}

impl Promise {
    /// In one line that it was kept, or an error that says where it was not. Counts are of deletions: when the hold was
    /// seen, and when the rollout was resumed.
    pub(crate) fn judge(&self, deleted: &[Deleted], at_hold: usize, at_resume: usize) -> Result<String> {
        let first = self.first.len();
        ensure!(
            at_hold == first && at_resume == first,
            "the promise was broken: {first} pods were to go before the pause point, but {at_hold} had gone when it was reached and {at_resume} when it was resumed"
        );
        let total = first + 1 + self.rest.len();
        ensure!(
            deleted.len() == total,
            "the promise was broken: {} pods were deleted instead of {total}",
            deleted.len()
        );
        let expected = |index: usize, name: &String| match index {
            index if index < first => self.first.contains(name),
            index if index == first => *name == self.halt,
            _ => self.rest.contains(name),
        };
        let mut seen = BTreeSet::new();
        for (index, pod) in deleted.iter().enumerate() {
            if !expected(index, &pod.name) || !seen.insert(&pod.name) {
                bail!("the promise was broken: deletion {} was {}, out of order", index + 1, pod.name);
            }
        }
        Ok(format!(
            "ok: {total} pods went in the promised order, {first} before the pause point and {} after it was resumed",
            total - first
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{Deleted, Promise};

    fn promise() -> Promise {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Promise { first: set(&["a", "b"]), halt: "c".to_owned(), rest: set(&["d", "e"]) }
    }

    fn deleted(names: &str) -> Vec<Deleted> {
        names.split(' ').map(|name| Deleted::new(name, None)).collect()
    }

    #[test]
    fn equals_may_go_in_any_order() {
        for order in ["a b c d e", "b a c e d"] {
            promise().judge(&deleted(order), 2, 2).unwrap();
        }
    }

    #[test]
    fn any_other_order_or_number_is_a_broken_promise() {
        for order in
            ["a c b d e", "c a b d e", "a b d c e", "a b c d", "a b c d d", "a b c d e f", "a b c d x"]
        {
            promise().judge(&deleted(order), 2, 2).unwrap_err();
        }
    }

    #[test]
    fn a_deletion_during_the_hold_is_a_broken_promise() {
        for (at_hold, at_resume) in [(1, 2), (2, 3), (3, 3)] {
            promise().judge(&deleted("a b c d e"), at_hold, at_resume).unwrap_err();
        }
    }
}
