//! A running Deployment becomes an OrderedDeployment and a Deployment again while the Kubernetes controllers run. The
//! sandbox has no such controllers, so the scenario starts the real ones next to it.
//!
//! The tests of the command line interrupt the same steps after every single write, without these binaries.
#![cfg(feature = "real-servers")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt;
use scenarios::proxy::RequestMatcher;
use scenarios::real::BuiltIn;
use scenarios::{Proxy, Server, TestCluster, on_both};
use tokio::process::Command;

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'web:1', ports: [{containerPort: 80}], readinessProbe: {tcpSocket: {port: 80}}}]
";

/// Not on the sandbox, which has no autoscalers.
const AUTOSCALER: &str = "\
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {minReplicas: 2, maxReplicas: 20, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
";

/// A server, and the command line behind a proxy that interrupts it.
struct Bench {
    cluster: TestCluster,
    proxy: Proxy,
    folder: tempfile::TempDir,
    has_autoscalers: bool,
    _built_in: Option<BuiltIn>,
}

impl Bench {
    /// Starts the server with a Deployment `web` of ten ready pods.
    async fn start(server: Server) -> Self {
        let cluster = TestCluster::start(server).await.unwrap();
        let built_in = cluster.start_built_in("deployment,replicaset").unwrap();
        let straight = std::fs::read_to_string(cluster.straight()).unwrap();
        let proxy = Proxy::start(&straight).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config"), proxy.kubeconfig(&cluster.namespace)).unwrap();
        cluster.kubectl.run_with(&["apply", "-f", "-"], DEPLOYMENT).await.unwrap();
        let has_autoscalers = server == Server::Real;
        if has_autoscalers {
            cluster.kubectl.run_with(&["apply", "-f", "-"], AUTOSCALER).await.unwrap();
        }
        cluster.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
        Self { cluster, proxy, folder, has_autoscalers, _built_in: built_in }
    }

    /// Runs `kubectl ordered adopt deployment/web`. Returns whether it succeeded, and its output.
    async fn adopt(&self, back: bool) -> (bool, String) {
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new(own.ancestors().nth(2).unwrap().join("kubectl-ordered"));
        command.args(["adopt", "deployment/web", "--kubeconfig"]).arg(self.folder.path().join("config"));
        command.args(back.then_some("--back")).kill_on_drop(true);
        let output = command.output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Interrupts the command after each of these writes in turn, then lets it finish.
    async fn interrupted_at(&self, writes: &[(&'static str, &'static str)], back: bool) {
        let absent = |plural: &str| plural == "horizontalpodautoscalers" && !self.has_autoscalers;
        for (verb, plural) in writes.iter().filter(|(_, plural)| !absent(plural)) {
            self.proxy.rules().lose_answers(RequestMatcher::new(verb, plural), 1);
            let (done, text) = self.adopt(back).await;
            assert!(!done && self.proxy.rules().faults_left() == 0, "{verb} {plural}: {text}");
        }
        let (done, text) = self.adopt(back).await;
        assert!(done, "{text}");
    }

    async fn pods(&self) -> BTreeSet<String> {
        self.cluster.pods().await.unwrap().iter().map(|pod| pod.uid().unwrap()).collect()
    }

    async fn turnover(&self) -> Vec<String> {
        self.cluster.turnover().await.unwrap()
    }

    async fn owners(&self) -> BTreeMap<String, usize> {
        let mut owners = BTreeMap::new();
        for pod in self.cluster.pods().await.unwrap() {
            let owner = pod.owner_references().first().map(|owner| owner.kind.clone());
            *owners.entry(owner.unwrap_or_default()).or_default() += 1;
        }
        owners
    }

    /// Fails if the autoscaler has a target of another kind.
    async fn is_scaled_as(&self, kind: &str) {
        if self.has_autoscalers {
            let path = "jsonpath={.spec.scaleTargetRef.kind}";
            assert_eq!(self.cluster.kubectl.run(&["get", "hpa", "web", "-o", path]).await.unwrap(), kind);
        }
    }
}

async fn an_adoption_and_its_return_complete_after_an_interruption_at_every_write(server: Server) {
    let bench = Bench::start(server).await;
    let cluster = &bench.cluster;
    let manager = cluster.start_manager().unwrap();
    let kubectl = &cluster.kubectl;
    let (pods, before) = (bench.pods().await, bench.turnover().await);
    assert_eq!(pods.len(), 10);

    let forward = [
        ("create", "ordereddeployments"),
        ("create", "orderedreplicasets"),
        ("delete", "deployments"),
        ("delete", "replicasets"),
        ("patch", "horizontalpodautoscalers"),
    ];
    bench.interrupted_at(&forward, false).await;
    assert_eq!((bench.pods().await, bench.turnover().await), (pods.clone(), before.clone()));
    assert_eq!(bench.owners().await, [("OrderedReplicaSet".to_owned(), 10)].into());
    bench.is_scaled_as("OrderedDeployment").await;
    cluster.complete("web", 10).await.unwrap();

    // Back to a Deployment with the same pods.
    let back = [
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
    bench.interrupted_at(&back, true).await;
    assert_eq!((bench.pods().await, bench.turnover().await), (pods.clone(), before.clone()));
    assert_eq!(bench.owners().await, [("ReplicaSet".to_owned(), 10)].into());
    bench.is_scaled_as("Deployment").await;
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();

    // Adopt again without an interruption, then roll out in the deletion order.
    let (done, text) = bench.adopt(false).await;
    assert!(done, "{text}");
    assert_eq!((bench.pods().await, bench.turnover().await), (pods, before));
    cluster.complete("web", 10).await.unwrap();
    let first = cluster.pods().await.unwrap()[6].name_any();
    kubectl.run(&["annotate", "pod", &first, "ordereddeployment.io/delete-priority=5"]).await.unwrap();
    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}"#;
    kubectl.run(&["patch", "od", "web", "--type=merge", "-p", image]).await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 10);
    let deletions = cluster.deletions().await.unwrap();
    assert_eq!(deletions[0].pod, first);
    assert!(deletions.iter().all(scenarios::Deletion::by_the_controller), "{deletions:?}");
    manager.kill().await.unwrap();
}

async fn a_pod_lost_after_the_adopting_command_was_killed_is_replaced(server: Server) {
    let bench = Bench::start(server).await;
    let cluster = &bench.cluster;
    let manager = cluster.start_manager().unwrap();
    for (verb, plural) in [
        ("create", "ordereddeployments"),
        ("create", "orderedreplicasets"),
        ("delete", "deployments"),
        ("delete", "replicasets"),
    ] {
        bench.proxy.rules().lose_answers(RequestMatcher::new(verb, plural), 1);
        assert!(!bench.adopt(false).await.0, "{verb} {plural}");
        let lost = cluster.pods().await.unwrap()[0].name_any();
        cluster.kubectl.run(&["delete", "pod", &lost, "--wait=true"]).await.unwrap();
        let healed = async {
            while cluster.pods().await.unwrap().len() != 10 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), healed)
            .await
            .unwrap_or_else(|_| panic!("{verb} {plural}"));
    }
    assert!(bench.adopt(false).await.0);
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(bench.owners().await, [("OrderedReplicaSet".to_owned(), 10)].into());
    manager.kill().await.unwrap();
}

on_both!(
    an_adoption_and_its_return_complete_after_an_interruption_at_every_write,
    a_pod_lost_after_the_adopting_command_was_killed_is_replaced,
);
