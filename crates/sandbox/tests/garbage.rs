//! Finalizers, ownership and the three propagation policies.

#![allow(clippy::unwrap_used, reason = "a test ends where its ground is missing")]

mod common;

use std::time::Duration;

use common::{
    define_gadgets, gadget, gadget_definition, gadgets, pod_value, pods, refusal, sandbox, sandbox_with,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
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

/// The finalizers that were told of that pod while it was being deleted.
async fn told_of(client: &Client, name: &str) -> Vec<Vec<String>> {
    let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(1);
    let events = pods(client).watch(&params, "1").await.unwrap();
    let pods = events.filter_map(async |event| match event.unwrap() {
        WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => Some(pod),
        _ => None,
    });
    let marked = pods.filter(|pod| std::future::ready(pod.metadata.deletion_timestamp.is_some()));
    marked.map(|pod| pod.finalizers().to_vec()).collect().await
}

#[tokio::test(start_paused = true)]
async fn only_dependents_that_block_and_have_dependents_of_their_own_go_in_the_foreground_too() {
    let sandbox = sandbox_with(|config| config.nodes.clear()).await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let owner = gadgets(&client).create(&PostParams::default(), &gadget("g", json!({}))).await.unwrap();
    let child_of = async |name: &str, of: (&str, &str, &str, Option<String>), blocks: bool| {
        let mut child = pod_value(name, json!({}));
        let (version, kind, owner, uid) = of;
        child["metadata"]["ownerReferences"] = json!([{
            "apiVersion": version, "kind": kind, "name": owner, "uid": uid, "blockOwnerDeletion": blocks,
        }]);
        // One that stays marked until somebody lets it go.
        if name == "leaf" {
            child["metadata"]["finalizers"] = json!(["test.example/hold"]);
        }
        let child: Pod = serde_json::from_value(child).unwrap();
        pods(&client).create(&PostParams::default(), &child).await.unwrap()
    };
    let of_gadget = ("test.example/v1", "Gadget", "g", owner.uid());
    let middle = child_of("middle", of_gadget.clone(), true).await;
    child_of("leaf", ("v1", "Pod", "middle", middle.uid()), true).await;
    child_of("free", of_gadget, false).await;
    gadgets(&client).delete("g", &DeleteParams::foreground()).await.unwrap();
    settle().await;
    assert_eq!(gadgets(&client).get("g").await.unwrap().finalizers(), ["foregroundDeletion"]);
    assert_eq!(pods(&client).get("middle").await.unwrap().finalizers(), ["foregroundDeletion"]);
    assert_eq!(pods(&client).get("leaf").await.unwrap().finalizers(), ["test.example/hold"]);
    assert!(pods(&client).get("free").await.unwrap().metadata.deletion_timestamp.is_none());
    let none = json!({"metadata": {"finalizers": null}});
    pods(&client).patch("leaf", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    settle().await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    assert_eq!(told_of(&client, "free").await, [Vec::<String>::new(), Vec::new()], "marked, gone");
}

#[tokio::test(start_paused = true)]
async fn a_second_owner_keeps_an_object_that_a_first_one_waits_for() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    let other = gadgets(&client).create(&PostParams::default(), &gadget("other", json!({}))).await.unwrap();
    let mut owners = pods(&client).get("a").await.unwrap().owner_references().to_vec();
    let mut second = owners[0].clone();
    second.name = "other".into();
    second.uid = other.uid().unwrap();
    second.controller = None;
    owners.push(second.clone());
    let both = json!({"metadata": {"ownerReferences": owners}});
    pods(&client).patch("a", &PatchParams::default(), &Patch::Merge(both)).await.unwrap();
    gadgets(&client).delete("g", &DeleteParams::foreground()).await.unwrap();
    settle().await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    let left = pods(&client).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);
    assert_eq!(left[0].owner_references(), [second]);
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
