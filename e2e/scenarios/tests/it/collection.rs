//! A deletion, with each propagation policy or with the namespace, has the same results as for a Deployment.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;

/// Two revisions, and therefore two sets.
async fn deployed_twice(cluster: &TestCluster) {
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 3).await.unwrap();
}

async fn deletion_in_the_foreground_ends_when_sets_and_pods_are_gone(cluster: TestCluster) {
    deployed_twice(&cluster).await;
    let before = cluster.created().await.unwrap();
    // kubectl waits until the object is deleted.
    cluster.kubectl.run(&["delete", "od", "web", "--cascade=foreground", "--timeout=60s"]).await.unwrap();
    assert_eq!(cluster.sets().list(&ListParams::default()).await.unwrap().items.len(), 0);
    let pods: Api<Pod> = cluster.api();
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 0, "not even terminating ones");
    assert_eq!(cluster.created().await.unwrap(), before, "none was replaced meanwhile");
}

async fn deletion_in_the_background_removes_all(cluster: TestCluster) {
    deployed_twice(&cluster).await;
    let before = cluster.created().await.unwrap();
    cluster.kubectl.run(&["delete", "od", "web", "--timeout=60s"]).await.unwrap();
    cluster.until_pods("gone", <[Pod]>::is_empty).await.unwrap();
    cluster.until_all(cluster.sets(), "gone", <[OrderedReplicaSet]>::is_empty).await.unwrap();
    assert_eq!(cluster.created().await.unwrap(), before, "none was replaced meanwhile");
}

async fn orphans_keep_running_and_an_object_with_the_same_selector_adopts_them(cluster: TestCluster) {
    deployed_twice(&cluster).await;
    let (pods, before) = (cluster.uids().await.unwrap(), cluster.created().await.unwrap());
    let uid = cluster.deployments().get("web").await.unwrap().uid();
    cluster.kubectl.run(&["delete", "od", "web", "--cascade=orphan", "--timeout=60s"]).await.unwrap();
    let orphans = cluster.sets().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(orphans.len(), 2);
    assert!(orphans.iter().all(|set| set.owner_references().is_empty()), "{orphans:#?}");
    assert_eq!(cluster.uids().await.unwrap(), pods);
    // No controller manages the orphans; their pods still belong to their set.
    assert!(
        cluster.pods().await.unwrap().iter().all(|pod| pod.owner_references()[0].kind == "OrderedReplicaSet")
    );

    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:2"}]},
    });
    cluster.deployed(&json!({"replicas": 3, "template": template})).await.unwrap();
    let again = cluster.deployments().get("web").await.unwrap();
    assert_ne!(again.uid(), uid);
    let adopted = cluster.sets().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(adopted.len(), 2);
    let owner = |set: &OrderedReplicaSet| set.owner_references()[0].uid.clone();
    assert!(adopted.iter().all(|set| Some(owner(set)) == again.uid()), "{adopted:#?}");
    assert_eq!(cluster.uids().await.unwrap(), pods, "none was restarted");
    assert_eq!(cluster.created().await.unwrap(), before);
    assert_eq!(again.status.unwrap().rollout.unwrap().revision, 2, "the revisions go on");
}

async fn a_deleted_namespace_ends_without_further_writes_of_the_controller(cluster: TestCluster) {
    let doomed = cluster.apart(&format!("{}-doomed", cluster.namespace)).await.unwrap();
    doomed.deployed(&json!({})).await.unwrap();
    // A held rollout, so that the deletion affects all kinds of objects.
    let pods = doomed.names().await.unwrap();
    doomed.pause_at(&pods[0], "before").await.unwrap();
    doomed.set_image("web:2").await.unwrap();
    doomed.held("web").await.unwrap();
    let writes = async || {
        let mut requests = cluster.requests().await.unwrap();
        requests.retain(|one| {
            // The controller sends Events later.
            let counts = one.by_the_controller() && one.writes() && one.plural != "events";
            counts && one.namespace.as_deref() == Some(&doomed.namespace)
        });
        requests
    };
    let before = writes().await.len();
    let kubectl = cluster.kubectl.anywhere();
    kubectl.run(&["delete", "namespace", &doomed.namespace, "--timeout=60s"]).await.unwrap();
    let during = writes().await.split_off(before);
    assert!(during.len() < 20, "{during:#?}");
    // Meanwhile, a complete rollout in another namespace.
    cluster.deployed(&json!({})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    let after = writes().await.split_off(before);
    assert_eq!(after.len(), during.len(), "{after:#?}");
}

/// The same steps with a Kubernetes Deployment.
#[cfg(feature = "real-servers")]
async fn a_deployment_does_the_same(cluster: TestCluster) {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    let sets: Api<ReplicaSet> = cluster.api();
    let create = ["create", "deployment", "web", "--image=web:1", "--replicas=3"];
    cluster.kubectl.run(&create).await.unwrap();
    cluster.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
    let pods = cluster.uids().await.unwrap();
    cluster.kubectl.run(&["delete", "deployment", "web", "--cascade=orphan"]).await.unwrap();
    let orphans = sets.list(&ListParams::default()).await.unwrap().items;
    assert!(orphans.len() == 1 && orphans[0].owner_references().is_empty());
    cluster.kubectl.run(&create).await.unwrap();
    cluster.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
    assert_eq!(cluster.uids().await.unwrap(), pods);
    cluster.kubectl.run(&["delete", "deployment", "web", "--cascade=foreground"]).await.unwrap();
    assert_eq!(cluster.uids().await.unwrap().len(), 0);
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
