//! `cargo bench -p ordereddeployment-planner`: how long the pure parts take. The fastest of several runs
//! counts.

use std::hint::black_box;
use std::time::Instant;

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, Template};
use ordereddeployment_planner::{Decision, DryRun, Pod, Point, Set, Snapshot, decide};
use ordereddeployment_preview::SimulatedCluster;
use ordereddeployment_sorter::{Facts, Nodes, Phase, Pods};
use ordereddeployment_wire::PodView;
use serde_json::json;

const RUNS: usize = 40;

fn main() {
    println!("| case | time |");
    println!("|---|---|");
    for count in [1_000, 10_000, 100_000] {
        let facts: Vec<_> = (0..count).map(|number| pod(number, count, "set").facts).collect();
        measure(&format!("order of {count} pods"), || added(&facts).order(&[], &Nodes::new()));
    }
    for count in [10, 100, 1_600, 10_000] {
        let snapshot = rollout(count);
        measure(&format!("decision on {count} pods"), || decide(&snapshot));
    }
    let event = event();
    measure("decoding of a pod event", || decoded(&event));
}

fn measure<T>(case: &str, mut run: impl FnMut() -> T) {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        let output = black_box(run());
        let time = start.elapsed();
        drop(output);
        time
    });
    println!("| {case} | {:.2?} |", times.min().unwrap_or_default());
}

/// The time of the decision, in seconds.
const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or_default()
}

/// The pod with that number, one of so many. Numbers of different pods have no order in common.
fn pod(number: usize, count: usize, set: &str) -> Pod {
    let mixed = u64::try_from(number).unwrap_or_default().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let age = i64::try_from(mixed >> 45).unwrap_or_default();
    let nodes = u64::try_from(count / 10 + 1).unwrap_or(1);
    Pod {
        name: format!("{set}-{number:05}"),
        set: set.into(),
        resource_version: number.to_string(),
        facts: Facts {
            uid: format!("{:08x}-e29b-41d4-a716-{:012x}", mixed >> 32, mixed & 0xffff_ffff_ffff).into(),
            node: Some(format!("worker-{:05}", mixed % nodes).into()),
            phase: Phase::Running,
            ready: true,
            ready_since: Some(at(NOW - age - 10)),
            created: Some(at(NOW - age - 20)),
            restarts: i32::from(mixed % 16 == 0),
            sidecar_restarts: 0,
            priority: (mixed % 3 == 0).then_some(5),
            cost: None,
        },
        terminating: false,
        ends: None,
        finished: false,
        failed: None,
        unscheduled: None,
        point: Point::None,
    }
}

fn added(pods: &[Facts]) -> Pods<'_> {
    let mut all = Pods::new(at(NOW));
    for pod in pods {
        all.add(pod);
    }
    all
}

fn template(image: &str) -> Template {
    Template::new(&json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }))
}

fn set(uid: &str, image: &str, replicas: usize) -> Set {
    Set {
        name: format!("web-{uid}"),
        uid: uid.into(),
        hash: uid.to_owned(),
        revision: if uid == "old" { 1 } else { 2 },
        created: Some(at(NOW - 10_000_000)),
        replicas: i32::try_from(replicas).unwrap_or_default(),
        min_ready_seconds: 0,
        template: template(image),
        equal_templates: Vec::new(),
        served: Some(0),
        desired_replicas: None,
        terminating: false,
    }
}

/// Half-way through a rollout that deletes a pod only once its replacement is available.
fn rollout(count: usize) -> Snapshot {
    let deployment: OrderedDeployment = serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1",
        "kind": "OrderedDeployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "od", "generation": 2},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template("v2"),
        },
    }))
    .unwrap_or_else(|error| unreachable!("{error}"));
    let updated = count / 2 + 1;
    let old = count + 1 - updated;
    let sets = vec![set("old", "v1", old), set("new", "v2", updated - 1)];
    let pods = (0..old).map(|number| pod(number, count, "old"));
    let pods = pods.chain((old..=count).map(|number| pod(number, count, "new")));
    let mut cluster =
        SimulatedCluster { sets, pods: pods.collect(), ..SimulatedCluster::new(deployment, at(NOW)) };
    while let (_, Decision::Record(record)) = cluster.decide(|_| DryRun::Accepted) {
        cluster.store(&record.status);
    }
    let snapshot = cluster.observed();
    let Decision::Act(act) = decide(&snapshot) else { unreachable!("the rollout goes on") };
    assert_eq!(act.deletes.iter().map(|group| group.targets.len()).sum::<usize>(), 1);
    snapshot
}

/// A pod as the API server sends it, with fields that are skipped.
fn event() -> Vec<u8> {
    let condition =
        |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-5d9c-x7k2p", "namespace": "shop", "uid": "550e8400-e29b-41d4-a716-446655440000",
            "resourceVersion": "123456789", "creationTimestamp": "2026-01-01T00:00:00Z",
            "generateName": "web-5d9c-",
            "labels": {"app": "web", "pod-template-hash": "5d9c"},
            "annotations": {"ordereddeployment.io/delete-priority": "9",
                "ordereddeployment.io/pause-point": "before"},
            "ownerReferences": [{"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
                "name": "web-5d9c", "uid": "set", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "time": "2026-01-01T00:00:05Z",
                "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {}, "f:phase": {}}}}],
        },
        "spec": {
            "nodeName": "worker-00042",
            "containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 8080}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:01Z",
            "conditions": conditions,
            "containerStatuses": [{"name": "web", "ready": true, "restartCount": 1, "image": "web:1",
                "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}}}],
        },
    });
    pod.to_string().into_bytes()
}

/// From the bytes of a pod to what the cache keeps of it.
fn decoded(bytes: &[u8]) -> Option<Pod> {
    let view: PodView = serde_json::from_slice(bytes).ok()?;
    Some(view.pod())
}
