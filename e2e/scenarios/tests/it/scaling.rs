//! Scaling during a rollout, and pods with a slow termination.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::{Value, json};

/// Pods that terminate slowly enough to be observed.
fn with_slow_ends() -> Setting {
    Setting { termination_delay: Duration::from_millis(400), ..Setting::default() }
}

fn bounds() -> Value {
    json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}})
}

/// The number of non-terminating pods with the old image and with the new one.
fn split(pods: &[Pod]) -> (usize, usize) {
    let active = || pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let is_new = |pod: &&Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("web:broken");
    let new = active().filter(is_new).count();
    (active().count() - new, new)
}

/// Scales a rollout that cannot complete to 8, to 12 and to 5 replicas with `scale`. With 12 there are these
/// old and new pods.
async fn scaled_while_stuck(cluster: &TestCluster, scale: impl AsyncFn(i32), (old, new): (usize, usize)) {
    // First two old pods are deleted, up to the ceiling of ten pods. Then there is room for fourteen, and for
    // seven.
    for (replicas, old, new) in [(8, 6, 4), (12, old, new), (5, 3, 4)] {
        scale(replicas).await;
        let what = format!("{old} old pods and {new} new ones of {replicas}");
        cluster.until_pods(&what, |pods| split(pods) == (old, new)).await.unwrap();
    }
}

async fn a_stuck_rollout_is_scaled_in_proportion(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 8, "strategy": bounds()})).await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    scaled_while_stuck(&cluster, async |replicas| cluster.scale(replicas).await.unwrap(), (6, 8)).await;
}

async fn a_paused_rollout_is_scaled_in_proportion_and_back(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 8, "strategy": bounds()})).await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    let is_split = async |old: usize, new: usize| {
        let what = format!("{old} old pods and {new} new ones");
        cluster.until_pods(&what, |pods| split(pods) == (old, new)).await.unwrap();
    };
    is_split(6, 4).await;
    cluster.patch(&json!({"spec": {"paused": true}})).await.unwrap();
    // The share of updated pods is that of now: 4 of 10.
    let paused = |object: &OrderedDeployment| {
        let rollout = object.status.as_ref().and_then(|status| status.rollout.as_ref());
        rollout.is_some_and(|rollout| rollout.pause.is_some())
    };
    cluster.until("web", "paused", paused).await.unwrap();
    for (replicas, old, new) in [(12, 7, 5), (4, 2, 2), (0, 0, 0), (8, 5, 3)] {
        cluster.scale(replicas).await.unwrap();
        is_split(old, new).await;
    }
}

/// A Deployment makes old pods, too, when it grows.
#[cfg(feature = "real-servers")]
async fn a_deployment_is_scaled_the_same(cluster: TestCluster) {
    let mut strategy = bounds();
    strategy["type"] = "RollingUpdate".into();
    let deployment = |image: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": 8, "selector": {"matchLabels": {"app": "web"}}, "strategy": strategy,
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": image}]},
                },
            },
        })
    };
    let kubectl = &cluster.kubectl;
    kubectl.run_with(&["apply", "-f", "-"], &deployment("web:1").to_string()).await.unwrap();
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
    kubectl.run_with(&["apply", "-f", "-"], &deployment("web:broken").to_string()).await.unwrap();
    let scale = async |replicas: i32| {
        kubectl.run(&["scale", "deployment", "web", &format!("--replicas={replicas}")]).await.unwrap();
    };
    scaled_while_stuck(&cluster, scale, (8, 6)).await;
}

async fn terminating_pods_count_with_the_policy_termination_complete(cluster: TestCluster) {
    let spec = json!({"replicas": 4, "podReplacementPolicy": "TerminationComplete"});
    let pods = cluster.deployed(&spec).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    let never_more = cluster.until_pods("never", |pods| {
        assert!(pods.len() <= 5, "{} pods, terminating ones included", pods.len());
        false
    });
    tokio::select! {
        done = cluster.complete("web", 4) => drop(done.unwrap()),
        ended = never_more => panic!("{ended:?}"),
    }
    // The same after the loss of two pods at once: five pods are allowed.
    let four = cluster.until_pods("four", |pods| pods.len() == 4).await.unwrap();
    let lost: Vec<_> = four[..2].iter().map(ResourceExt::name_any).collect();
    cluster.kubectl.run(&["delete", "pod", &lost[0], &lost[1], "--wait=false"]).await.unwrap();
    let replaced = |pods: &[Pod]| {
        assert!(pods.len() <= 5, "{} pods, terminating ones included", pods.len());
        pods.len() == 4 && pods.iter().all(|pod| !lost.contains(&pod.name_any()))
    };
    cluster.until_pods("four again", replaced).await.unwrap();
    assert_eq!(cluster.deletions().await.unwrap().len(), pods.len() + 2);
}

side_by_side!(
    with_slow_ends();
    a_stuck_rollout_is_scaled_in_proportion,
    a_paused_rollout_is_scaled_in_proportion_and_back,
    terminating_pods_count_with_the_policy_termination_complete;
    only on a real server:
    a_deployment_is_scaled_the_same,
);
