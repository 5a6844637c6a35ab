//! Assigns pods to nodes with the crate `placement`. Previews of a rollout use the same function.
//!
//! This module has only the client side: it watches, binds, and reports why a pod is unschedulable.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{Either, join_all};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, Request};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_placement::{self as placement, place};
use serde_json::{Value, json};

use super::pod::Pod;
use super::{Cache, GATHER, Key, RETRY, gather, watch};
use crate::clock::{Clock, seconds};

struct Scheduler {
    client: Client,
    clock: Clock,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    /// Bindings that the watch does not show yet: pod UID to node.
    assumed: BTreeMap<String, String>,
}

/// Schedules until the process or the task ends.
pub async fn run(client: Client, clock: Clock) {
    let pods = watch(Api::<Pod>::all(client.clone())).map(Either::Left);
    let nodes = watch(Api::<Node>::all(client.clone())).map(Either::Right);
    let mut events = stream::select(pods, nodes);
    let mut scheduler = Scheduler {
        client,
        clock,
        pods: Cache::default(),
        nodes: Cache::default(),
        assumed: BTreeMap::new(),
    };
    let mut wait = Duration::MAX;
    let pace = scheduler.clock.clone();
    while let Some(batch) = gather(&mut events, wait, || pace.next_round(GATHER)).await {
        for event in batch {
            match event {
                Either::Left(event) => scheduler.pods.apply(event),
                Either::Right(event) => scheduler.nodes.apply(event),
            }
        }
        if scheduler.pods.synced && scheduler.nodes.synced {
            // Without an event, only a failed request needs another round.
            wait = if scheduler.round().await { Duration::MAX } else { RETRY };
        }
    }
}

impl Scheduler {
    /// Binds the pods that fit. Returns whether every request succeeded.
    async fn round(&mut self) -> bool {
        let waiting: BTreeSet<String> = self
            .pods
            .objects
            .values()
            .filter(|pod| pod.node().is_none())
            .filter_map(ResourceExt::uid)
            .collect();
        self.assumed.retain(|uid, _| waiting.contains(uid));
        let pending = self.pending();
        if pending.is_empty() {
            return true;
        }
        let nodes: BTreeMap<String, placement::Node> = self
            .nodes
            .objects
            .iter()
            .map(|((_, name), node)| (name.clone(), placement::Node::of(node)))
            .collect();
        let mut load = self.load();
        let mut bindings = Vec::new();
        let mut refusals = Vec::new();
        for (key, pod) in pending {
            let wants = pod.wants();
            match place(&wants, &nodes, &load) {
                Ok(node) => {
                    let node = node.to_owned();
                    *load.entry(node.clone()).or_default() += 1;
                    self.assumed.insert(pod.uid().unwrap_or_default(), node.clone());
                    bindings.push((key, pod, node));
                }
                Err(unplaced) => refusals.push((key, pod, unplaced.to_string())),
            }
        }
        let bound = join_all(bindings.iter().map(|(key, pod, node)| self.bind(key, pod, node))).await;
        let mut taken = true;
        for ((_, pod, _), done) in bindings.iter().zip(bound) {
            if let Err(error) = done {
                tracing::debug!(%error, "binding failed");
                self.assumed.remove(&pod.uid().unwrap_or_default());
                taken = false;
            }
        }
        join_all(refusals.iter().map(|(key, pod, message)| self.refuse(key, pod, message))).await;
        taken
    }

    /// Pods without a node, oldest first.
    fn pending(&self) -> Vec<(Key, Pod)> {
        let mut pending: Vec<(Key, Pod)> = self
            .pods
            .objects
            .iter()
            .filter(|(_, pod)| {
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                pod.wants_node() && !self.assumed.contains_key(uid)
            })
            .map(|(key, pod)| (key.clone(), pod.clone()))
            .collect();
        pending.sort_by(|(one, a), (other, b)| {
            a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp).then_with(|| one.cmp(other))
        });
        pending
    }

    /// The number of pods on each node.
    fn load(&self) -> BTreeMap<String, usize> {
        let mut load: BTreeMap<String, usize> = BTreeMap::new();
        for pod in self.pods.objects.values() {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let assumed = || self.assumed.get(uid).map(String::as_str);
            if pod.has_ended() {
                continue;
            }
            if let Some(node) = pod.node().or_else(assumed) {
                *load.entry(node.to_owned()).or_default() += 1;
            }
        }
        load
    }

    async fn bind(&self, (namespace, name): &Key, pod: &Pod, node: &str) -> Result<(), kube::Error> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let url = format!("/api/v1/namespaces/{namespace}/pods");
        let body = serde_json::to_vec(&binding).map_err(kube::Error::SerdeError)?;
        let request = Request::new(url)
            .create_subresource("binding", name, &kube::api::PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        self.client.request::<Value>(request).await.map(|_| ())
    }

    async fn refuse(&self, (namespace, name): &Key, pod: &Pod, message: &str) {
        if pod.is_refused_with(message) {
            return;
        }
        let patch = json!({
            "metadata": {"uid": pod.uid()},
            "status": {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                "lastProbeTime": null, "lastTransitionTime": seconds(self.clock.now()),
            }]},
        });
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        if let Err(error) = api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            tracing::debug!(%error, "cannot report an unschedulable pod");
        }
    }
}
