//! Shared test data: OrderedDeployments as the API server returns them.
#![allow(clippy::unwrap_used, reason = "a test fails if its setup fails")]

pub(crate) mod fixture;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::Family;
use serde_json::{Value, json};

use crate::commands::mark::{Marks, Side};
use crate::terminal::style::Style;
use crate::view::overview::Overview;
use crate::view::pod::ObservedPod;
use crate::view::state::ObservedState;
use crate::view::tree::{Drawing, Fold};

/// Options as on a pipe, with Unicode.
pub(crate) const PLAIN: Drawing<'static> = Drawing {
    style: Style { color: false, unicode: true },
    flags: "",
    width: None,
    wide: false,
    fold: Fold { all: false, filter: None, on_screen: false },
};

/// A pause point before a pod.
pub(crate) const BEFORE: Marks = Marks { priority: None, pause: Some(Side::Before), length: None };

/// A writer that keeps what is written.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A pod to build.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) image: &'static str,
    pub(crate) node: Option<&'static str>,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    /// The waiting reason of its container, and its restart count.
    pub(crate) waiting: Option<(&'static str, i64)>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Pod {
    pub(crate) fn annotate(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn priority(self, priority: i32) -> Self {
        self.annotate("ordereddeployment.io/delete-priority", &priority.to_string())
    }

    pub(crate) fn pause(self, side: &str) -> Self {
        self.annotate("ordereddeployment.io/pause-point", side)
    }
}

/// A ready pod of the set with that image.
pub(crate) fn pod(image: &'static str, suffix: &str, node: &'static str) -> Pod {
    let name = format!("web-{}-{suffix}", hash(image));
    Pod {
        name,
        image,
        node: Some(node),
        ready: true,
        terminating: false,
        waiting: None,
        annotations: BTreeMap::new(),
    }
}

/// Four pods of the first image, in deletion order; the second one has a pause point.
pub(crate) fn four() -> Vec<Pod> {
    vec![
        pod("web:1", "bbbbbbbb", "n1").priority(5),
        pod("web:1", "cccccccc", "n2").priority(3).pause("before"),
        pod("web:1", "dddddddd", "n3"),
        pod("web:1", "ffffffff", "n2"),
    ]
}

/// The same once a pod of the second image has replaced the first one.
pub(crate) fn one_updated() -> Vec<Pod> {
    let mut pods = four();
    pods.remove(0);
    pods.push(pod("web:2", "gggggggg", "n1"));
    pods
}

fn hash(image: &str) -> &'static str {
    match image {
        "web:1" => "5d9c7b8c4d",
        "web:3" => "9b6d9b8c4d",
        _ => "7f6d9b8c4d",
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

/// The state of the OrderedDeployment `web` with `image` in its template, and that status.
pub(crate) fn observed_state(replicas: i32, image: &str, status: &Value, pods: &[Pod]) -> ObservedState {
    let deployment: OrderedDeployment = serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "od", "generation": 2},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(image),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "deletionOrder": {"nodePriorities": [
                {"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "deletionCost": -100},
            ]},
        },
        "status": status,
    }))
    .unwrap();
    let images: Vec<&str> = ["web:1", "web:2", "web:3"]
        .into_iter()
        .filter(|image| *image == "web:1" || pods.iter().any(|pod| pod.image == *image))
        .collect();
    let rolls = pods.iter().any(|pod| pod.image != image);
    let sets = images.iter().map(|of| {
        let served = if rolls && *of == image { "0" } else { of.trim_start_matches("web:") };
        ordereddeployment_wire::set(&set(of, served, pods))
    });
    let nodes = [("n1", "inference"), ("n2", "inference"), ("n3", "hybrid"), ("n4", "hybrid")];
    let nodes = nodes
        .into_iter()
        .map(|(name, pool)| {
            let node = json!({"metadata": {"name": name, "labels": {"node.usage": pool}}});
            (name.to_owned(), serde_json::from_value(node).unwrap())
        })
        .collect();
    ObservedState {
        family: Family::Ordered,
        doubt: None,
        deployment: Arc::new(deployment),
        sets: sets.collect(),
        pods: pods.iter().map(view).collect(),
        nodes,
        nodes_unread: None,
        now: "2030-01-01T12:00:00Z".parse().unwrap(),
    }
}

/// The state with these declared pause points.
pub(crate) fn declaring(mut state: ObservedState, points: &Value) -> ObservedState {
    let spec = &mut Arc::make_mut(&mut state.deployment).spec;
    spec.strategy.pause_points = serde_json::from_value(points.clone()).unwrap();
    state
}

/// The OrderedDeployment `web` with that status, and without pods.
pub(crate) fn deployment(status: &Value) -> OrderedDeployment {
    (*observed_state(4, "web:2", status, &[]).deployment).clone()
}

pub(crate) fn overview(state: &ObservedState) -> Overview {
    Overview::of(state, "node.usage")
}

