//! The life of the chart on a real API server, with the commands of the documentation: installed, in use,
//! upgraded, uninstalled, installed again, and installed for one namespace.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use scenarios::{Helm, Manager, Server, Setting, TestCluster};
use serde_json::json;

use super::rights::{Account, all_are_used, granted, nothing_was_refused};
use super::work::{self, complete};
use super::{CHART, documented, sets_of_values, user_roles};

const NAME: &str = "ordered-deployment";
/// The namespace in the installation guide.
const NAMESPACE: &str = "ordered-system";
/// The controller runs as a process, not in a container: it shares the ports of the machine and must not be
/// reachable from outside.
const LOCALLY: &str = "extraArgs={--metrics-bind-address=127.0.0.1:0},admissionPolicy.enabled=true";

/// A server for the chart, and Helm.
struct Installation {
    cluster: TestCluster,
    helm: Helm,
}

/// The process of the installed Deployment.
struct Program {
    account: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Installation {
    async fn start() -> Self {
        // Helm installs the CRDs.
        let setting = Setting { definitions: Vec::new(), ..Setting::default() };
        let cluster = TestCluster::with(Server::Real, setting).await.unwrap();
        let helm = Helm::on(&cluster.straight).unwrap();
        Self { cluster, helm }
    }

    /// Runs the documented helm command that starts with `start`, with more arguments.
    async fn helm(&self, start: &str, more: &[&str]) -> String {
        let command = documented(start);
        let command: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.helm.run(&command).await.unwrap()
    }

    /// Runs the documented kubectl command, with absolute paths.
    async fn kubectl(&self, start: &str, more: &[&str]) -> String {
        let whole = |word: String| {
            if word.starts_with(CHART) { scenarios::top().join(word).display().to_string() } else { word }
        };
        let command: Vec<String> = documented(start).into_iter().map(whole).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.cluster.kubectl.anywhere().run(&command).await.unwrap()
    }

    async fn install(&self) {
        let more = ["--wait", "--timeout=60s", "--set", LOCALLY];
        let start = "helm install ordered-deployment charts/ordered-deployment --namespace ordered-system";
        let said = self.helm(start, &more).await;
        assert!(said.contains("STATUS: deployed"), "{said}");
        self.kubectl("kubectl --namespace ordered-system rollout status", &["--timeout=60s"]).await;
    }

    /// Reads the Deployment in this namespace from the server.
    async fn program(&self, namespace: &str) -> Program {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client.clone(), namespace);
        let pod = deployments.get(NAME).await.unwrap().spec.unwrap().template.spec.unwrap();
        let container = pod.containers.into_iter().next().unwrap();
        let variables = container.env.into_iter().flatten();
        Program {
            account: pod.service_account_name.unwrap(),
            arguments: container.args.unwrap(),
            variables: variables.map(|one| (one.name, one.value.unwrap_or_default())).collect(),
        }
    }

    async fn crds(&self) -> Vec<CustomResourceDefinition> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.cluster.client.clone());
        let mut crds = crds.list(&ListParams::default()).await.unwrap().items;
        crds.retain(|crd| crd.spec.group == ordereddeployment_api::names::GROUP);
        crds
    }

    async fn apply_crds(&self) {
        let old: &[&str] = if self.is_old() { &["--validate=false"] } else { &[] };
        self.kubectl("kubectl apply --filename charts/ordered-deployment/crds/", old).await;
    }

    /// Whether the server has the oldest supported version: it has no CEL rules, and its kubectl does not
    /// find them in the schema.
    fn is_old(&self) -> bool {
        self.cluster.control_plane().unwrap().minor() < 23
    }
}

fn start(cluster: &TestCluster, program: &Program) -> Manager {
    Manager::exactly(&cluster.kubeconfig, &program.arguments, &program.variables).unwrap()
}

/// Starts it alone: it leads.
async fn lead(cluster: &TestCluster, program: &Program) -> Manager {
    let mut manager = start(cluster, program);
    manager.until_logged("acquired lease").await.unwrap();
    manager
}

