//! A deletion that orphans the dependents, and one with the namespace. `deletion` has each propagation policy
//! at random moments.

use kube::ResourceExt;
use kube::api::ListParams;
use ordereddeployment_api::OrderedReplicaSet;
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;

async fn orphans_keep_running_and_an_object_with_the_same_selector_adopts_them(cluster: TestCluster) {
    // Two revisions, and therefore two sets.
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 3).await.unwrap();
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

side_by_side!(
    Setting::default();
    orphans_keep_running_and_an_object_with_the_same_selector_adopts_them,
    a_deleted_namespace_ends_without_further_writes_of_the_controller,
);
