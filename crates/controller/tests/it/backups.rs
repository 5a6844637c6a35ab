//! Backups: etcd restored from one, where the API server shows older versions than known before, which are
//! valid; and manifests restored from one, without owners and status.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::cluster::{Cluster, names};

#[tokio::test(start_paused = true)]
async fn a_restored_backup_replaces_newer_versions_in_memory() {
    for (before, after) in [(3, 6), (6, 3)] {
        let (cluster, pods) = Cluster::with(json!({"replicas": before})).await;
        cluster.pass(Duration::from_secs(20)).await;
        let backup = cluster.sandbox.backup();
        cluster.scale(after).await;
        cluster.until_complete().await;
        // The kubelets have removed the deleted pods.
        cluster.pass(Duration::from_secs(20)).await;
        let mark = cluster.mark();
        cluster.sandbox.restore(&backup);
        cluster.pass(Duration::from_secs(120)).await;
        let view = cluster.view().await;
        assert_eq!(names(&view.pods), pods);
        let moved = cluster.asked(mark, "create", "pods").len() + cluster.asked(mark, "delete", "pods").len();
        assert_eq!(moved, 0);
        cluster.scale(4).await;
        assert_eq!(cluster.until_there_are(4).await.active().len(), 4);
    }
}

/// The objects as a tool like Velero restores them: no UID, no owners, no status, no node.
async fn restore<K>(api: &Api<K>, saved: &[K])
where
    K: kube::Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    for object in saved {
        let saved = serde_json::to_value(object).unwrap();
        let kept = |key: &str| saved["metadata"][key].clone();
        let mut restored = json!({
            "metadata": {"name": kept("name"), "labels": kept("labels"), "annotations": kept("annotations")},
            "spec": saved["spec"],
        });
        restored["spec"].as_object_mut().unwrap().remove("nodeName");
        let restored: K = serde_json::from_value(restored).unwrap();
        api.create(&PostParams::default(), &restored).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn restored_manifests_are_adopted_and_a_rollout_pauses_again_where_it_was_held() {
    let (mut cluster, pods) = Cluster::with_pods(10).await;
    let held = cluster.paused_at_the_third(&pods).await;
    assert_eq!(held.updated().len(), 2);
    cluster.kill();

    let all = ListParams::default();
    let saved_pods = cluster.pods().list(&all).await.unwrap().items;
    let saved_sets = cluster.sets().list(&all).await.unwrap().items;
    let saved_deployments = cluster.deployments().list(&all).await.unwrap().items;
    cluster.deployments().delete("web", &DeleteParams::background()).await.unwrap();
    cluster.pass(Duration::from_secs(60)).await;
    assert!(cluster.pods().list(&all).await.unwrap().items.is_empty());

    restore(&cluster.pods(), &saved_pods).await;
    restore(&cluster.deployments(), &saved_deployments).await;
    restore(&cluster.sets(), &saved_sets).await;
    let mark = cluster.mark();
    cluster.start_controller();
    let again = cluster.until("it is held again", |view| view.is_held_with(10)).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
    assert_eq!(
        cluster.asked(mark, "create", "pods").iter().filter(|record| !record.path.contains("dryRun")).count(),
        0
    );
    let (before, after) = (held.status().hold.unwrap(), again.status().hold.unwrap());
    assert_eq!((&after.pod, &after.id), (&before.pod, &before.id));
    assert_eq!(names(&again.pods), names(&held.pods));
    let owned = |pod: &k8s_openapi::api::core::v1::Pod| pod.owner_references().len() == 1;
    assert!(again.pods.iter().all(owned));
    cluster.resume(&after.id).await;
    let out = cluster.until_out(10).await;
    assert_eq!(out.active().len(), 10);
}
