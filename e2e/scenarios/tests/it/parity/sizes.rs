//! Scaling during a rollout that cannot complete.

use k8s_openapi::api::core::v1::Pod;
use scenarios::{TestCluster, image_of};
use serde_json::{Value, json};

fn eight() -> Value {
    json!({"replicas": 8, "strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}}})
}

/// Scales a rollout that cannot complete to 8, to 12 and to 5 replicas. With 12 there are these old and new
/// pods.
async fn scaled_while_stuck(cluster: &TestCluster, object: &str, (old, new): (usize, usize)) {
    // First two old pods are deleted, up to the ceiling of ten pods. Then there is room for fourteen, and for
    // seven.
    for (replicas, old, new) in [(8, 6, 4), (12, old, new), (5, 3, 4)] {
        cluster.kubectl.run(&["scale", object, &format!("--replicas={replicas}")]).await.unwrap();
        let split = |pods: &[Pod]| {
            let active = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let (now_new, now_old): (Vec<_>, Vec<_>) = active.partition(|pod| image_of(pod) == "web:broken");
            (now_old.len(), now_new.len()) == (old, new)
        };
        let what = format!("{old} old pods and {new} new ones of {replicas}");
        cluster.until_pods(&what, split).await.unwrap();
    }
}

pub(super) async fn a_stuck_rollout_is_scaled_in_proportion(cluster: TestCluster) {
    cluster.deployed(&eight()).await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    scaled_while_stuck(&cluster, "od/web", (6, 8)).await;
}

/// A Deployment makes old pods, too, when it grows.
#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_is_scaled_the_same(cluster: TestCluster) {
    cluster.apply_plain(&eight()).await.unwrap();
    cluster.kubectl.run(&["set", "image", "deployment/web", "web=web:broken"]).await.unwrap();
    scaled_while_stuck(&cluster, "deployment/web", (8, 6)).await;
}
