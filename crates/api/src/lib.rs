//! The API of `ordereddeployment.io/v1alpha1`: its kinds, every name a user types or sees, validation, and
//! the `CustomResourceDefinition`s made from them.
//!
//! This crate describes; it never decides, talks to a server or reads a clock.

mod amount;
mod crds;
mod duration;
mod limited;
pub mod limits;
pub mod names;
mod not_empty;
mod ordered_deployment;
mod ordered_replica_set;
mod pause_points;
mod rules;
mod schema;
mod selector;
mod status;
mod template;
mod time;
mod validation;

pub use amount::{Round, resolve};
pub use crds::{crds, to_yaml};
pub use duration::parse_pause_duration;
pub use ordered_deployment::{
    DeletionOrder, NodePriority, OrderedDeployment, OrderedDeploymentSpec, PodDeletion, PodReplacementPolicy,
    ProgressDeadlineAction, RollingUpdate, Strategy, StrategyType, UnavailablePods,
};
pub use ordered_replica_set::{OrderedReplicaSet, OrderedReplicaSetSpec, OrderedReplicaSetStatus};
pub use pause_points::DeclaredPausePoint;
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};
pub use status::{
    Aborted, Action, AheadPoint, Blocked, CompleteRevision, Condition, ConditionStatus, HeldPoint,
    HistoryEntry, Hold, NodeGroups, OrderedDeploymentStatus, Passed, PassedBy, PausePoint, Rollout, Scaling,
    Share, Sizes,
};
pub use template::{Template, canonical, equality_hash, template_hash};
pub use time::parse_time;
pub use validation::{Violation, parse_pause_points, validate, validate_node_rule};
