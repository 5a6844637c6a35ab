//! Requests: ordinary ones and malformed ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::json::{any_value, change, key};

mod apt;

/// A request.
#[derive(Clone)]
pub struct Sent {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(formatter, "{} {} {:?} {body:.3000}", self.method, self.uri(), self.headers)
    }
}

impl Sent {
    pub fn uri(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) }
    }
}

/// Collections, and whether they are namespaced.
pub const COLLECTIONS: [(&str, &str, bool); 16] = [
    ("/api/v1", "pods", true),
    ("/api/v1", "configmaps", true),
    ("/api/v1", "secrets", true),
    ("/api/v1", "services", true),
    ("/api/v1", "serviceaccounts", true),
    ("/api/v1", "events", true),
    ("/api/v1", "resourcequotas", true),
    ("/api/v1", "nodes", false),
    ("/api/v1", "namespaces", false),
    ("/apis/apps/v1", "replicasets", true),
    ("/apis/apps/v1", "deployments", true),
    ("/apis/events.k8s.io/v1", "events", true),
    ("/apis/coordination.k8s.io/v1", "leases", true),
    ("/apis/policy/v1", "poddisruptionbudgets", true),
    ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", false),
    ("/apis/test.example/v1", "gadgets", true),
];

fn pod_spec() -> Value {
    json!({
        "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}},
                        "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]}],
        "terminationGracePeriodSeconds": 5,
    })
}

fn gadgets() -> Value {
    json!({
        "spec": {
            "group": "test.example", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "shortNames": ["gd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [{"name": "Wanted", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "When", "type": "date", "jsonPath": ".spec.colour"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
                        "colour": {"type": "string", "maxLength": 20}, "limit": {"type": "integer"},
                        "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                      "x-kubernetes-validations": [{"rule": "!has(self.limit) || self.replicas <= self.limit"}]},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
            }],
        },
    })
}

