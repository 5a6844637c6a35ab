//! Fairness: neither a namespace with many changes nor one object slows another one down. Requests stay
//! within the limits, and mistakes can be undone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
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
        let name = format!("quiet-{number}");
        cluster.merge::<OrderedDeployment>(&name, json!({"spec": {"replicas": size}})).await;
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

#[tokio::test(start_paused = true)]
async fn objects_behind_a_hanging_webhook_do_not_block_others() {
    let cluster = Cluster::start().await;
    let webhook = Duration::from_secs(30);
    cluster.faults.when(move |info| info.creates_pod("slow:1"), move || RequestFault::Delay(webhook));
    for number in 0..20 {
        let name = format!("slow-{number}");
        cluster.deploy_as(&name, spec_of(&name, "slow:1", 3)).await;
    }
    // By now all of them wait for their answers.
    cluster.pass(Duration::from_secs(5)).await;
    let began = tokio::time::Instant::now();
    cluster.deployed(json!({})).await;
    assert!(began.elapsed() < webhook / 2, "it waited for {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_retry_after_no_request_for_that_object_is_sent_until_the_wait_is_over() {
    let cluster = Cluster::start().await;
    let mut shed = false;
    cluster.faults.when(
        move |info| info.creates_pod("busy:1") && !std::mem::replace(&mut shed, true),
        move || RequestFault::Shed(20),
    );
    cluster.deploy_as("busy", spec_of("busy", "busy:1", 3)).await;
    cluster.pass(Duration::from_secs(2)).await;
    let from = cluster.mark();
    // A change meanwhile triggers a reconciliation, but no request.
    let note = json!({"metadata": {"annotations": {"note": "now"}}});
    cluster.merge::<OrderedDeployment>("busy", note).await;
    // Another object is reconciled meanwhile.
    cluster.deployed(json!({})).await;
    cluster.pass(Duration::from_secs(10)).await;
    let asked = |plural, verb| {
        let asked = cluster.asked(from, verb, plural);
        asked.into_iter().filter(|record| record.path.contains("busy")).count()
    };
    for plural in ["pods", "orderedreplicasets", "ordereddeployments"] {
        for verb in ["create", "get", "list", "patch"] {
            assert_eq!(asked(plural, verb), 0, "{verb} {plural}");
        }
    }
    let pods = || async {
        let selected = ListParams::default().labels("app=busy");
        cluster.pods().list(&selected).await.unwrap().items.len()
    };
    assert_eq!(pods().await, 0);
    cluster.pass(Duration::from_secs(20)).await;
    assert_eq!(pods().await, 3, "it goes on after the pause");
}

#[tokio::test(start_paused = true)]
async fn requests_stay_within_the_limits() {
    let mut cluster = Cluster::without_controller().await;
    cluster.limits = Limits { qps: 2.0, burst: 5, in_flight: 200 };
    cluster.start_controller();
    cluster.deploy(json!({"replicas": 30})).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(10)).await;
    let mut asked = cluster.all_asked(mark);
    asked.retain(|record| record.verb != "watch" && record.plural != "nodes");
    // Each watch lists once, which does not count.
    assert!((20..=30).contains(&asked.len()), "{} in ten seconds", asked.len());
    cluster.until_complete().await;
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
