//! etcd is restored from a backup: resource versions decrease, and all later changes are lost.

use e2e::{Server, World};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::setting;

/// The names of the current pods.
async fn names(world: &World) -> Vec<String> {
    world.pods().await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// The current resource version of the server.
async fn version(client: &Client) -> u64 {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap().parse().unwrap()
}

/// Writes until the server exceeds this version, so that watches from before the restore receive new events.
async fn write_past(world: &World, version_before: u64) {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let map = serde_json::from_value(json!({"metadata": {"generateName": "write-"}})).unwrap();
    while version(&world.client).await <= version_before {
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_lost_by_a_restore_of_etcd_are_not_repeated_on_a_real_server() {
    let _machine = e2e::share_the_machine().await;
    let setting = setting();
    let world = World::with(Server::Real, setting.clone()).await.unwrap();
    let plane = world.control_plane().unwrap();
    let mut manager = world.start_manager().unwrap();
    let before = world.deployed(&json!({"replicas": 4})).await.unwrap();
    plane.back_up().await.unwrap();
    world.set_image("web:2").await.unwrap();
    world.complete("web", 4).await.unwrap();
    // A kubelet that is about to remove a pod would remove it in the restored store too.
    world.until_pods("of the second template alone", |pods| pods.len() == 4).await.unwrap();
    let lost = version(&world.client).await;

    plane.restore(&setting).await.unwrap();
    assert_eq!(names(&world).await, before);
    write_past(&world, lost).await;
    world.scale(5).await.unwrap();
    world.complete("web", 5).await.unwrap();
    let after = names(&world).await;
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
    assert_eq!(world.pods_of_image("web:1").await.unwrap().len(), 5);
    world.set_image("web:3").await.unwrap();
    world.complete("web", 5).await.unwrap();
    let new = |pods: &[Pod]| pods.len() == 5 && pods.iter().all(|pod| !after.contains(&pod.name_any()));
    world.until_pods("of the third template", new).await.unwrap();
    assert!(manager.runs().unwrap(), "the controller ended");
}
