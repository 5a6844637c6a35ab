//! The expected order of deletions in the demo. Pure functions.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Result, bail, ensure};

use crate::view::overview::PodRow;

/// A pod that the rollout deleted, with its last displayed details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeletedPod {
    pub(crate) name: String,
    place: String,
    why: String,
}

impl DeletedPod {
    pub(crate) fn new(name: &str, row: Option<&PodRow>) -> Self {
        let place: Vec<String> =
            row.iter().flat_map(|row| [row.node.clone(), row.pool.clone()]).flatten().collect();
        let why = row.and_then(|row| row.why.clone());
        Self {
            name: name.to_owned(),
            place: place.join(", "),
            why: why.unwrap_or_else(|| "not in the last overview".to_owned()),
        }
    }
}

impl fmt::Display for DeletedPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deleted {} ({}): {}", self.name, self.place, self.why)
    }
}

/// The expected order of deletions.
#[derive(Clone, Debug)]
pub(crate) struct ExpectedOrder {
    /// The first pods, in any order: their priorities are equal.
    pub(crate) first: BTreeSet<String>,
    /// Then the rollout pauses before this pod.
    pub(crate) pause_point: String,
    /// Then the other pods, in any order.
    pub(crate) rest: BTreeSet<String>,
}

impl ExpectedOrder {
    /// The result in one line, or an error that names the first difference. `at_pause` and `at_resume` are
    /// the numbers of deletions when the rollout paused and when it was resumed.
    pub(crate) fn check(&self, deleted: &[DeletedPod], at_pause: usize, at_resume: usize) -> Result<String> {
        let first = self.first.len();
        ensure!(
            at_pause == first && at_resume == first,
            "wrong order: expected {first} deletions before the pause point, found {at_pause} when it was \
             reached and {at_resume} when it was resumed"
        );
        let total = first + 1 + self.rest.len();
        ensure!(
            deleted.len() == total,
            "wrong order: {} pods were deleted instead of {total}",
            deleted.len()
        );
        let expected = |index: usize, name: &String| match index {
            index if index < first => self.first.contains(name),
            index if index == first => *name == self.pause_point,
            _ => self.rest.contains(name),
        };
        let mut checked = BTreeSet::new();
        for (index, pod) in deleted.iter().enumerate() {
            if !expected(index, &pod.name) || !checked.insert(&pod.name) {
                bail!("wrong order: deletion {} was {}", index + 1, pod.name);
            }
        }
        Ok(format!(
            "ok: {total} pods were deleted in the expected order, {first} before the pause point and {} \
             after the resume",
            total - first
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::{DeletedPod, ExpectedOrder};

    fn expected() -> ExpectedOrder {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ExpectedOrder { first: set(&["a", "b"]), pause_point: "c".to_owned(), rest: set(&["d", "e"]) }
    }

    fn deleted(names: &str) -> Vec<DeletedPod> {
        names.split(' ').map(|name| DeletedPod::new(name, None)).collect()
    }

    #[test]
    fn pods_of_equal_priority_are_deleted_in_any_order() {
        for order in ["a b c d e", "b a c e d"] {
            expected().check(&deleted(order), 2, 2).unwrap();
        }
    }

    #[test]
    fn any_other_order_or_number_is_an_error() {
        for order in
            ["a c b d e", "c a b d e", "a b d c e", "a b c d", "a b c d d", "a b c d e f", "a b c d x"]
        {
            expected().check(&deleted(order), 2, 2).unwrap_err();
        }
    }

    #[test]
    fn a_deletion_during_the_pause_is_an_error() {
        for (at_pause, at_resume) in [(1, 2), (2, 3), (3, 3)] {
            expected().check(&deleted("a b c d e"), at_pause, at_resume).unwrap_err();
        }
    }
}
