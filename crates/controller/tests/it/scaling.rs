//! Scaling: an annotation that was written before the change that needs it takes effect, however far the pod
//! watch lags.

use std::time::Duration;

use serde_json::json;

use crate::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn a_scale_up_creates_exactly_what_is_missing_though_the_pod_watch_lags() {
    let (cluster, _) = Cluster::with_pods(3).await;
    cluster.sandbox.delay_watch("pods", Duration::from_secs(20));
    let mark = cluster.mark();
    cluster.scale(40).await;
    cluster.until("there are forty", |view| view.is_complete() && view.available() == 40).await;
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 37);
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
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
