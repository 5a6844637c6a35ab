//! Pause points from the perspective of a user: what holds a rollout, what a hold survives, and what lifts it.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::names::{annotation, reason};
use ordereddeployment_api::{OrderedDeployment, PausePoint};
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;

/// Starts a rollout in which two pods come first and the third has a pause point. Returns the two and the third.
async fn to_hold_at_the_third(cluster: &TestCluster, side: &str) -> ([String; 2], String) {
    let pods = cluster.pods().await.unwrap();
    let [first, second, third] = [4, 1, 2].map(|index: usize| pods[index].name_any());
    for (pod, priority) in [(&first, 5), (&second, 5), (&third, 3)] {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    cluster.pause_at(&third, side).await.unwrap();
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

fn lifted(object: &OrderedDeployment) -> bool {
    object.status.as_ref().is_some_and(|status| status.hold.is_none())
}

async fn a_pause_point_after_deletes_its_pod_and_no_later_one(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (two, third) = to_hold_at_the_third(&cluster, "after").await;
    let hold = cluster.held_with(3, 6).await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!((hold.pod.as_str(), hold.point), (third.as_str(), PausePoint::After));
    let deleted = cluster.deleted().await.unwrap();
    assert_eq!(deleted.len(), 3, "{deleted:?}");
    assert!(two.iter().all(|pod| deleted[..2].contains(pod)), "{deleted:?}");
    assert_eq!(deleted[2], third);
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 6);
}

async fn a_timed_pause_ends_by_itself(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.pause_at(&pods[0], "true").await.unwrap();
    cluster.annotate(&pods[0], &format!("{}=4s", annotation::PAUSE_DURATION)).await.unwrap();
    cluster.prioritise(&pods[0], 1).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    let hold = cluster.held("web").await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!(hold.pod, pods[0]);
    assert_eq!(hold.until.unwrap().0.as_second() - hold.since.0.as_second(), 4);
    let passed = cluster.until("web", "past its pause point", lifted).await.unwrap().status.unwrap();
    assert_eq!(passed.passed.unwrap()[0].pod_uid, hold.pod_uid);
    cluster.complete("web", 3).await.unwrap();
    cluster.until_event(reason::PAUSE_POINT_RESUMED).await.unwrap();
}

async fn a_hold_survives_scaling_to_zero_and_back(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (_, third) = to_hold_at_the_third(&cluster, "before").await;
    let hold = cluster.held_with(2, 6).await.unwrap().status.unwrap().hold.unwrap();
    cluster.scale(1).await.unwrap();
    let only_the_held = |pods: &[Pod]| pods.len() == 1 && pods[0].name_any() == third;
    cluster.until_pods("the held one, which goes last", only_the_held).await.unwrap();
    cluster.scale(0).await.unwrap();
    cluster.until_pods("none", <[Pod]>::is_empty).await.unwrap();
    cluster.scale(6).await.unwrap();
    let again = cluster.held_with(2, 6).await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!((&again.id, &again.pod_uid), (&hold.id, &hold.pod_uid));
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 4);
    cluster.resume().await.unwrap();
    cluster.complete("web", 6).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 6);
}

async fn recreate_honours_a_pause_point(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 5, "strategy": {"type": "Recreate"}})).await.unwrap();
    let (two, _) = to_hold_at_the_third(&cluster, "before").await;
    cluster.held_with(0, 3).await.unwrap();
    assert_eq!(sorted_deletions(&cluster).await, two);
    assert_eq!(cluster.created().await.unwrap(), 5, "what the hold leaves deleted is not refilled");
    cluster.until_event(reason::HOLD_BELOW_REPLICAS).await.unwrap();
    cluster.resume().await.unwrap();
    let never_both = cluster.until_pods("seen to the end", |pods| {
        let image = |pod: &Pod| pod.spec.clone().unwrap().containers[0].image.clone();
        let new = pods.iter().filter(|pod| image(pod).as_deref() == Some("web:2")).count();
        assert!(new == 0 || new == pods.len(), "old and new pods at once");
        new == 5
    });
    never_both.await.unwrap();
    cluster.complete("web", 5).await.unwrap();
}

async fn undo_in_a_hold_goes_back_and_keeps_the_old_pods(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (two, third) = to_hold_at_the_third(&cluster, "before").await;
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

async fn a_new_template_in_a_hold_restarts_the_rollout_and_holds_again(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (_, third) = to_hold_at_the_third(&cluster, "before").await;
    cluster.held_with(2, 6).await.unwrap();
    let updated = cluster.pods_of_image("web:2").await.unwrap();
    for pod in &updated {
        cluster.prioritise(pod, 9).await.unwrap();
    }
    cluster.set_image("web:3").await.unwrap();
    let held_again = |object: &OrderedDeployment| {
        object.status.clone().unwrap_or_default().hold.is_some_and(|hold| hold.revision == 3)
    };
    let hold = cluster.until("web", "held in the third revision", held_again).await.unwrap();
    assert_eq!(hold.status.unwrap().hold.unwrap().id, format!("{third}@3"));
    cluster.held_with(2, 6).await.unwrap();
    let deleted = cluster.deleted().await.unwrap();
    assert!(deleted.len() == 4 && updated.iter().all(|pod| deleted[2..].contains(pod)), "{deleted:?}");
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 4);
}

async fn removing_the_annotation_ends_the_hold(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (_, third) = to_hold_at_the_third(&cluster, "before").await;
    cluster.held_with(2, 6).await.unwrap();
    cluster.annotate(&third, &format!("{}-", annotation::PAUSE_POINT)).await.unwrap();
    cluster.until("web", "free", lifted).await.unwrap();
    cluster.complete("web", 6).await.unwrap();
}

async fn a_pod_lost_in_a_hold_is_replaced_in_its_own_revision(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    let (_, third) = to_hold_at_the_third(&cluster, "before").await;
    cluster.held_with(2, 6).await.unwrap();
    for (image, left) in [("web:1", 4), ("web:2", 2)] {
        let pods = cluster.pods_of_image(image).await.unwrap();
        let lost = pods.iter().find(|pod| **pod != third).unwrap();
        cluster.kubectl.run(&["delete", "pod", lost]).await.unwrap();
        let back = |pods: &[Pod]| pods.len() == 6 && pods.iter().all(|pod| pod.name_any() != *lost);
        cluster.until_pods("six again", back).await.unwrap();
        cluster.held_with(2, 6).await.unwrap();
        assert_eq!(cluster.pods_of_image(image).await.unwrap().len(), left, "{image}");
    }
}

side_by_side!(
    Setting::default();
    a_pause_point_after_deletes_its_pod_and_no_later_one,
    a_timed_pause_ends_by_itself,
    a_hold_survives_scaling_to_zero_and_back,
    recreate_honours_a_pause_point,
    undo_in_a_hold_goes_back_and_keeps_the_old_pods,
    a_new_template_in_a_hold_restarts_the_rollout_and_holds_again,
    removing_the_annotation_ends_the_hold,
    a_pod_lost_in_a_hold_is_replaced_in_its_own_revision,
);
