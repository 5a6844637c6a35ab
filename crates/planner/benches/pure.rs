//! `cargo bench -p ordereddeployment-planner`: how many instructions the pure parts take. Valgrind counts
//! them, so that a loaded machine shows the same numbers as an idle one. A word after `--` selects the cases
//! whose names contain it.

use std::hint::black_box;
use std::io::ErrorKind;
use std::process::{Command, ExitCode};

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, Template};
use ordereddeployment_planner::{Decision, DryRun, Pod, Point, Set, Snapshot, decide};
use ordereddeployment_preview::SimulatedCluster;
use ordereddeployment_sorter::{Facts, Nodes, Phase, Pods};
use ordereddeployment_wire::PodView;
use serde_json::json;

/// The argument with which this program runs one case, under Valgrind.
const RUN: &str = "--run";

/// A case: its name, and what makes its input and runs it.
type Case = (String, Box<dyn Fn()>);

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for count in [1_000, 10_000, 100_000] {
        let order = move || measured(&facts(count), |pods| added(pods).order(&[], &Nodes::new()));
        cases.push((format!("order of {count} pods"), Box::new(order)));
    }
    for count in [10, 100, 1_600, 10_000] {
        cases
            .push((format!("decision on {count} pods"), Box::new(move || measured(&rollout(count), decide))));
    }
    cases.push((
        "decoding of a pod event".to_owned(),
        Box::new(|| measured(&event(), |bytes| decoded(bytes))),
    ));
    cases
}

/// Runs one case on its input.
fn measured<'i, I: ?Sized, O: 'i>(input: &'i I, run: impl FnOnce(&'i I) -> O) {
    // The output is dropped outside.
    drop(black_box(under_valgrind(input, run)));
}

/// Valgrind counts only what happens in here: it knows the name.
#[inline(never)]
fn under_valgrind<'i, I: ?Sized, O: 'i>(input: &'i I, run: impl FnOnce(&'i I) -> O) -> O {
    run(black_box(input))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [run, name] = &arguments[..]
        && run == RUN
    {
        let found = cases().into_iter().find(|(other, _)| other == name);
        return found.map_or(ExitCode::FAILURE, |(_, run)| {
            run();
            ExitCode::SUCCESS
        });
    }
    println!("| case | instructions |");
    println!("|---|---|");
    for (name, _) in cases() {
        if !arguments.iter().all(|word| name.contains(word.as_str())) {
            continue;
        }
        match instructions(&name) {
            Ok(count) => println!("| {name} | {count} |"),
            Err(message) => {
                eprintln!("error: {name}: {message}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs a case under Valgrind.
fn instructions(name: &str) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*under_valgrind*",
    ]);
    let output = valgrind.arg(program).args([RUN, name]).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "Valgrind counts the instructions, and it is not installed. Install it, on Debian with apt-get \
             install valgrind"
                .to_owned()
        }
        _ => format!("cannot run valgrind: {error}"),
    })?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| Some(line.split_once("Collected : ")?.1.trim().to_owned()));
    count.filter(|count| output.status.success() && count != "0").ok_or_else(|| format!("no count:\n{text}"))
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

fn facts(count: usize) -> Vec<Facts> {
    (0..count).map(|number| pod(number, count, "set").facts).collect()
}

fn added(pods: &[Facts]) -> Pods<'_> {
    let mut all = Pods::new(at(NOW)).with_room_for(pods.len());
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

/// A pod as the API server sends it.
fn event() -> Vec<u8> {
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
            "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:05Z",
                "fieldsType": "FieldsV1", "subresource": "status",
                "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {},
                "f:status": {}}}, "f:phase": {}}}}],
        },
        "spec": {
            "nodeName": "worker-00042",
            "containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 8080}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "token",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]}],
            "volumes": [{"name": "token",
                "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1",
            "startTime": "2026-01-01T00:00:01Z",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"},
                {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
            ],
            "containerStatuses": [{"name": "web", "ready": true, "restartCount": 1, "image": "web:1",
            "imageID": "sha256:1",
                "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}}}],
        },
    });
    pod.to_string().into_bytes()
}

/// From the bytes of a pod to what the cache keeps of it.
fn decoded(bytes: &[u8]) -> Option<Pod> {
    let view: PodView = serde_json::from_slice(bytes).ok()?;
    Some(view.read().0)
}
