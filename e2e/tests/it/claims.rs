//! Whose pods are whose: release, adoption, and an object deleted without what it owns.

use e2e::{Setting, World, side_by_side};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use serde_json::json;

fn labelled_web(pods: &[Pod]) -> Vec<&Pod> {
    pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|app| app == "web")).collect()
}

async fn a_pod_relabelled_by_hand_is_released_replaced_and_taken_back(world: World) {
    let pods = world.deployed(&json!({"replicas": 3})).await.unwrap();
    let out = &pods[1];
    world.kubectl.run(&["label", "pod", out, "app=quarantine", "--overwrite"]).await.unwrap();
    let replaced = |pods: &[Pod]| {
        let released = pods.iter().any(|pod| pod.name_any() == *out && pod.owner_references().is_empty());
        released && labelled_web(pods).len() == 3
    };
    world.until_pods("released and replaced", replaced).await.unwrap();
    world.complete("web", 3).await.unwrap();
    // Labelled back it is nobody's, until the next decision that needs a pod takes it in.
    world.kubectl.run(&["label", "pod", out, "app=web", "--overwrite"]).await.unwrap();
    world.scale(4).await.unwrap();
    world.complete("web", 4).await.unwrap();
    let pods = world.pods().await.unwrap();
    assert!(pods.len() == 4 && pods.iter().any(|pod| pod.name_any() == *out), "{pods:#?}");
    assert!(pods.iter().all(|pod| pod.owner_references().len() == 1));
    assert_eq!(world.created().await.unwrap(), 4, "three, one for the released one, none for the fourth");
    assert_eq!(world.deleted().await.unwrap(), Vec::<String>::new());
}

async fn a_pod_of_the_right_hash_is_adopted_and_others_are_left_alone(world: World) {
    world.deployed(&json!({"replicas": 1})).await.unwrap();
    let status = world.deployments().get("web").await.unwrap().status.unwrap();
    let hash = status.rollout.unwrap().template_hash;
    let keeper = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keeper"}});
    world.kubectl.run_with(&["create", "-f", "-"], &keeper.to_string()).await.unwrap();
    let uid = world.kubectl.run(&["get", "cm", "keeper", "-o", "jsonpath={.metadata.uid}"]).await.unwrap();
    let keeper =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": uid, "controller": true});
    for (name, hash, owners) in [
        ("stray", hash.as_str(), json!([])),
        ("otherhash", "otherhash", json!([])),
        ("theirs", hash.as_str(), json!([keeper])),
    ] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "labels": {"app": "web", "pod-template-hash": hash}, "ownerReferences": owners,
            },
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        });
        world.kubectl.run_with(&["create", "-f", "-"], &pod.to_string()).await.unwrap();
    }
    world.scale(3).await.unwrap();
    world.complete("web", 3).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let owner = async |name: &str| {
        let pod = pods.get(name).await.unwrap();
        pod.owner_references().first().map(|owner| owner.kind.clone())
    };
    assert_eq!(owner("stray").await.as_deref(), Some("OrderedReplicaSet"));
    assert_eq!(owner("otherhash").await, None);
    assert_eq!(owner("theirs").await.as_deref(), Some("ConfigMap"));
    assert_eq!(world.created().await.unwrap(), 2, "the first and the third");
}

side_by_side!(
    Setting::default();
    a_pod_relabelled_by_hand_is_released_replaced_and_taken_back,
    a_pod_of_the_right_hash_is_adopted_and_others_are_left_alone,
);
