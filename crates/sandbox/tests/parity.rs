//! The same requests to the sandbox and to a real API server, and the same answers.
//!
//! `REAL_KUBECONFIG` names the kubeconfig of a kube-apiserver, of any version from 1.20 on, with nothing beside it but
//! etcd (no controllers, no scheduler; the admission plugin `ServiceAccount` off). Everything happens in a namespace
//! and an API group of this run's own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where its ground is missing")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{gadget_definition_value, pod_value};
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use ordereddeployment_sandbox::{Config, Sandbox};
use serde_json::{Value, json};

/// What differs between any two servers, and what only newer or older ones write.
const VOLATILE: [&str; 16] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastProbeTime",
    "managedFields",
    "selfLink",
    "continue",
    "tolerations",
    "serviceAccount",
    "serviceAccountName",
    "description",
    "observedGeneration",
    "deprecatedSource",
    "source",
];

/// A server under comparison.
struct Side {
    client: Client,
    saved: BTreeMap<&'static str, Value>,
}

/// One request; `save` keeps the answer for placeholders such as `{{resourceVersion:a}}` in later ones.
struct Step {
    label: &'static str,
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Value,
    save: Option<&'static str>,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Side {
    async fn ask(&mut self, step: &Step) -> (u16, Value) {
        let fill = |text: &str| {
            let mut text = text.to_owned();
            for (name, answer) in &self.saved {
                for key in ["resourceVersion", "uid", "continue"] {
                    let value = answer["metadata"][key].as_str().unwrap_or_default();
                    text = text.replace(&format!("{{{{{key}:{name}}}}}"), value);
                }
            }
            text
        };
        let body = if step.body.is_null() { String::new() } else { fill(&step.body.to_string()) };
        let request = Request::builder()
            .method(step.method)
            .uri(fill(&step.path))
            .header("content-type", step.kind)
            .header("accept", JSON)
            .body(Body::from(body.into_bytes()))
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        // A watch answers with one object a line.
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| {
            text.lines().map(|line| serde_json::from_str(line).unwrap_or(Value::from(line))).collect()
        });
        if let Some(name) = step.save {
            self.saved.insert(name, answer.clone());
        }
        (code, answer)
    }
}

/// Without what may differ.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let builtin_pod = map.get("kind").is_some_and(|kind| kind == "Pod");
            map.iter()
                .filter(|(key, value)| {
                    // Pods have generations since 1.33.
                    !(VOLATILE.contains(&key.as_str())
                        || value.is_null()
                        || builtin_pod && *key == "generation")
                })
                .map(|(key, value)| {
                    let value = if builtin_pod && key == "metadata" {
                        without_generation(value)
                    } else {
                        value.clone()
                    };
                    (key.clone(), plain(&value))
                })
                .filter(|(_, value)| *value != json!({}))
                .collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(plain).collect();
            // Real servers check some rules on metadata twice, and list the cause twice.
            items.dedup_by(|one, other| one == other && one.get("reason").is_some());
            items.into()
        }
        Value::String(text) => without_identity(text).into(),
        other => other.clone(),
    }
}

fn without_generation(meta: &Value) -> Value {
    let mut meta = meta.clone();
    meta.as_object_mut().unwrap().remove("generation");
    meta
}

/// Texts name UIDs and versions too.
fn without_identity(text: &str) -> String {
    let is_uid = |word: &str| word.len() == 36 && word.matches('-').count() == 4;
    let words = text.split_inclusive([' ', '(', ')', ',', '"']);
    words
        .map(|word| {
            let bare = word.trim_end_matches([' ', '(', ')', ',', '"', '.']);
            let number = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
            if is_uid(bare) || number { word.replace(bare, "_") } else { word.to_owned() }
        })
        .collect()
}

fn step(label: &'static str, method: &'static str, path: &str) -> Step {
    Step { label, method, path: path.to_owned(), kind: JSON, body: Value::Null, save: None }
}

impl Step {
    fn with(self, body: Value) -> Self {
        Self { body, ..self }
    }

    fn of(self, kind: &'static str) -> Self {
        Self { kind, ..self }
    }

    fn saved(self, name: &'static str) -> Self {
        Self { save: Some(name), ..self }
    }
}

