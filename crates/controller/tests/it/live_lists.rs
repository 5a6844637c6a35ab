//! Live lists: objects of one namespace that wait at the same time share them.

use std::time::Duration;

use http::Method;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use serde_json::json;

use crate::cluster::{Cluster, is_ready, names, spec_of};
use crate::fault_injector::{RequestFault, RequestInfo};

const MANY: usize = 60;
const PODS: &str = "/api/v1/namespaces/default/pods?";

fn name(number: usize) -> String {
    format!("web-{number}")
}

/// Creates so many objects of that many pods each.
async fn deploy_many(cluster: &Cluster, count: usize, replicas: usize) {
    for number in 0..count {
        let name = name(number);
        cluster.deploy_as(&name, spec_of(&name, "web:1", replicas)).await;
    }
}

async fn scale_many(cluster: &Cluster, count: usize, replicas: usize) {
    for number in 0..count {
        cluster.merge::<OrderedDeployment>(&name(number), json!({"spec": {"replicas": replicas}})).await;
    }
}

/// How many ready pods each of so many objects has.
async fn ready(cluster: &Cluster, count: usize) -> Vec<usize> {
    let pods = cluster.all_pods().await;
    let is_active = |pod: &&k8s_openapi::api::core::v1::Pod| pod.metadata.deletion_timestamp.is_none();
    let of = |number| pods.iter().filter(move |pod| pod.labels().get("app") == Some(&name(number)));
    (0..count).map(|number| of(number).filter(is_active).filter(|pod| is_ready(pod)).count()).collect()
}

/// Waits until each of so many objects has so many ready pods. Returns how long it took.
async fn until_ready(cluster: &Cluster, count: usize, replicas: usize) -> Duration {
    let began = tokio::time::Instant::now();
    while ready(cluster, count).await != vec![replicas; count] {
        assert!(began.elapsed() < Duration::from_secs(300), "{:?}", ready(cluster, count).await);
        cluster.pass(Duration::from_millis(250)).await;
    }
    began.elapsed()
}

/// Whether it is a live list of pods without a selector.
fn is_shared(info: &RequestInfo) -> bool {
    info.is(&Method::GET, PODS) && !info.path.contains("labelSelector")
}

/// How many live lists of pods without a selector there were since then. Each page is one request.
fn shared_lists(cluster: &Cluster, mark: usize) -> usize {
    let mut asked = cluster.asked(mark, "list", "pods");
    asked.retain(|record| record.path.contains(PODS) && !record.path.contains("labelSelector"));
    asked.len()
}

/// Objects with so many pods each, and a controller that knows them. Each page of a list takes a second.
async fn started(replicas: usize) -> Cluster {
    let cluster = Cluster::start().await;
    deploy_many(&cluster, MANY, replicas).await;
    until_ready(&cluster, MANY, replicas).await;
    cluster.pass(Duration::from_secs(30)).await;
    let late = || RequestFault::DelayAnswer(Duration::from_secs(1));
    cluster.faults.when(|info| info.is(&Method::GET, PODS), late);
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_list_that_began_before_an_object_asked_does_not_serve_it() {
    let cluster = started(2).await;
    let pods = names(&cluster.deployed(json!({"replicas": 4})).await);
    // From now on only live reads show what is written to pods.
    cluster.sandbox.delay_watch("pods", Duration::from_secs(3600));
    cluster.faults.when(is_shared, || RequestFault::DelayAnswer(Duration::from_secs(5)));
    let mark = cluster.mark();
    scale_many(&cluster, MANY, 1).await;
    while shared_lists(&cluster, mark) == 0 {
        cluster.pass(Duration::from_millis(100)).await;
    }
    // The server has read what the running list will show. This pod would be the last one to be deleted.
    let last = &pods[3];
    cluster.prioritise(last, 9).await;
    cluster.scale(3).await;
    cluster.pass(Duration::from_secs(60)).await;
    let deleted: Vec<_> = cluster.deleted(mark).into_iter().filter(|name| pods.contains(name)).collect();
    assert_eq!(deleted, std::slice::from_ref(last));
}

#[tokio::test(start_paused = true)]
async fn a_shared_list_that_is_shed_delays_all_objects_that_wait_for_it() {
    let cluster = started(2).await;
    let mut shed = false;
    cluster.faults.when(
        move |info| is_shared(info) && !std::mem::replace(&mut shed, true),
        move || RequestFault::Shed(20),
    );
    let errors = || {
        cluster.metrics.render().unwrap().lines().find_map(|line| {
            let count = line.strip_prefix("ordereddeployment_reconciles_total{result=\"error\"} ")?;
            count.parse::<usize>().ok()
        })
    };
    let before = errors().unwrap_or(0);
    let mark = cluster.mark();
    scale_many(&cluster, MANY, 3).await;
    cluster.pass(Duration::from_secs(18)).await;
    // The first one had a list of its own.
    assert_eq!(ready(&cluster, MANY).await.iter().filter(|ready| **ready == 3).count(), 1);
    assert_eq!(errors().unwrap_or(0) - before, MANY - 1);
    // Each object waits as long as the answer asks, and asks for nothing meanwhile.
    assert_eq!(cluster.asked(mark, "get", "ordereddeployments").len(), MANY);
    until_ready(&cluster, MANY, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_list_whose_second_page_fails_is_read_again() {
    let cluster = started(9).await;
    let mut expired = false;
    let is_hit = move |info: &RequestInfo| {
        let is_second = is_shared(info) && info.path.contains("continue=");
        is_second && !std::mem::replace(&mut expired, true)
    };
    cluster.faults.when(is_hit, || RequestFault::Response(410));
    let mark = cluster.mark();
    scale_many(&cluster, MANY, 10).await;
    until_ready(&cluster, MANY, 10).await;
    assert!(shared_lists(&cluster, mark) >= 4);
    assert_eq!(cluster.asked(mark, "create", "pods").len(), MANY, "half a list counts as none");
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
}
