//! The writes of one object: what the next ones depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The writes of one object.
#[derive(Debug)]
pub(crate) struct Writes {
    /// How many pods and sets were created since the object was last read live.
    pub(crate) created: usize,
    /// The size of the next batch of creates: more than 1 while the creates of a decision go on.
    pub(crate) next_batch: usize,
    pub(crate) taken_names: BTreeSet<String>,
    /// UIDs of owners whose last create came back changed, so that the object is not theirs, and the message:
    /// a set for its pods, the deployment for its sets. A dry run precedes the next create until it comes
    /// back unchanged.
    pub(crate) altered_creates: BTreeMap<Arc<str>, String>,
    /// Whether budgets may have been counted with older sizes of the sets, or with those between two writes.
    pub(crate) recount_due: bool,
    /// Whether the sizes of several sets were written since budgets were last counted.
    pub(crate) recount_at_rest: bool,
    /// For a plain Deployment: the generations of its sets when it was last read before a delete.
    pub(crate) confirmed_sets: BTreeMap<Arc<str>, i64>,
}

impl Writes {
    pub(crate) fn new(is_held: bool) -> Self {
        Self {
            created: 0,
            next_batch: 1,
            taken_names: BTreeSet::new(),
            altered_creates: BTreeMap::new(),
            // What was written before this process started is not known.
            recount_due: true,
            // A pause can last for days, and its sizes may have been written just before the last process
            // ended.
            recount_at_rest: is_held,
            confirmed_sets: BTreeMap::new(),
        }
    }
}
