//! A deletion, with each propagation policy or with the namespace, has the same results as for a Deployment.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::{Setting, World, side_by_side};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use serde_json::json;

async fn sets(world: &World) -> Vec<OrderedReplicaSet> {
    let sets: Api<OrderedReplicaSet> = Api::namespaced(world.client.clone(), &world.namespace);
    sets.list(&ListParams::default()).await.unwrap().items
}

async fn uids(world: &World) -> BTreeSet<String> {
    world.pods().await.unwrap().iter().filter_map(Pod::uid).collect()
}

/// Two revisions, and therefore two sets.
async fn deployed_twice(world: &World) {
    world.deployed(&json!({"replicas": 3})).await.unwrap();
    world.set_image("web:2").await.unwrap();
    world.complete("web", 3).await.unwrap();
}

async fn deletion_in_the_foreground_ends_when_sets_and_pods_are_gone(world: World) {
    deployed_twice(&world).await;
    let before = world.created().await.unwrap();
    // kubectl waits until the object is deleted.
    world.kubectl.run(&["delete", "od", "web", "--cascade=foreground", "--timeout=60s"]).await.unwrap();
    assert_eq!(sets(&world).await.len(), 0);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0, "not even terminating ones");
    assert_eq!(world.created().await.unwrap(), before, "none was replaced meanwhile");
}

async fn deletion_in_the_background_removes_all(world: World) {
    deployed_twice(&world).await;
    let before = world.created().await.unwrap();
    world.kubectl.run(&["delete", "od", "web", "--timeout=60s"]).await.unwrap();
    world.until_pods("gone", <[Pod]>::is_empty).await.unwrap();
    let all: Api<OrderedReplicaSet> = Api::namespaced(world.client.clone(), &world.namespace);
    world.until_all(all, "gone", <[OrderedReplicaSet]>::is_empty).await.unwrap();
    assert_eq!(world.created().await.unwrap(), before, "none was replaced meanwhile");
}

async fn orphans_keep_running_and_an_object_with_the_same_selector_adopts_them(world: World) {
    deployed_twice(&world).await;
    let (pods, before) = (uids(&world).await, world.created().await.unwrap());
    let uid = world.deployments().get("web").await.unwrap().uid();
    world.kubectl.run(&["delete", "od", "web", "--cascade=orphan", "--timeout=60s"]).await.unwrap();
    let orphans = sets(&world).await;
    assert_eq!(orphans.len(), 2);
    assert!(orphans.iter().all(|set| set.owner_references().is_empty()), "{orphans:#?}");
    assert_eq!(uids(&world).await, pods);
    // No controller manages the orphans; their pods still belong to their set.
    assert!(
        world.pods().await.unwrap().iter().all(|pod| pod.owner_references()[0].kind == "OrderedReplicaSet")
    );

    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:2"}]},
    });
    world.deployed(&json!({"replicas": 3, "template": template})).await.unwrap();
    let again = world.deployments().get("web").await.unwrap();
    assert_ne!(again.uid(), uid);
    let adopted = sets(&world).await;
    assert_eq!(adopted.len(), 2);
    let owner = |set: &OrderedReplicaSet| set.owner_references()[0].uid.clone();
    assert!(adopted.iter().all(|set| Some(owner(set)) == again.uid()), "{adopted:#?}");
    assert_eq!(uids(&world).await, pods, "none was restarted");
    assert_eq!(world.created().await.unwrap(), before);
    assert_eq!(again.status.unwrap().rollout.unwrap().revision, 2, "the revisions go on");
}

async fn a_deleted_namespace_ends_without_further_writes_of_the_controller(world: World) {
    let doomed = world.apart(&format!("{}-doomed", world.namespace)).await.unwrap();
    doomed.deployed(&json!({})).await.unwrap();
    // A held rollout, so that the deletion affects all kinds of objects.
    let pods = doomed.pods().await.unwrap();
    doomed.pause_at(&pods[0].name_any(), "before").await.unwrap();
    doomed.set_image("web:2").await.unwrap();
    doomed.held("web").await.unwrap();
    let writes = async || {
        let mut requests = world.requests().await.unwrap();
        requests.retain(|one| {
            // The controller sends Events later.
            let counts = one.by_the_controller() && one.writes() && one.plural != "events";
            counts && one.namespace.as_deref() == Some(&doomed.namespace)
        });
        requests
    };
    let before = writes().await.len();
    let kubectl = world.kubectl.anywhere();
    kubectl.run(&["delete", "namespace", &doomed.namespace, "--timeout=60s"]).await.unwrap();
    let during = writes().await.split_off(before);
    assert!(during.len() < 20, "{during:#?}");
    // Meanwhile, a complete rollout in another namespace.
    world.deployed(&json!({})).await.unwrap();
    world.set_image("web:2").await.unwrap();
    world.complete("web", 6).await.unwrap();
    let after = writes().await.split_off(before);
    assert_eq!(after.len(), during.len(), "{after:#?}");
}

/// The same steps with a Kubernetes Deployment.
#[cfg(feature = "real-servers")]
async fn a_deployment_does_the_same(world: World) {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    let sets: Api<ReplicaSet> = Api::namespaced(world.client.clone(), &world.namespace);
    let create = ["create", "deployment", "web", "--image=web:1", "--replicas=3"];
    world.kubectl.run(&create).await.unwrap();
    world.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
    let pods = uids(&world).await;
    world.kubectl.run(&["delete", "deployment", "web", "--cascade=orphan"]).await.unwrap();
    let orphans = sets.list(&ListParams::default()).await.unwrap().items;
    assert!(orphans.len() == 1 && orphans[0].owner_references().is_empty());
    world.kubectl.run(&create).await.unwrap();
    world.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
    assert_eq!(uids(&world).await, pods);
    world.kubectl.run(&["delete", "deployment", "web", "--cascade=foreground"]).await.unwrap();
    assert_eq!(uids(&world).await.len(), 0);
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 0);
}

/// Pods with a slow termination, to detect a deletion that does not wait for them.
fn with_slow_ends() -> Setting {
    Setting { termination_delay: Duration::from_secs(1), ..Setting::default() }
}

side_by_side!(
    with_slow_ends();
    deletion_in_the_foreground_ends_when_sets_and_pods_are_gone,
    deletion_in_the_background_removes_all,
    orphans_keep_running_and_an_object_with_the_same_selector_adopts_them,
    a_deleted_namespace_ends_without_further_writes_of_the_controller;
    only on a real server:
    a_deployment_does_the_same,
);
