//! Fairness: a namespace with many changes does not slow another one down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_kubernetes::Limits;
use serde_json::json;
use tokio::time::{Instant, interval, sleep};

use crate::cluster::{Cluster, names, spec_of};
use crate::fault_injector::RequestFault;

/// How long the server takes for the answer to a request.
const LATENCY: Duration = Duration::from_millis(20);
/// The requests per second that the controller may send: half of those that the noise would cause.
const QPS: f64 = 400.0;
/// The objects of the noisy namespace, and how often one of them is patched.
const OBJECTS: usize = 100;
const EVERY: Duration = Duration::from_millis(5);
/// The objects of the quiet namespace: so many that no change waits for a live read.
const QUIET: usize = 5;
/// How often each of them is scaled down, and the time between two scale-downs.
const IDLE: usize = 1;
const BESIDE: usize = 6;
const PAUSE: Duration = Duration::from_millis(120);

fn noisy(cluster: &Cluster) -> Api<OrderedDeployment> {
    Api::namespaced(cluster.client.clone(), "noisy")
}

async fn create_all(cluster: &Cluster) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": "noisy"}})).unwrap();
    Api::<Namespace>::all(cluster.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    for number in 0..OBJECTS {
        let name = format!("noisy-{number}");
        cluster.deploy_in("noisy", &name, spec_of(&name, "web:1", 0)).await;
    }
    for number in 0..QUIET {
        let name = format!("quiet-{number}");
        cluster.deploy_as(&name, spec_of(&name, "web:1", IDLE + BESIDE)).await;
    }
}

/// Changes the spec of one object after the other, without end.
async fn make_noise(objects: Api<OrderedDeployment>) {
    let mut ticks = interval(EVERY);
    for number in 0.. {
        ticks.tick().await;
        let patch = Patch::Merge(json!({"spec": {"progressDeadlineSeconds": 600 + number}}));
        let name = format!("noisy-{}", number % OBJECTS);
        objects.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

/// When the controller has sent each DELETE. The server takes its time for every answer.
fn slow_down(cluster: &Cluster) -> Arc<Mutex<Vec<Instant>>> {
    let deletes = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&deletes);
    cluster.faults.rule(move |info| {
        if info.is(&Method::DELETE, "/pods/") {
            sent.lock().unwrap().push(Instant::now());
        }
        RequestFault::DelayAnswer(LATENCY)
    });
    deletes
}

/// Scales the quiet objects down in turn, so often. Returns the sorted times from each scale-down to its
/// DELETE.
async fn scale_down(
    cluster: &Cluster,
    deletes: &Mutex<Vec<Instant>>,
    from: usize,
    times: usize,
) -> Vec<Duration> {
    let mut took = Vec::new();
    for (size, number) in
        (from - times..from).rev().flat_map(|size| (0..QUIET).map(move |number| (size, number)))
    {
        deletes.lock().unwrap().clear();
        let began = Instant::now();
        let patch = Patch::Merge(json!({"spec": {"replicas": size}}));
        let name = format!("quiet-{number}");
        cluster.deployments().patch(&name, &PatchParams::default(), &patch).await.unwrap();
        while deletes.lock().unwrap().is_empty() {
            sleep(PAUSE).await;
        }
        took.push(deletes.lock().unwrap()[0] - began);
    }
    took.sort();
    took
}

#[tokio::test(start_paused = true)]
async fn a_noisy_namespace_does_not_slow_the_scale_downs_of_another_one() {
    let mut cluster = Cluster::without_controller().await;
    cluster.limits = Limits { qps: QPS, burst: 100, ..Limits::default() };
    cluster.start_controller();
    create_all(&cluster).await;
    sleep(Duration::from_secs(30)).await;
    let deletes = slow_down(&cluster);
    let idle = scale_down(&cluster, &deletes, IDLE + BESIDE, IDLE).await;

    let noise = tokio::spawn(make_noise(noisy(&cluster)));
    sleep(Duration::from_secs(1)).await;
    let beside = scale_down(&cluster, &deletes, BESIDE, BESIDE).await;
    noise.abort();

    let (median, percentile) = (idle[idle.len() / 2], beside[beside.len() * 99 / 100]);
    assert!(percentile < 2 * median, "{median:?} without the noise, beside it {beside:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_changed_without_end_is_read_live_now_and_then() {
    let (cluster, pods) = Cluster::with_pods(4).await;
    // From now on only live reads show what is written to pods.
    cluster.sandbox.delay_watch("pods", Duration::from_secs(3600));
    sleep(Duration::from_secs(30)).await;
    let mark = cluster.mark();
    for number in 0..2000 {
        cluster.patch(json!({"spec": {"progressDeadlineSeconds": 700 + number}})).await;
        sleep(Duration::from_millis(10)).await;
    }
    let reads = cluster.asked(mark, "get", "ordereddeployments").len();
    assert!((10..30).contains(&reads), "{reads} live reads in 20 seconds");
    // Nothing is decided before a live read of the last change.
    let last = &pods[3];
    cluster.prioritise(last, 9).await;
    cluster.scale(3).await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.deleted(mark), std::slice::from_ref(last));
    // Once it is quiet, a change is read at once.
    sleep(Duration::from_secs(10)).await;
    let mark = cluster.mark();
    cluster.scale(2).await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(cluster.deleted(mark).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_pods_are_replaced_although_the_object_changes_during_many_live_reads() {
    let (cluster, _) = Cluster::with_pods(4).await;
    // A live read takes 30 ms, three requests after one another.
    cluster.faults.rule(|_| RequestFault::Delay(Duration::from_millis(10)));
    let mut least = 4;
    for number in 0..1000 {
        if number % 100 == 50 {
            let pods = names(&cluster.view().await.active());
            cluster.delete_pod(&pods[0]).await;
        }
        if number % 100 == 49 {
            least = least.min(cluster.view().await.active().len());
        }
        cluster.patch(json!({"spec": {"progressDeadlineSeconds": 700 + number}})).await;
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(least, 4, "a pod was missing for five seconds");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_forged_without_end_is_read_live_now_and_then() {
    let (cluster, _) = Cluster::with_pods(4).await;
    sleep(Duration::from_secs(30)).await;
    let mark = cluster.mark();
    for number in 0..2000 {
        cluster.patch_status(json!({"rollout": {"revision": 1_000_000 + number}})).await;
        sleep(Duration::from_millis(10)).await;
    }
    let reads = cluster.asked(mark, "list", "pods").len();
    assert!((5..40).contains(&reads), "{reads} live reads in 20 seconds");
    sleep(Duration::from_secs(10)).await;
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap();
    assert_eq!(status.rollout.unwrap().revision, 1);
}
