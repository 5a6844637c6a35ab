//! The sequences. Each names a way around the permission to resume.

use ordereddeployment_api::names::annotation;
use serde_json::{Value, json};

use super::Act::{Bind, Create, Delete, DeleteCollection, Evict, Patch, PatchStatus};
use super::{Act, Case, Sequence, User};

const fn user(name: &'static str, group: &'static str) -> User {
    User { name, group, may_resume: false, may_cordon: false }
}

/// Has `edit`, and may write the status of pods and Deployments and bind pods.
pub(super) const EDITOR: User = user("eddi", "developers");
/// May resume too.
const RESUMER: User = User { may_resume: true, ..user("rita", "release-managers") };
/// Drains nodes.
const OPERATOR: User = User { may_cordon: true, ..user("olga", "operators") };
/// The kubelet of the node `nowhere`.
const NODE: User = user("system:node:nowhere", "system:nodes");
const COLLECTOR: User =
    user("system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccounts:kube-system");
const CONTROLLER: User = User {
    may_resume: true,
    ..user("system:serviceaccount:ordered-system:ordered-deployment", "system:serviceaccounts:ordered-system")
};
pub(super) const USERS: [User; 6] = [EDITOR, RESUMER, OPERATOR, NODE, COLLECTOR, CONTROLLER];

/// The owners of pods. Each is called `web`, and its kind stands for its UID.
pub(super) const OWNERS: [&str; 2] = ["OrderedReplicaSet", "ReplicaSet"];

fn no(user: User, act: Act) -> (User, Act, bool) {
    (user, act, false)
}

fn yes(user: User, act: Act) -> (User, Act, bool) {
    (user, act, true)
}

fn owner(kind: &str) -> Value {
    let group = if kind == "OrderedReplicaSet" { "ordereddeployment.io/v1alpha1" } else { "apps/v1" };
    json!([{"apiVersion": group, "kind": kind, "name": "web", "uid": format!("UID of {kind}")}])
}

/// A pod of that owner with these annotations. No scheduler is responsible for it.
fn pod(kind: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "pod", "labels": {"app": "web"}, "annotations": annotations,
            "ownerReferences": owner(kind),
        },
        "spec": {
            "schedulerName": "none", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "web", "image": "web:1"}],
        },
    })
}

fn marked(kind: &str) -> Value {
    pod(kind, &json!({annotation::PAUSE_POINT: "before"}))
}

fn workload(kind: &str, annotations: &Value, spec: &Value) -> Value {
    let version = if kind == "Deployment" { "apps/v1" } else { "ordereddeployment.io/v1alpha1" };
    let mut object = scenarios::workload(version, kind, "none", &json!({"replicas": 0}));
    object["metadata"] = json!({"name": "web", "annotations": annotations});
    json_patch::merge(&mut object["spec"], spec);
    object
}

fn annotate(key: &str, value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {key: value.into()}}})
}

fn unmark() -> Value {
    annotate(annotation::PAUSE_POINT, Value::Null)
}

fn label(value: &str) -> Value {
    json!({"metadata": {"labels": {"app": value}}})
}

fn owned_by(owners: &Value) -> Value {
    json!({"metadata": {"ownerReferences": owners}})
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case { source: "admissionPolicy.denyDeletion=true", sequences: by_default() },
        Case { source: "admissionPolicy.denyDeletion=false", sequences: where_pods_may_be_deleted() },
        Case { source: "replicaSets.enabled=true", sequences: plain_deployments() },
        Case { source: "resume-only.yaml", sequences: status() },
    ]
}

