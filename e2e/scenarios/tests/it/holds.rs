//! Pause points from the perspective of a user: under Recreate, and an undo. `chaos` has holds before and
//! after a pod, `declared` scales to zero and back.

use ordereddeployment_api::names::reason;
use scenarios::{Setting, TestCluster, image_of, side_by_side};
use serde_json::json;

/// Starts a rollout in which two pods come first and the third has a pause point. Returns the two and the
/// third.
async fn to_hold_at_the_third(cluster: &TestCluster) -> ([String; 2], String) {
    let pods = cluster.names().await.unwrap();
    let [first, second, third] = [4, 1, 2].map(|index: usize| pods[index].clone());
    for (pod, priority) in [(&first, 5), (&second, 5), (&third, 3)] {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    cluster.pause_at(&third, "before").await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    let mut two = [first, second];
    two.sort();
    (two, third)
}

async fn sorted_deletions(cluster: &TestCluster) -> Vec<String> {
    let mut deleted = cluster.deleted().await.unwrap();
    deleted.sort();
    deleted
}

async fn recreate_honours_a_pause_point(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 5, "strategy": {"type": "Recreate"}})).await.unwrap();
    let (two, _) = to_hold_at_the_third(&cluster).await;
    cluster.held_with(0, 3).await.unwrap();
    assert_eq!(sorted_deletions(&cluster).await, two);
    assert_eq!(cluster.created().await.unwrap(), 5, "what the hold leaves deleted is not refilled");
    cluster.until_event(reason::HOLD_BELOW_REPLICAS).await.unwrap();
    cluster.resume().await.unwrap();
    let never_both = cluster.until_pods("seen to the end", |pods| {
        let new = pods.iter().filter(|pod| image_of(pod) == "web:2").count();
        assert!(new == 0 || new == pods.len(), "old and new pods at once");
        new == 5
    });
    never_both.await.unwrap();
    cluster.complete("web", 5).await.unwrap();
}

async fn undo_in_a_hold_goes_back_and_keeps_the_old_pods(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (two, third) = to_hold_at_the_third(&cluster).await;
    cluster.held_with(2, 6).await.unwrap();
    let kept = cluster.pods_of_image("web:1").await.unwrap();
    let mut updated = cluster.pods_of_image("web:2").await.unwrap();
    cluster.set_image("web:1").await.unwrap();
    let status = cluster.complete("web", 6).await.unwrap().status.unwrap();
    assert_eq!((status.hold, status.rollout.unwrap().revision), (None, 3));
    let after = cluster.pods_of_image("web:1").await.unwrap();
    assert!(kept.iter().all(|pod| after.contains(pod)) && kept.contains(&third), "{kept:?} {after:?}");
    updated.extend(two);
    updated.sort();
    assert_eq!(sorted_deletions(&cluster).await, updated, "those two, and the two that had replaced them");
}

side_by_side!(
    Setting::default();
    recreate_honours_a_pause_point,
    undo_in_a_hold_goes_back_and_keeps_the_old_pods,
);