/// Ends it like a kubelet, so that it releases the Lease.
async fn end(mut manager: Manager) {
    manager.signal("TERM").await.unwrap();
    assert!(manager.ended().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_works_as_documented_and_grants_only_used_permissions_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut installation = Installation::start().await;
    is_installed(&installation).await;
    a_second_release_for_the_same_namespaces_is_refused(&installation).await;
    the_server_accepts_every_values_file(&installation).await;
    Box::pin(does_its_work_with_exactly_its_rights(&mut installation)).await;
    is_upgraded_with_its_crds(&installation).await;
    is_uninstalled_and_leaves_crds_and_objects(&installation).await;
    Box::pin(takes_up_what_it_left(&mut installation)).await;
    Box::pin(works_in_one_namespace(&mut installation)).await;
    Box::pin(comes_back_after_its_crds_were_deleted(&installation)).await;
}

async fn is_installed(installation: &Installation) {
    installation.install().await;
    assert_eq!(installation.crds().await.len(), 2);
    let manifest = installation.helm.run(&["get", "manifest", NAME, "--namespace", NAMESPACE]).await.unwrap();
    let budget = if installation.is_old() { "policy/v1beta1" } else { "policy/v1" };
    assert!(manifest.contains(&format!("apiVersion: {budget}\nkind: PodDisruptionBudget")), "{manifest}");
    let pods: Api<Pod> = Api::namespaced(installation.cluster.client.clone(), NAMESPACE);
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 2);
}

/// Without leader election among them, two controllers would work against each other.
async fn a_second_release_for_the_same_namespaces_is_refused(installation: &Installation) {
    let second = ["install", "second", CHART, "--namespace=elsewhere", "--create-namespace", "--set"];
    let image = "image.repository=registry.example.com/ordered-controller-manager,fullnameOverride=second";
    let refused = installation.helm.run(&[&second[..], &[image]].concat()).await.unwrap_err().to_string();
    assert!(refused.contains("ClusterRole \"ordered-deployment"), "{refused}");
    assert!(refused.contains("invalid ownership metadata"), "{refused}");
}

/// As a dry run with the version of the server, which does not have the kinds of the Prometheus operator.
async fn the_server_accepts_every_values_file(installation: &Installation) {
    for name in ["team-a", "shop", "monitoring"] {
        installation.cluster.kubectl.run(&["create", "namespace", name]).await.unwrap();
    }
    let version = &installation.cluster.control_plane().unwrap().version;
    for values in sets_of_values() {
        let template = ["template", "tried", CHART, "--namespace=team-a", "--kube-version", version];
        let without = "--set=serviceMonitor.enabled=false,prometheusRule.enabled=false";
        let more = ["--values", &values, without];
        let manifests = installation.helm.run(&[&template[..], &more].concat()).await.unwrap();
        let apply = ["apply", "--dry-run=server", "--filename=-"];
        installation.cluster.kubectl.run_with(&apply, &manifests).await.unwrap();
    }
}

async fn does_its_work_with_exactly_its_rights(installation: &mut Installation) {
    let program = installation.program(NAMESPACE).await;
    let account = Account { namespace: NAMESPACE, name: &program.account };
    let granted = granted(&installation.cluster, account).await;
    installation.cluster.act_as((NAMESPACE, &program.account), "default").await.unwrap();
    let cluster = &installation.cluster;
    let first = lead(cluster, &program).await;
    let mut second = start(cluster, &program);
    second.until_logged("every watch has synced").await.unwrap();
    work::until_held(cluster).await;
    user_roles::have_the_rights_of_their_roles(cluster).await;
    user_roles::resume_only_with_permission(cluster).await;
    work::until_evicted(cluster).await;
    end(first).await;
    second.until_logged("acquired lease").await.unwrap();
    cluster.set_image("web:4").await.unwrap();
    complete(cluster, "web:4").await;
    work::adopts(cluster).await;
    end(second).await;
    all_are_used(cluster, account, &granted).await;
}

async fn is_upgraded_with_its_crds(installation: &Installation) {
    // As in an older version of the chart.
    let columns = "/spec/versions/0/additionalPrinterColumns";
    let older = json!([{"op": "remove", "path": columns}]).to_string();
    for crd in installation.crds().await {
        let patch = ["patch", "crd", &crd.name_any(), "--type=json", "-p", &older];
        installation.cluster.kubectl.run(&patch).await.unwrap();
    }
    let has_columns = async || {
        let crds = installation.crds().await;
        crds.iter().filter(|crd| crd.spec.versions[0].additional_printer_columns.is_some()).count()
    };
    let upgrade = ["--wait", "--timeout=60s", "--set", LOCALLY];
    installation.helm("helm upgrade ordered-deployment", &upgrade).await;
    assert_eq!(has_columns().await, 0, "Helm changes no CRD: that is why the guide has a command for it");
    installation.apply_crds().await;
    assert_eq!(has_columns().await, 2);
    let history = installation.helm.run(&["history", NAME, "--namespace", NAMESPACE]).await.unwrap();
    assert!(history.contains("Upgrade complete"), "{history}");
}

