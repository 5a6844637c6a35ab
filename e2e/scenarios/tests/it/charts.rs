//! Deployments as common Helm charts render them: converted, adopted while they run, applied again, rolled out in
//! order, and adopted back. The Kubernetes Deployment controller runs on both servers.
#![cfg(feature = "real-servers")]

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use scenarios::{Setting, TestCluster, side_by_side};

/// The manifests of a chart, and how a user manages them.
struct Chart {
    manifest: &'static str,
    /// The name of the Deployment.
    name: &'static str,
    /// What the next release changes: the old and the new text.
    release: (&'static str, &'static str),
    replicas: i32,
    /// Whether `kubectl apply` created the Deployment. Its annotation then has the applied manifest; otherwise, as with
    /// Helm, the user must pass the manifest.
    applied: bool,
}

async fn uids(cluster: &TestCluster) -> BTreeSet<String> {
    cluster.pods().await.unwrap().iter().filter_map(ResourceExt::uid).collect()
}

impl Chart {
    async fn rolled_out(&self, cluster: &TestCluster) {
        let status = ["rollout", "status", &format!("deployment/{}", self.name), "--timeout=60s"];
        cluster.kubectl.run(&status).await.unwrap();
    }

    /// From the first apply to the return to a Deployment.
    async fn lives(self, cluster: TestCluster) {
        let _built_in = cluster.start_built_in("deployment,replicaset").unwrap();
        let verb = if self.applied { "apply" } else { "create" };
        cluster.kubectl.run_with(&[verb, "-f", "-"], self.manifest).await.unwrap();
        self.rolled_out(&cluster).await;
        let (pods, turnover) = (uids(&cluster).await, cluster.turnover().await.unwrap());
        assert_eq!(pods.len(), usize::try_from(self.replicas).unwrap());
        let (converted, _) = cluster.ordered_with(&["convert", "-f", "-"], self.manifest).await.unwrap();

        let target = format!("deployment/{}", self.name);
        let file: &[&str] = if self.applied { &[] } else { &["-f", "-"] };
        let adopt = [&["adopt", target.as_str()], file].concat();
        let (_, notes) = cluster.ordered_with(&adopt, self.manifest).await.unwrap();
        assert!(!notes.contains("a rollout"), "{notes}");
        cluster.complete(self.name, self.replicas).await.unwrap();
        assert_eq!(
            (uids(&cluster).await, cluster.turnover().await.unwrap()),
            (pods.clone(), turnover.clone())
        );

        // The converted manifest has no changes.
        cluster.kubectl.run_with(&["apply", "-f", "-"], &converted).await.unwrap();
        let object = cluster.complete(self.name, self.replicas).await.unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision, 1);
        assert_eq!((uids(&cluster).await, cluster.turnover().await.unwrap()), (pods.clone(), turnover));
        let sets: Api<OrderedReplicaSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);

        // The next release rolls out in the chosen order.
        let mut order: Vec<String> =
            cluster.pods().await.unwrap().iter().map(ResourceExt::name_any).collect();
        order.sort_by_key(|name| name.chars().rev().collect::<String>());
        for (priority, pod) in (1..).zip(order.iter().rev()) {
            cluster.prioritise(pod, priority).await.unwrap();
        }
        let (before, after) = self.release;
        let released = converted.replace(before, after);
        assert_ne!(released, converted);
        cluster.kubectl.run_with(&["apply", "-f", "-"], &released).await.unwrap();
        let object = cluster.complete(self.name, self.replicas).await.unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision, 2);
        assert_eq!(cluster.deleted().await.unwrap(), order);
        let pods = uids(&cluster).await;

        // A Deployment of the new release again, with its history.
        let turnover = cluster.turnover().await.unwrap();
        cluster.ordered_with(&["adopt", &target, "--back"], "").await.unwrap();
        self.rolled_out(&cluster).await;
        cluster.kubectl.run_with(&["apply", "-f", "-"], &self.manifest.replace(before, after)).await.unwrap();
        self.rolled_out(&cluster).await;
        assert_eq!((uids(&cluster).await, cluster.turnover().await.unwrap()), (pods, turnover));
        let sets: Api<ReplicaSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
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

async fn an_ingress_controller_on_host_ports_is_adopted_and_rolls_out(cluster: TestCluster) {
    let chart = Chart {
        manifest: include_str!("charts/ingress.yaml"),
        name: "edge-ingress-controller",
        release: ("controller:v1.9.4", "controller:v1.9.5"),
        replicas: 3,
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

/// Without the manifest, the command notes that it cannot predict the next apply; with another manifest, it lists the
/// differences.
async fn a_dry_run_reports_a_manifest_that_differs_from_the_deployment(cluster: TestCluster) {
    let _built_in = cluster.start_built_in("deployment,replicaset").unwrap();
    let manifest = include_str!("charts/inference.yaml");
    cluster.kubectl.run_with(&["create", "-f", "-"], manifest).await.unwrap();
    cluster.kubectl.run(&["rollout", "status", "deployment/llm", "--timeout=60s"]).await.unwrap();
    let dry = |file: &'static [&'static str]| [&["adopt", "deployment/llm", "--dry-run"], file].concat();
    let (_, output) = cluster.ordered_with(&dry(&[]), "").await.unwrap();
    assert!(output.contains("note: the manifest of llm is not known"), "{output}");
    let other = manifest.replace("server:7.0", "server:6.9");
    let (_, output) = cluster.ordered_with(&dry(&["-f", "-"]), &other).await.unwrap();
    assert!(output.contains("template.spec.containers[0].image differs"), "{output}");
    let (_, output) = cluster.ordered_with(&dry(&["-f", "-"]), manifest).await.unwrap();
    assert!(!output.contains("note: "), "{output}");
    // An apply keeps fields that other clients have added since.
    cluster.kubectl.run(&["rollout", "restart", "deployment/llm"]).await.unwrap();
    cluster.kubectl.run(&["rollout", "status", "deployment/llm", "--timeout=60s"]).await.unwrap();
    let (_, output) = cluster.ordered_with(&dry(&["-f", "-"]), manifest).await.unwrap();
    assert!(!output.contains("note: "), "{output}");
    let pods = uids(&cluster).await;
    cluster.ordered_with(&["adopt", "llm", "-f", "-"], manifest).await.unwrap();
    let (converted, _) = cluster.ordered_with(&["convert", "-f", "-"], manifest).await.unwrap();
    cluster.kubectl.run_with(&["apply", "-f", "-"], &converted).await.unwrap();
    let object = cluster.complete("llm", 3).await.unwrap();
    assert_eq!(object.status.unwrap().rollout.unwrap().revision, 2);
    assert_eq!(uids(&cluster).await, pods);
    let error = cluster.ordered_with(&["adopt", "llm", "-f", "-"], "kind: ConfigMap").await.unwrap_err();
    assert!(error.to_string().contains("the manifest has no Deployment llm"), "{error}");
}

side_by_side!(
    Setting::default();
    a_web_application_with_a_sidecar_and_migrations_is_adopted_and_rolls_out,
    an_ingress_controller_on_host_ports_is_adopted_and_rolls_out,
    an_inference_service_of_another_tool_is_adopted_and_rolls_out,
    a_dry_run_reports_a_manifest_that_differs_from_the_deployment,
);