/// A valid object of this collection.
fn sound(plural: &str, name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()});
    let (api_version, kind, mut object) = match plural {
        "pods" => ("v1", "Pod", json!({"spec": pod_spec()})),
        "configmaps" => ("v1", "ConfigMap", json!({"data": {"k": "v"}})),
        "secrets" => ("v1", "Secret", json!({"data": {"k": "dg=="}})),
        "services" => ("v1", "Service", json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}})),
        "serviceaccounts" => ("v1", "ServiceAccount", json!({})),
        "events" => {
            ("v1", "Event", json!({"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}}))
        }
        "resourcequotas" => ("v1", "ResourceQuota", json!({"spec": {"hard": {"pods": "10"}}})),
        "nodes" => ("v1", "Node", json!({"spec": {"taints": [{"key": "t", "effect": "NoSchedule"}]}})),
        "namespaces" => ("v1", "Namespace", json!({})),
        "replicasets" | "deployments" => {
            let kind = if plural == "deployments" { "Deployment" } else { "ReplicaSet" };
            let selector = json!({"matchLabels": {"app": "a"}});
            ("apps/v1", kind, json!({"spec": {"replicas": 2, "selector": selector, "template": template}}))
        }
        "leases" => ("coordination.k8s.io/v1", "Lease", json!({"spec": {"holderIdentity": "x"}})),
        "poddisruptionbudgets" => {
            let selector = json!({"matchLabels": {"app": "a"}});
            ("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "selector": selector}}))
        }
        "customresourcedefinitions" => ("apiextensions.k8s.io/v1", "CustomResourceDefinition", gadgets()),
        _ => ("test.example/v1", "Gadget", json!({"spec": {"replicas": 2, "colour": "red"}, "status": {}})),
    };
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({"name": name, "labels": {"app": "a"}, "annotations": {"x": "y"}});
    object
}

fn json_headers() -> Vec<(String, String)> {
    vec![("content-type".into(), "application/json".into())]
}

/// One of these words.
fn words(all: &'static str) -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(all.split(' ').collect::<Vec<_>>())
}

/// The initial objects: one of each kind.
pub fn prelude() -> Vec<Sent> {
    let mut all: Vec<Sent> = Vec::new();
    let order = [14, 8, 0, 1, 2, 3, 4, 6, 9, 10, 12, 13, 15];
    for index in order {
        let (base, plural, namespaced) = COLLECTIONS[index];
        let name = if plural == "customresourcedefinitions" { "gadgets.test.example" } else { "a" };
        let path = if namespaced {
            format!("{base}/namespaces/default/{plural}")
        } else {
            format!("{base}/{plural}")
        };
        let body = sound(plural, name).to_string().into_bytes();
        all.push(Sent { method: "POST".into(), path, query: String::new(), headers: json_headers(), body });
    }
    all
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => words("a b n1 default gadgets.test.example kube-system")
            .prop_map(str::to_owned),
        1 => words("A %00 %zz .. . %2F %F0%9F%92%A5 a%20b - %")
            .prop_map(str::to_owned),
        1 => "[a-z%.0-9-]{1,12}",
    ]
}

fn path() -> impl Strategy<Value = (String, &'static str)> {
    let sub = words("status scale binding eviction finalize log exec %");
    let usual = (
        prop::sample::select(COLLECTIONS.to_vec()),
        prop::option::weighted(0.9, prop_oneof![8 => Just("default".to_owned()), 1 => name()]),
        prop::option::weighted(0.7, name()),
        prop::option::weighted(0.3, sub),
    )
        .prop_map(|((base, plural, namespaced), namespace, name, sub)| {
            let namespace =
                namespace.filter(|_| namespaced).map(|namespace| format!("/namespaces/{namespace}"));
            let sub = sub.filter(|_| name.is_some()).map(|sub| format!("/{sub}")).unwrap_or_default();
            let name = name.map(|name| format!("/{name}")).unwrap_or_default();
            let path = format!("{base}{}/{plural}{name}{sub}", namespace.unwrap_or_default());
            (path, plural)
        });
    let steps = prop::sample::select(vec![
        "api",
        "apis",
        "v1",
        "apps",
        "test.example",
        "openapi",
        "v2",
        "v3",
        "version",
        "namespaces",
        "default",
        "pods",
        "gadgets",
        "",
        "%",
        "%00",
        "healthz",
        "status",
    ]);
    let odd =
        proptest::collection::vec(steps, 0..7).prop_map(|steps| (format!("/{}", steps.join("/")), "pods"));
    prop_oneof![30 => usual, 2 => odd]
}

fn selector() -> impl Strategy<Value = (String, String)> {
    (
        words("labelSelector fieldSelector"),
        prop_oneof![
            prop::sample::select(vec![
                "app=a",
                "app==a",
                "app!=a",
                "app",
                "!app",
                "app in (a,b)",
                "app notin (a)",
                "app in ()",
                "app in (",
                "a=b=c",
                ",",
                ",,app",
                "=",
                "metadata.name=a",
                "metadata.name!=a",
                "status.phase=Running",
                "spec.nodeName=",
                "metadata.namespace=default",
                "spec.unknown=x",
                "(",
                ")",
                "!",
                "a\\,b=c",
                "a > 1",
                "a<b",
                "\u{0}=x",
                "x in (é)",
            ])
            .prop_map(str::to_owned),
            "[a-z=!,() <>.\\\\]{0,20}",
            any::<String>(),
        ],
    )
        .prop_map(|(key, value)| (key.to_owned(), value))
}

fn query() -> impl Strategy<Value = String> {
    let numbers = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "10",
        "-1",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775807",
        "-9223372036854775808",
        "1e3",
        "x",
        "",
        "1.5",
        "٥",
    ]);
    let number_key = words("resourceVersion limit timeoutSeconds gracePeriodSeconds tailLines sinceSeconds");
    let numbered = (number_key, numbers).prop_map(|(key, value)| (key.to_owned(), value.to_owned()));
    let worded = (
        words(
            "\
        watch allowWatchBookmarks sendInitialEvents resourceVersionMatch continue dryRun \
        propagationPolicy orphanDependents includeObject fieldValidation fieldManager force pretty \
        follow",
        ),
        prop_oneof![
            prop::sample::select(vec![
                "1",
                "true",
                "0",
                "false",
                "",
                "Exact",
                "NotOlderThan",
                "All",
                "None",
                "Object",
                "Metadata",
                "Background",
                "Foreground",
                "Orphan",
                "Strict",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
                "eyJydiI6OTk5OTk5OTk5LCJuYW1lc3BhY2UiOiJkZWZhdWx0IiwibmFtZSI6ImEifQ",
                "AAAA",
                "====",
            ])
            .prop_map(str::to_owned),
            any::<String>(),
        ],
    )
        .prop_map(|(key, value)| (key.to_owned(), value));
    let pair = prop_oneof![2 => numbered, 2 => selector(), 3 => worded];
    let encode = |pairs: Vec<(String, String)>| {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(pairs);
        text.finish()
    };
    let raw = "[a-zA-Z0-9=&%+;,.!()-]{0,30}";
    prop_oneof![4 => Just(String::new()), 8 => proptest::collection::vec(pair, 1..4).prop_map(encode), 1 => raw]
}

