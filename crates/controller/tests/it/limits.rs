//! Limits: no object blocks another one, a server that asks for a wait gets it, and mistakes can be undone.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use ordereddeployment_kubernetes::Limits;
use serde_json::json;

use crate::cluster::{Cluster, spec_of};
use crate::fault_injector::RequestFault;

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
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"note": "now"}}}));
    cluster.deployments().patch("busy", &PatchParams::default(), &patch).await.unwrap();
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
        let selected = kube::api::ListParams::default().labels("app=busy");
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
