//! Finalizers, ownership and the three propagation policies.

#![allow(clippy::unwrap_used, reason = "a test ends where its ground is missing")]

mod common;

use std::time::Duration;

use common::{define_gadgets, gadget, gadget_definition, gadgets, pod_value, pods, refusal, sandbox};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

/// A gadget with two pods of its own.
async fn family(client: &Client) -> DynamicObject {
    define_gadgets(client).await;
    let owner = gadgets(client).create(&PostParams::default(), &gadget("g", json!({}))).await.unwrap();
    for name in ["a", "b"] {
        let mut child = pod_value(name, json!({}));
        child["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "uid": owner.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }]);
        let child: Pod = serde_json::from_value(child).unwrap();
        pods(client).create(&PostParams::default(), &child).await.unwrap();
    }
    settle().await;
    owner
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_removed() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let api = gadgets(&client);
    let mut wanted = gadget("g", json!({}));
    wanted.metadata.finalizers = Some(vec!["test.example/hold".into()]);
    api.create(&PostParams::default(), &wanted).await.unwrap();
    let marked = api.delete("g", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    settle().await;
    let more = json!({"metadata": {"finalizers": ["test.example/hold", "test.example/more"]}});
    let refused = refusal(api.patch("g", &PatchParams::default(), &Patch::Merge(more)).await);
    assert!(refused.message.contains("no new finalizers can be added"), "{}", refused.message);
    let none = json!({"metadata": {"finalizers": null}});
    api.patch("g", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    assert_eq!(refusal(api.get("g").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn in_the_background_the_owner_goes_first() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    gadgets(&client).delete("g", &DeleteParams::background()).await.unwrap();
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    settle().await;
    assert!(pods(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_waits_for_its_dependents() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    gadgets(&client).delete("g", &DeleteParams::foreground()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = gadgets(&client).get("g").await.unwrap();
    assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
    let pods = pods(&client).list(&ListParams::default()).await.unwrap();
    assert!(pods.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()) && pods.items.len() == 2);
    settle().await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_lose_their_reference() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    gadgets(&client).delete("g", &DeleteParams::orphan()).await.unwrap();
    settle().await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    let left = pods(&client).list(&ListParams::default()).await.unwrap();
    assert!(left.items.iter().all(|pod| pod.owner_references().is_empty()) && left.items.len() == 2);
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_owner_that_never_was_is_collected() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let mut child = pod_value("a", json!({}));
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "g", "uid": "no-such-uid"}]);
    let child: Pod = serde_json::from_value(child).unwrap();
    pods(&client).create(&PostParams::default(), &child).await.unwrap();
    settle().await;
    assert_eq!(refusal(pods(&client).get("a").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_with_it() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.delete("gadgets.test.example", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert_eq!(refusal(definitions.get("gadgets.test.example").await).code, 404);
    assert_eq!(refusal(gadgets(&client).list(&ListParams::default()).await).code, 404);
    assert!(pods(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
    definitions.create(&PostParams::default(), &gadget_definition()).await.unwrap();
    assert!(gadgets(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}
