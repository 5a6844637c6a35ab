//! A pod with the fields that the agents read. A full `Pod` makes each build of the sandbox much longer.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use ordereddeployment_placement::Wants;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize, Resource)]
#[resource(inherit = core::Pod)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) containers: Vec<Container>,
    node_name: Option<String>,
    node_selector: Option<std::collections::BTreeMap<String, String>>,
    scheduler_name: Option<String>,
    scheduling_gates: Option<Vec<Value>>,
    pub(crate) tolerations: Option<Vec<core::Toleration>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) conditions: Option<Vec<Condition>>,
    pub(crate) phase: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    message: Option<String>,
}

impl Pod {
    /// The node that the pod is bound to.
    pub(crate) fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|node| !node.is_empty())
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether all its containers have ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Whether the scheduler has reported this message.
    pub(crate) fn is_refused_with(&self, message: &str) -> bool {
        self.condition("PodScheduled").is_some_and(|condition| condition.message.as_deref() == Some(message))
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
    }

    /// Whether the default scheduler is to choose a node.
    pub(crate) fn wants_node(&self) -> bool {
        let spec = &self.spec;
        self.node().is_none()
            && !self.is_terminating()
            && !self.has_ended()
            && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
            && spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler")
    }

    /// Its requirements on the node.
    pub(crate) fn wants(&self) -> Wants {
        let spec = &self.spec;
        Wants { node_selector: spec.node_selector.clone(), tolerations: spec.tolerations.clone() }
    }
}
