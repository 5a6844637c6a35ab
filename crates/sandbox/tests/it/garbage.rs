//! Finalizers, ownership and the three propagation policies.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_sandbox::{Collector, Record, Sandbox};
use serde_json::{Value, json};

use crate::common::{
    create, define_gadgets, gadget, gadget_resource, gadgets, merge, names, pod_with, pods, refusal, sandbox,
    sandbox_with, seconds, started,
};

/// The reference to a Gadget.
fn owned_by(name: &str, uid: Option<String>) -> Value {
    json!({"apiVersion": "test.example/v1", "kind": "Gadget", "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true})
}

fn owned_pod(name: &str, owners: &[Value]) -> Pod {
    pod_with(name, json!({"metadata": {"ownerReferences": owners}}))
}

/// Creates a Gadget that owns the pods `a` and `b`.
async fn family(client: &Client) -> DynamicObject {
    define_gadgets(client).await;
    let owner = create(&gadgets(client), &gadget("g", json!({}))).await;
    for name in ["a", "b"] {
        create(&pods(client), &owned_pod(name, &[owned_by("g", owner.uid())])).await;
    }
    seconds(5).await;
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
    let pods = pods(&client);
    define_gadgets(&client).await;
    let owner = create(&gadgets(&client), &gadget("g", json!({}))).await;
    let mut of_gadget = owned_by("g", owner.uid());
    let middle = create(&pods, &owned_pod("middle", &[of_gadget.clone()])).await;
    let of_middle = json!({"apiVersion": "v1", "kind": "Pod", "name": "middle", "uid": middle.uid(),
        "blockOwnerDeletion": true});
    let mut leaf = owned_pod("leaf", &[of_middle]);
    // The pod stays terminating until the test removes its finalizer.
    leaf.metadata.finalizers = Some(vec!["test.example/hold".to_owned()]);
    create(&pods, &leaf).await;
    of_gadget["blockOwnerDeletion"] = false.into();
    create(&pods, &owned_pod("free", &[of_gadget])).await;
    gadgets(&client).delete("g", &DeleteParams::foreground()).await.unwrap();
    seconds(5).await;
    assert_eq!(gadgets(&client).get("g").await.unwrap().finalizers(), ["foregroundDeletion"]);
    assert_eq!(pods.get("middle").await.unwrap().finalizers(), ["foregroundDeletion"]);
    assert_eq!(names(&pods).await, ["leaf", "middle"]);
    merge(&pods, "leaf", json!({"metadata": {"finalizers": null}})).await;
    seconds(5).await;
    assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
    assert_eq!(finalizers_seen(&client, "free").await, [Vec::<String>::new(), Vec::new()], "marked, gone");
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_deleted_crd_are_deleted() {
    let (_sandbox, client) = started().await;
    family(&client).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.delete("gadgets.test.example", &DeleteParams::default()).await.unwrap();
    seconds(5).await;
    assert_eq!(refusal(definitions.get("gadgets.test.example").await).code, 404);
    assert_eq!(refusal(gadgets(&client).list(&ListParams::default()).await).code, 404);
    assert!(names(&pods(&client)).await.is_empty());
    define_gadgets(&client).await;
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
    let name = |write: &Record| write.name.clone().unwrap_or_default();
    writes
        .iter()
        .map(|write| format!("{} {}/{} {}", write.verb, write.plural, name(write), write.code))
        .collect()
}

fn paced(seconds: u64) -> Collector {
    Collector { pace: Duration::from_secs(seconds), ..Collector::default() }
}

/// A controller must avoid what happens to `b`: the garbage collector does not check again the dependents
/// that it has released.
#[tokio::test(start_paused = true)]
async fn dependents_are_released_one_by_one_and_the_owner_last() {
    for adopted_again in [false, true] {
        let sandbox = sandbox_with(|config| config.collector = paced(10)).await;
        let client = sandbox.client().unwrap();
        let pods = pods(&client);
        let owner = family(&client).await;
        gadgets(&client).delete("g", &DeleteParams::orphan()).await.unwrap();
        seconds(15).await;
        let released = pods.list(&ListParams::default()).await.unwrap();
        assert!(released.iter().all(|pod| pod.owner_references().is_empty()));
        assert_eq!(gadgets(&client).get("g").await.unwrap().finalizers(), ["orphan"]);
        if adopted_again {
            let again = json!({"metadata": {"ownerReferences": [owned_by("g", owner.uid())]}});
            merge(&pods, "b", again).await;
            seconds(60).await;
            assert_eq!(names(&pods).await, ["a"]);
            continue;
        }
        seconds(10).await;
        assert_eq!(refusal(gadgets(&client).get("g").await).code, 404);
        let writes = writes(&sandbox);
        let mut first = requests(&writes[..2]);
        first.sort();
        assert_eq!(first, ["patch pods/a 200", "patch pods/b 200"]);
        assert_eq!(requests(&writes[2..]), ["patch gadgets/g 200"]);
        let pauses = writes.windows(2).map(|two| two[1].at.duration_since(two[0].at).as_secs());
        assert_eq!(pauses.collect::<Vec<_>>(), [10, 10]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_collector_does_nothing() {
    let (sandbox, client) = started().await;
    family(&client).await;
    sandbox.set_collector(Collector { frozen: true, ..Collector::default() });
    gadgets(&client).delete("g", &DeleteParams::background()).await.unwrap();
    seconds(3600).await;
    assert_eq!(names(&pods(&client)).await.len(), 2);
    assert!(writes(&sandbox).is_empty());
    sandbox.set_collector(Collector::default());
    seconds(5).await;
    assert!(names(&pods(&client)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lagging_collector_retries_writes_after_a_conflict() {
    let sandbox = sandbox().await;
    let gadgets = gadgets(&sandbox.client().unwrap());
    define_gadgets(&sandbox.client().unwrap()).await;
    let owner = create(&gadgets, &gadget("g", json!({}))).await;
    create(&gadgets, &gadget("child", json!({}))).await;
    let adopted = json!({"metadata": {"ownerReferences": [owned_by("g", owner.uid())]}});
    merge(&gadgets, "child", adopted).await;
    seconds(5).await;
    sandbox.set_collector(Collector { lag: Duration::from_secs(10), ..Collector::default() });
    gadgets.delete("g", &DeleteParams::orphan()).await.unwrap();
    seconds(9).await;
    merge(&gadgets, "child", json!({"metadata": {"annotations": {"example.com/seen": "yes"}}})).await;
    seconds(30).await;
    let written = requests(&writes(&sandbox));
    assert_eq!(written.first().map(String::as_str), Some("patch gadgets/child 409"));
    assert_eq!(written[written.len() - 2..], ["patch gadgets/child 200", "patch gadgets/g 200"]);
    assert!(gadgets.get("child").await.unwrap().owner_references().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_kind_keeps_its_dependents() {
    let (_sandbox, client) = started().await;
    create(&pods(&client), &owned_pod("a", &[owned_by("g", Some("some-uid".to_owned()))])).await;
    seconds(5).await;
    assert_eq!(names(&pods(&client)).await, ["a"]);
    define_gadgets(&client).await;
    seconds(60).await;
    assert!(names(&pods(&client)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_must_match_by_name_uid_and_namespace() {
    let (_sandbox, client) = started().await;
    let owner = family(&client).await;
    for (pod, name, uid) in
        [("c", "other", owner.uid()), ("d", "g", Some("another-uid".to_owned())), ("e", "g", owner.uid())]
    {
        create(&pods(&client), &owned_pod(pod, &[owned_by(name, uid)])).await;
    }
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    create(&Api::all(client.clone()), &namespace).await;
    let gadgets = Api::<DynamicObject>::namespaced_with(client.clone(), "other", &gadget_resource());
    let own = create(&gadgets, &gadget("own", json!({}))).await;
    let (foreign, own) = (owned_by("g", owner.uid()), owned_by("own", own.uid()));
    let elsewhere: Api<Pod> = Api::namespaced(client.clone(), "other");
    create(&elsewhere, &owned_pod("a", std::slice::from_ref(&foreign))).await;
    let mut both = owned_pod("kept", &[foreign, own]);
    both.owner_references_mut()[0].controller = None;
    create(&elsewhere, &both).await;
    seconds(5).await;
    assert_eq!(names(&pods(&client)).await, ["a", "b", "e"]);
    assert_eq!(names(&elsewhere).await, ["kept"]);
    let kept = elsewhere.get("kept").await.unwrap();
    assert_eq!(kept.owner_references().iter().map(|owner| &*owner.name).collect::<Vec<_>>(), ["own"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_dependent_of_a_namespaced_owner_stays() {
    let (_sandbox, client) = started().await;
    let owner = family(&client).await;
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, uid) in [("of-known", owner.uid()), ("of-unknown", Some("u".to_owned()))] {
        let node = json!({"metadata": {"name": name, "ownerReferences": [owned_by("g", uid)]}});
        create(&nodes, &serde_json::from_value(node).unwrap()).await;
    }
    seconds(5).await;
    for name in ["of-known", "of-unknown"] {
        assert_eq!(nodes.get(name).await.unwrap().owner_references().len(), 1);
    }
}
