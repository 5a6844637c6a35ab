//! One of the two servers: sends requests, and keeps the state that later requests need.

use std::collections::BTreeMap;

use futures::future::join_all;
use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::normal;

/// The kinds that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    ConfigMap,
    Gadget,
    ReplicaSet,
    Pod,
    /// Only in fixed steps.
    PodTemplate,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::ConfigMap, Self::Gadget, Self::ReplicaSet, Self::Pod];

    /// API version, plural.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::ConfigMap => ("v1", "configmaps"),
            Self::Gadget => ("test.example/v1", "gadgets"),
            Self::ReplicaSet => ("apps/v1", "replicasets"),
            Self::Pod => ("v1", "pods"),
            Self::PodTemplate => ("v1", "podtemplates"),
        }
    }

    /// The path of all objects in the namespace `{ns}`.
    pub fn collection(self) -> String {
        let (version, plural) = self.names();
        let root = if version == "v1" { "api" } else { "apis" };
        format!("/{root}/{version}/namespaces/{{ns}}/{plural}")
    }

    /// A valid object with this name.
    pub fn named(self, name: &str) -> Value {
        let (version, _) = self.names();
        let mut object = json!({"apiVersion": version, "kind": format!("{self:?}"),
            "metadata": {"name": name, "labels": {"a": "1"}}});
        // No scheduler assigns these pods, and no volume has a generated name.
        let pod = json!({
            "schedulerName": "no-scheduler", "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "web:1"}],
        });
        match self {
            Self::ConfigMap => object["data"] = json!({"k": "0"}),
            Self::Gadget => object["spec"] = json!({"replicas": 1}),
            Self::ReplicaSet => {
                object["spec"] = json!({
                    "replicas": 1, "selector": {"matchLabels": {"app": "x"}},
                    "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod},
                });
            }
            Self::Pod => object["spec"] = pod,
            Self::PodTemplate => object["template"] = json!({"spec": pod}),
        }
        object
    }
}

/// The CRD of the custom kind. It has no rules: 1.20 does not evaluate them.
pub fn gadget_definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.test.example"},
        "spec": {
            "group": "test.example", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                }},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {
                            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
                            "colour": {"type": "string", "maxLength": 20},
                            "shade": {"type": "string", "enum": ["dark", "light"]},
                        }},
                        "status": {"type": "object", "properties": {
                            "replicas": {"type": "integer"},
                            "selector": {"type": "string"},
                            "note": {"type": "string"},
                        }},
                    },
                }},
            }],
        },
    }))
    .unwrap()
}

/// The media types of bodies.
pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// One request. In path and body, `{ns}` is the namespace, and `{KEY:LABEL}` is this key of the metadata in
/// the last response to a step with this label (`{KEY:old LABEL}`: in the first one).
#[derive(Clone, Debug)]
pub struct Step {
    pub label: String,
    pub kind: Kind,
    pub method: &'static str,
    pub path: String,
    pub form: &'static str,
    pub body: Value,
    /// Whether the messages of errors are compared too.
    pub has_words: bool,
}

impl Step {
    /// A request for the objects of a kind; `rest` is what follows in the path.
    pub fn new(label: &str, kind: Kind, method: &'static str, rest: &str) -> Self {
        let path = kind.collection() + rest;
        Self { label: label.to_owned(), kind, method, path, form: JSON, body: Value::Null, has_words: false }
    }

    pub fn with(self, body: Value) -> Self {
        Self { body, ..self }
    }

    pub fn of(self, form: &'static str) -> Self {
        Self { form, ..self }
    }

