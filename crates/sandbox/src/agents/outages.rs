//! Takes nodes out of service and brings them back. The kubelets of such a node stop reporting. This module makes the
//! writes of the Kubernetes node controller, immediately instead of after 40 seconds.
//!
//! It does not delete pods: taint-based eviction and the tolerations of the pods decide that.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::pod::Pod;
use crate::clock::{Clock, seconds};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The nodes whose kubelets do not report.
pub type Silent = watch::Receiver<BTreeSet<String>>;

/// Takes nodes out of service and remembers them.
#[derive(Debug, Default)]
pub struct Outages {
    silent: watch::Sender<BTreeSet<String>>,
    /// UIDs of pods that were set not ready because of their node.
    marked_unready: Mutex<BTreeSet<String>>,
}

impl Outages {
    /// The nodes that are out of service, for the kubelets.
    #[must_use]
    pub fn silent(&self) -> Silent {
        self.silent.subscribe()
    }

    /// Takes the node out of service.
    ///
    /// # Errors
    /// If the server rejects a write of the node controller. The kubelet stops reporting all the same.
    pub async fn lose(&self, client: &Client, clock: &Clock, name: &str) -> Result<(), kube::Error> {
        self.silent.send_modify(|silent| {
            silent.insert(name.to_owned());
        });
        let at = seconds(clock.now());
        report_node(client, name, "Unknown", "NodeStatusUnknown", &at).await?;
        taint(client, name, true).await?;
        for pod in pods_on(client, name).await?.into_iter().filter(Pod::is_ready) {
            self.marked_unready().insert(pod.uid().unwrap_or_default());
            report_pod(client, &pod, "False", &at).await?;
        }
        Ok(())
    }

    /// Brings the node back.
    ///
    /// # Errors
    /// If the server rejects a write of the kubelet.
    pub async fn restore(&self, client: &Client, clock: &Clock, name: &str) -> Result<(), kube::Error> {
        self.silent.send_modify(|silent| {
            silent.remove(name);
        });
        let at = seconds(clock.now());
        report_node(client, name, "True", "KubeletReady", &at).await?;
        taint(client, name, false).await?;
        for pod in pods_on(client, name).await? {
            let marked_unready = self.marked_unready().remove(&pod.uid().unwrap_or_default());
            if marked_unready && !pod.is_terminating() {
                report_pod(client, &pod, "True", &at).await?;
            }
        }
        Ok(())
    }

    fn marked_unready(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.marked_unready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn report_node(
    client: &Client,
    name: &str,
    status: &str,
    reason: &str,
    at: &str,
) -> Result<(), kube::Error> {
    let condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": at,
    });
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch_status(name, &PatchParams::default(), &patch).await.map(drop)
}

/// Adds the taints of an unreachable node or removes them. Other taints remain.
async fn taint(client: &Client, name: &str, lost: bool) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get(name).await?;
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let mut taints: Vec<Value> =
        taints.iter().filter(|taint| taint.key != UNREACHABLE).map(|taint| json!(taint)).collect();
    if lost {
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({"key": UNREACHABLE, "effect": effect}));
        }
    }
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    nodes.patch(name, &PatchParams::default(), &patch).await.map(drop)
}

async fn pods_on(client: &Client, node: &str) -> Result<Vec<Pod>, kube::Error> {
    let found = Api::<Pod>::all(client.clone())
        .list(&ListParams::default().fields(&format!("spec.nodeName={node}")))
        .await?;
    Ok(found.items)
}

async fn report_pod(client: &Client, pod: &Pod, ready: &str, at: &str) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": at});
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    match pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        // The pod was deleted meanwhile.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(()),
        other => other.map(drop),
    }
}
