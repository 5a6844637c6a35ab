//! Scenarios with separate controllers, each for one namespace, on one real control plane.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::names::reason;
use scenarios::proxy::{Moment, RequestMatcher};
use scenarios::{Hook, Manager, Server, Setting, TestCluster, Verdict, Webhook};
use serde_json::{Value, json};

/// A namespace and the proxy of a controller that does not run yet.
async fn apart(base: &TestCluster, name: &str) -> TestCluster {
    base.apart(name).await.unwrap().behind_another_proxy().await.unwrap()
}

fn start(cluster: &TestCluster) -> Manager {
    cluster.start_manager_with(&["--namespace", &cluster.namespace]).unwrap()
}

/// A scale-down of 120 pods to zero is reverted while it runs.
async fn a_reverted_scale_to_zero_stops_quickly(base: &TestCluster) {
    const PODS: i32 = 120;
    let cluster = apart(base, "taken-back").await.with_timeout(Duration::from_secs(120));
    let _manager = start(&cluster);
    let pods = cluster.deployed(&json!({"replicas": PODS})).await.unwrap();
    let mut trap =
        cluster.proxy.rules().trap(RequestMatcher::new("delete", "pods"), 20, Moment::BeforeRequest);
    cluster.scale(0).await.unwrap();
    trap.reached().await;
    // The trap stops the scale-down, and the API server has the new generation.
    cluster.scale(PODS).await.unwrap();
    trap.release();
    cluster.complete("web", PODS).await.unwrap();
    let deleted = cluster.deleted().await.unwrap().len();
    println!("{deleted} of {} pods were deleted", pods.len());
    assert!((20..80).contains(&deleted), "{deleted} pods were deleted");
}

/// All permissions of the controller except `patch` on pods.
fn role(verbs_on_pods: &[&str]) -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "may-not-adopt"},
        "rules": [
            rule("ordereddeployment.io", &["*"], &["*"]),
            rule("", &["pods"], verbs_on_pods),
            rule("", &["podtemplates"], &["create"]),
            rule("", &["nodes"], &["get", "list", "watch"]),
            rule("", &["events"], &["create", "patch"]),
            rule("policy", &["*"], &["get", "list", "watch"]),
        ],
    })
}

const WITHOUT_PATCH: [&str; 5] = ["get", "list", "watch", "create", "delete"];

async fn grant(cluster: &TestCluster, role: &Value) {
    cluster.kubectl.run_with(&["apply", "-f", "-"], &role.to_string()).await.unwrap();
}

async fn orphans_that_the_controller_may_not_adopt_are_not_replaced(base: &TestCluster) {
    let mut cluster = apart(base, "may-not-adopt").await;
    cluster.kubectl.run(&["create", "serviceaccount", "controller"]).await.unwrap();
    grant(&cluster, &role(&WITHOUT_PATCH)).await;
    let account = format!("{}:controller", cluster.namespace);
    let bind = ["create", "clusterrolebinding", "may-not-adopt", "--clusterrole=may-not-adopt"];
    cluster.kubectl.run(&[&bind[..], &["--serviceaccount", &account]].concat()).await.unwrap();
    let namespace = cluster.namespace.clone();
    cluster.act_as((&namespace, "controller"), &namespace).await.unwrap();
    let mut manager = start(&cluster);
    let pods = cluster.deployed(&json!({"replicas": 4})).await.unwrap();
    let sets = cluster.kubectl.run(&["get", "ors", "-o", "name"]).await.unwrap();
    cluster.kubectl.run(&["delete", sets.trim(), "--cascade=orphan"]).await.unwrap();
    manager.until_logged("forbidden").await.unwrap();

    grant(&cluster, &role(&[&WITHOUT_PATCH[..], &["patch"]].concat())).await;
    let adopted = |pods: &[Pod]| pods.iter().all(|pod| !pod.owner_references().is_empty());
    let adopted = cluster.until_pods("adopted", adopted).await.unwrap();
    assert_eq!(adopted.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), pods);
    cluster.complete("web", 4).await.unwrap();
    assert_eq!((cluster.created().await.unwrap(), cluster.deleted().await.unwrap()), (4, Vec::new()));
}

/// Without the proxy: the API server sees it when the client of the controller gives up a request.
async fn an_ignored_webhook_without_a_response_only_delays_requests(base: &TestCluster) {
    let cluster = base.apart("black-hole").await.unwrap().with_timeout(Duration::from_secs(120));
    let webhook = Webhook::start(|_| Verdict::Allow).await.unwrap();
    let hook = Hook { mutates: false, failure_policy: "Ignore", timeout_seconds: 10 };
    webhook.register(&cluster, &hook).await.unwrap();
    webhook.decide_with(|_| Verdict::Silence);
    let _manager = Manager::start(cluster.straight(), &["--namespace", &cluster.namespace]).unwrap();
    cluster.apply(&json!({"replicas": 2})).await.unwrap();
    cluster.complete("web", 2).await.unwrap();
    assert_eq!(cluster.created().await.unwrap(), 2);
    cluster.until_event(reason::SUCCESSFUL_CREATE).await.unwrap();
    let reasons = cluster.event_reasons().await.unwrap();
    assert!(!reasons.iter().any(|one| one == reason::FAILED_CREATE), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn separate_controllers_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let base = TestCluster::with(Server::Real, Setting::default()).await.unwrap();
    let scenarios: [(&str, LocalBoxFuture<'_, ()>); 3] = [
        ("taken back", Box::pin(a_reverted_scale_to_zero_stops_quickly(&base))),
        ("not adopted", Box::pin(orphans_that_the_controller_may_not_adopt_are_not_replaced(&base))),
        ("ignored", Box::pin(an_ignored_webhook_without_a_response_only_delays_requests(&base))),
    ];
    // A panic fails only one scenario; the others continue.
    let played = scenarios
        .map(async |(name, scenario)| AssertUnwindSafe(scenario).catch_unwind().await.err().map(|_| name));
    let failed: Vec<&str> = join_all(played).await.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{failed:?}");
}