    pub fn at(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// The request in one line, for reports.
    pub fn line(&self) -> String {
        let Self { label, method, path, form, body, .. } = self;
        let form = form.trim_start_matches("application/");
        format!("{label}: {method} {path} {form} {body}")
    }
}

/// A server and its responses in the namespace of one sequence.
pub struct Side {
    pub label: &'static str,
    pub namespace: String,
    /// Observed versions, oldest first, by UID.
    pub versions: BTreeMap<String, Vec<String>>,
    /// UIDs in the order in which they appeared.
    pub uids: Vec<String>,
    client: Client,
    /// The bodies of accepted requests, by label of the step: the last one, and the first one as `old LABEL`.
    answers: BTreeMap<String, Value>,
}

impl Side {
    /// A sequence in this namespace.
    pub fn new(label: &'static str, client: Client, namespace: &str) -> Self {
        let (versions, uids, answers) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        Self { label, namespace: namespace.to_owned(), versions, uids, client, answers }
    }

    /// The same server, in another namespace.
    pub fn elsewhere(&self, namespace: &str) -> Self {
        Self::new(self.label, self.client.clone(), namespace)
    }

    /// Sends a step. Returns its response in normalized form.
    pub async fn take(&mut self, step: &Step) -> Value {
        let (code, bytes) = self.send(step).await;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({"text": String::from_utf8_lossy(&bytes).trim()}));
        self.learn(&body);
        if code < 300 {
            self.answers.entry(format!("old {}", step.label)).or_insert_with(|| body.clone());
            self.answers.insert(step.label.clone(), body.clone());
        }
        normal::answer(self, step, code, &body)
    }

    /// The events of watches, which run at once.
    pub async fn watch(&mut self, steps: &[Step]) -> Value {
        let all = join_all(steps.iter().map(|step| self.send(step))).await;
        let events = steps.iter().zip(all).map(|(step, (_, bytes))| self.events(step.kind, &bytes));
        events.collect()
    }

    async fn send(&self, step: &Step) -> (u16, Vec<u8>) {
        let body = if step.body.is_null() { String::new() } else { self.filled(&step.body.to_string()) };
        let request = http::Request::builder().method(step.method).uri(self.filled(&step.path));
        let request = request.header("Accept", "application/json").header("Content-Type", step.form);
        let response = self.client.send(request.body(Body::from(body.into_bytes())).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        (code, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.replace("{ns}", &self.namespace);
        for (label, answer) in &self.answers {
            for key in ["resourceVersion", "uid", "continue"] {
                let value = answer["metadata"][key].as_str().unwrap_or_default();
                text = text.replace(&format!("{{{key}:{label}}}"), value);
            }
        }
        // What no response has shown is absent.
        while let Some((start, length)) = text
            .find("{resourceVersion:")
            .or_else(|| text.find("{uid:"))
            .and_then(|start| Some((start, text[start..].find('}')?)))
        {
            text.replace_range(start..=start + length, "");
        }
        text
    }

    /// The events, in the order of their versions.
    fn events(&mut self, kind: Kind, bytes: &[u8]) -> Value {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
        let version =
            |event: &Value| event["object"]["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        assert!(events.is_sorted_by_key(version), "{}: {events:#?}", self.label);
        for event in &events {
            self.learn(&event["object"]);
        }
        let shown = |event: &Value| json!([event["type"], normal::object(self, kind, &event["object"])]);
        let mut shown: Vec<Value> = events.iter().map(shown).collect();
        // A collection may be deleted in any order.
        shown.sort_by_key(|event| event[1]["metadata"]["name"].to_string());
        shown.into()
    }

    /// Keeps UIDs and versions of an object or a list.
    fn learn(&mut self, body: &Value) {
        body["items"].as_array().into_iter().flatten().for_each(|item| self.learn(item));
        let text = |key: &str| body["metadata"][key].as_str().map(str::to_owned);
        if let (Some(uid), Some(version)) = (text("uid"), text("resourceVersion")) {
            if !self.uids.contains(&uid) {
                self.uids.push(uid.clone());
            }
            let versions = self.versions.entry(uid).or_default();
            if !versions.contains(&version) {
                versions.push(version);
                versions.sort_by_key(|version| version.parse::<u64>().unwrap_or_default());
            }
        }
    }

    /// Every object.
    pub async fn everything(&mut self) -> Value {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.push(self.take(&Step::new("everything", kind, "GET", "")).await);
        }
        all.into()
    }
}
