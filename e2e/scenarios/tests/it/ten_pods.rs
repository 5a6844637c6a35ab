//! The ten-pod scenario as a user sees it: real kubectl, and the controller as a process.

use std::time::{Duration, Instant};

use futures::future::join_all;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::reason;
use scenarios::{Server, TestCluster, on_both};
use serde_json::json;

async fn ten_pods_go_in_order_hold_at_the_pause_point_and_continue_when_resumed(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let manager = cluster.start_manager().unwrap();
    let names = cluster.deployed(&json!({"replicas": 10})).await.unwrap();

    // Priorities 5, 5, 3 and 0, and a pause point on the pod with priority 3.
    let (mut fives, three) = ([&names[7], &names[1]], &names[4]);
    for (name, priority) in [(fives[0], 5), (fives[1], 5), (three, 3)] {
        cluster.prioritise(name, priority).await.unwrap();
    }
    cluster.pause_at(three, "before").await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.held_with(2, 10).await.unwrap();
    let mut gone = cluster.deleted().await.unwrap();
    gone.sort();
    fives.sort();
    assert_eq!(gone, fives.map(Clone::clone), "the two fives, and no other pod");
    assert_eq!(cluster.pods().await.unwrap().len(), 10);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 2);
    let table = cluster.kubectl.run(&["get", "od", "web"]).await.unwrap();
    assert!(table.contains("HELD-AT") && table.contains(three), "{table}");

    // A restart of the controller changes nothing.
    let before = cluster.deployments().get("web").await.unwrap().status.unwrap().hold;
    manager.kill().await.unwrap();
    let manager = cluster.start_manager().unwrap();

    // A resume request for another pod or an earlier revision has no effect.
    for wrong in [format!("{}@2", names[0]), format!("{three}@1")] {
        cluster.request_resume(&wrong).await.unwrap();
        let dropped = |object: &OrderedDeployment| {
            object.status.as_ref().is_some_and(|status| status.resume_requested.is_none())
        };
        cluster.until("web", "rid of the wrong request", dropped).await.unwrap();
    }
    let after = cluster.deployments().get("web").await.unwrap().status.unwrap().hold;
    assert_eq!(before, after);
    assert_eq!(cluster.deleted().await.unwrap().len(), 2);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 2);
    cluster.until_event(reason::RESUME_IGNORED).await.unwrap();

    // The correct ID resumes the rollout.
    let id = after.unwrap().id;
    assert_eq!(id, format!("{three}@2"));
    cluster.request_resume(&id).await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 10);
    assert_eq!(&cluster.deleted().await.unwrap()[2], three);
    manager.kill().await.unwrap();
}

/// How many objects are annotated and scaled side by side, and how often each of them.
const OBJECTS: usize = 5;
const ROUNDS: usize = 10;
/// The delay of the controller's watch of pods.
const LAG: Duration = Duration::from_secs(2);

/// `kubectl annotate` followed at once by `kubectl scale` deletes the annotated pod, 50 times out of 50.
async fn annotate_and_scale_at_once_deletes_the_annotated_pod_although_the_pod_watch_lags_two_seconds(
    server: Server,
) {
    let cluster = TestCluster::start(server).await.unwrap();
    cluster.proxy.rules().delay_watch("pods", LAG);
    let manager = cluster.start_manager().unwrap();
    let objects = (1..=OBJECTS).map(async |object| {
        let cluster = cluster.apart(&format!("{}-{object}", cluster.namespace)).await.unwrap();
        Box::pin(the_annotated_pod_goes_each_time(&cluster)).await;
    });
    join_all(objects).await;
    manager.kill().await.unwrap();
}

async fn the_annotated_pod_goes_each_time(cluster: &TestCluster) {
    let start = Instant::now();
    cluster.deployed(&json!({"replicas": 10})).await.unwrap();
    assert!(start.elapsed() >= LAG, "the controller sees pods without a lag");
    for round in 0..ROUNDS {
        cluster.complete("web", 10).await.unwrap();
        let pods = cluster.names().await.unwrap();
        let name = &pods[(round * 7) % pods.len()];
        cluster.prioritise(name, 9).await.unwrap();
        cluster.scale(9).await.unwrap();
        cluster.complete("web", 9).await.unwrap();
        let deleted = cluster.deleted().await.unwrap();
        assert_eq!((deleted.len(), deleted.last()), (round + 1, Some(name)), "round {round}");
        cluster.scale(10).await.unwrap();
    }
}

on_both!(
    ten_pods_go_in_order_hold_at_the_pause_point_and_continue_when_resumed,
    annotate_and_scale_at_once_deletes_the_annotated_pod_although_the_pod_watch_lags_two_seconds,
);
