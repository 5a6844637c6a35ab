//! The controller `nodecosts`: pods of selected plain Deployments get a deletion cost that depends on their
//! node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::names::{annotation, reason};
use scenarios::{Manager, Server, TestCluster, node_of, workload};
use serde_json::json;

/// From this minor version on, the Kubernetes ReplicaSet controller reads the deletion cost.
const READS_COSTS: u32 = 22;

fn rules(cost: i32) -> String {
    format!(
        "deployments:\n\
         - selector: {{matchLabels: {{tier: inference}}}}\n  \
           nodeCosts:\n  \
           - {{nodeSelector: {{matchLabels: {{node.usage: hybrid}}}}, deletionCost: {cost}}}\n"
    )
}

async fn write_rules(cluster: &TestCluster, text: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "costs"},
        "data": {"nodecosts.yaml": text},
    });
    cluster.make(&map.to_string()).await.unwrap();
}

/// A plain Deployment.
async fn deployment(cluster: &TestCluster, name: &str, tier: &str, replicas: usize) {
    let mut deployment = workload("apps/v1", "Deployment", name, &json!({"replicas": replicas}));
    deployment["metadata"]["labels"] = json!({"tier": tier});
    cluster.make(&deployment.to_string()).await.unwrap();
}

fn annotated<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.annotations().get(key).map(String::as_str)
}

fn is_of(pod: &Pod, app: &str) -> bool {
    pod.labels().get("app").is_some_and(|found| found == app)
}

/// Waits until the pods of `web` on nodes with this usage have this cost and all others have none, except the
/// pods with their own value.
async fn until_costs(
    cluster: &TestCluster,
    usage: &str,
    cost: Option<i32>,
    own: &BTreeMap<String, &str>,
) -> Vec<Pod> {
    let nodes = cluster.pool(usage).await.unwrap();
    let cost = cost.map(|cost| cost.to_string());
    let is_there = |pod: &Pod| nodes.contains(node_of(pod));
    let right = |pod: &Pod| {
        let written = cost.as_deref().filter(|_| is_of(pod, "web") && is_there(pod));
        let wanted = own.get(&pod.name_any()).copied().or(written);
        !node_of(pod).is_empty() && annotated(pod, annotation::POD_DELETION_COST) == wanted
    };
    let what = format!("at {cost:?} on {nodes:?}");
    let pods = cluster.until_pods(&what, |pods| pods.len() == 11 && pods.iter().all(right)).await.unwrap();
    pods.into_iter().filter(|pod| is_of(pod, "web") && is_there(pod)).collect()
}

fn start(cluster: &TestCluster, controllers: &str) -> Manager {
    let config = format!("--node-costs-config={}/costs", cluster.namespace);
    cluster.start_manager_with(&[controllers, &config]).unwrap()
}

/// Changes the usage label of a node, as an administrator would.
async fn relabel(cluster: &TestCluster, node: &str, usage: &str) {
    let label = format!("node.usage={usage}");
    cluster.kubectl.run(&["label", "node", node, &label, "--overwrite"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_selected_deployments_get_the_cost_of_their_node_and_other_values_remain_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let cluster = TestCluster::start(Server::Real).await.unwrap();
    let manager = start(&cluster, "--controllers=ordereddeployment,nodecosts");
    write_rules(&cluster, &rules(-100)).await;
    deployment(&cluster, "web", "inference", 9).await;
    deployment(&cluster, "other", "web", 2).await;
    let no_changes = BTreeMap::new();
    let shared = until_costs(&cluster, "hybrid", Some(-100), &no_changes).await;
    assert!((2..9).contains(&shared.len()), "the scheduler spreads them over both pools: {shared:#?}");

    // A changed label takes effect immediately.
    let node = node_of(&shared[0]);
    relabel(&cluster, node, "inference").await;
    assert!(until_costs(&cluster, "hybrid", Some(-100), &no_changes).await.len() < shared.len());
    relabel(&cluster, node, "hybrid").await;
    until_costs(&cluster, "hybrid", Some(-100), &no_changes).await;

    // The controller keeps the values of other clients, both those that replace its own and those on other
    // pods.
    let pods = cluster.pods().await.unwrap();
    let free = pods.iter().find(|pod| annotated(pod, annotation::POD_DELETION_COST).is_none()).unwrap();
    let own = BTreeMap::from([(shared[0].name_any(), "42"), (free.name_any(), "7")]);
    for (pod, cost) in &own {
        let cost = format!("{}={cost}", annotation::POD_DELETION_COST);
        cluster.kubectl.run(&["annotate", "pod", pod, &cost, "--overwrite"]).await.unwrap();
    }
    write_rules(&cluster, &rules(-7)).await;
    until_costs(&cluster, "hybrid", Some(-7), &own).await;

    // With malformed rules the previous ones stay in force, even after a restart of the controller.
    write_rules(&cluster, "deployments: [{nodeCosts: [{deletionCost: 1}]}]").await;
    cluster.until_event(reason::MALFORMED_RULES).await.unwrap();
    manager.kill().await.unwrap();
    let mut manager = start(&cluster, "--controllers=nodecosts");
    manager.until_logged("MalformedRules").await.unwrap();
    until_costs(&cluster, "hybrid", Some(-7), &own).await;

    // On servers that read the cost, a scale-down removes pods of the shared pool first.
    write_rules(&cluster, &rules(-7)).await;
    if cluster.control_plane().unwrap().minor() >= READS_COSTS {
        let cost = format!("{}-", annotation::POD_DELETION_COST);
        cluster.kubectl.run(&["annotate", "pod", &free.name_any(), &cost]).await.unwrap();
        let left = 9 - shared.len() + 1;
        cluster.kubectl.run(&["scale", "deployment", "web", &format!("--replicas={left}")]).await.unwrap();
        let gone = |pods: &[Pod]| pods.iter().filter(|pod| is_of(pod, "web")).count() == left;
        let pods = cluster.until_pods("scaled down", gone).await.unwrap();
        assert!(shared[1..].iter().all(|pod| pods.iter().all(|found| found.uid() != pod.uid())), "{pods:#?}");
        return manager.kill().await.unwrap();
    }

    // Without rules, the controller removes all its values and keeps those of other clients.
    cluster.kubectl.run(&["delete", "configmap", "costs"]).await.unwrap();
    until_costs(&cluster, "hybrid", None, &own).await;
    let is_clean = |pods: &[Pod]| pods.iter().all(|pod| annotated(pod, annotation::NODE_COST).is_none());
    cluster.until_pods("without a mark of ours", is_clean).await.unwrap();
    manager.kill().await.unwrap();
}
