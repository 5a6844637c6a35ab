//! The kind `OrderedDeployment`: a Deployment's spec with an order of deletion.

#![allow(clippy::duplicated_attributes, reason = "each printcolumn of the derive repeats its keys")]

use std::borrow::Cow;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DeclaredPausePoint, LabelSelector, OrderedDeploymentStatus, Round, Template, pause_points, resolve,
    rules, schema,
};

/// The desired state: the fields and defaults of a Deployment, plus `deletionOrder` and `podDeletion`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ordereddeployment.io",
    version = "v1alpha1",
    kind = "OrderedDeployment",
    plural = "ordereddeployments",
    shortname = "od",
    category = "all",
    namespaced,
    doc = "A Deployment in which you choose the order in which pods are deleted, and the pods at which a \
           rollout pauses.",
    status = "OrderedDeploymentStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(
        name = "Complete",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Complete\")].status"
    ),
    printcolumn(name = "Held-At", type_ = "string", json_path = ".status.hold.id"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Held-Pod", type_ = "string", json_path = ".status.hold.pod", priority = "1"),
    printcolumn(name = "Held-Node", type_ = "string", json_path = ".status.hold.node", priority = "1"),
    printcolumn(name = "Until", type_ = "string", json_path = ".status.hold.until", priority = "1"),
    printcolumn(name = "Selector", type_ = "string", json_path = ".status.selector", priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::SELECTOR_MATCHES_LABELS.rule(),
    validation = rules::SELECTOR_MATCHES_EXPRESSIONS.rule(),
    validation = rules::RESTART_POLICY.rule(),
    validation = rules::ACTIVE_DEADLINE.rule(),
    validation = rules::PROGRESS_DEADLINE.rule(),
)]
pub struct OrderedDeploymentSpec {
    /// The desired number of pods.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Selects the pods of this object. It must match the template's labels and is immutable.
    #[x_kube(validation = rules::SELECTOR_IMMUTABLE.rule(), validation = rules::SELECTOR_EMPTY.rule())]
    pub selector: LabelSelector,
    /// The template of the pods.
    #[schemars(schema_with = "schema::template")]
    pub template: Template,
    /// How pods with an older template are replaced.
    #[serde(default)]
    pub strategy: Strategy,
    /// The order in which pods are deleted, in rollouts and in scale-downs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_order: Option<DeletionOrder>,
    /// How pods are deleted.
    #[serde(default)]
    pub pod_deletion: PodDeletion,
    /// When a deleted pod is replaced.
    #[serde(default)]
    pub pod_replacement_policy: PodReplacementPolicy,
    /// The number of seconds that a pod must be ready to be available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// The number of old sets that are kept for an undo.
    #[serde(default = "ten")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: i32,
    /// The number of seconds without progress after which a rollout is considered failed. The time while the
    /// rollout is paused does not count.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 0))]
    pub progress_deadline_seconds: i32,
    /// What happens when a rollout exceeds its progress deadline.
    #[serde(default)]
    pub progress_deadline_action: ProgressDeadlineAction,
    /// Whether the rollout is paused, independently of pause points.
    #[serde(default)]
    pub paused: bool,
}

fn one() -> i32 {
    1
}

fn ten() -> i32 {
    10
}

fn ten_minutes() -> i32 {
    600
}

/// What happens when a rollout exceeds its progress deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProgressDeadlineAction {
    /// The rollout continues when it can. A condition reports it.
    #[default]
    Continue,
    /// The rollout is aborted: the pods are rolled back to the last complete revision.
    Abort,
}

/// How pods with an older template are replaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::ROLLING_UPDATE_WITH_RECREATE.rule(),
    validation = rules::AFTER_UPDATED_WITH_RECREATE.rule(),
    validation = rules::ONE_NODE_GROUP_POINT.rule(),
)]
pub struct Strategy {
    /// RollingUpdate or Recreate.
    #[serde(default, rename = "type")]
    pub type_: StrategyType,
    /// The bounds of a rolling update. Default: 25% and 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// Where every rollout pauses, besides the pods with an annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pause_points::list")]
    pub pause_points: Option<Vec<DeclaredPausePoint>>,
}

impl Strategy {
    /// The declared pause points, in the order of the list.
    pub fn points(&self) -> impl Iterator<Item = &DeclaredPausePoint> {
        self.pause_points.iter().flatten()
    }

    /// The node label by which a rollout groups the pods of one delete priority, if a pause point declares
    /// one.
    #[must_use]
    pub fn node_group_label(&self) -> Option<&str> {
        self.points().find_map(|point| point.between_node_groups.as_deref())
    }
}

