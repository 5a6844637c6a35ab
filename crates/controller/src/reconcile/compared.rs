//! The result of a comparison of templates.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::Template;
use ordereddeployment_planner::ComparisonResult;
use tokio::time::Instant;

/// The result of a comparison.
#[derive(Debug)]
pub(crate) struct ComparisonRecord {
    pub(crate) template: Template,
    /// UIDs of the sets whose templates were compared.
    pub(crate) sets: BTreeSet<Arc<str>>,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Equal to the template of one of the sets, or new.
    Known(ComparisonResult),
    NoAnswer {
        since: Timestamp,
        message: String,
        /// How many times in a row there was no answer.
        times: u32,
        /// The earliest time of the next attempt.
        again: Instant,
    },
}