pub(crate) fn set(image: &str, served: &str, pods: &[Pod]) -> OrderedReplicaSet {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = hash(image).into();
    let active = pods.iter().filter(|pod| pod.image == image && !pod.terminating).count();
    serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
        "metadata": {
            "name": format!("web-{}", hash(image)), "namespace": "shop", "uid": hash(image),
            "labels": {"app": "web", "pod-template-hash": hash(image)},
            "annotations": {
                "ordereddeployment.io/revision": image.trim_start_matches("web:"),
                "ordereddeployment.io/served": served,
            },
            "creationTimestamp": "2030-01-01T10:00:00Z",
            "ownerReferences": [{
                "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment", "name": "web",
                "uid": "od", "controller": true,
            }],
        },
        "spec": {
            "replicas": active, "template": template,
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash(image)}},
        },
    }))
    .unwrap()
}

fn view(pod: &Pod) -> ObservedPod {
    serde_json::from_value(pod_json(pod)).unwrap()
}

/// The pod as the API server returns it.
pub(crate) fn pod_json(pod: &Pod) -> Value {
    let mut value = json!({
        "metadata": {
            "name": pod.name, "namespace": "shop", "uid": pod.name, "resourceVersion": "1",
            "labels": {"app": "web"}, "annotations": pod.annotations,
            "creationTimestamp": "2030-01-01T10:00:00Z",
            "ownerReferences": [{
                "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
                "controller": true,
                "name": format!("web-{}", hash(pod.image)), "uid": hash(pod.image),
            }],
        },
        "spec": {"nodeName": pod.node, "containers": [{"name": "web", "image": pod.image}]},
        "status": {
            "containerStatuses": [{"name": "web", "ready": pod.ready, "restartCount": 0}],
            "phase": if pod.node.is_some() { "Running" } else { "Pending" },
            "conditions": [{
                "type": "Ready", "status": if pod.ready { "True" } else { "False" },
                "lastTransitionTime": "2030-01-01T10:00:05Z",
            }],
        },
    });
    if let Some((reason, restarts)) = pod.waiting {
        let status = &mut value["status"]["containerStatuses"][0];
        status["state"] = json!({"waiting": {"reason": reason}});
        status["restartCount"] = restarts.into();
    }
    if pod.terminating {
        value["metadata"]["deletionTimestamp"] = "2030-01-01T11:59:59Z".into();
    }
    value
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let now = "2030-01-01T11:58:00Z";
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now, "lastUpdateTime": now,
    })
}

/// The status of a rollout to revision 2 that is paused before that pod.
pub(crate) fn paused_before(pod: &Pod) -> Value {
    json!({
        "observedGeneration": 2, "replicas": 4, "updatedReplicas": 2, "availableReplicas": 4,
        "rollout": {
            "revision": 2, "templateHash": hash("web:2"),
            "scaling": {"reached": 4},
            "points": [{
                "id": format!("{}@2", pod.name), "limit": 2, "replicas": 4, "side": "Before",
            }],
        },
        "hold": {
            "id": format!("{}@2", pod.name), "pod": pod.name, "podUID": pod.name, "node": pod.node,
            "point": "Before", "revision": 2, "since": "2030-01-01T11:58:00Z",
            "limit": 2, "replicas": 4,
        },
    })
}

/// The status of a rollout to revision 2 that is paused at that declared point, with `afterUpdated: 1`,
/// before the first of these pods.
pub(crate) fn at_declared(name: &str, pods: &[Pod]) -> Value {
    let mut status = paused_before(&pods[0]);
    status["hold"]["id"] = format!("{name}@2").into();
    status["hold"]["declared"] = json!({"name": name});
    status["hold"]["limit"] = 1.into();
    status["rollout"]["points"] = json!([{"id": format!("{name}@2")}]);
    status
}

/// The status of a rollout to revision 2 that was aborted, back to revision 1.
pub(crate) fn aborted() -> Value {
    let now = "2030-01-01T11:58:00Z";
    let condition =
        |type_: &str, status: &str| condition(type_, status, "Aborted", "The rollout was aborted.");
    json!({
        "observedGeneration": 2, "replicas": 4, "updatedReplicas": 1, "availableReplicas": 4,
        "rollout": {
            "revision": 2, "templateHash": hash("web:2"), "points": [], "scaling": {"reached": 4},
            "from": {"revision": 1, "templateHash": hash("web:1")},
        },
        "aborted": {
            "revision": 2, "to": 1, "templateHash": hash("web:1"), "at": now, "reason": "by request",
        },
        "conditions": [condition("Stalled", "True"), condition("Complete", "False")],
    })
}

/// The status of a rollout to that revision, in progress or complete.
pub(crate) fn at_revision(revision: i64) -> Value {
    let image = format!("web:{revision}");
    json!({
        "observedGeneration": 2, "conditions": [],
        "rollout": {
            "revision": revision, "templateHash": hash(&image), "points": [], "scaling": {"reached": 4},
        },
    })
}
