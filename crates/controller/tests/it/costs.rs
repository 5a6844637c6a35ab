//! The requests of a rollout, and how far behind the published sizes may be in exchange.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_sandbox::Record;
use serde_json::{Value, json};

use crate::cluster::{Cluster, names, spec_of};

/// Requests by verb and resource, without watches, which stay open.
fn counted(requests: &[Record]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in requests.iter().filter(|record| record.verb != "watch") {
        let subresource = record.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        *counts.entry(format!("{} {}{subresource}", record.verb, record.plural)).or_default() += 1;
    }
    counts
}

/// Ten pods, a surge and an unavailability of 1, all replaced.
async fn rolled_out(spec: Value) -> (Vec<Record>, Vec<String>) {
    let (cluster, pods) = Cluster::with(spec).await;
    let mark = cluster.mark();
    cluster.set_image("web:2").await;
    cluster.until_out(10).await;
    cluster.pass(Duration::from_secs(60)).await;
    (cluster.all_asked(mark), pods)
}

/// Each pod is replaced with two requests. Besides those, at most once a second (the pods of the sandbox are
/// ready after one): one event for the created pods, one for the deleted pods, one for the scaled sets, and
/// one size and one status for each set. With single events and sizes, the total was 139.
#[tokio::test(start_paused = true)]
async fn a_replaced_pod_costs_two_requests_and_reports_once_a_second() {
    let (requests, _) = rolled_out(json!({})).await;
    let counts = counted(&requests);
    let bounds = [
        ("create pods", 10),
        ("delete pods", 10),
        ("patch orderedreplicasets", 14),
        ("create orderedreplicasets", 1),
        ("create events", 20),
        ("patch events", 0),
        ("patch ordereddeployments/status", 11),
        ("patch orderedreplicasets/status", 15),
        // The live read for the new generation.
        ("get ordereddeployments", 1),
        // Dry runs: whether the new template equals the set's, spelled differently.
        ("create podtemplates", 2),
        ("list orderedreplicasets", 1),
        ("list pods", 1),
        // At the end: whether a budget has to count again.
        ("list poddisruptionbudgets", 1),
    ];
    for (what, count) in &counts {
        let bound = bounds.iter().find(|(name, _)| name == what);
        assert!(bound.is_some_and(|(_, most)| count <= most), "{count} of {what}: {counts:#?}");
    }
    let all = counts.values().sum::<usize>();
    assert!(all <= 82, "{all} requests: {counts:#?}");
}

/// A batch of deletions.
struct Batch {
    at: Timestamp,
    /// The published size of the old pods' set at that time.
    published: i64,
    /// How many of its pods were left before.
    left: i64,
    /// How many were deleted.
    gone: i64,
}

/// The batches: deletions at one moment, or evictions with nothing published in between.
fn batches(requests: &[Record], pods: &[String], verb: &str, subresource: Option<&str>) -> Vec<Batch> {
    let (mut published, mut left) = (10, 10);
    let mut seen: Vec<Batch> = Vec::new();
    let mut last = None;
    let old = pods[0].rsplit_once('-').map(|(set, _)| set.to_owned());
    for record in requests.iter().filter(|record| record.code < 300) {
        if record.plural == "orderedreplicasets" && record.name == old {
            let size = record.body.as_ref().and_then(|body| body["spec"]["replicas"].as_i64());
            published = size.unwrap_or(published);
        }
        let goes =
            record.plural == "pods" && record.verb == verb && record.subresource.as_deref() == subresource;
        if !goes {
            continue;
        }
        match seen.last_mut() {
            Some(batch)
                if last == Some(record.at) || (subresource.is_some() && batch.published == published) =>
            {
                batch.gone += 1;
            }
            _ => seen.push(Batch { at: record.at, published, left, gone: 1 }),
        }
        last = Some(record.at);
        left -= 1;
    }
    assert_eq!((published, left), (0, 0), "all is published in the end");
    assert!(seen.len() > 3, "no more than two go at a time");
    seen
}

#[tokio::test(start_paused = true)]
async fn published_sizes_are_at_most_a_second_old() {
    let (requests, pods) =
        rolled_out(json!({"strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}})).await;
    let batches = batches(&requests, &pods, "delete", None);
    for Batch { at, published, left, gone } in &batches {
        let second_ago = *at - SignedDuration::from_millis(1100);
        let since = batches.iter().filter(|batch| batch.at >= second_ago).map(|batch| batch.left).max();
        assert!(
            (left - gone..=since.unwrap_or(*left)).contains(published),
            "{published} published, {left} left"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn with_evictions_the_sizes_are_published_before_each_batch() {
    let (requests, pods) = rolled_out(json!({"podDeletion": "Evict"})).await;
    for Batch { published, left, gone, .. } in batches(&requests, &pods, "create", Some("eviction")) {
        assert_eq!(published, left - gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_rollout_publishes_its_last_batch() {
    let (cluster, _) = Cluster::with_pods(10).await;
    cluster.set_image("web:broken").await;
    cluster.pass(Duration::from_secs(30)).await;
    let mut sizes = Vec::new();
    for set in cluster.all_sets().await {
        let status = set.status.clone().unwrap_or_default();
        sizes.push((
            set.annotations()["ordereddeployment.io/revision"].clone(),
            set.spec.replicas,
            status.replicas,
        ));
    }
    sizes.sort();
    // The sizes sum up to D: the surge pod is in none of them.
    assert_eq!(sizes, [("1".to_owned(), 9, Some(9)), ("2".to_owned(), 1, Some(2))]);
}

#[tokio::test(start_paused = true)]
async fn events_name_every_created_and_deleted_pod() {
    let (cluster, pods) = Cluster::with_pods(10).await;
    cluster.set_image("web:2").await;
    let view = cluster.until_out(10).await;
    cluster.pass(Duration::from_secs(5)).await;
    let messages = |reason: &'static str| {
        let cluster = &cluster;
        async move { cluster.events_of(reason).await.join("\n") }
    };
    let (created, deleted) = (messages("SuccessfulCreate").await, messages("SuccessfulDelete").await);
    for pod in &pods {
        assert!(deleted.contains(&format!("Deleted pod {pod} for the rollout")), "{deleted}");
    }
    for pod in names(&view.updated()) {
        assert!(created.contains(&format!("Created pod {pod}")), "{created}");
    }
    let scaled = messages("ScalingReplicaSet").await;
    assert!(scaled.contains("to 0"), "{scaled}");
    assert!(cluster.all_asked(0).iter().all(|record| record.plural != "events" || record.code < 300));
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_migration_costs_one_read_a_second_and_no_list() {
    let cluster = Cluster::start().await;
    let spec = spec_of("web", "web:1", 0);
    cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let metadata =
        json!({"name": "web", "annotations": {"ordereddeployment.io/adopting": "deployments/web"}});
    cluster.create::<OrderedDeployment>(json!({"metadata": metadata, "spec": spec})).await;
    cluster.pass(Duration::from_secs(5)).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(60)).await;
    let counts = counted(&cluster.all_asked(mark));
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["get deployments"], "{counts:#?}");
    assert!((50..=62).contains(&counts["get deployments"]), "{counts:#?}");
}
