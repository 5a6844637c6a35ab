//! Evicts pods from nodes with a `NoExecute` taint that they do not tolerate, or no longer tolerate.
//!
//! It deletes the pods, as the Kubernetes node controller does, and ignores disruption budgets. It never
//! taints a node, and it watches pods only if a node has such a taint.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_placement::tolerated;

use super::pod::Pod;
use super::{Agent, Cache, RETRY, run_beside_pods};
use crate::clock::Clock;

struct Taints {
    client: Client,
    clock: Clock,
    /// By pod UID: since when the pod is on a node with taints that it tolerates only for some time.
    since: BTreeMap<String, Timestamp>,
}

/// Runs until the process or the task ends.
pub async fn run(client: Client, clock: Clock) {
    run_beside_pods(client.clone(), Taints { client, clock, since: BTreeMap::new() }).await;
}

impl Agent for Taints {
    type Other = Node;

    fn asks_for_pods(node: &Node) -> bool {
        evicting(node).next().is_some()
    }

    /// Deletes the pods that must leave their node.
    async fn round(&mut self, pods: &Cache<Pod>, nodes: &Cache<Node>) -> Duration {
        let now = self.clock.now();
        let (mut wait, mut since) = (Duration::MAX, BTreeMap::new());
        for pod in pods.objects.values().filter(|pod| !pod.is_terminating()) {
            let node = pod.node().unwrap_or_default().to_owned();
            let Some(node) = nodes.objects.get(&(String::new(), node)) else { continue };
            let Some(stay) = stay(pod, evicting(node)) else { continue };
            let uid = pod.uid().unwrap_or_default();
            let begun = self.since.get(&uid).copied().unwrap_or(now);
            since.insert(uid, begun);
            let left = begun.checked_add(stay).unwrap_or(Timestamp::MAX).duration_since(now);
            let left = Duration::try_from(left).unwrap_or_default();
            if !left.is_zero() {
                wait = wait.min(left);
            } else if !self.evict(pod).await {
                wait = wait.min(RETRY);
            }
        }
        self.since = since;
        wait
    }
}

impl Taints {
    /// Evicts the pod. Returns whether no further attempt is necessary.
    async fn evict(&self, pod: &Pod) -> bool {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let only_this = Preconditions { uid: pod.uid(), resource_version: None };
        match api.delete(&pod.name_any(), &DeleteParams::default().preconditions(only_this)).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => true,
            Err(error) => {
                tracing::debug!(%error, "cannot evict a pod from a tainted node");
                false
            }
            Ok(_) => true,
        }
    }
}

fn evicting(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute")
}

/// How long the pod may stay; `None`: without limit.
fn stay<'a>(pod: &Pod, taints: impl Iterator<Item = &'a Taint>) -> Option<SignedDuration> {
    let mut shortest = None;
    for taint in taints {
        let value = taint.value.as_deref().unwrap_or_default();
        let all = pod.spec.tolerations.iter().flatten();
        let mut fitting = all.filter(|one| tolerated(one, &taint.key, value, &taint.effect)).peekable();
        if fitting.peek().is_none() {
            return Some(SignedDuration::ZERO);
        }
        let seconds = fitting.filter_map(|one| one.toleration_seconds).min();
        shortest = shortest.into_iter().chain(seconds).min();
    }
    shortest.map(|seconds| SignedDuration::from_secs(seconds.max(0)))
}
