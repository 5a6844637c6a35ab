//! Ownership of pods: release, adoption, and a deletion that orphans the dependents.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;

fn labelled_web(pods: &[Pod]) -> Vec<&Pod> {
    pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|app| app == "web")).collect()
}

async fn a_relabelled_pod_is_released_replaced_and_adopted_again(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    let out = &pods[1];
    cluster.kubectl.run(&["label", "pod", out, "app=quarantine", "--overwrite"]).await.unwrap();
    let replaced = |pods: &[Pod]| {
        let released = pods.iter().any(|pod| pod.name_any() == *out && pod.owner_references().is_empty());
        released && labelled_web(pods).len() == 3
    };
    cluster.until_pods("released and replaced", replaced).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    // With its label back the pod is adopted again. There is one pod too many then, and the controller
    // deletes another pod.
    cluster.prioritise(out, -1).await.unwrap();
    cluster.kubectl.run(&["label", "pod", out, "app=web", "--overwrite"]).await.unwrap();
    let taken = |pods: &[Pod]| {
        let owned = pods.iter().all(|pod| pod.owner_references().len() == 1);
        owned && pods.len() == 3 && pods.iter().any(|pod| pod.name_any() == *out)
    };
    cluster.until_pods("three with the one labelled back", taken).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    assert_eq!(cluster.created().await.unwrap(), 4, "three, and one for the released one");
    assert_eq!(cluster.deleted().await.unwrap().len(), 1);
}

async fn an_orphan_with_the_right_hash_is_adopted_and_others_are_not(cluster: TestCluster) {
    let first = cluster.deployed(&json!({"replicas": 1})).await.unwrap();
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap();
    let hash = status.rollout.unwrap().template_hash;
    let keeper = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keeper"}});
    cluster.kubectl.run_with(&["create", "-f", "-"], &keeper.to_string()).await.unwrap();
    let uid = cluster.kubectl.run(&["get", "cm", "keeper", "-o", "jsonpath={.metadata.uid}"]).await.unwrap();
    let keeper =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": uid, "controller": true});
    for (name, hash, owners) in [
        ("otherhash", "otherhash", json!([])),
        ("theirs", hash.as_str(), json!([keeper])),
        ("stray", hash.as_str(), json!([])),
    ] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "labels": {"app": "web", "pod-template-hash": hash}, "ownerReferences": owners,
                "annotations": {"ordereddeployment.io/delete-priority": "-1"},
            },
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        });
        cluster.kubectl.run_with(&["create", "-f", "-"], &pod.to_string()).await.unwrap();
    }
    // There are two pods now; the first one in the order is deleted.
    let replaced = |pods: &[Pod]| pods.iter().all(|pod| pod.name_any() != first[0]);
    cluster.until_pods("without the first", replaced).await.unwrap();
    cluster.complete("web", 1).await.unwrap();
    let pods: Api<Pod> = cluster.api();
    let owner = async |name: &str| {
        let pod = pods.get(name).await.unwrap();
        pod.owner_references().first().map(|owner| owner.kind.clone())
    };
    assert_eq!(owner("stray").await.as_deref(), Some("OrderedReplicaSet"));
    assert_eq!(owner("otherhash").await, None);
    assert_eq!(owner("theirs").await.as_deref(), Some("ConfigMap"));
    assert_eq!((cluster.created().await.unwrap(), cluster.deleted().await.unwrap()), (1, first));
}

side_by_side!(
    Setting::default();
    a_relabelled_pod_is_released_replaced_and_adopted_again,
    an_orphan_with_the_right_hash_is_adopted_and_others_are_not,
);
