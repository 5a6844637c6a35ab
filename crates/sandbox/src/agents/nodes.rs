//! Registers nodes, as kubelets do when they start. It sends no heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::Event;
use serde::Serialize;
use serde_json::{Value, json};

use super::{burst, watch};
use crate::clock::{Clock, seconds};
use crate::discovery::KUBERNETES;

/// A node to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Labels besides the standard ones.
    pub labels: BTreeMap<String, String>,
    /// How many pods fit on it.
    pub pods_capacity: u32,
    /// Whether it is cordoned from the start.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl NodeSpec {
    /// How many pods fit on a node unless it says otherwise, as in Kubernetes.
    pub const PODS: u32 = 110;

    /// A node of a pool. The label `node.usage` has the name of the pool.
    #[must_use]
    pub fn in_pool(name: &str, pool: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: BTreeMap::from([("node.usage".to_owned(), pool.to_owned())]),
            pods_capacity: Self::PODS,
            unschedulable: false,
            taints: Vec::new(),
        }
    }
}

/// Creates missing nodes and sets all of them ready.
pub async fn register(client: &Client, clock: &Clock, nodes: &[NodeSpec]) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(client.clone());
    for (index, spec) in nodes.iter().enumerate() {
        let node: Node = serde_json::from_value(manifest(spec)).map_err(kube::Error::SerdeError)?;
        match api.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
        let status = json!({"status": status(spec, index, &seconds(clock.now()))});
        api.patch_status(&spec.name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}

/// Sets nodes ready that users create, with room for that many pods. Runs until the process or the task ends.
pub(crate) async fn serve_new(client: Client, clock: Clock, pods_capacity: u32) {
    let api: Api<Node> = Api::all(client);
    let mut events = watch(api.clone());
    let mut index = 0;
    while let Some(batch) = burst(&mut events, Duration::MAX).await {
        for event in batch {
            let (Event::Apply(node) | Event::InitApply(node)) = event else { continue };
            if node.status.as_ref().is_some_and(|status| status.conditions.is_some()) {
                continue;
            }
            index += 1;
            let name = node.name_any();
            let spec = NodeSpec { pods_capacity, ..NodeSpec::in_pool(&name, "") };
            // The addresses of the first nodes end before these.
            let status = json!({"status": status(&spec, FIRST_NEW + index, &seconds(clock.now()))});
            if let Err(error) = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await
            {
                tracing::warn!(%error, node = name, "cannot set a new node ready");
            }
        }
    }
}

/// The number of the first node that a user creates, for its address.
const FIRST_NEW: usize = 10_000;

fn manifest(spec: &NodeSpec) -> Value {
    let mut labels = spec.labels.clone();
    for (key, value) in [
        ("kubernetes.io/hostname", spec.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    let taints = (!spec.taints.is_empty()).then_some(&spec.taints);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": spec.unschedulable.then_some(true)},
    })
}

fn status(spec: &NodeSpec, index: usize, at: &str) -> Value {
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": spec.pods_capacity.to_string()});
    json!({
        "capacity": room, "allocatable": room,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": at, "lastTransitionTime": at,
        }],
        "addresses": [
            {"type": "InternalIP", "address": format!("10.0.{}.{}", index / 250, index % 250 + 1)},
            {"type": "Hostname", "address": spec.name},
        ],
        "nodeInfo": {
            "machineID": spec.name, "systemUUID": spec.name, "bootID": spec.name,
            "kernelVersion": "sandbox", "osImage": "sandbox", "containerRuntimeVersion": "sandbox://1",
            "kubeletVersion": format!("{KUBERNETES}-sandbox"), "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    })
}
