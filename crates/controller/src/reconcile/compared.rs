//! What a comparison of templates ended in.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::Template;
use ordereddeployment_planner::ComparisonResult;
use tokio::time::Instant;

/// What a comparison ended in.
#[derive(Debug)]
pub(crate) struct ComparisonRecord {
    pub(crate) template: Template,
    /// UIDs of the sets it was compared with.
    pub(crate) sets: BTreeSet<Arc<str>>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Equal to one of the sets' templates, or new.
    Known(ComparisonResult),
    NoAnswer {
        since: Timestamp,
        message: String,
        /// How often in a row.
        times: u32,
        /// Before this it is not asked again.
        again: Instant,
    },
}
