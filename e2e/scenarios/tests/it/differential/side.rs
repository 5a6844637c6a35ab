//! One of the two servers: sends requests, and keeps the state that later requests need.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::operations::{Name, Uid, Version};

/// The media types of bodies.
pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const PATCH: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// The kinds that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// API version, kind, plural.
    pub fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ConfigMap => ("v1", "ConfigMap", "configmaps"),
            Self::Gadget => ("test.example/v1", "Gadget", "gadgets"),
            Self::ReplicaSet => ("apps/v1", "ReplicaSet", "replicasets"),
            Self::Pod => ("v1", "Pod", "pods"),
            Self::PodTemplate => ("v1", "PodTemplate", "podtemplates"),
        }
    }

    /// A valid object with this name.
    pub fn named(self, name: &str) -> Value {
        let mut object = self.object();
        object["metadata"]["name"] = name.into();
        object
    }

    /// A valid object without a name.
    pub fn object(self) -> Value {
        let (version, kind, _) = self.names();
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"labels": {"a": "1"}}});
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

/// A response: its code and its body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

impl Answer {
    pub fn succeeded(&self) -> bool {
        self.code < 300
    }
}

/// A server and its responses in this sequence.
pub struct Side {
    pub label: &'static str,
    pub client: Client,
    pub namespace: String,
    /// Generated names in order, by kind.
    pub generated: BTreeMap<Kind, Vec<String>>,
    /// Observed versions, oldest first, by UID.
    pub versions: BTreeMap<String, Vec<String>>,
    /// UIDs in the order in which they appeared.
    pub uids: Vec<String>,
    /// Versions of the whole server, read at the same points of the sequence on both sides.
    pub moments: Vec<String>,
    /// Whether objects have owners, so that the garbage collector has work.
    pub has_dependents: bool,
}

impl Side {
    pub fn new(label: &'static str, client: Client) -> Self {
        Self {
            label,
            client,
            namespace: String::new(),
            generated: BTreeMap::new(),
            versions: BTreeMap::new(),
            uids: Vec::new(),
            moments: Vec::new(),
            has_dependents: false,
        }
    }

    /// Starts a new sequence in this namespace.
    pub fn turn_to(&mut self, namespace: &str) {
        *self = Self { namespace: namespace.to_owned(), ..Self::new(self.label, self.client.clone()) };
    }

    pub fn collection(&self, kind: Kind) -> String {
        let (version, _, plural) = kind.names();
        let root = if version == "v1" { "api" } else { "apis" };
        format!("/{root}/{version}/namespaces/{}/{plural}", self.namespace)
    }

    pub fn path(&self, kind: Kind, name: Name, part: &str) -> String {
        let name = self.name(kind, name);
        let part = if part.is_empty() { String::new() } else { format!("/{part}") };
        format!("{}/{name}{part}", self.collection(kind))
    }

    pub fn name(&self, kind: Kind, name: Name) -> String {
        match name {
            Name::Fixed(name) => name.to_owned(),
            Name::Generated(index) => {
                let made = self.generated.get(&kind).and_then(|all| all.get(index));
                made.cloned().unwrap_or_else(|| "never-made".to_owned())
            }
        }
    }

    /// Sends a request and keeps the state in the response.
    pub async fn send(&mut self, method: &str, path: &str, form: &str, body: Option<&Value>) -> Answer {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut request =
            http::Request::builder().method(method).uri(path).header("Accept", "application/json");
        if body.is_some() {
            request = request.header("Content-Type", form);
        }
        let response = self.client.send(request.body(Body::from(bytes)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!({"text": String::from_utf8_lossy(&bytes).trim()}));
        self.learn(&body);
        Answer { code, body }
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, "", None).await
    }

    /// Reads the version of the whole server.
    pub async fn remember_the_moment(&mut self) {
        let path = self.collection(Kind::ConfigMap);
        let list = self.get(&path).await.body;
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        self.moments.push(version.unwrap_or_default().to_owned());
    }

    /// Keeps UIDs and versions of an object or a list.
    pub fn learn(&mut self, body: &Value) {
        for item in body.get("items").and_then(Value::as_array).into_iter().flatten() {
            self.learn(item);
        }
        let text = |key: &str| body.pointer(key).and_then(Value::as_str).map(str::to_owned);
        if let (Some(uid), Some(version)) = (text("/metadata/uid"), text("/metadata/resourceVersion")) {
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

    /// The version in a request for an existing object.
    pub fn version(&self, object: &Value, wanted: Version) -> Option<String> {
        let current =
            || object.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
        match wanted {
            Version::None => None,
            Version::Current => current(),
            Version::Stale => {
                let uid = object.pointer("/metadata/uid").and_then(Value::as_str)?;
                self.versions.get(uid)?.first().cloned()
            }
            Version::Garbage => Some("garbage".to_owned()),
        }
    }

    /// The UID in a request for an existing object.
    pub fn uid(object: &Value, wanted: Uid) -> Option<String> {
        match wanted {
            Uid::None => None,
            Uid::Current => object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned),
            Uid::Wrong => Some("00000000-0000-0000-0000-000000000000".to_owned()),
        }
    }
}
