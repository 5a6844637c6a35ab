//! What was reported about one object, and what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ordereddeployment_wire::MalformedAnnotation;
use tokio::time::Instant;

/// Malformed annotations that were already warned of, so that each is warned of once: with the UID of their
/// pod, or of the object itself.
pub(crate) type Warned = BTreeSet<(Option<Arc<str>>, MalformedAnnotation)>;

/// The reports about one object.
#[derive(Debug, Default)]
pub(crate) struct Reporting {
    /// When the status was last reported.
    pub(crate) reported: Option<Instant>,
    /// When the status of a set was last written.
    pub(crate) sets_reported: Option<Instant>,
    /// When the sizes of the sets of a running rollout were last written.
    pub(crate) published: Option<Instant>,
    /// When they must be written next, if they lag.
    pub(crate) publishes_at: Option<Instant>,
    /// Fields of the status that the API server does not store.
    pub(crate) unstored: Vec<String>,
    /// The pause points that were known at the last decision.
    pub(crate) known_points: BTreeMap<Arc<str>, String>,
    pub(crate) warned: Warned,
}
