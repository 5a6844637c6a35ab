//! etcd is restored from a backup: resource versions decrease, and all later changes are lost.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use scenarios::{Server, TestCluster};
use serde_json::json;

use super::setting;

/// The current resource version of the server.
async fn version(client: &Client) -> u64 {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap().parse().unwrap()
}

/// Writes until the server exceeds this version, so that watches from before the restore receive new events.
async fn write_past(cluster: &TestCluster, version_before: u64) {
    let maps: Api<ConfigMap> = cluster.api();
    let map = serde_json::from_value(json!({"metadata": {"generateName": "write-"}})).unwrap();
    while version(&cluster.client).await <= version_before {
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_lost_by_a_restore_of_etcd_are_not_repeated_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let setting = setting();
    let cluster = TestCluster::with(Server::Real, setting.clone()).await.unwrap();
    let plane = cluster.control_plane().unwrap();
    let mut manager = cluster.start_manager().unwrap();
    let before = cluster.deployed(&json!({"replicas": 4})).await.unwrap();
    plane.back_up().await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    // A kubelet that is about to remove a pod would remove it in the restored store too.
    cluster.until_pods("of the second template alone", |pods| pods.len() == 4).await.unwrap();
    let lost = version(&cluster.client).await;

    plane.restore(&setting).await.unwrap();
    assert_eq!(cluster.names().await.unwrap(), before);
    write_past(&cluster, lost).await;
    cluster.scale(5).await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    let after = cluster.names().await.unwrap();
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 5);
    cluster.set_image("web:3").await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    let new = |pods: &[Pod]| pods.len() == 5 && pods.iter().all(|pod| !after.contains(&pod.name_any()));
    cluster.until_pods("of the third template", new).await.unwrap();
    assert!(manager.runs().unwrap(), "the controller ended");
}