fn accept() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just("application/json".to_owned()),
        3 => prop::sample::select(vec![
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=Nothing",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "text/html", "*/*", "", ";;,;=",
            "application/vnd.kubernetes.protobuf", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        ])
        .prop_map(str::to_owned),
        1 => "[ -~]{0,30}",
    ]
}

fn operations() -> impl Strategy<Value = Value> {
    let op = words("add remove replace move copy test x");
    let pointer = prop_oneof![
        prop::sample::select(vec![
            "",
            "/",
            "/metadata",
            "/metadata/labels/app",
            "/metadata/name",
            "/spec/replicas",
            "/spec/containers/0",
            "/spec/containers/-",
            "/spec/containers/99999999999999999999",
            "/status",
            "/metadata/finalizers/-",
            "/spec/template/metadata/labels/~1~0",
            "/metadata/resourceVersion",
            "/spec/containers/-1",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let pointer = pointer.boxed();
    let operation = (op, pointer.clone(), pointer, any_value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    proptest::collection::vec(operation, 0..4).prop_map(Value::from)
}

/// A merge patch or strategic merge patch with paths that the server reads.
fn merge() -> impl Strategy<Value = Value> {
    proptest::collection::vec(change(), 1..4).prop_map(|changes| {
        let mut patch = json!({});
        for change in changes {
            change.apply(&mut patch);
        }
        patch
    })
}

fn body(plural: &'static str) -> BoxedStrategy<Vec<u8>> {
    let object = (name(), proptest::collection::vec(change(), 0..4)).prop_map(move |(name, changes)| {
        let mut object = sound(plural, &name);
        for change in changes {
            change.apply(&mut object);
        }
        object
    });
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "x"},
                         "gracePeriodSeconds": 3, "propagationPolicy": "Foreground"});
    let special = prop::sample::select(vec![
        options,
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "default"}}),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n2"}}),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "default"},
               "spec": {"replicas": 3}}),
    ]);
    let special = (special, proptest::collection::vec(change(), 0..3)).prop_map(|(mut object, changes)| {
        for change in changes {
            change.apply(&mut object);
        }
        object
    });
    let text = |value: Value| value.to_string().into_bytes();
    let deep = (prop::sample::select(vec![50_usize, 110, 126, 128, 1000, 100_000]), any::<bool>()).prop_map(
        |(levels, list)| {
            let (open, close) = if list { ("[", "]") } else { ("{\"spec\":", "}") };
            format!("{}1{}", open.repeat(levels), close.repeat(levels)).into_bytes()
        },
    );
    let pieces = prop::sample::select(vec![
        "{\"spec\":{\"replicas\":1e999}}",
        "{\"a\":1,\"a\":2}",
        "[]",
        "null",
        "{",
        "\u{feff}{}",
        "\"x\"",
        "1",
        "-",
        "{\"metadata\":{\"name\":\"\\ud800\"}}",
        "{\"spec\":{\"replicas\":123456789012345678901234567890}}",
    ])
    .prop_map(|text| text.as_bytes().to_vec());
    let protobuf = proptest::collection::vec(any::<u8>(), 0..60).prop_map(|mut bytes| {
        bytes.splice(0..0, *b"k8s\0");
        bytes
    });
    prop_oneof![
        10 => object.prop_map(text),
        5 => special.prop_map(text),
        5 => merge().prop_map(text),
        3 => operations().prop_map(text),
        2 => any_value().prop_map(text),
        2 => (key(), any_value()).prop_map(move |(key, value)| text(json!({key: value}))),
        1 => Just(Vec::new()),
        1 => pieces,
        1 => deep,
        1 => protobuf,
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
    .boxed()
}

pub fn request() -> impl Strategy<Value = Sent> {
    prop_oneof![1 => wild(), 4 => apt::request()]
}

/// A request whose parts need not match.
fn wild() -> impl Strategy<Value = Sent> {
    let method = prop_oneof![
        20 => words("GET POST PUT PATCH DELETE"),
        1 => words("HEAD OPTIONS FOO TRACE"),
    ];
    let content_type = prop_oneof![
        8 => prop::sample::select(vec![
            "application/json", "application/merge-patch+json", "application/json-patch+json",
            "application/strategic-merge-patch+json", "application/apply-patch+yaml",
            "application/vnd.kubernetes.protobuf", "", "application/yaml",
        ])
        .prop_map(str::to_owned),
        1 => "[ -~]{0,20}",
    ];
    (method, path(), query(), accept(), content_type).prop_flat_map(
        |(method, (path, plural), query, accept, kind)| {
            body(plural).prop_map(move |body| {
                // Most requests have the content type of their method.
                let kind = match (method, kind.as_str()) {
                    (
                        "POST" | "PUT" | "DELETE",
                        "application/merge-patch+json" | "application/json-patch+json",
                    ) => "application/json".to_owned(),
                    ("PATCH", "application/json" | "") => "application/merge-patch+json".to_owned(),
                    _ => kind.clone(),
                };
                let headers = vec![("accept".to_owned(), accept.clone()), ("content-type".to_owned(), kind)];
                Sent { method: method.to_owned(), path: path.clone(), query: query.clone(), headers, body }
            })
        },
    )
}
