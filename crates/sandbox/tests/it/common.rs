//! Shared helpers of the tests: a sandbox with a simulated clock, and a small custom resource.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use ordereddeployment_sandbox::{Clock, Config, Sandbox};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A sandbox with tokio's clock.
pub(crate) async fn sandbox() -> Sandbox {
    sandbox_with(|_| {}).await
}

/// The same, with a client.
pub(crate) async fn started() -> (Sandbox, Client) {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    (sandbox, client)
}

pub(crate) async fn sandbox_with(change: impl FnOnce(&mut Config)) -> Sandbox {
    let base = "2030-01-01T00:00:00Z".parse().unwrap();
    let mut config = Config { clock: Clock::simulated(base), ..Config::default() };
    change(&mut config);
    Sandbox::start(config).await.unwrap()
}

pub(crate) fn pods(client: &Client) -> Api<Pod> {
    Api::default_namespaced(client.clone())
}

pub(crate) fn pod(name: &str) -> Pod {
    pod_with(name, json!({}))
}

/// A pod changed by a merge patch.
pub(crate) fn pod_with(name: &str, patch: Value) -> Pod {
    let mut pod = pod_value(name, json!({}));
    json_patch::merge(&mut pod, &patch);
    serde_json::from_value(pod).unwrap()
}

pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    api.create(&PostParams::default(), object).await.unwrap()
}

/// Changes an object by a merge patch.
pub(crate) async fn merge<K: Clone + Debug + DeserializeOwned>(api: &Api<K>, name: &str, patch: Value) -> K {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

pub(crate) async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The names of all objects.
pub(crate) async fn names<K: Clone + Debug + DeserializeOwned + Resource>(api: &Api<K>) -> Vec<String> {
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

pub(crate) fn pod_value(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    })
}

/// The definition of `Gadget`: status, scale, columns and a rule.
pub(crate) fn gadget_definition_value() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.test.example"},
        "spec": {
            "group": "test.example", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "shortNames": ["gd"],
            "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector"},
                },
                "additionalPrinterColumns": [
                    {"name": "Wanted", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A gadget of the tests.",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "replicas": {"type": "integer", "format": "int32", "minimum": 0,
                                "default": 1, "description": "How many."},
                                "colour": {"type": "string", "maxLength": 20},
                                "limit": {"type": "integer"},
                            },
                            "x-kubernetes-validations": [
                                {"rule": "!has(self.limit) || self.replicas <= self.limit",
                                "message": "replicas must not exceed limit"},
                            ],
                        },
                        "status": {
                            "type": "object",
                            "properties": {
                                "replicas": {"type": "integer"},
                                "selector": {"type": "string"},
                                "note": {"type": "string"},
                                "conditions": {"type": "array", "items": {"type": "object",
                                "x-kubernetes-preserve-unknown-fields": true}},
                            },
                        },
                    },
                }},
            }],
        },
    })
}

pub(crate) fn gadget_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("test.example", "v1", "Gadget"), "gadgets")
}

pub(crate) fn gadgets(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &gadget_resource())
}

pub(crate) async fn define_gadgets(client: &Client) {
    let definition: CustomResourceDefinition = serde_json::from_value(gadget_definition_value()).unwrap();
    create(&Api::all(client.clone()), &definition).await;
}

pub(crate) fn gadget(name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

/// The Status of a rejected request.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Box<kube::core::Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
