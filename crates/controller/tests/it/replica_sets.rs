//! ReplicaSets of `apps/v1`, reconciled beside a Deployment controller.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use ordereddeployment_api::names::{annotation, condition, reason};
use serde_json::json;

use crate::cluster::{Cluster, names, spec_of};
use crate::fault_injector::RequestFault;

/// A Deployment of four ready pods, which is rolled out pod by pod.
async fn deployed(cluster: &Cluster) -> Vec<Pod> {
    let mut spec = spec_of("web", "web:1", 4);
    spec["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster.pass(Duration::from_secs(10)).await;
    cluster.all_pods().await
}

async fn roll_out(cluster: &Cluster) {
    let containers = json!([{"name": "main", "image": "web:2"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    cluster.merge::<Deployment>("web", patch).await;
    cluster.pass(Duration::from_secs(20)).await;
}

/// The types of the conditions of the set of that image.
async fn conditions(cluster: &Cluster, image: &str) -> Vec<String> {
    let all = cluster.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
    let of =
        |set: &ReplicaSet| set.spec.as_ref()?.template.as_ref()?.spec.as_ref()?.containers[0].image.clone();
    let set = all.items.iter().find(|set| of(set).as_deref() == Some(image)).unwrap();
    let conditions = set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.into_iter().map(|condition| condition.type_).collect()
}

#[tokio::test(start_paused = true)]
async fn if_the_deployment_cannot_be_paused_lost_pods_are_replaced_and_users_are_told() {
    let cluster = Cluster::start_with_deployments().await;
    let old = names(&deployed(&cluster).await);
    for (key, value) in [(annotation::DELETE_PRIORITY, "5"), (annotation::PAUSE_POINT, "before")] {
        cluster.annotate(&old[0], key, value).await;
    }
    cluster.faults.when(|info| info.is(&Method::PATCH, "/deployments/web"), || RequestFault::Response(403));
    roll_out(&cluster).await;
    let now = names(&cluster.all_pods().await);
    let new: Vec<_> = now.iter().filter(|name| !old.contains(name)).collect();
    // The Deployment controller goes on, and the old pods wait.
    assert_eq!((now.len(), new.len()), (8, 4));
    cluster.delete_pod(new[0]).await;
    cluster.pass(Duration::from_secs(60)).await;
    let after = names(&cluster.all_pods().await);
    assert!(
        after.len() == 8 && !after.contains(new[0]) && old.iter().all(|name| after.contains(name)),
        "{after:?}"
    );
    assert!(!cluster.events_of(reason::PAUSE_NOT_STORED).await.is_empty());
    assert_eq!(conditions(&cluster, "web:1").await, [condition::PODS_HELD_BACK]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_adopted_stops_only_its_set() {
    let cluster = Cluster::start_with_deployments().await;
    let mut stray = deployed(&cluster).await[0].clone();
    stray.metadata = serde_json::from_value(json!({"name": "stray", "labels": stray.labels()})).unwrap();
    cluster.faults.when(|info| info.is(&Method::PATCH, "/pods/stray"), || RequestFault::Response(403));
    cluster.pods().create(&PostParams::default(), &stray).await.unwrap();
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(conditions(&cluster, "web:1").await, [condition::REPLICA_FAILURE]);
    roll_out(&cluster).await;
    // The new set gets its pods. The old one keeps those that it has too many.
    assert_eq!(cluster.all_pods().await.len(), 4 + 1 + 4);
    assert!(conditions(&cluster, "web:2").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn sets_without_a_deployment_are_found_by_a_list_too() {
    let mut cluster = Cluster::start_with_deployments().await;
    let set = |name: &str| json!({"metadata": {"name": name}, "spec": spec_of(name, "web:1", 2)});
    cluster.pass(Duration::from_secs(5)).await;
    cluster.sandbox.delay_watch("replicasets", Duration::from_secs(3600));
    cluster.create::<ReplicaSet>(set("missed")).await;
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(cluster.all_pods().await.len(), 0);
    // The lagging watch expires: a list follows.
    cluster.sandbox.compact(u64::MAX);
    cluster.sandbox.delay_watch("replicasets", Duration::ZERO);
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(cluster.all_pods().await.len(), 2);
    cluster.kill();
    cluster.create::<ReplicaSet>(set("earlier")).await;
    cluster.start_controller();
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(cluster.all_pods().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_warning_of_a_malformed_annotation_begins_with_the_kind_that_has_it() {
    let cluster = Cluster::start_with_deployments().await;
    let set = json!({
        "metadata": {"name": "alone", "annotations": {"ordereddeployment.io/pause": "before"}},
        "spec": spec_of("alone", "web:1", 1),
    });
    cluster.create::<ReplicaSet>(set).await;
    cluster.pass(Duration::from_secs(10)).await;
    let messages = cluster.events_of(reason::MALFORMED_ANNOTATION).await;
    assert!(messages.len() == 1 && messages[0].starts_with("ReplicaSet: "), "{messages:?}");
}
