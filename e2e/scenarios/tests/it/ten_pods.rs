//! The ten-pod scenario as a user sees it: real kubectl, and the controller as a process.

use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt;
use ordereddeployment_api::names::reason;
use scenarios::{Server, TestCluster, on_both};

pub(crate) const MANIFEST: &str = "\
apiVersion: ordereddeployment.io/v1alpha1
kind: OrderedDeployment
metadata: {name: web}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'web:1'}]
";

const NEW_IMAGE: &str = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}"#;

/// The names of the deleted pods, in the order in which the server accepted the deletions. Fails if another client
/// deleted a pod.
async fn deletions(cluster: &TestCluster) -> Vec<String> {
    let deletions = cluster.deletions().await.unwrap();
    let others: Vec<_> = deletions.iter().filter(|one| !one.by_the_controller()).collect();
    assert!(others.is_empty(), "another client deleted our pods: {others:?}");
    deletions.into_iter().map(|one| one.pod).collect()
}

async fn ten_pods_go_in_order_hold_at_the_pause_point_and_continue_when_resumed(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let manager = cluster.start_manager().unwrap();
    let kubectl = &cluster.kubectl;
    kubectl.run_with(&["apply", "-f", "-"], MANIFEST).await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    let names: Vec<_> = cluster.pods().await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 10);

    // Priorities 5, 5, 3 and 0, and a pause point on the pod with priority 3.
    let (fives, three) = ([&names[7], &names[1]], &names[4]);
    for name in fives {
        kubectl.run(&["annotate", "pod", name, "ordereddeployment.io/delete-priority=5"]).await.unwrap();
    }
    let three_is = [
        "annotate",
        "pod",
        three,
        "ordereddeployment.io/delete-priority=3",
        "ordereddeployment.io/pause-point=before",
    ];
    kubectl.run(&three_is).await.unwrap();
    kubectl.run(&["patch", "od", "web", "--type=merge", "-p", NEW_IMAGE]).await.unwrap();

    let held = |object: &ordereddeployment_api::OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        status.hold.is_some() && status.available_replicas == Some(10) && status.updated_replicas == Some(2)
    };
    cluster.until("web", "held with ten available pods, two of them updated", held).await.unwrap();
    let mut gone = deletions(&cluster).await;
    gone.sort();
    let mut expected = fives.map(Clone::clone);
    expected.sort();
    assert_eq!(gone, expected, "the two fives, and no other pod");
    assert_eq!(cluster.pods().await.unwrap().len(), 10);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 2);
    let table = kubectl.run(&["get", "od", "web"]).await.unwrap();
    assert!(table.contains("HELD-AT") && table.contains(three), "{table}");

    // A restart of the controller changes nothing.
    let before = cluster.deployments().get("web").await.unwrap().status.unwrap().hold;
    manager.kill().await.unwrap();
    let manager = cluster.start_manager().unwrap();

    // A resume request for another pod or an earlier revision has no effect.
    for wrong in [format!("{}@2", names[0]), format!("{three}@1")] {
        let patch = format!(r#"{{"status":{{"resumeRequested":"{wrong}"}}}}"#);
        kubectl
            .run(&["patch", "od", "web", "--subresource=status", "--type=merge", "-p", &patch])
            .await
            .unwrap();
        let dropped = |object: &ordereddeployment_api::OrderedDeployment| {
            object.status.as_ref().is_some_and(|status| status.resume_requested.is_none())
        };
        cluster.until("web", "rid of the wrong request", dropped).await.unwrap();
    }
    let after = cluster.deployments().get("web").await.unwrap().status.unwrap().hold;
    assert_eq!(before, after);
    assert_eq!(deletions(&cluster).await.len(), 2);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 2);
    assert!(cluster.event_reasons().await.unwrap().iter().any(|found| found == reason::RESUME_IGNORED));

    // The correct ID resumes the rollout.
    let id = after.unwrap().id;
    assert_eq!(id, format!("{three}@2"));
    let patch = format!(r#"{{"status":{{"resumeRequested":"{id}"}}}}"#);
    kubectl.run(&["patch", "od", "web", "--subresource=status", "--type=merge", "-p", &patch]).await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 10);
    assert_eq!(&deletions(&cluster).await[2], three);
    manager.kill().await.unwrap();
}

/// How many objects are annotated and scaled side by side, and how often each of them.
const OBJECTS: usize = 5;
const ROUNDS: usize = 10;

/// `kubectl annotate` followed at once by `kubectl scale` deletes the annotated pod, 50 times out of 50.
async fn the_annotated_pod_goes_fifty_times(server: Server, watch_delay: Duration) {
    let cluster = TestCluster::start(server).await.unwrap();
    cluster.proxy.rules().delay_watch("pods", watch_delay);
    let manager = cluster.start_manager().unwrap();
    let objects = (1..=OBJECTS).map(async |object| {
        let cluster = cluster.apart(&format!("{}-{object}", cluster.namespace)).await.unwrap();
        Box::pin(the_annotated_pod_goes_each_time(&cluster)).await;
    });
    join_all(objects).await;
    manager.kill().await.unwrap();
}

async fn the_annotated_pod_goes_each_time(cluster: &TestCluster) {
    let kubectl = &cluster.kubectl;
    kubectl.run_with(&["apply", "-f", "-"], MANIFEST).await.unwrap();
    for round in 0..ROUNDS {
        cluster.complete("web", 10).await.unwrap();
        let pods = cluster.pods().await.unwrap();
        let name = pods[(round * 7) % pods.len()].name_any();
        let priority = "ordereddeployment.io/delete-priority=9";
        kubectl.run(&["annotate", "pod", &name, priority]).await.unwrap();
        kubectl.run(&["scale", "od", "web", "--replicas=9"]).await.unwrap();
        cluster.complete("web", 9).await.unwrap();
        assert_eq!(deletions(cluster).await.last(), Some(&name), "round {round}");
        assert_eq!(deletions(cluster).await.len(), round + 1);
        kubectl.run(&["scale", "od", "web", "--replicas=10"]).await.unwrap();
    }
}

async fn annotate_and_scale_at_once_deletes_the_annotated_pod(server: Server) {
    the_annotated_pod_goes_fifty_times(server, Duration::ZERO).await;
}

async fn annotate_and_scale_at_once_deletes_the_annotated_pod_although_the_pod_watch_lags_two_seconds(
    server: Server,
) {
    the_annotated_pod_goes_fifty_times(server, Duration::from_secs(2)).await;
}

on_both!(
    ten_pods_go_in_order_hold_at_the_pause_point_and_continue_when_resumed,
    annotate_and_scale_at_once_deletes_the_annotated_pod,
    annotate_and_scale_at_once_deletes_the_annotated_pod_although_the_pod_watch_lags_two_seconds,
);