fn by_default() -> Vec<Sequence> {
    let mut sequences = vec![
        Sequence {
            what: "relabel, unmark, relabel back; and the same with the owner",
            object: marked("OrderedReplicaSet"),
            steps: vec![
                no(EDITOR, Patch(unmark())),
                no(EDITOR, Patch(label("other"))),
                no(EDITOR, PatchStatus(label("other"))),
                no(EDITOR, Patch(owned_by(&Value::Null))),
                no(EDITOR, Patch(owned_by(&owner("ReplicaSet")))),
                yes(EDITOR, Patch(annotate("example.com/any", "thing"))),
                // What an orphaning deletion does.
                yes(COLLECTOR, Patch(owned_by(&Value::Null))),
                no(EDITOR, Patch(unmark())),
                no(EDITOR, PatchStatus(unmark())),
                yes(CONTROLLER, Patch(owned_by(&owner("OrderedReplicaSet")))),
                yes(RESUMER, Patch(label("other"))),
                no(EDITOR, Patch(unmark())),
                yes(RESUMER, Patch(label("web"))),
                no(EDITOR, Patch(unmark())),
                yes(RESUMER, Patch(unmark())),
                yes(EDITOR, Patch(label("other"))),
                yes(EDITOR, Delete),
            ],
        },
        Sequence {
            what: "delete an orphan, or all pods at once, or evict",
            object: super::merged(
                marked("OrderedReplicaSet"),
                &json!({"metadata": {"ownerReferences": null}, "spec": {"nodeName": "nowhere"}}),
            ),
            steps: vec![
                no(EDITOR, Delete),
                no(EDITOR, DeleteCollection),
                no(EDITOR, Evict),
                no(NODE, PatchStatus(unmark())),
                yes(NODE, PatchStatus(json!({"status": {"message": "running"}}))),
                yes(OPERATOR, Evict),
            ],
        },
        Sequence {
            what: "a pod without a mark",
            object: pod("OrderedReplicaSet", &json!({})),
            steps: vec![
                no(EDITOR, Evict),
                no(EDITOR, Bind("pods/binding", json!({annotation::PAUSE_POINT: "before"}))),
                no(EDITOR, Bind("bindings", json!({annotation::PAUSE_POINT: "before"}))),
                yes(EDITOR, Bind("bindings", json!({"example.com/any": "thing"}))),
                yes(EDITOR, Patch(owned_by(&Value::Null))),
                yes(EDITOR, DeleteCollection),
            ],
        },
        Sequence {
            what: "what the garbage collector may delete",
            object: marked("ReplicaSet"),
            steps: vec![no(OPERATOR, Delete), yes(COLLECTOR, Delete)],
        },
        declared_points(),
    ];
    for key in [
        annotation::PAUSE_POINT,
        annotation::PAUSE_DURATION,
        annotation::DELETE_PRIORITY,
        annotation::DELETE_PRIORITY_ALIAS,
    ] {
        for kind in OWNERS {
            sequences.push(Sequence {
                what: "each annotation of a pod",
                object: pod(kind, &json!({})),
                steps: vec![
                    no(EDITOR, Create(annotate(key, "1"))),
                    no(EDITOR, Create(super::merged(annotate(key, "1"), &owned_by(&Value::Null)))),
                    // A controller of Kubernetes creates what a template says.
                    yes(COLLECTOR, Create(annotate(key, "1"))),
                    yes(EDITOR, Create(json!({}))),
                    no(EDITOR, Patch(annotate(key, "1"))),
                    no(EDITOR, PatchStatus(annotate(key, "1"))),
                    yes(RESUMER, Patch(annotate(key, "1"))),
                    no(EDITOR, Patch(annotate(key, "2"))),
                    no(EDITOR, Patch(annotate(key, Value::Null))),
                    yes(RESUMER, Patch(annotate(key, Value::Null))),
                ],
            });
        }
    }
    sequences
}

/// The points of an OrderedDeployment.
fn declared_points() -> Sequence {
    let points = json!({"strategy": {"pausePoints": [{"name": "canary", "afterUpdated": 1}]}});
    let with = |points: Value| Patch(json!({"spec": {"strategy": {"pausePoints": points}}}));
    Sequence {
        what: "remove or change a declared point",
        object: workload("OrderedDeployment", &json!({}), &points),
        steps: vec![
            no(EDITOR, with(Value::Null)),
            no(EDITOR, with(json!([]))),
            no(EDITOR, Patch(json!({"spec": {"strategy": null}}))),
            no(EDITOR, with(json!([{"name": "canary", "afterUpdated": 2}]))),
            yes(EDITOR, Patch(json!({"spec": {"replicas": 0, "paused": true}}))),
            yes(EDITOR, Patch(json!({"spec": {"strategy": {"type": "RollingUpdate"}}}))),
            yes(EDITOR, Patch(annotate(annotation::PAUSE_POINT, "before"))),
            yes(EDITOR, Patch(annotate(annotation::PAUSE_POINT, Value::Null))),
            yes(RESUMER, with(Value::Null)),
            yes(EDITOR, Patch(json!({"spec": {"strategy": null}}))),
            no(EDITOR, with(json!([{"name": "canary", "afterUpdated": 1}]))),
        ],
    }
}

fn where_pods_may_be_deleted() -> Vec<Sequence> {
    vec![Sequence {
        what: "relabel, wait for the release, unmark, relabel back",
        object: marked("OrderedReplicaSet"),
        steps: vec![
            no(EDITOR, Patch(unmark())),
            yes(EDITOR, Patch(label("other"))),
            yes(CONTROLLER, Patch(owned_by(&Value::Null))),
            no(EDITOR, Patch(unmark())),
            no(EDITOR, PatchStatus(unmark())),
            yes(EDITOR, Patch(owned_by(&owner("ReplicaSet")))),
            no(EDITOR, Patch(unmark())),
            yes(EDITOR, Patch(label("web"))),
            yes(EDITOR, Evict),
        ],
    }]
}

