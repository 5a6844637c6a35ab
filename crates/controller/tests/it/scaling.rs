//! Scaling: an annotation that was written before the change that needs it takes effect, however far the pod watch lags.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, names};

/// Annotates a pod, scales from ten to nine at once, and back; repeated that many times.
async fn the_annotated_pod_goes(lag: Duration, times: usize) {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({})).await;
    cluster.sandbox.delay_watch("pods", lag);
    for round in 0..times {
        let pods = names(&cluster.view().await.active());
        assert_eq!(pods.len(), 10, "round {round}");
        let chosen = &pods[(round * 7) % 10];
        let mark = cluster.mark();
        cluster.prioritise(chosen, 9).await;
        cluster.scale(9).await;
        cluster.until("nine are left", |view| view.is_complete() && view.pods.len() == 9).await;
        assert_eq!(cluster.deleted(mark), std::slice::from_ref(chosen), "round {round}");
        assert!(cluster.asked(mark, "delete", "pods")[0].user_agent.ends_with("/scale"));
        cluster.scale(10).await;
        cluster.until("there are ten again", |view| view.is_complete() && view.available() == 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_deletes_the_annotated_pod() {
    the_annotated_pod_goes(Duration::ZERO, 10).await;
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_deletes_the_annotated_pod_fifty_times_though_the_pod_watch_lags_by_two_seconds() {
    the_annotated_pod_goes(Duration::from_secs(2), 50).await;
}

#[tokio::test(start_paused = true)]
async fn a_scale_up_creates_exactly_what_is_missing_though_the_pod_watch_lags() {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({"replicas": 3})).await;
    cluster.sandbox.delay_watch("pods", Duration::from_secs(20));
    let mark = cluster.mark();
    cluster.scale(40).await;
    cluster.until("there are forty", |view| view.is_complete() && view.available() == 40).await;
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 37);
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn scaling_to_nothing_and_back_works() {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({"replicas": 3})).await;
    cluster.scale(0).await;
    cluster.until("all are gone", |view| view.is_complete() && view.pods.is_empty()).await;
    cluster.scale(2).await;
    cluster.until("two are there", |view| view.is_complete() && view.available() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn node_rules_choose_pods_by_their_nodes() {
    let cluster = Cluster::start().await;
    let rule = json!({"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 10});
    let pods = cluster.deployed(json!({"replicas": 6, "deletionOrder": {"nodePriorities": [rule]}})).await;
    let hybrid = ["n4", "n5", "n6"];
    let on_hybrid = |pod: &k8s_openapi::api::core::v1::Pod| {
        hybrid.contains(&pod.spec.as_ref().unwrap().node_name.as_deref().unwrap())
    };
    assert_eq!(pods.iter().filter(|pod| on_hybrid(pod)).count(), 3);
    cluster.scale(3).await;
    let view = cluster.until("three are left", |view| view.is_complete() && view.pods.len() == 3).await;
    assert_eq!(view.pods.iter().filter(|pod| on_hybrid(pod)).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_mistaken_scaling_to_two_billion_pods_can_be_reverted() {
    let cluster = Cluster::start().await;
    cluster.deploy(json!({"replicas": i32::MAX})).await;
    let soon = Duration::from_millis(1);
    cluster.until_each(soon, "some are there", |view| !view.pods.is_empty()).await;
    cluster.scale(2).await;
    let view = cluster.until("two are left", |view| view.is_complete() && view.pods.len() == 2).await;
    assert_eq!(view.available(), 2);
}
