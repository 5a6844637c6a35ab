//! Limits: no object keeps another one waiting, and a server that asks for a pause gets it.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::between::Fate;
use crate::cluster::Cluster;

/// The labels and the image of an object of that name.
fn spec(name: &str, image: &str) -> Value {
    json!({
        "replicas": 3,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn objects_behind_a_hanging_webhook_keep_no_other_one_waiting() {
    let cluster = Cluster::start().await;
    let webhook = Duration::from_secs(30);
    cluster.between.rule(move |ask| if ask.creates_pod("slow:1") { Fate::Late(webhook) } else { Fate::Pass });
    for number in 0..20 {
        let name = format!("slow-{number}");
        cluster.deploy_as(&name, spec(&name, "slow:1")).await;
    }
    // All of them wait for their answers by now.
    cluster.pass(Duration::from_secs(5)).await;
    let began = tokio::time::Instant::now();
    cluster.deployed(json!({})).await;
    assert!(began.elapsed() < webhook / 2, "it waited for {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_pause_is_asked_nothing_more_of_that_object_until_it_is_over() {
    let cluster = Cluster::start().await;
    let mut shed = false;
    cluster.between.rule(move |ask| {
        if ask.creates_pod("busy:1") && !std::mem::replace(&mut shed, true) {
            Fate::Shed(20)
        } else {
            Fate::Pass
        }
    });
    cluster.deploy_as("busy", spec("busy", "busy:1")).await;
    cluster.pass(Duration::from_secs(2)).await;
    let from = cluster.mark();
    // What happens meanwhile is a reason to look again, and yet it is not asked.
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"note": "now"}}}));
    cluster.deployments().patch("busy", &PatchParams::default(), &patch).await.unwrap();
    // Another object is looked at, meanwhile.
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
