//! The API of `ordereddeployment.io/v1alpha1`: its kinds, every name a user types or sees, validation, and the
//! `CustomResourceDefinition`s made from them.
//!
//! This crate describes; it never decides, talks to a server or reads a clock.

mod amount;
mod crds;
pub mod names;
mod ordered_deployment;
mod ordered_replica_set;
mod rules;
mod schema;
mod selector;
mod status;
mod template;
mod validation;

pub use amount::{Round, resolve};
pub use crds::{crds, to_yaml};
pub use ordered_deployment::{
    DeletionOrder, NodePriority, OrderedDeployment, OrderedDeploymentSpec, PodDeletion, PodReplacementPolicy,
    RollingUpdate, Strategy, StrategyType, UnavailablePods,
};
pub use ordered_replica_set::{OrderedReplicaSet, OrderedReplicaSetSpec, OrderedReplicaSetStatus};
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use status::{
    Condition, ConditionStatus, Hold, HoldReason, OrderedDeploymentStatus, Passed, Pause, PausePoint, Rollout,
};
pub use template::{Template, canonical, template_hash};
pub use validation::{Violation, validate, validate_node_rule};

/// Parses a duration as Go writes it (`10m`, `1h30m`), for `ordereddeployment.io/pause-duration`.
///
/// `None` when the text is malformed, zero or negative, or longer than a century: it then counts as absent.
#[must_use]
pub fn parse_pause_duration(text: &str) -> Option<std::time::Duration> {
    /// Far beyond any use, and small enough to be added to any time of day.
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 3600);
    if text.len() > 64 || !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    // Beyond what a `Duration` holds the library's own conversion would overflow.
    let digits = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(str::len).max().unwrap_or(0);
    if digits > 12 {
        return None;
    }
    let duration: kube::core::Duration = text.parse().ok()?;
    let duration = std::time::Duration::from(duration);
    (!duration.is_zero() && duration <= LONGEST).then_some(duration)
}
