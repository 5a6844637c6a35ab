//! The alerts and the dashboard of the chart, evaluated by Prometheus during a real rollout.

use std::collections::{BTreeMap, BTreeSet};

use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Helm, Prometheus, Server, TestCluster};
use serde_json::{Value, json};

use crate::built_in::set_budget;
use crate::chart::CHART;

/// Alerts with short durations.
const QUICK: [&str; 5] = [
    "prometheusRule.noLeaderFor=1s",
    "prometheusRule.watchStaleSeconds=2",
    "prometheusRule.heldTooLongSeconds=1",
    "prometheusRule.blockedSeconds=1",
    "prometheusRule.evictionRefusedSeconds=1",
];

/// The manifests of the chart with these values.
async fn rendered() -> Vec<Value> {
    let helm = Helm::without_server().unwrap();
    let mut all = vec!["template", "web", CHART, "--set=image.repository=registry.example.com/it"];
    all.extend(["--set=prometheusRule.enabled=true", "--set=dashboards.enabled=true"]);
    for value in QUICK {
        all.extend(["--set", value]);
    }
    serde_saphyr::from_multiple(&helm.run(&all).await.unwrap()).unwrap()
}

/// Every query of the dashboard by title, with the variables that Grafana sets.
fn queries(objects: &[Value]) -> BTreeMap<String, String> {
    let text = objects.iter().find_map(|object| object.pointer("/data/ordered-deployment.json")).unwrap();
    let dashboard: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    let mut queries = BTreeMap::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression
                .replace("$namespace", ".*")
                .replace("$__rate_interval", "30s")
                .replace("$__range", "5m");
            queries.insert(format!("{}: {}", panel["title"], target["legendFormat"]), expression);
        }
    }
    queries
}

/// Runs every query and removes those with a result from `empty`.
async fn ask(prometheus: &Prometheus, queries: &BTreeMap<String, String>, empty: &mut BTreeSet<String>) {
    for (name, expression) in queries {
        if !prometheus.query(expression).await.unwrap().is_empty() {
            empty.remove(name);
        }
    }
}

/// A rollout of these six pods to that image, in which no pod may be deleted: the second one has a pause
/// point, and two pods after it are not ready.
async fn block(cluster: &TestCluster, pods: &[String], image: &str) {
    cluster.prioritise_in_order(pods).await.unwrap();
    cluster.pause_at(&pods[1], "before").await.unwrap();
    for pod in &pods[4..] {
        cluster.set_ready(pod, false).await.unwrap();
    }
    let unready = |object: &OrderedDeployment| {
        object.status.as_ref().is_some_and(|status| status.available_replicas == Some(4))
    };
    cluster.until("web", "four available", unready).await.unwrap();
    cluster.set_image(image).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_alert_fires_and_every_dashboard_query_has_data_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let cluster = TestCluster::start(Server::Real).await.unwrap();
    let mut manager = cluster.start_manager_with(&["--leader-elect"]).unwrap();
    let line = manager.until_logged("metrics and health on").await.unwrap();
    let target = line.rsplit("http://").next().unwrap().trim().to_owned();
    let objects = rendered().await;
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    let prometheus = Prometheus::start(&target, &rule["spec"]).await.unwrap();
    let queries = queries(&objects);
    let mut empty: BTreeSet<String> = queries.keys().cloned().collect();

    // Held at a pause point.
    let spec =
        json!({"podDeletion": "Evict", "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    let pods = cluster.deployed(&spec).await.unwrap();
    cluster.prioritise_in_order(&pods).await.unwrap();
    cluster.pause_at(&pods[1], "before").await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.held("web").await.unwrap();
    let labels = prometheus.fires("OrderedDeploymentHeldTooLong").await.unwrap();
    assert_eq!(
        (&labels["namespace"], &labels["name"]),
        (&json!(cluster.namespace), &json!("web")),
        "{labels}"
    );
    ask(&prometheus, &queries, &mut empty).await;
    let no_leader = r#"ALERTS{alertname="OrderedDeploymentNoLeader",alertstate="firing"}"#;
    assert!(prometheus.query(no_leader).await.unwrap().is_empty(), "it leads");

    // Blocked by a disruption budget.
    set_budget(&cluster, "web", ("maxUnavailable", 0)).await;
    cluster.resume().await.unwrap();
    let labels = prometheus.fires("OrderedDeploymentEvictionRefused").await.unwrap();
    assert_eq!(labels["name"], "web", "{labels}");
    ask(&prometheus, &queries, &mut empty).await;
    cluster.kubectl.run(&["delete", "pdb", "web"]).await.unwrap();
    cluster.complete("web", 6).await.unwrap();

    // Blocked by pods after a pause point.
    let pods = cluster.pods_of_image("web:2").await.unwrap();
    block(&cluster, &pods, "web:3").await;
    let labels = prometheus.fires("OrderedDeploymentBlocked").await.unwrap();
    assert_eq!(labels["name"], "web", "{labels}");
    let id = format!("{}@3", pods[1]);
    let message =
        cluster.until_said(condition::STALLED, ConditionStatus::True, reason::BLOCKED).await.unwrap();
    assert!([&id, &pods[4], &pods[5]].iter().all(|named| message.contains(*named)), "{message}");
    ask(&prometheus, &queries, &mut empty).await;

    // Without changes, the watches receive no events for a while.
    prometheus.fires("OrderedDeploymentWatchStale").await.unwrap();
    assert_eq!(empty, BTreeSet::new(), "these queries never answered");
    for (rule, error) in prometheus.rules().await.unwrap() {
        assert_eq!(error, "", "{rule}");
    }
    assert_eq!(prometheus.rules().await.unwrap().len(), 5, "every alert is tried here");

    manager.kill().await.unwrap();
    prometheus.fires("OrderedDeploymentNoLeader").await.unwrap();
}