fn pods(namespace: &str) -> Vec<Step> {
    let all = format!("/api/v1/namespaces/{namespace}/pods");
    let one = |name: &str| format!("{all}/{name}");
    let pod = |name: &str| {
        let mut pod = pod_value(name, json!({"a": "b"}));
        pod["spec"]["nodeName"] = "nowhere".into();
        pod
    };
    let held = |name: &str| {
        let mut pod = pod(name);
        pod["metadata"]["finalizers"] = json!(["test.example/hold"]);
        pod
    };
    vec![
        step("create", "POST", &all).with(pod("a")).saved("a"),
        step("create again", "POST", &all).with(pod("a")),
        step("create badly named", "POST", &all).with(pod("B_")),
        step("create in no namespace", "POST", "/api/v1/namespaces/no-such/pods").with(pod("a")),
        step("get", "GET", &one("a")),
        step("get missing", "GET", &one("zz")),
        step("unknown subresource", "GET", &one("a/nope")),
        step("merge labels", "PATCH", &one("a")).of(MERGE).with(json!({"metadata": {"labels": {"c": "d"}}})).saved("a"),
        step("change nothing", "PATCH", &one("a")).of(MERGE).with(json!({"metadata": {"labels": {"c": "d"}}})),
        step("change the image", "PATCH", &one("a"))
            .of(STRATEGIC)
            .with(json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}})),
        step("change from an old version", "PATCH", &one("a"))
            .of(STRATEGIC)
            .with(json!({"metadata": {"resourceVersion": "{{resourceVersion:a}}", "labels": {"e": "f"}}})),
        step("change the name", "PATCH", &one("a")).of(MERGE).with(json!({"metadata": {"name": "b"}})),
        step("remove by JSON patch", "PATCH", &one("a"))
            .of(PATCH)
            .with(json!([{"op": "remove", "path": "/metadata/labels/c"}])),
        step("fail a test", "PATCH", &one("a"))
            .of(PATCH)
            .with(json!([{"op": "test", "path": "/metadata/labels/a", "value": "x"}])),
        step("replace a missing one", "PUT", &one("zz")).with(pod("zz")),
        step("bind twice", "POST", &one("a/binding"))
            .with(json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}})),
        step("report", "PATCH", &one("a/status")).of(STRATEGIC).with(json!({
            "metadata": {"labels": {"by": "status"}},
            "spec": {"nodeName": "other"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]},
        })),
        step("delete another uid", "DELETE", &one("a")).with(json!({"preconditions": {"uid": "x"}})),
        step("delete another version", "DELETE", &one("a")).with(json!({"preconditions": {"resourceVersion": "1"}})),
        step("delete as if", "DELETE", &one("a?dryRun=All")),
        step("delete", "DELETE", &one("a")).with(json!({})),
        step("delete again", "DELETE", &one("a")).with(json!({})),
        step("delete sooner", "DELETE", &one("a")).with(json!({"gracePeriodSeconds": 5})),
        step("delete later", "DELETE", &one("a")).with(json!({"gracePeriodSeconds": 50})),
        step("delete now", "DELETE", &one("a")).with(json!({"gracePeriodSeconds": 0})),
        step("gone", "GET", &one("a")),
        step("create held", "POST", &all).with(held("c")),
        step("delete held", "DELETE", &one("c")).with(json!({"gracePeriodSeconds": 0})),
        step("hold on", "PATCH", &one("c")).of(MERGE).with(json!({"metadata": {"finalizers": ["test.example/more", "test.example/hold"]}})),
        step("let go", "PATCH", &one("c")).of(MERGE).with(json!({"metadata": {"finalizers": null}})),
        step("gone too", "GET", &one("c")),
        step("create held and graceful", "POST", &all).with(held("d")),
        step("mark", "DELETE", &one("d")).with(json!({})),
        step("let go early", "PATCH", &one("d")).of(MERGE).with(json!({"metadata": {"finalizers": null}})),
        step("still there", "GET", &one("d")),
        step("finish", "DELETE", &one("d")).with(json!({"gracePeriodSeconds": 0})),
        step("create watched", "POST", &all).with(pod("f")).saved("f"),
        step("force", "DELETE", &one("f")).with(json!({"gracePeriodSeconds": 0})),
        step("watch", "GET", &format!("{all}?watch=1&timeoutSeconds=1&resourceVersion={{{{resourceVersion:f}}}}")),
        step("list nothing", "GET", &all),
        step("select an unknown field", "GET", &format!("{all}?fieldSelector=spec.nope%3Da")),
    ]
}