/// The kind of a strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StrategyType {
    /// Replace pods step by step, within `maxSurge` and `maxUnavailable`.
    #[default]
    RollingUpdate,
    /// Delete all old pods, then create new ones.
    Recreate,
}

/// The bounds of a rolling update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::MAX_SURGE.rule(),
    validation = rules::MAX_UNAVAILABLE.rule(),
    validation = rules::BOTH_ZERO.rule(),
)]
pub struct RollingUpdate {
    /// The number of pods that may exist above `replicas`: a number, or a percentage rounded up.
    #[serde(default = "quarter")]
    #[schemars(schema_with = "schema::max_surge")]
    pub max_surge: IntOrString,
    /// The number of pods that may be unavailable: a number, or a percentage rounded down.
    #[serde(default = "quarter")]
    #[schemars(schema_with = "schema::max_unavailable")]
    pub max_unavailable: IntOrString,
}

fn quarter() -> IntOrString {
    IntOrString::String("25%".to_owned())
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self { max_surge: quarter(), max_unavailable: quarter() }
    }
}

/// The order in which pods are deleted. Annotations of the pods take precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionOrder {
    /// Priorities by node, for pods without an annotation. The first matching rule applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_priorities: Option<Vec<NodePriority>>,
    /// Whether a rollout may delete unavailable pods out of order.
    #[serde(default)]
    pub unavailable_pods: UnavailablePods,
}

/// A rule that selects pods by their node. All of its fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::NODE_RULE_GRANT.rule(),
    validation = rules::NODE_RULE_EMPTY.rule(),
    validation = rules::NODE_RULE_UNASSIGNED.rule(),
)]
pub struct NodePriority {
    /// Matches pods on nodes with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Matches pods on nodes that are cordoned (`true`) or not (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unschedulable: Option<bool>,
    /// Matches pods on nodes with a taint of one of these keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub taint_keys: Option<Vec<String>>,
    /// Matches pods that are not assigned to a node (`true`), or that are (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unassigned: Option<bool>,
    /// The delete priority of the matching pods. Pods with a higher value are deleted first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The pod deletion cost of the matching pods. Pods with a lower value are deleted first, after
    /// unassigned, pending and unready pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_cost: Option<i32>,
}

/// Whether a rollout may delete unavailable pods out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnavailablePods {
    /// They may be deleted out of order if the rollout cannot continue otherwise, but not past a pause point.
    #[default]
    WhenBlocked,
    /// They are deleted in order, even if the rollout cannot continue then. A condition reports it.
    InOrder,
}

/// How pods are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodDeletion {
    /// With a DELETE request.
    #[default]
    Delete,
    /// With the eviction API, which respects PodDisruptionBudgets. Unavailable pods are deleted.
    Evict,
}

/// When a deleted pod is replaced (KEP-3973).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodReplacementPolicy {
    /// When it starts to terminate.
    #[default]
    TerminationStarted,
    /// When it has terminated.
    TerminationComplete,
}

/// The status of an object without one.
static NO_STATUS: LazyLock<OrderedDeploymentStatus> = LazyLock::new(OrderedDeploymentStatus::default);

impl OrderedDeployment {
    /// The status as stored; the default if there is none.
    #[must_use]
    pub fn stored_status(&self) -> &OrderedDeploymentStatus {
        self.status.as_ref().unwrap_or(&NO_STATUS)
    }
}

impl OrderedDeploymentSpec {
    /// `maxSurge` in pods, rounded up; 0 under Recreate.
    #[must_use]
    pub fn max_surge(&self) -> i64 {
        match self.strategy.type_ {
            StrategyType::Recreate => 0,
            StrategyType::RollingUpdate => {
                resolve(&self.rolling_update().max_surge, self.replicas, Round::Up).unwrap_or(0)
            }
        }
    }

    /// `maxUnavailable` in pods: rounded down, at most `replicas`, and 1 where surge and this one would both
    /// round to
    /// 0. Under Recreate it is `replicas`: the floor is 0.
    #[must_use]
    pub fn max_unavailable(&self) -> i64 {
        let replicas = i64::from(self.replicas.max(0));
        match self.strategy.type_ {
            StrategyType::Recreate => replicas,
            StrategyType::RollingUpdate => {
                let value = resolve(&self.rolling_update().max_unavailable, self.replicas, Round::Down);
                let value = value.unwrap_or(0).min(replicas);
                if value == 0 && self.max_surge() == 0 { 1.min(replicas) } else { value }
            }
        }
    }

    /// The bounds of the rolling update, by default 25% and 25%.
    fn rolling_update(&self) -> Cow<'_, RollingUpdate> {
        self.strategy.rolling_update.as_ref().map(Cow::Borrowed).unwrap_or_default()
    }
}
