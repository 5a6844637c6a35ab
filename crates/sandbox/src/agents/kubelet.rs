//! Kubelets that run no containers: they report the status of a kubelet after a delay.
//!
//! A container whose image name contains `broken` runs but never becomes ready. One with `crash` in the name
//! restarts repeatedly. A pod with an image name that contains `refused` is rejected, as by a node without
//! capacity. The kubelets never create or evict pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::task::{AbortHandle, JoinSet};

use super::pod::Pod;
use super::{RETRY, burst, watch};
use crate::clock::{Clock, seconds};

/// The maximum backoff between two restarts of a crashing container.
const BACKOFF_LIMIT: Duration = Duration::from_secs(300);

/// The configuration of the kubelets of a set of nodes.
#[derive(Debug, Clone)]
pub struct Kubelets {
    /// The nodes of these kubelets; `None`: all nodes.
    pub nodes: Option<BTreeSet<String>>,
    /// Time from assignment to Ready.
    pub ready_delay: Duration,
    /// Time from the deletion timestamp to removal.
    pub termination_delay: Duration,
    /// The source of the timestamps in conditions.
    pub clock: Clock,
    /// The nodes that are out of service: their kubelets report no status and end no pods.
    pub silent: Receiver<BTreeSet<String>>,
}

/// One pod, as its kubelet handles it.
#[derive(Clone)]
struct Worker {
    api: Api<Pod>,
    name: String,
    uid: String,
    ip: String,
    pod: Pod,
    kubelets: Kubelets,
}

struct Care {
    task: AbortHandle,
    ending: bool,
}

impl Kubelets {
    /// Runs until the process or the task ends.
    pub async fn run(self, client: Client) {
        let mut events = watch(Api::<Pod>::all(client.clone()));
        let mut cared: BTreeMap<String, Care> = BTreeMap::new();
        // Dropping this future aborts every worker.
        let mut tasks = JoinSet::new();
        let mut addresses: u32 = 0;
        while let Some(batch) = burst(&mut events, Duration::MAX).await {
            while tasks.try_join_next().is_some() {}
            for event in batch {
                let (pod, gone) = match event {
                    Event::Apply(pod) | Event::InitApply(pod) => (pod, false),
                    Event::Delete(pod) => (pod, true),
                    Event::Init | Event::InitDone => continue,
                };
                let uid = pod.uid().unwrap_or_default();
                if gone {
                    if let Some(care) = cared.remove(&uid) {
                        care.task.abort();
                    }
                    continue;
                }
                let is_ours = |node: &str| self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node));
                if !pod.node().is_some_and(is_ours) {
                    continue;
                }
                let ending = pod.is_terminating();
                if cared.get(&uid).is_some_and(|care| care.ending || !ending) {
                    continue;
                }
                if let Some(care) = cared.remove(&uid) {
                    care.task.abort();
                }
                addresses = addresses.wrapping_add(1);
                let worker = Worker {
                    api: Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default()),
                    name: pod.name_any(),
                    uid: uid.clone(),
                    ip: format!("10.244.{}.{}", addresses / 254 % 256, addresses % 254 + 1),
                    pod,
                    kubelets: self.clone(),
                };
                let task = if ending { tasks.spawn(worker.end()) } else { tasks.spawn(worker.start()) };
                cared.insert(uid, Care { task, ending });
            }
        }
    }
}

impl Worker {
    async fn start(self) {
        let phase = self.pod.status.phase.as_deref();
        if phase.is_some_and(|phase| phase != "Pending") {
            // Another kubelet process started it.
            return;
        }
        let started = seconds(self.kubelets.clock.now());
        if self.images().any(|image| image.contains("refused")) {
            return self.report(refused(&started)).await;
        }
        if !self.kubelets.ready_delay.is_zero() {
            self.report(self.status(&started, None)).await;
            self.kubelets.clock.wait(self.kubelets.ready_delay).await;
        }
        self.report(self.status(&started, Some(0))).await;
        let mut pause = Duration::from_secs(10);
        let mut restarts = 0;
        while self.images().any(|image| image.contains("crash")) {
            tokio::time::sleep(pause).await;
            restarts += 1;
            pause = (pause * 2).min(BACKOFF_LIMIT);
            self.report(self.status(&started, Some(restarts))).await;
        }
    }

