//! Objects that could not be adopted or released.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object that could not be adopted or released.
#[derive(Clone, Debug)]
pub(crate) struct Unclaimed {
    /// The UID of the set that adopts or releases it. `None`: the object is a set.
    pub(crate) set: Option<Arc<str>>,
    /// Why.
    pub(crate) message: String,
}

/// The claims of one object that failed.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Matching orphans that the last live read could not adopt.
    pub(crate) unadopted: BTreeMap<String, Unclaimed>,
    /// Objects that no longer match and could not be released.
    pub(crate) unreleased: BTreeMap<String, Unclaimed>,
}

impl Claims {
    /// Why adopting or releasing fails for these sets, if it does. `None` stands for objects that are sets.
    pub(crate) fn message(&self, of: impl Fn(Option<&Arc<str>>) -> bool) -> Option<String> {
        let all = self.unadopted.values().chain(self.unreleased.values());
        let mut all = all.filter(|unclaimed| of(unclaimed.set.as_ref()));
        let first = all.next()?.message.clone();
        let more = match all.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        Some(first + &more)
    }

    /// The UIDs of the sets for which a pod could not be adopted or released.
    pub(crate) fn sets(&self) -> BTreeSet<Arc<str>> {
        let all = self.unadopted.values().chain(self.unreleased.values());
        all.filter_map(|unclaimed| unclaimed.set.clone()).collect()
    }
}
