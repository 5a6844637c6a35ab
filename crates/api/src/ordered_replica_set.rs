//! The kind `OrderedReplicaSet`: the pods of one template of an `OrderedDeployment`.
//!
//! It is not an apps/v1 `ReplicaSet`, since kube-controller-manager acts on every one of those. The
//! controller of its `OrderedDeployment` moves its pods; the size in its spec is published for
//! PodDisruptionBudgets and people.

#![allow(clippy::duplicated_attributes, reason = "each printcolumn of the derive repeats its keys")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LabelSelector, Template, limits, rules, schema};

/// The desired state of the pods of one template.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "ordereddeployment.io",
    version = "v1alpha1",
    kind = "OrderedReplicaSet",
    plural = "orderedreplicasets",
    shortname = "ors",
    category = "all",
    namespaced,
    doc = "The pods of one template of an OrderedDeployment, which creates and scales it.",
    status = "OrderedReplicaSetStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(
        name = "Revision",
        type_ = "string",
        json_path = ".metadata.annotations.ordereddeployment\\.io/revision"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Selector", type_ = "string", json_path = ".status.selector", priority = "1")
)]
#[serde(rename_all = "camelCase")]
pub struct OrderedReplicaSetSpec {
    /// The number of pods. The controller publishes it; it is not read back during a rollout.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// The number of seconds that a pod must be ready to be available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Selects the pods of this set: the `OrderedDeployment`'s selector and the `pod-template-hash`.
    #[x_kube(validation = rules::SELECTOR_IMMUTABLE.rule(), validation = rules::SELECTOR_EMPTY.rule())]
    pub selector: LabelSelector,
    /// The template of its pods.
    #[schemars(schema_with = "schema::template")]
    pub template: Template,
}

/// The observed state of the set's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderedReplicaSetStatus {
    /// The generation of the spec that this status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods that are neither terminating nor finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of ready pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Number of available pods: those that have been ready for `minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Number of terminating pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The selector in string form, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SELECTOR))]
    pub selector: Option<String>,
}
