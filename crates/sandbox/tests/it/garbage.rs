//! Finalizers, ownership and the three propagation policies.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_sandbox::{Collector, Record, Sandbox};
use serde_json::json;

use crate::common::{
    define_gadgets, gadget, gadget_definition, gadget_resource, gadgets, pod_value, pods, refusal, sandbox,
    sandbox_with,
};

async fn wait_for_agents() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

/// Creates a Gadget that owns two pods.
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
    wait_for_agents().await;
    owner
}

/// The finalizers of the pod in each watch event after its deletion timestamp was set.
async fn finalizers_seen(client: &Client, name: &str) -> Vec<Vec<String>> {
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
async fn foreground_deletion_is_recursive_and_waits_only_for_blocking_dependents() {
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
        // A pod that stays terminating until the test removes its finalizer.
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
    wait_for_agents().await;
    assert_eq!(gadgets(&client).get("g").await.unwrap().finalizers(), ["foregroundDeletion"]);
    assert_eq!(pods(&client).get("middle").await.unwrap().finalizers(), ["foregroundDeletion"]);
    assert_eq!(pods(&client).get("leaf").await.unwrap().finalizers(), ["test.example/hold"]);
    assert_eq!(refusal(pods(&client).get("free").await).code, 404);
    let none = json!({"metadata": {"finalizers": null}});
    pods(&client).patch("leaf", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    wait_for_agents().await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    assert_eq!(finalizers_seen(&client, "free").await, [Vec::<String>::new(), Vec::new()], "marked, gone");
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_deleted_crd_are_deleted() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.delete("gadgets.test.example", &DeleteParams::default()).await.unwrap();
    wait_for_agents().await;
    assert_eq!(refusal(definitions.get("gadgets.test.example").await).code, 404);
    assert_eq!(refusal(gadgets(&client).list(&ListParams::default()).await).code, 404);
    assert!(pods(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
    definitions.create(&PostParams::default(), &gadget_definition()).await.unwrap();
    assert!(gadgets(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

/// The accepted and rejected writes of the garbage collector, except the strategic patches of custom
/// resources that the API server does not support (415).
fn writes(sandbox: &Sandbox) -> Vec<Record> {
    let mut writes = sandbox.requests();
    writes.retain(|record| record.user_agent == "sandbox-garbage-collector" && record.code != 415);
    writes.retain(|record| !matches!(record.verb, "get" | "list" | "watch"));
    writes
}

fn requests(writes: &[Record]) -> Vec<String> {
    writes
        .iter()
        .map(|write| {
            let name = write.name.as_deref().unwrap_or_default();
            format!("{} {}/{name} {}", write.verb, write.plural, write.code)
        })
        .collect()
}

fn paced(seconds: u64) -> Collector {
    Collector { pace: Duration::from_secs(seconds), ..Collector::default() }
}

#[tokio::test(start_paused = true)]
async fn dependents_are_released_one_by_one_and_the_owner_last() {
    let sandbox = sandbox_with(|config| config.collector = paced(10)).await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    gadgets(&client).delete("g", &DeleteParams::orphan()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let owned = pods(&client).list(&ListParams::default()).await.unwrap();
    assert_eq!(owned.items.iter().filter(|pod| pod.owner_references().is_empty()).count(), 2);
    assert_eq!(gadgets(&client).get("g").await.unwrap().finalizers(), ["orphan"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    let writes = writes(&sandbox);
    let mut pods = requests(&writes[..2]);
    pods.sort();
    assert_eq!(pods, ["patch pods/a 200", "patch pods/b 200"]);
    assert_eq!(requests(&writes[2..]), ["patch gadgets/g 200"]);
    let pauses = writes.windows(2).map(|two| two[1].at.duration_since(two[0].at).as_secs());
    assert_eq!(pauses.collect::<Vec<_>>(), [10, 10]);
}

/// An error that a controller must avoid: the garbage collector does not check again the dependents that it
/// has released.
#[tokio::test(start_paused = true)]
async fn a_released_dependent_that_its_terminating_owner_adopts_again_is_deleted() {
    let sandbox = sandbox_with(|config| config.collector = paced(10)).await;
    let client = sandbox.client().unwrap();
    let owner = family(&client).await;
    gadgets(&client).delete("g", &DeleteParams::orphan()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let again = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "uid": owner.uid(),
        "controller": true,
    }]}});
    pods(&client).patch("b", &PatchParams::default(), &Patch::Merge(again)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let left = pods(&client).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_collector_does_nothing() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    family(&client).await;
    sandbox.set_collector(Collector { frozen: true, ..Collector::default() });
    gadgets(&client).delete("g", &DeleteParams::background()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(pods(&client).list(&ListParams::default()).await.unwrap().items.len(), 2);
    assert!(writes(&sandbox).is_empty());
    sandbox.set_collector(Collector::default());
    wait_for_agents().await;
    assert!(pods(&client).list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lagging_collector_retries_writes_after_a_conflict() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let owner = gadgets(&client).create(&PostParams::default(), &gadget("g", json!({}))).await.unwrap();
    let mut child = gadget("child", json!({}));
    child.metadata.owner_references = serde_json::from_value(json!([{
        "apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "uid": owner.uid(),
    }]))
    .unwrap();
    gadgets(&client).create(&PostParams::default(), &child).await.unwrap();
    wait_for_agents().await;
    sandbox.set_collector(Collector { lag: Duration::from_secs(10), ..Collector::default() });
    gadgets(&client).delete("g", &DeleteParams::orphan()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    let seen = json!({"metadata": {"annotations": {"example.com/seen": "yes"}}});
    gadgets(&client).patch("child", &PatchParams::default(), &Patch::Merge(seen)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let written = requests(&writes(&sandbox));
    assert_eq!(written.first().map(String::as_str), Some("patch gadgets/child 409"));
    assert_eq!(written[written.len() - 2..], ["patch gadgets/child 200", "patch gadgets/g 200"]);
    assert!(gadgets(&client).get("child").await.unwrap().owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_kind_keeps_its_dependents() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let mut child = pod_value("a", json!({}));
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "uid": "some-uid"}]);
    let child: Pod = serde_json::from_value(child).unwrap();
    pods(&client).create(&PostParams::default(), &child).await.unwrap();
    wait_for_agents().await;
    assert_eq!(pods(&client).get("a").await.unwrap().name_any(), "a");
    define_gadgets(&client).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(refusal(pods(&client).get("a").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_owner_must_match_by_name_and_uid() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let owner = family(&client).await;
    for (pod, name, uid) in
        [("c", "other", owner.uid()), ("d", "g", Some("another-uid".to_owned())), ("e", "g", owner.uid())]
    {
        let mut child = pod_value(pod, json!({}));
        child["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "test.example/v1", "kind": "Gadget", "name": name, "uid": uid}]);
        let child: Pod = serde_json::from_value(child).unwrap();
        pods(&client).create(&PostParams::default(), &child).await.unwrap();
    }
    wait_for_agents().await;
    let left = pods(&client).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a", "b", "e"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_another_namespace_is_absent() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let owner = family(&client).await;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let gadgets = Api::<DynamicObject>::namespaced_with(client.clone(), "other", &gadget_resource());
    let own = gadgets.create(&PostParams::default(), &gadget("own", json!({}))).await.unwrap();
    let reference = |name: &str, owner: &DynamicObject| {
        json!({"apiVersion": "test.example/v1",
        "kind": "Gadget", "name": name, "uid": owner.uid()})
    };
    let foreign = reference("g", &owner);
    let elsewhere: Api<Pod> = Api::namespaced(client.clone(), "other");
    for (name, owners) in [("a", json!([foreign])), ("kept", json!([foreign, reference("own", &own)]))] {
        let mut pod = pod_value(name, json!({}));
        pod["metadata"]["ownerReferences"] = owners;
        let pod: Pod = serde_json::from_value(pod).unwrap();
        elsewhere.create(&PostParams::default(), &pod).await.unwrap();
    }
    wait_for_agents().await;
    assert_eq!(refusal(elsewhere.get("a").await).code, 404);
    let kept = elsewhere.get("kept").await.unwrap();
    assert_eq!(kept.owner_references().iter().map(|owner| &*owner.name).collect::<Vec<_>>(), ["own"]);
    assert_eq!(pods(&client).list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_dependent_of_a_namespaced_owner_stays() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let owner = family(&client).await;
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, uid) in [("of-known", owner.uid().unwrap()), ("of-unknown", "u".to_owned())] {
        let owners = json!([{"apiVersion": "test.example/v1", "kind": "Gadget", "name": "g", "uid": uid}]);
        let node = json!({"metadata": {"name": name, "ownerReferences": owners}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    wait_for_agents().await;
    for name in ["of-known", "of-unknown"] {
        assert_eq!(nodes.get(name).await.unwrap().owner_references().len(), 1);
    }
}