    async fn end(self) {
        let grace = self.pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        let limit = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        self.kubelets.clock.wait(self.kubelets.termination_delay.min(limit)).await;
        let only_this = Preconditions { uid: Some(self.uid.clone()), resource_version: None };
        let options = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let options = options.preconditions(only_this);
        loop {
            self.in_service().await;
            if is_done(self.api.delete(&self.name, &options).await) {
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Writes the status until the server accepts it or the pod has another UID.
    async fn report(&self, status: Value) {
        let patch = json!({"metadata": {"uid": self.uid}, "status": status});
        loop {
            self.in_service().await;
            let patch = Patch::Strategic(&patch);
            if is_done(self.api.patch_status(&self.name, &PatchParams::default(), &patch).await) {
                return;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Waits until the node is in service.
    async fn in_service(&self) {
        let node = self.pod.node().unwrap_or_default();
        // If the sender is gone, all nodes are in service.
        let _ = self.kubelets.silent.clone().wait_for(|silent| !silent.contains(node)).await;
    }

    fn images(&self) -> impl Iterator<Item = &str> {
        self.pod.spec.containers.iter().map(|container| container.image.as_str())
    }

    /// The status before the containers run (without a number of restarts), and from then on.
    fn status(&self, started: &str, restarts: Option<u32>) -> Value {
        let at = seconds(self.kubelets.clock.now());
        let containers = &self.pod.spec.containers;
        let is_crashing = |image: &str| image.contains("crash");
        let is_ready = |image: &str| restarts.is_some() && !image.contains("broken") && !is_crashing(image);
        let unready = containers.iter().filter(|one| !is_ready(&one.image)).map(|one| one.name.as_str());
        let unready = unready.collect::<Vec<_>>().join(" ");
        let message = format!("containers with unready status: [{unready}]");
        let ready = if unready.is_empty() { Ok(()) } else { Err(message.as_str()) };
        let statuses = containers.iter().map(|container| {
            let image = container.image.as_str();
            let state = match restarts {
                None => json!({"waiting": {"reason": "ContainerCreating"}}),
                Some(_) if is_crashing(image) => json!({"waiting": {"reason": "CrashLoopBackOff",
                    "message": "back-off restarting failed container"}}),
                Some(_) => json!({"running": {"startedAt": at}}),
            };
            json!({
                "name": container.name, "image": image, "imageID": format!("sandbox://{image}"),
                "containerID": format!("sandbox://{}/{}", self.uid, container.name),
                "started": state.get("running").is_some(), "ready": is_ready(image),
                "restartCount": restarts.filter(|_| is_crashing(image)).unwrap_or_default(),
                "state": state, "lastState": {},
            })
        });
        let mut status = json!({
            "phase": if restarts.is_some() { "Running" } else { "Pending" }, "startTime": started,
            "conditions": [
                condition("PodReadyToStartContainers", Ok(()), &at),
                condition("Initialized", Ok(()), &at),
                condition("Ready", ready, &at),
                condition("ContainersReady", ready, &at),
            ],
            "containerStatuses": statuses.collect::<Vec<Value>>(),
        });
        if restarts.is_some() {
            (status["hostIP"], status["podIP"]) = ("10.0.0.1".into(), self.ip.as_str().into());
            status["podIPs"] = json!([{"ip": self.ip}]);
        }
        status
    }
}

/// Whether there is nothing to repeat: the request succeeded, or the pod is another one.
fn is_done<T>(result: Result<T, kube::Error>) -> bool {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => true,
        Err(error) => {
            tracing::debug!(%error, "cannot write a pod");
            false
        }
        Ok(_) => true,
    }
}

/// The status of a pod that the kubelet does not admit. It has no other fields.
fn refused(at: &str) -> Value {
    json!({
        "phase": "Failed", "reason": "OutOfcpu", "startTime": at,
        "message": "Pod Node didn't have enough resource: cpu, requested: 1000, used: 8000, capacity: 8000",
    })
}

fn condition(kind: &str, holds: Result<(), &str>, at: &str) -> Value {
    let mut condition = json!({
        "type": kind, "status": if holds.is_ok() { "True" } else { "False" },
        "lastProbeTime": null, "lastTransitionTime": at,
    });
    if let Err(message) = holds {
        condition["reason"] = "ContainersNotReady".into();
        condition["message"] = message.into();
    }
    condition
}