fn plain_deployments() -> Vec<Sequence> {
    const HELD: &str = r#"{"hold":{"id":"pod@2","pod":"pod"},"rollout":{"revision":2}}"#;
    const RUNS: &str = r#"{"rollout":{"revision":2}}"#;
    const POINTS: &str = r#"[{"name":"canary","beforePriority":1}]"#;
    let held = json!({annotation::ROLLOUT_STATE: HELD, annotation::PAUSE_POINTS: POINTS});
    let deployment =
        |annotations: &Value| workload("Deployment", annotations, &json!({"paused": true, "replicas": 1}));
    let paused = |value: Value| Patch(json!({"spec": {"paused": value}}));
    let annotations = [annotation::ROLLOUT_STATE, annotation::PAUSE_POINTS];
    let changes = annotations.into_iter().flat_map(|key| {
        [no(EDITOR, Patch(annotate(key, Value::Null))), no(EDITOR, PatchStatus(annotate(key, RUNS)))]
    });
    let others = [
        no(EDITOR, paused(Value::Null)),
        no(EDITOR, paused(json!(false))),
        yes(EDITOR, Patch(json!({"spec": {"replicas": 0}}))),
        yes(EDITOR, Patch(annotate("example.com/any", "thing"))),
        yes(RESUMER, paused(Value::Null)),
        yes(EDITOR, Patch(json!({"spec": {"replicas": 1}}))),
        yes(EDITOR, paused(json!(true))),
        // These are for pods.
        yes(EDITOR, Patch(annotate(annotation::PAUSE_POINT, "before"))),
        yes(EDITOR, Patch(label("other"))),
    ];
    vec![
        Sequence {
            what: "resume a plain Deployment",
            object: deployment(&held),
            steps: changes.chain(others).collect(),
        },
        Sequence {
            what: "a plain Deployment that is paused elsewhere",
            object: deployment(&json!({annotation::ROLLOUT_STATE: RUNS})),
            steps: vec![
                no(EDITOR, Patch(annotate(annotation::PAUSE_POINTS, POINTS))),
                yes(EDITOR, paused(json!(false))),
            ],
        },
        Sequence {
            what: "unmark the pod of a ReplicaSet",
            object: marked("ReplicaSet"),
            steps: vec![
                no(EDITOR, Patch(unmark())),
                no(EDITOR, Patch(owned_by(&Value::Null))),
                no(EDITOR, Delete),
                yes(RESUMER, Delete),
            ],
        },
    ]
}

/// Of `resume-only.yaml`.
fn status() -> Vec<Sequence> {
    const AT: &str = "2026-01-01T00:00:00Z";
    let held = json!({"status": {
        "replicas": 3,
        "hold": {
            "id": "web-a@2", "pod": "web-a", "podUID": "1", "point": "Before", "revision": 2, "replicas": 3,
            "since": AT, "limit": 2,
        },
        "passed": [],
        "conditions": [{
            "type": "Held", "status": "True", "reason": "RolloutHeld", "message": "",
            "lastTransitionTime": AT, "lastUpdateTime": AT,
        }],
    }});
    let change = |value: Value| PatchStatus(json!({"status": value}));
    let mut steps = Vec::new();
    for forged in [
        json!({"hold": {"limit": 0}}),
        json!({"hold": null}),
        json!({"passed": [{"id": "*", "resumedAt": AT}]}),
        json!({"rollout": {"revision": 2, "templateHash": "5d9c", "points": []}}),
        json!({"aborted": {"revision": 2, "to": 1, "at": AT, "reason": "Requested", "templateHash": "5d9c"}}),
        json!({"history": []}),
        json!({"readyReplicas": 3}),
        json!({"conditions": []}),
    ] {
        steps.push(no(RESUMER, change(forged.clone())));
        let with_request = super::merged(forged, &json!({"resumeRequested": "web-a@2"}));
        steps.push(no(RESUMER, change(with_request)));
    }
    steps.extend([
        no(RESUMER, PatchStatus(json!({"status": null}))),
        yes(RESUMER, change(json!({"resumeRequested": "web-a@2"}))),
        yes(RESUMER, change(json!({"resumeRequested": null}))),
        yes(RESUMER, change(json!({"abortRequested": 2, "retryRequested": 2}))),
        yes(RESUMER, change(json!({"abortRequested": null, "retryRequested": null}))),
        yes(CONTROLLER, change(json!({"hold": null, "readyReplicas": 3}))),
    ]);
    let object = workload("OrderedDeployment", &json!({}), &json!({}));
    vec![
        Sequence { what: "a status", object: super::merged(object.clone(), &held), steps },
        Sequence {
            what: "the default of a status",
            object: super::merged(object, &json!({"status": {"observedGeneration": -1}})),
            steps: vec![
                no(RESUMER, change(json!({"replicas": 3}))),
                yes(RESUMER, change(json!({"resumeRequested": "*@1"}))),
            ],
        },
    ]
}
