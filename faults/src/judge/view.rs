//! What a decision was made on, counted anew by the contract: the view that the oracles of single decisions have, too.

use ordereddeployment_planner::{Observed, to_compare};

pub(super) use ordereddeployment_oracle::{Member, View, count, current_set, current_sets, has_begun};

/// Whether no rollout may go on, as nobody knows whether the template is new.
pub(super) fn is_uncompared(observed: &Observed) -> bool {
    !to_compare(observed).is_empty()
}
