//! What is read of the bytes: serde skips all other fields without building them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

use super::{ConditionView, PodSpecView, PodStatusView, PodView, SCHEDULED};

#[derive(Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: PodSpecView,
    #[serde(default)]
    status: PodStatusView,
}

impl From<Pod> for PodView {
    fn from(pod: Pod) -> Self {
        let Pod { metadata, spec, mut status } = pod;
        if status.phase.as_deref() == Some("Failed") {
            let written = metadata.managed_fields.iter().flatten().filter(|entry| entry.is_status());
            let written = written.filter_map(|entry| entry.time.clone()).max_by_key(|time| time.0);
            status.failed_at = status.failed_at.or(written);
        } else {
            // What nobody reads of the many that run.
            (status.reason, status.message, status.start_time) = (None, None, None);
        }
        Self { metadata: metadata.into(), spec, status }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    last_transition_time: Option<Time>,
    #[serde(default)]
    message: Option<String>,
}

impl From<Condition> for ConditionView {
    fn from(condition: Condition) -> Self {
        let Condition { type_, status, last_transition_time, message } = condition;
        let message = message.filter(|_| type_ == SCHEDULED && status == "False");
        Self { type_, status, last_transition_time, message }
    }
}

/// The fields of metadata that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
    managed_fields: Option<Vec<Written>>,
}

/// Who wrote last, and when.
#[derive(Deserialize)]
struct Written {
    manager: Option<String>,
    subresource: Option<String>,
    time: Option<Time>,
}

impl Written {
    /// Whether it was the status. Servers before 1.22 name no subresource.
    fn is_status(&self) -> bool {
        let by_kubelet = || self.manager.as_deref() == Some("kubelet");
        self.subresource.as_deref().map_or_else(by_kubelet, |subresource| subresource == "status")
    }
}

impl From<Meta> for ObjectMeta {
    fn from(meta: Meta) -> Self {
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            labels: meta.labels,
            annotations: meta.annotations,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            owner_references: meta.owner_references,
            ..Self::default()
        }
    }
}

/// Less is kept of a node.
pub(super) fn narrow_node<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let kept = Meta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: kept.name,
        uid: kept.uid,
        resource_version: kept.resource_version,
        labels: kept.labels,
        ..ObjectMeta::default()
    })
}