async fn is_uninstalled_and_leaves_crds_and_objects(installation: &Installation) {
    let pods = installation.cluster.uids().await.unwrap();
    installation.helm("helm uninstall ordered-deployment", &[]).await;
    assert_eq!(installation.crds().await.len(), 2);
    let get = ["get", "ordereddeployments", "--all-namespaces", "-oname"];
    let left = installation.cluster.kubectl.run(&get).await.unwrap();
    assert_eq!(left.trim(), "ordereddeployment.ordereddeployment.io/web");
    assert_eq!(installation.cluster.uids().await.unwrap(), pods);
}

async fn takes_up_what_it_left(installation: &mut Installation) {
    let before = installation.cluster.uids().await.unwrap();
    installation.install().await;
    let program = installation.program(NAMESPACE).await;
    installation.cluster.act_as((NAMESPACE, &program.account), "default").await.unwrap();
    let cluster = &installation.cluster;
    let manager = lead(cluster, &program).await;
    cluster.scale(11).await.unwrap();
    cluster.complete("web", 11).await.unwrap();
    let after = cluster.uids().await.unwrap();
    assert!(before.iter().all(|uid| after.contains(uid)), "it goes on with the pods that were there");
    end(manager).await;
    installation.helm("helm uninstall ordered-deployment", &[]).await;
}

async fn works_in_one_namespace(installation: &mut Installation) {
    let start_of = "helm install ordered-deployment charts/ordered-deployment --namespace team-a";
    let more = ["--wait", "--timeout=60s", "--set", LOCALLY, "--set=userRoles.create=false", "--skip-crds"];
    // With all optional features.
    let costs = [
        "--set=nodeCosts.enabled=true",
        "--set=nodeCosts.deployments[0].selector.matchLabels.tier=inference",
        "--set=nodeCosts.deployments[0].nodeCosts[0].nodeSelector.matchExpressions[0].key=node.usage",
        "--set=nodeCosts.deployments[0].nodeCosts[0].nodeSelector.matchExpressions[0].operator=Exists",
        "--set=nodeCosts.deployments[0].nodeCosts[0].deletionCost=-100",
    ];
    installation.helm(start_of, &[&more[..], &costs].concat()).await;
    let program = installation.program("team-a").await;
    // A change in a namespace that this release does not watch.
    installation.cluster.kubectl.run(&["scale", "od", "web", "--replicas=3"]).await.unwrap();
    installation.cluster.act_as(("team-a", &program.account), "shop").await.unwrap();
    let cluster = &installation.cluster;
    let manager = lead(cluster, &program).await;
    work::apply(cluster, "web:1").await;
    complete(cluster, "web:1").await;
    cluster.set_image("web:2").await.unwrap();
    complete(cluster, "web:2").await;
    work::a_plain_deployments_pods_get_their_cost(cluster, "-100").await;
    end(manager).await;
    nothing_was_refused(cluster, Account { namespace: "team-a", name: &program.account }).await;
    let other = cluster.inside("default").deployments().get("web").await.unwrap();
    let observed = other.status.unwrap().observed_generation;
    assert_ne!(other.metadata.generation, observed, "no controller watches the other namespace");
}

/// As in the guide: a user who first deletes the objects without their dependents loses no pod.
async fn comes_back_after_its_crds_were_deleted(installation: &Installation) {
    let cluster = &installation.cluster;
    let program = installation.program("team-a").await;
    let before = cluster.pods_of_image("web:2").await.unwrap();
    assert_eq!(before.len(), 10);
    for kind in ["ordereddeployments", "orderedreplicasets"] {
        installation.kubectl(&format!("kubectl delete {kind} --all --all-namespaces"), &[]).await;
    }
    installation.kubectl("kubectl delete --filename charts/ordered-deployment/crds/", &[]).await;
    assert!(installation.crds().await.is_empty());
    installation.apply_crds().await;
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl.run(&wait).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap(), before);
    let manager = lead(cluster, &program).await;
    work::apply(cluster, "web:2").await;
    complete(cluster, "web:2").await;
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap(), before);
    end(manager).await;
}
