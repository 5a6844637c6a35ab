//! Deployments as common Helm charts render them: converted, adopted while they run, applied again, rolled
//! out in order, and adopted back. Each adoption is interrupted at every write.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use scenarios::{Setting, TestCluster, side_by_side};

/// The writes of an adoption, and of its return, if an autoscaler is there.
const ADOPTION: [(&str, &str); 5] = [
    ("create", "ordereddeployments"),
    ("create", "orderedreplicasets"),
    ("delete", "deployments"),
    ("delete", "replicasets"),
    ("patch", "horizontalpodautoscalers"),
];
const RETURN: [(&str, &str); 9] = [
    ("create", "replicasets"),
    ("patch", "ordereddeployments"),
    ("patch", "pods"),
    ("patch", "replicasets"),
    ("create", "deployments"),
    ("patch", "deployments"),
    ("patch", "horizontalpodautoscalers"),
    ("delete", "ordereddeployments"),
    ("delete", "orderedreplicasets"),
];

/// The manifests of a chart, and how a user manages them.
struct Chart {
    manifest: &'static str,
    /// The name of the Deployment.
    name: &'static str,
    /// What the next release changes: the old and the new text.
    release: (&'static str, &'static str),
    replicas: i32,
    /// Whether `kubectl apply` created the Deployment. Its annotation then has the applied manifest;
    /// otherwise, as with Helm, the user must pass the manifest.
    applied: bool,
}

/// The pods, and who created or deleted pods so far.
async fn pods_and_turnover(cluster: &TestCluster) -> (BTreeSet<String>, Vec<String>) {
    (cluster.uids().await.unwrap(), cluster.turnover().await.unwrap())
}

impl Chart {
    /// Runs `kubectl ordered adopt`, interrupted after each of these writes in turn. Returns the notes of the
    /// last run.
    async fn adopt(
        &self,
        cluster: &TestCluster,
        more: &[&str],
        writes: &[(&'static str, &'static str)],
    ) -> String {
        let beside = cluster.behind_another_proxy().await.unwrap();
        let (plugin, rules) = (beside.plugin_behind_the_proxy().unwrap(), beside.proxy.rules());
        let target = format!("deployment/{}", self.name);
        let adopt = [&["adopt", target.as_str()], more].concat();
        for (verb, plural) in writes {
            rules.lose_answer((*verb, *plural));
            let printed = plugin.run_with(&adopt, self.manifest).await.unwrap();
            assert!(printed.code != 0 && rules.faults_left() == 0, "{verb} {plural}: {printed:?}");
        }
        let printed = plugin.run_with(&adopt, self.manifest).await.unwrap();
        assert_eq!(printed.code, 0, "{printed:?}");
        printed.err
    }

    /// Fails if the autoscaler has a target of another kind.
    async fn is_scaled_as(&self, cluster: &TestCluster, kind: &str) {
        let get = ["get", "hpa", self.name, "-o", "jsonpath={.spec.scaleTargetRef.kind}"];
        assert_eq!(cluster.kubectl.run(&get).await.unwrap(), kind);
    }

    /// From the first apply to the return to a Deployment.
    async fn lives(self, cluster: TestCluster) {
        let verb = if self.applied { "apply" } else { "create" };
        cluster.kubectl.run_with(&[verb, "-f", "-"], self.manifest).await.unwrap();
        let autoscale = ["autoscale", "deployment", self.name, "--min=1", "--max=20"];
        cluster.kubectl.run(&autoscale).await.unwrap();
        cluster.rolled_out(self.name).await.unwrap();
        let before = pods_and_turnover(&cluster).await;
        assert_eq!(before.0.len(), usize::try_from(self.replicas).unwrap());
        let converted =
            cluster.plugin().unwrap().ok_with(&["convert", "-f", "-"], self.manifest).await.unwrap().out;

        let file: &[&str] = if self.applied { &[] } else { &["-f", "-"] };
        let notes = self.adopt(&cluster, file, &ADOPTION).await;
        assert!(!notes.contains("a rollout"), "{notes}");
        cluster.complete(self.name, self.replicas).await.unwrap();
        assert_eq!(pods_and_turnover(&cluster).await, before);
        self.is_scaled_as(&cluster, "OrderedDeployment").await;

        // The converted manifest has no changes.
        cluster.make(&converted).await.unwrap();
        let object = cluster.complete(self.name, self.replicas).await.unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision, 1);
        assert_eq!(pods_and_turnover(&cluster).await, before);
        let sets: Vec<OrderedReplicaSet> = cluster.sets().list(&ListParams::default()).await.unwrap().items;
        assert_eq!(sets.len(), 1);

