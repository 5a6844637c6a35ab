//! Deletion costs of plain Deployments by node. The scenarios show how they follow nodes and rules, and leave
//! other clients' values.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::{annotation, reason};
use ordereddeployment_controller::{NodeCosts, Options, health};
use ordereddeployment_kubernetes::{Clock, Names};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const RULES: &str = "\
deployments:
- selector: {matchLabels: {tier: inference}}
  nodeCosts:
  - {nodeSelector: {matchLabels: {node.usage: hybrid}}, deletionCost: -100}
";

struct Bench {
    cluster: Cluster,
    run: tokio::task::JoinHandle<()>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Bench {
    /// A Deployment with a pod on each node, created by hand: the sandbox has no Deployment controller.
    async fn start() -> Self {
        let cluster = Cluster::without_controller().await;
        let bench = Self { run: Self::control(&cluster), cluster };
        bench.write_rules(RULES).await;
        let template = json!({"metadata": {"labels": {"app": "web"}},
                              "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
        let web: Deployment = bench
            .create(json!({"metadata": {"name": "web", "labels": {"tier": "inference"}}, "spec": spec}))
            .await;
        let owner = |kind: &str, name: &str, uid: Option<String>| {
            json!([{"apiVersion": "apps/v1",
            "kind": kind, "name": name, "uid": uid, "controller": true}])
        };
        let owners = owner("Deployment", "web", web.uid());
        let set: ReplicaSet = bench
            .create(json!({"metadata": {"name": "web-1", "ownerReferences": owners}, "spec": spec}))
            .await;
        let owners = owner("ReplicaSet", "web-1", set.uid());
        let nodes: Api<Node> = Api::all(bench.cluster.client.clone());
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            let usage = node.labels()["node.usage"].clone();
            let name = format!("{usage}-{}", node.name_any());
            let _: Pod = bench
                .create(json!({
                    "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owners},
                    "spec": {"nodeName": node.name_any(), "containers": [{"name": "main", "image": "web:1"}]},
                }))
                .await;
        }
        bench
    }

    fn control(cluster: &Cluster) -> tokio::task::JoinHandle<()> {
        let base = "2030-01-01T00:00:00Z".parse().unwrap();
        let mut options = Options::new(std::sync::Arc::clone(&cluster.metrics));
        options.clock = Clock::simulated(base);
        options.names = Names::seeded(7);
        options.health = health(&[], true);
        let costs = NodeCosts { config_namespace: "default".to_owned(), config_name: "costs".to_owned() };
        let run = costs.run(cluster.sandbox.client().unwrap(), options, std::future::pending());
        tokio::spawn(async move { run.await.unwrap() })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::default_namespaced(self.cluster.client.clone())
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + serde::Serialize
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    async fn write_rules(&self, text: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "costs"},
                         "data": {"nodecosts.yaml": text}});
        let api: Api<ConfigMap> = self.api();
        if api.get_opt("costs").await.unwrap().is_none() {
            let _: ConfigMap = self.create(map).await;
        } else {
            api.patch("costs", &PatchParams::default(), &Patch::Merge(map)).await.unwrap();
        }
        self.wait_for_controller().await;
    }

    async fn wait_for_controller(&self) {
        self.cluster.pass(Duration::from_secs(5)).await;
    }

    /// The costs of the pods of that pool, written by the controller or by another client.
    async fn costs(&self, pool: &str) -> Vec<Option<String>> {
        self.wait_for_controller().await;
        let pods = self.cluster.all_pods().await;
        let pods = pods.iter().filter(|pod| pod.name_any().starts_with(pool));
        pods.map(|pod| pod.annotations().get(annotation::POD_DELETION_COST).cloned()).collect()
    }

    async fn all_have(&self, pool: &str, cost: Option<&str>) {
        let costs = self.costs(pool).await;
        assert!(!costs.is_empty() && costs.iter().all(|found| found.as_deref() == cost), "{pool}: {costs:?}");
    }

    async fn label_deployment(&self, tier: &str) {
        let api: Api<Deployment> = self.api();
        let patch = Patch::Merge(json!({"metadata": {"labels": {"tier": tier}}}));
        api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cost_is_written_once_and_follows_the_labels_of_the_deployment() {
    let bench = Bench::start().await;
    bench.all_have("hybrid", Some("-100")).await;
    bench.all_have("inference", None).await;
    let mark = bench.cluster.mark();
    bench.cluster.pass(Duration::from_secs(120)).await;
    assert_eq!(bench.cluster.asked(mark, "patch", "pods").len(), 0);
    bench.label_deployment("other").await;
    bench.all_have("hybrid", None).await;
    bench.label_deployment("inference").await;
    bench.all_have("hybrid", Some("-100")).await;
}

#[tokio::test(start_paused = true)]
async fn malformed_rules_are_reported_and_leave_the_previous_ones_in_force() {
    let bench = Bench::start().await;
    bench.write_rules("deployments: [{nodeCosts: [{deletionCost: 1}]}]").await;
    bench.all_have("hybrid", Some("-100")).await;
    let messages = bench.cluster.events_of(reason::MALFORMED_RULES).await;
    assert!(messages.len() == 1 && messages[0].contains("deployments[0].nodeCosts[0]"), "{messages:?}");
    let gauge = |value| format!("ordereddeployment_node_cost_config_invalid {value}\n");
    assert!(bench.cluster.metrics.render().unwrap().contains(&gauge(1)));
    bench.write_rules(&RULES.replace("-100", "-7")).await;
    bench.all_have("hybrid", Some("-7")).await;
    assert!(bench.cluster.metrics.render().unwrap().contains(&gauge(0)));
}
