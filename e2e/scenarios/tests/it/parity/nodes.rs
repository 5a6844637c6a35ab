//! Nodes that evict pods, dead nodes, and template fields that an older server does not support.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_sandbox::agents::nodes;
use ordereddeployment_sandbox::{Clock, NodeSpec};
use scenarios::{TestCluster, node_of};
use serde_json::{Value, json};

use super::{RESERVED, in_pool, reserved};

pub(super) async fn pods_evicted_by_a_no_execute_taint_are_replaced_on_other_nodes(cluster: TestCluster) {
    let pods =
        cluster.deployed(&json!({"replicas": 4, "template": in_pool(RESERVED, &json!({}))})).await.unwrap();
    assert!(cluster.pods().await.unwrap().iter().any(|pod| node_of(pod) == "r1"), "spread over both");
    cluster.kubectl.run(&["taint", "nodes", "r1", "maintenance=now:NoExecute"]).await.unwrap();
    let left = |pods: &[Pod]| pods.len() == 4 && pods.iter().all(|pod| node_of(pod) == "r2");
    let moved = cluster.until_pods("all on the other node", left).await.unwrap();
    assert!(moved.iter().any(|pod| pods.contains(&pod.name_any())), "those that were there stay");
    cluster.complete("web", 4).await.unwrap();
    let deletions = cluster.deletions().await.unwrap();
    assert!(!deletions.iter().any(scenarios::Deletion::by_the_controller), "{deletions:?}");
    cluster.kubectl.run(&["taint", "nodes", "r1", "maintenance-"]).await.unwrap();
}

pub(super) async fn a_pod_stuck_on_a_dead_node_is_named_if_creates_wait_for_it(cluster: TestCluster) {
    // The node has no kubelet. The node controller waits 40 seconds without heartbeats.
    let (pool, name) = (format!("{}-dead", cluster.namespace), format!("{}-n1", cluster.namespace));
    let labels = NodeSpec::in_pool(&name, &pool).labels;
    let dead = NodeSpec { labels, ..reserved(&name) };
    let seen = async || {
        nodes::register(&cluster.client, &Clock::system(), std::slice::from_ref(&dead)).await.unwrap();
    };
    seen().await;
    let template = in_pool(&pool, &json!({"terminationGracePeriodSeconds": 1}));
    let spec = json!({
        "replicas": 2, "template": template, "podReplacementPolicy": "TerminationComplete",
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    });
    cluster.apply(&spec).await.unwrap();
    let there = |count: usize| {
        move |pods: &[Pod]| pods.iter().filter(|pod| !node_of(pod).is_empty()).count() == count
    };
    for pod in cluster.until_pods("two on the node", there(2)).await.unwrap() {
        cluster.set_running(&pod.name_any()).await.unwrap();
    }
    cluster.complete("web", 2).await.unwrap();
    let stuck = cluster.pods().await.unwrap()[0].name_any();
    cluster.kubectl.run(&["delete", "pod", &stuck, "--wait=false"]).await.unwrap();
    let (type_, why) = (condition::STALLED, reason::POD_STUCK_TERMINATING);
    let message = cluster.until_said(type_, ConditionStatus::True, why).await.unwrap();
    assert!(message.contains(&stuck) && message.contains(&name) && message.contains("--force"), "{message}");
    assert_eq!(cluster.pods().await.unwrap().len(), 1, "nothing comes in its place");
    seen().await;
    cluster.kubectl.run(&["delete", "pod", &stuck, "--force", "--grace-period=0"]).await.unwrap();
    for pod in cluster.until_pods("two again", there(2)).await.unwrap() {
        assert_ne!(pod.name_any(), stuck);
        cluster.set_running(&pod.name_any()).await.unwrap();
    }
    cluster.complete("web", 2).await.unwrap();
    cluster.until_said(type_, ConditionStatus::False, reason::NOT_STALLED).await.unwrap();
    cluster.kubectl.anywhere().run(&["delete", "node", &name]).await.unwrap();
}

/// The pods as the server has them: the types here do not have all fields.
async fn raw_pods(cluster: &TestCluster) -> Vec<Value> {
    let list = cluster.kubectl.run(&["get", "pods", "-o", "json"]).await.unwrap();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

/// Fields that Kubernetes 1.36 has and 1.20 drops from pods. A resize in place changes a pod, and no
/// template.
pub(super) async fn fields_of_newer_servers_start_no_second_rollout(cluster: TestCluster) {
    let spec = json!({
        "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}],
        "hostUsers": false,
        "resources": {"requests": {"cpu": "20m"}},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"],
        }],
    });
    let fields = ["/spec/hostUsers", "/spec/resources", "/spec/topologySpreadConstraints/0/matchLabelKeys"];
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    cluster.deployed(&json!({"replicas": 2, "template": template})).await.unwrap();
    match cluster.control_plane() {
        Some(plane) if plane.minor() >= 36 => {
            for pod in raw_pods(&cluster).await {
                for field in fields {
                    assert_eq!(pod.pointer(field), template.pointer(field), "{field}");
                }
                let resources = |cpu: &str| json!([{"name": "web", "resources": {"requests": {"cpu": cpu}}}]);
                let name = pod["metadata"]["name"].as_str().unwrap();
                // A kubelet that can resize reports what a container has.
                for (subresource, change) in [
                    ("--subresource=status", json!({"status": {"containerStatuses": resources("10m")}})),
                    ("--subresource=resize", json!({"spec": {"containers": resources("15m")}})),
                ] {
                    let patch = ["patch", "pod", name, subresource, "-p", &change.to_string()];
                    cluster.kubectl.run(&patch).await.unwrap();
                }
            }
        }
        Some(_) => cluster.until_event(reason::UNKNOWN_FIELDS).await.unwrap(),
        // The sandbox stores all fields.
        None => {}
    }
    cluster.scale(3).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    let object = cluster.deployments().get("web").await.unwrap();
    let sets = cluster.sets();
    let sets = sets.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 1, "one template, one set");
    for field in fields {
        assert_eq!(object.spec.template.value().pointer(field), template.pointer(field));
        assert_eq!(sets[0].spec.template.value().pointer(field), template.pointer(field));
    }
    assert_eq!(object.status.unwrap().rollout.unwrap().revision, 1);
    assert_eq!(cluster.created().await.unwrap(), 3);
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
}
