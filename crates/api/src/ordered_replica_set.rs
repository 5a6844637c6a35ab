//! The kind `OrderedReplicaSet`: the pods of one template of an `OrderedDeployment`.
//!
//! It is not an apps/v1 `ReplicaSet`, since kube-controller-manager acts on every one of those. The controller of its
//! `OrderedDeployment` moves its pods; the size in its spec is published for PodDisruptionBudgets and people.

#![allow(clippy::duplicated_attributes, reason = "each printcolumn of the derive repeats its keys")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LabelSelector, Template, rules, schema};

/// The pods of one template.
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
    /// How many pods it has when nothing is lost. Published by the controller, not read back in a running rollout.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// How long its pods must be ready, in seconds, before they count as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Which pods belong to it: the `OrderedDeployment`'s selector and the `pod-template-hash`.
    #[x_kube(validation = rules::SELECTOR_IMMUTABLE.rule(), validation = rules::SELECTOR_EMPTY.rule())]
    pub selector: LabelSelector,
    /// The template of its pods.
    #[schemars(schema_with = "schema::template")]
    pub template: Template,
}

/// What was observed of the set's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderedReplicaSetStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods that run or start: not terminating, not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Those that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Those that have been ready for `minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Pods that terminate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The selector as a string, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}