fn gadgets(namespace: &str, group: &str) -> Vec<Step> {
    let all = format!("/apis/{group}/v1/namespaces/{namespace}/gadgets");
    let one = |name: &str| format!("{all}/{name}");
    let api_version = format!("{group}/v1");
    let gadget = |name: &str, spec: Value| json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": name}, "spec": spec});
    let versioned = |spec: Value| {
        let mut gadget = gadget("a", spec);
        gadget["metadata"]["resourceVersion"] = "{{resourceVersion:a}}".into();
        gadget
    };
    vec![
        step("create", "POST", &all).with(gadget("a", json!({"colour": "red", "nonsense": 1}))).saved("a"),
        step("create again", "POST", &all).with(gadget("a", json!({}))),
        step("create badly named", "POST", &all).with(gadget("B_", json!({}))),
        step("replace without a version", "PUT", &one("zz")).with(gadget("zz", json!({}))),
        step("replace under another name", "PUT", &one("b")).with(gadget("a", json!({}))),
        step("replace", "PUT", &one("a")).with(versioned(json!({"colour": "blue"}))).saved("b"),
        step("replace an old version", "PUT", &one("a")).with(versioned(json!({"colour": "green"}))),
        step("merge", "PATCH", &one("a"))
            .of(MERGE)
            .with(json!({"spec": {"replicas": 3}, "status": {"note": "x"}})),
        step("change nothing", "PATCH", &one("a")).of(MERGE).with(json!({"spec": {"replicas": 3}})),
        step("label", "PATCH", &one("a")).of(MERGE).with(json!({"metadata": {"labels": {"x": "y"}}})),
        step("patch strategically", "PATCH", &one("a")).of(STRATEGIC).with(json!({"spec": {}})),
        step("patch the status", "PATCH", &one("a/status")).of(MERGE).with(
            json!({"spec": {"colour": "no"}, "status": {"note": "x", "replicas": 2, "selector": "a=b"}}),
        ),
        step("get the scale", "GET", &one("a/scale")).saved("scale"),
        step("scale", "PATCH", &one("a/scale")).of(MERGE).with(json!({"spec": {"replicas": 5}})),
        step("scale an old version", "PUT", &one("a/scale")).with(json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 6},
            "metadata": {"name": "a", "namespace": namespace, "resourceVersion": "{{resourceVersion:scale}}"},
        })),
        step("get", "GET", &one("a")),
        step("unknown resource", "GET", &format!("/apis/{group}/v1/namespaces/{namespace}/gizmos")),
        step("another", "POST", &all).with(gadget("p1", json!({}))),
        step("and another", "POST", &all).with(gadget("p2", json!({}))),
        step("a page", "GET", &format!("{all}?limit=2")).saved("page"),
        step("the next page", "GET", &format!("{all}?limit=2&continue={{{{continue:page}}}}")),
        step("match without a version", "GET", &format!("{all}?resourceVersionMatch=Exact")),
        step(
            "watch",
            "GET",
            &format!("{all}?watch=1&timeoutSeconds=1&resourceVersion={{{{resourceVersion:b}}}}"),
        ),
        step("delete as if", "DELETE", &one("a?dryRun=All")),
        step("hold", "PATCH", &one("a"))
            .of(MERGE)
            .with(json!({"metadata": {"finalizers": ["test.example/hold"]}})),
        step("delete held", "DELETE", &one("a")),
        step("delete held again", "DELETE", &one("a")),
        step("let go", "PATCH", &one("a"))
            .of(PATCH)
            .with(json!([{"op": "remove", "path": "/metadata/finalizers"}])),
        step("gone", "GET", &one("a")),
        step("delete", "DELETE", &one("p1")),
        step("delete missing", "DELETE", &one("p1")),
    ]
}

async fn sides() -> [Side; 2] {
    let file =
        std::env::var("REAL_KUBECONFIG").expect("REAL_KUBECONFIG names the kubeconfig of a real API server");
    let config = Kubeconfig::read_from(file).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    let real = Client::try_from(config).unwrap();
    // Without nodes nothing moves by itself.
    let sandbox = Sandbox::start(Config { nodes: Vec::new(), ..Config::default() }).await.unwrap();
    let ours = sandbox.client().unwrap();
    // Ends with the process.
    std::mem::forget(sandbox);
    [real, ours].map(|client| Side { client, saved: BTreeMap::new() })
}

/// Asks both sides, and tells every difference.
async fn compare(sides: &mut [Side; 2], steps: &[Step]) -> Vec<String> {
    let mut differences = Vec::new();
    let [real, ours] = sides;
    for step in steps {
        let (expected, found) = (real.ask(step).await, ours.ask(step).await);
        let (expected, found) = ((expected.0, plain(&expected.1)), (found.0, plain(&found.1)));
        if expected != found {
            differences.push(format!(
                "{}:\n   real: {} {}\n   ours: {} {}",
                step.label, expected.0, expected.1, found.0, found.1
            ));
        }
    }
    differences
}

/// A name no other run has.
fn own_name() -> String {
    format!("parity{}", std::process::id())
}

async fn namespace(sides: &mut [Side; 2]) -> String {
    let name = own_name();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    for side in sides {
        side.ask(&step("namespace", "POST", "/api/v1/namespaces").with(body.clone())).await;
    }
    name
}

#[tokio::test]
#[ignore = "needs a real API server: REAL_KUBECONFIG"]
async fn pods_are_written_and_deleted_as_on_a_real_server() {
    let mut sides = sides().await;
    let namespace = namespace(&mut sides).await;
    let differences = compare(&mut sides, &pods(&namespace)).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
#[ignore = "needs a real API server: REAL_KUBECONFIG"]
async fn custom_objects_are_written_and_deleted_as_on_a_real_server() {
    let mut sides = sides().await;
    let namespace = namespace(&mut sides).await;
    let group = format!("{}.example", own_name());
    let text = gadget_definition_value().to_string().replace("test.example", &group);
    let mut definition: Value = serde_json::from_str(&text).unwrap();
    // Rules came later than the oldest server this runs against.
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("x-kubernetes-validations");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let list = format!("/apis/{group}/v1/namespaces/{namespace}/gadgets");
    for side in &mut sides {
        side.ask(&step("define", "POST", definitions).with(definition.clone())).await;
        // A real server takes its time to serve it.
        while side.ask(&step("served", "GET", &list)).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let differences = compare(&mut sides, &gadgets(&namespace, &group)).await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
