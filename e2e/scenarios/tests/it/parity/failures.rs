//! Pods that the API server or their kubelets reject, and pods that kubelets evict.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use scenarios::{TestCluster, image_of};
use serde_json::json;

const FAILURE: &str = condition::REPLICA_FAILURE;

fn has_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}

pub(super) async fn pods_that_kubelets_reject_are_replaced_with_a_growing_backoff(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.set_image("web:refused").await.unwrap();
    // One surge pod, and one replacement of the first old pod: after one, two and four seconds each.
    let mut failed = cluster
        .until_pods("eight failed", |pods| pods.iter().filter(|pod| has_failed(pod)).count() >= 8)
        .await
        .unwrap();
    failed.retain(has_failed);
    let times: Vec<i64> = failed.iter().map(|pod| pod.creation_timestamp().unwrap().0.as_second()).collect();
    let took = times.iter().max().unwrap() - times.iter().min().unwrap();
    assert!(took >= 7, "{took} s for three waits");
    let message = cluster.until_said(FAILURE, ConditionStatus::True, reason::PODS_FAILED).await.unwrap();
    assert!(message.contains("OutOfcpu") && message.contains(" in a row"), "{message}");
    assert_eq!(cluster.deleted().await.unwrap().len(), 1, "down to the floor, and no further");
    // Another template does not wait for the backoff.
    cluster.set_image("web:2").await.unwrap();
    let status = cluster.complete("web", 3).await.unwrap().status.unwrap();
    assert_eq!(status.condition(FAILURE), None);
}

/// A Deployment has no such backoff: with ours, as many pods would take a quarter of an hour.
#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_replaces_rejected_pods_without_a_backoff(cluster: TestCluster) {
    cluster.kubectl.run(&["create", "deployment", "web", "--image=web:refused"]).await.unwrap();
    let twelve = |pods: &[Pod]| pods.iter().filter(|pod| has_failed(pod)).count() >= 12;
    cluster.until_pods("twelve failed", twelve).await.unwrap();
    cluster.kubectl.run(&["delete", "deployment", "web"]).await.unwrap();
}

pub(super) async fn creates_that_the_server_rejects_back_off_and_are_reported(cluster: TestCluster) {
    // Two containers with the same name: the CRD schema allows this, and the API server rejects the pods.
    let containers = json!([{"name": "web", "image": "a"}, {"name": "web", "image": "b"}]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    cluster.apply(&json!({"replicas": 2, "progressDeadlineSeconds": 6, "template": template})).await.unwrap();
    let message = cluster.until_said(FAILURE, ConditionStatus::True, reason::FAILED_CREATE).await.unwrap();
    assert!(message.contains("Duplicate"), "{message}");
    let (type_, why) = (condition::PROGRESSING, reason::PROGRESS_DEADLINE_EXCEEDED);
    cluster.until_said(type_, ConditionStatus::False, why).await.unwrap();
    let requests = cluster.requests().await.unwrap();
    let tries = requests.iter().filter(|one| {
        one.namespace.as_deref() == Some(&cluster.namespace)
            && (one.verb.as_str(), one.plural.as_str(), one.code) == ("create", "pods", 422)
    });
    // The backoff starts at 5 ms and doubles: eleven attempts take ten seconds.
    let tries = tries.count();
    assert!((2..=13).contains(&tries), "{tries} tries within some seconds");
    cluster.set_image("web:1").await.unwrap();
    let status = cluster.complete("web", 2).await.unwrap().status.unwrap();
    assert_eq!(status.condition(FAILURE), None);
}

pub(super) async fn evicted_and_preempted_pods_are_replaced_and_do_not_count(cluster: TestCluster) {
    let pods = cluster.deployed(&json!({"replicas": 4})).await.unwrap();
    cluster.fail(&pods[0], "Evicted").await.unwrap();
    cluster.fail(&pods[1], "Preempting").await.unwrap();
    let six = cluster.until_pods("replaced", |pods| pods.len() == 6).await.unwrap();
    assert_eq!(six.iter().filter(|pod| has_failed(pod)).count(), 2);
    cluster.complete("web", 4).await.unwrap();
    // Scale-downs and rollouts ignore the failed pods.
    cluster.prioritise(&pods[0], 9).await.unwrap();
    cluster.prioritise(&pods[2], 3).await.unwrap();
    cluster.scale(3).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), [pods[2].clone()]);
    cluster.prioritise(&pods[3], 3).await.unwrap();
    cluster.pause_at(&pods[3], "after").await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.held_with(1, 3).await.unwrap();
    // During a hold, the replacement of a lost pod has the same revision.
    let old = cluster.pods_of_image("web:1").await.unwrap();
    let lost = old.iter().find(|name| !pods.contains(name)).unwrap();
    cluster.fail(lost, "Evicted").await.unwrap();
    let old_again = |pods: &[Pod]| {
        let old = pods.iter().filter(|pod| image_of(pod) == "web:1" && !has_failed(pod));
        old.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count() == 2
            && pods.iter().filter(|pod| has_failed(pod)).count() == 3
    };
    cluster.until_pods("two old ones again", old_again).await.unwrap();
    cluster.held_with(1, 3).await.unwrap();
    cluster.resume().await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    let left = cluster.until_pods("three and what is left", |pods| pods.len() == 6).await.unwrap();
    assert_eq!(left.iter().filter(|pod| has_failed(pod)).count(), 3);
    let deleted = cluster.deleted().await.unwrap();
    assert!(left.iter().all(|pod| !deleted.contains(&pod.name_any())), "{deleted:?}");
}