        // The next release rolls out in the chosen order.
        let mut order = cluster.names().await.unwrap();
        order.sort_by_key(|name| name.chars().rev().collect::<String>());
        cluster.prioritise_in_order(&order).await.unwrap();
        let (old, new) = self.release;
        let released = converted.replace(old, new);
        assert_ne!(released, converted);
        cluster.make(&released).await.unwrap();
        let object = cluster.complete(self.name, self.replicas).await.unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision, 2);
        assert_eq!(cluster.deleted().await.unwrap(), order);

        // A Deployment of the new release again, with its history.
        let before = pods_and_turnover(&cluster).await;
        self.adopt(&cluster, &["--back"], &RETURN).await;
        cluster.rolled_out(self.name).await.unwrap();
        self.is_scaled_as(&cluster, "Deployment").await;
        cluster.make(&self.manifest.replace(old, new)).await.unwrap();
        cluster.rolled_out(self.name).await.unwrap();
        assert_eq!(pods_and_turnover(&cluster).await, before);
        let sets: Api<ReplicaSet> = cluster.api();
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
        let owners = cluster.pods().await.unwrap();
        assert!(owners.iter().all(|pod| pod.owner_references()[0].kind == "ReplicaSet"), "{owners:?}");
    }
}

async fn a_web_application_with_a_sidecar_and_migrations_is_adopted_and_rolls_out(cluster: TestCluster) {
    let chart = Chart {
        manifest: include_str!("charts/web.yaml"),
        name: "shop-web",
        release: ("web:2.7.0", "web:2.8.0"),
        replicas: 4,
        applied: true,
    };
    Box::pin(chart.lives(cluster)).await;
}

async fn an_inference_service_of_another_tool_is_adopted_and_rolls_out(cluster: TestCluster) {
    let chart = Chart {
        manifest: include_str!("charts/inference.yaml"),
        name: "llm",
        release: ("server:7.0", "server:7.1"),
        replicas: 3,
        applied: false,
    };
    Box::pin(chart.lives(cluster)).await;
}

/// An apply keeps fields that other clients have added since, and starts no rollout after an adoption.
async fn a_restarted_deployment_is_adopted_with_its_manifest(cluster: TestCluster) {
    let manifest = include_str!("charts/inference.yaml");
    cluster.kubectl.run_with(&["create", "-f", "-"], manifest).await.unwrap();
    cluster.rolled_out("llm").await.unwrap();
    cluster.kubectl.run(&["rollout", "restart", "deployment/llm"]).await.unwrap();
    cluster.rolled_out("llm").await.unwrap();
    let dry = ["adopt", "deployment/llm", "--dry-run", "-f", "-"];
    let plugin = cluster.plugin().unwrap();
    let output = plugin.ok_with(&dry, manifest).await.unwrap().err;
    assert!(!output.contains("note: "), "{output}");
    // The Deployment controller has counted two revisions, and old pods may still terminate.
    let all_new = |pods: &[k8s_openapi::api::core::v1::Pod]| pods.len() == 3;
    cluster.until_pods("three", all_new).await.unwrap();
    let pods = cluster.uids().await.unwrap();
    plugin.ok_with(&["adopt", "llm", "-f", "-"], manifest).await.unwrap();
    let converted = plugin.ok_with(&["convert", "-f", "-"], manifest).await.unwrap().out;
    cluster.make(&converted).await.unwrap();
    let object = cluster.complete("llm", 3).await.unwrap();
    assert_eq!(object.status.unwrap().rollout.unwrap().revision, 2);
    assert_eq!(cluster.uids().await.unwrap(), pods);
}

side_by_side!(
    Setting::default();
    ; only on a real server:
    a_web_application_with_a_sidecar_and_migrations_is_adopted_and_rolls_out,
    an_inference_service_of_another_tool_is_adopted_and_rolls_out,
    a_restarted_deployment_is_adopted_with_its_manifest,
);
