//! Decodes the fields that are read; all other fields are skipped without building them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use ordereddeployment_api::parse_time;
use serde::{Deserialize, Deserializer};

use super::lenient::{self, Shape, fields};
use super::{
    ConditionView, ContainerStatusView, InitContainerView, NodeSpecView, NodeView, PodSpecView,
    PodStatusView, PodView, SCHEDULED, TaintView,
};

#[derive(Default)]
struct Pod {
    metadata: Meta,
    spec: PodSpecView,
    status: PodStatusView,
}

fields!(Pod { "metadata" => metadata, "spec" => spec, "status" => status });

fields!(PodSpecView { "nodeName" => node_name, "initContainers" => init_containers });

fields!(InitContainerView { "name" => name, "restartPolicy" => restart_policy });

fields!(PodStatusView {
    "phase" => phase, "reason" => reason, "message" => message, "startTime" => start_time,
    "conditions" => conditions, "containerStatuses" => container_statuses,
    "initContainerStatuses" => init_container_statuses,
});

fields!(ContainerStatusView { "name" => name, "restartCount" => restart_count });

impl<'de> Deserialize<'de> for PodView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Pod { metadata, spec, mut status } = lenient::read(deserializer)?;
        for condition in status.conditions.iter_mut().flatten() {
            if condition.type_ != SCHEDULED || condition.status != "False" {
                condition.message = None;
            }
        }
        if super::has_ended(status.phase.as_deref().unwrap_or_default()) {
            let written = metadata.managed_fields.iter().flatten().filter(|entry| entry.is_status());
            status.failed_at = written.filter_map(|entry| entry.time.clone()).max_by_key(|time| time.0);
        } else {
            // These fields are not read of running pods, of which there are many.
            (status.reason, status.message, status.start_time) = (None, None, None);
        }
        Ok(Self { metadata: metadata.into(), spec, status })
    }
}

fields!(ConditionView {
    "type" => type_, "status" => status, "lastTransitionTime" => last_transition_time, "message" => message,
});

/// The fields of metadata that are read.
#[derive(Default)]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Deletion,
    owner_references: Option<Vec<OwnerReference>>,
    managed_fields: Option<Vec<Written>>,
}

fields!(Meta {
    "name" => name, "namespace" => namespace, "uid" => uid, "resourceVersion" => resource_version,
    "labels" => labels, "annotations" => annotations, "creationTimestamp" => creation_timestamp,
    "deletionTimestamp" => deletion_timestamp, "ownerReferences" => owner_references,
    "managedFields" => managed_fields,
});

/// The deletionTimestamp. Its existence alone says that the object is being deleted, whatever its value.
#[derive(Default)]
struct Deletion(Option<Time>);

impl Shape for Deletion {
    fn text(text: &str) -> Self {
        Self(Some(Time(parse_time(text).unwrap_or(Timestamp::MAX))))
    }
}

fields!(OwnerReference {
    "apiVersion" => api_version, "kind" => kind, "name" => name, "uid" => uid, "controller" => controller,
    "blockOwnerDeletion" => block_owner_deletion,
});

/// The last writer, and the time of the write.
#[derive(Default)]
struct Written {
    manager: Option<String>,
    subresource: Option<String>,
    time: Option<Time>,
}

fields!(Written { "manager" => manager, "subresource" => subresource, "time" => time });

impl Written {
    /// Whether it wrote the status. API servers before 1.22 name no subresource.
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
            deletion_timestamp: meta.deletion_timestamp.0,
            owner_references: meta.owner_references,
            ..Self::default()
        }
    }
}

#[derive(Default)]
struct Node {
    metadata: Meta,
    spec: NodeSpecView,
}

fields!(Node { "metadata" => metadata, "spec" => spec });

fields!(NodeSpecView { "unschedulable" => unschedulable, "taints" => taints });

fields!(TaintView { "key" => key });

impl<'de> Deserialize<'de> for NodeView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Node { metadata, spec } = lenient::read(deserializer)?;
        // Fewer fields of a node are kept.
        let metadata = ObjectMeta {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            labels: metadata.labels,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, spec })
    }
}
