//! Admission webhooks in a real API server that fail, do not answer or make unexpected changes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Hook, Setting, TestCluster, Verdict, Webhook, side_by_side};
use serde_json::{Value, json};

/// Longer than the webhook timeouts.
const LONG: Duration = Duration::from_secs(120);

fn image(pod: &Value) -> &str {
    pod.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a condition reports an error with these words.
fn reports_error(object: &OrderedDeployment, words: &str) -> bool {
    let status = object.status.clone().unwrap_or_default();
    [condition::STALLED, condition::REPLICA_FAILURE].into_iter().any(|kind| {
        status
            .condition(kind)
            .is_some_and(|found| found.status == ConditionStatus::True && found.message.contains(words))
    })
}

/// The webhook applies the verdict to pods of the new template only. The OrderedDeployment reports it, and
/// the old set replaces lost pods.
async fn an_old_set_heals_despite_the_verdict_on_the_new_template(
    cluster: TestCluster,
    verdict: Verdict,
    surge: i32,
    words: &str,
) {
    let bounds = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}});
    let pods = cluster.deployed(&json!({"replicas": 3, "strategy": bounds})).await.unwrap();
    let webhook = Webhook::start(|_| Verdict::Allow).await.unwrap();
    let hook = Hook { mutates: false, failure_policy: "Fail", timeout_seconds: 2 };
    webhook.register(&cluster, &hook).await.unwrap();
    webhook.decide_with(move |pod| if image(pod) == "web:2" { verdict.clone() } else { Verdict::Allow });
    cluster.set_image("web:2").await.unwrap();
    let slow = cluster.with_timeout(LONG);
    slow.until("web", "reporting the error", |object| reports_error(object, words)).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());

    // So many that the old set must replace them: below its floor the rollout may not.
    let floor = if surge > 0 { 3 } else { 2 };
    let lost = &pods[floor - 1..];
    for pod in lost {
        cluster.kubectl.run(&["delete", "pod", pod, "--wait=false"]).await.unwrap();
    }
    let healed = |pods: &[Pod]| {
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        pods.len() == floor && pods.iter().all(|pod| !lost.contains(&name(pod)))
    };
    slow.until_pods("healed", healed).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), floor);

    webhook.decide_with(|_| Verdict::Allow);
    let status = slow.complete("web", 3).await.unwrap().status.unwrap();
    assert_eq!(status.condition(condition::STALLED).unwrap().status, ConditionStatus::False);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 3);
}

async fn an_old_set_heals_while_the_dry_run_of_the_new_template_fails(cluster: TestCluster) {
    an_old_set_heals_despite_the_verdict_on_the_new_template(
        cluster,
        Verdict::Fail(500),
        0,
        "pods.e2e.example",
    )
    .await;
}

async fn an_old_set_heals_while_the_dry_run_of_the_new_template_gets_no_response(cluster: TestCluster) {
    an_old_set_heals_despite_the_verdict_on_the_new_template(
        cluster,
        Verdict::Silence,
        0,
        "pods.e2e.example",
    )
    .await;
}

async fn an_old_set_heals_while_creates_of_the_new_template_fail(cluster: TestCluster) {
    an_old_set_heals_despite_the_verdict_on_the_new_template(
        cluster,
        Verdict::Fail(500),
        1,
        "pods.e2e.example",
    )
    .await;
}

async fn a_webhook_that_removes_labels_causes_no_endless_creates(cluster: TestCluster) {
    let webhook = Webhook::start(|pod| {
        let labelled = pod.pointer("/metadata/labels/app").is_some();
        let patch = json!([{"op": "remove", "path": "/metadata/labels/app"}]);
        if labelled { Verdict::Change(patch) } else { Verdict::Allow }
    });
    let webhook = webhook.await.unwrap();
    let hook = Hook { mutates: true, failure_policy: "Fail", timeout_seconds: 5 };
    webhook.register(&cluster, &hook).await.unwrap();
    cluster.apply(&json!({"replicas": 2})).await.unwrap();
    cluster.until("web", "reporting the error", |object| reports_error(object, "labels")).await.unwrap();
    // Meanwhile, complete rollouts in another namespace.
    let elsewhere = cluster.apart(&format!("{}-elsewhere", cluster.namespace)).await.unwrap();
    elsewhere.deployed(&json!({})).await.unwrap();
    for image in ["web:2", "web:3"] {
        elsewhere.set_image(image).await.unwrap();
        elsewhere.complete("web", 6).await.unwrap();
    }
    elsewhere.clear().await.unwrap();
    let created = cluster.created().await.unwrap();
    assert!(created <= 12, "{created} pods were created");
    webhook.decide_with(|_| Verdict::Allow);
    cluster.with_timeout(LONG).complete("web", 2).await.unwrap();
}

side_by_side!(
    Setting::default();
    ; only on a real server:
    an_old_set_heals_while_the_dry_run_of_the_new_template_fails,
    an_old_set_heals_while_the_dry_run_of_the_new_template_gets_no_response,
    an_old_set_heals_while_creates_of_the_new_template_fail,
    a_webhook_that_removes_labels_causes_no_endless_creates,
);
