//! An admission webhook of a real API server that fails, or does not answer: the OrderedDeployment reports
//! it, deletes no pod, and the old set replaces lost pods.

use std::net::TcpListener;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Setting, TestCluster, side_by_side};
use serde_json::json;
use tokio::time::{Instant, sleep};

/// The name of the webhook, which errors contain.
const WEBHOOK: &str = "pods.e2e.example";
/// The label of pods that the API server asks it about; the value is the namespace.
const LABEL: &str = "e2e-webhook";
/// Longer than the timeout of the webhook.
const LONG: Duration = Duration::from_secs(120);

/// Registers a webhook at this port, and waits until the API server calls it.
async fn register(cluster: &TestCluster, port: u16) {
    let name = &cluster.namespace;
    let manifest = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": WEBHOOK, "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/")},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }],
            "objectSelector": {"matchLabels": {LABEL: name}},
            "failurePolicy": "Fail", "timeoutSeconds": 2,
        }],
    });
    cluster.make(&manifest.to_string()).await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "probe", "labels": {LABEL: name}},
        "spec": {"containers": [{"name": "c", "image": "probe"}]},
    }))
    .unwrap();
    let (dry, limit) = (PostParams { dry_run: true, ..PostParams::default() }, Instant::now() + LONG);
    while cluster.api().create(&dry, &pod).await.is_ok() {
        assert!(Instant::now() < limit, "the API server does not ask the webhook of {name}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Whether a condition reports an error of the webhook.
fn reports_error(object: &OrderedDeployment) -> bool {
    let status = object.status.clone().unwrap_or_default();
    [condition::STALLED, condition::REPLICA_FAILURE].into_iter().any(|kind| {
        status
            .condition(kind)
            .is_some_and(|found| found.status == ConditionStatus::True && found.message.contains(WEBHOOK))
    })
}

/// The API server asks the webhook about pods of the new template only.
async fn an_old_set_heals(cluster: TestCluster, port: u16, surge: i32) {
    let bounds = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}});
    let pods = cluster.deployed(&json!({"replicas": 3, "strategy": bounds})).await.unwrap();
    register(&cluster, port).await;
    let template = json!({
        "metadata": {"labels": {LABEL: cluster.namespace}},
        "spec": {"containers": [{"name": "web", "image": "web:2"}]},
    });
    cluster.patch(&json!({"spec": {"template": template}})).await.unwrap();
    let slow = cluster.with_timeout(LONG);
    slow.until("web", "reporting the error", reports_error).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());

    // So many that the old set must replace them: below its floor the rollout may not.
    let floor = if surge > 0 { 3 } else { 2 };
    let lost = &pods[floor - 1..];
    for pod in lost {
        cluster.lose(pod).await.unwrap();
    }
    let healed = |pods: &[Pod]| pods.len() == floor && pods.iter().all(|pod| !lost.contains(&pod.name_any()));
    slow.until_pods("healed", healed).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), floor);

    let delete = ["delete", "validatingwebhookconfiguration", &cluster.namespace];
    cluster.kubectl.run(&delete).await.unwrap();
    let status = slow.complete("web", 3).await.unwrap().status.unwrap();
    assert_eq!(status.condition(condition::STALLED).unwrap().status, ConditionStatus::False);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 3);
}

async fn an_old_set_heals_while_the_dry_run_of_the_new_template_fails(cluster: TestCluster) {
    an_old_set_heals(cluster, scenarios::free_port().unwrap(), 0).await;
}

async fn an_old_set_heals_while_the_dry_run_of_the_new_template_gets_no_response(cluster: TestCluster) {
    // It accepts connections and never reads.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    an_old_set_heals(cluster, silent.local_addr().unwrap().port(), 0).await;
}

async fn an_old_set_heals_while_creates_of_the_new_template_fail(cluster: TestCluster) {
    an_old_set_heals(cluster, scenarios::free_port().unwrap(), 1).await;
}

side_by_side!(
    Setting::default();
    ; only on a real server:
    an_old_set_heals_while_the_dry_run_of_the_new_template_fails,
    an_old_set_heals_while_the_dry_run_of_the_new_template_gets_no_response,
    an_old_set_heals_while_creates_of_the_new_template_fail,
);
