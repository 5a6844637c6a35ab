//! Triggers each feature of the controller once.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use kube_runtime::wait::{await_condition, conditions};
use ordereddeployment_api::names::{annotation, condition};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use scenarios::TestCluster;
use scenarios::proxy::RequestMatcher;
use serde_json::{Value, json};

use super::user_roles;
use crate::built_in::version;

/// Three of four pods have a priority by node; the history keeps one old revision.
const MANIFEST: &str = "\
apiVersion: ordereddeployment.io/v1alpha1
kind: OrderedDeployment
metadata: {name: web}
spec:
  replicas: 10
  revisionHistoryLimit: 1
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  deletionOrder:
    nodePriorities: [{nodeSelector: {matchLabels: {node.usage: hybrid}}, priority: 5}]
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'web:1'}]}
";

async fn run(cluster: &TestCluster, arguments: &[&str]) -> String {
    let namespace = ["--namespace", &cluster.namespace];
    cluster.kubectl.run(&[&namespace, arguments].concat()).await.unwrap()
}

fn api<K>(cluster: &TestCluster) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Waits until `web` is complete with ten pods of this image.
pub(crate) async fn complete(cluster: &TestCluster, image: &str) -> OrderedDeployment {
    let done = cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image(image).await.unwrap().len(), 10, "{image}");
    done
}

/// Creates `web` with ten pods.
pub(crate) async fn apply(cluster: &TestCluster) {
    make(cluster, MANIFEST).await;
}

/// Creates `web` with this image.
pub(crate) async fn apply_of(cluster: &TestCluster, image: &str) {
    make(cluster, &MANIFEST.replace("web:1", image)).await;
}

async fn make(cluster: &TestCluster, manifest: &str) {
    let apply = ["--namespace", &cluster.namespace, "apply", "-f", "-"];
    cluster.kubectl.run_with(&apply, manifest).await.unwrap();
}

/// The name of the only set of this OrderedDeployment.
async fn set_of(cluster: &TestCluster, deployment: &str) -> String {
    let selector = ListParams::default().labels(&format!("app={deployment}"));
    let sets = api::<OrderedReplicaSet>(cluster).list(&selector).await.unwrap().items;
    assert_eq!(sets.len(), 1, "{sets:?}");
    sets[0].name_any()
}

/// Patches `web`.
pub(crate) async fn patch(cluster: &TestCluster, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    run(cluster, &["patch", "od", "web", "--type=merge", "-p", &patch]).await;
}

/// The change that starts a rollout to this image.
pub(crate) fn image(image: &str) -> Value {
    json!({"template": {"spec": {"containers": [{"name": "web", "image": image}]}}})
}

/// Runs up to the hold in the first rollout.
pub(crate) async fn until_held(cluster: &TestCluster) {
    // Equal failures of creates are one Event, which is patched.
    cluster.proxy.rules().refuse(RequestMatcher::new("create", "pods"), 500, 3);
    apply(cluster).await;
    complete(cluster, "web:1").await;
    let events: Api<Event> = api(cluster);
    let events = events.list(&ListParams::default()).await.unwrap();
    assert!(events.iter().any(|event| event.count > Some(1)), "an event published twice is one event");

    let hash = set_of(cluster, "web").await.trim_start_matches("web-").to_owned();

    // The controller reads and releases a set that no longer matches.
    make(cluster, &MANIFEST.replace("web", "tiny").replace("replicas: 10", "replicas: 0")).await;
    cluster.complete("tiny", 0).await.unwrap();
    let set = set_of(cluster, "tiny").await;
    run(cluster, &["label", "ors", &set, "app-"]).await;
    let is_free = |set: Option<&OrderedReplicaSet>| set.is_some_and(|set| set.owner_references().is_empty());
    await_condition(api::<OrderedReplicaSet>(cluster), &set, is_free).await.unwrap();
    run(cluster, &["delete", "od", "tiny"]).await;

    // The controller reads, releases and replaces a pod that no longer matches.
    let released = cluster.pods_of_image("web:1").await.unwrap().remove(0);
    run(cluster, &["label", "pod", &released, "app=other", "--overwrite"]).await;
    let is_free = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.owner_references().is_empty());
    await_condition(api::<Pod>(cluster), &released, is_free).await.unwrap();
    run(cluster, &["delete", "pod", &released]).await;
    complete(cluster, "web:1").await;

    // After a conflict on a delete, the controller reads the pod again.
    cluster.proxy.rules().refuse(RequestMatcher::new("delete", "pods"), 409, 1);
    let point = cluster.pods_of_image("web:1").await.unwrap().remove(0);
    let last = ["ordereddeployment.io/delete-priority=-1", "ordereddeployment.io/pause-point=before"];
    run(cluster, &[&["annotate", "pod", &point], &last[..]].concat()).await;
    // The controller adopts an orphan that matches and reads its node, which does not exist.
    let stray = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stray", "labels": {"app": "web", "pod-template-hash": hash}},
        "spec": {
            "nodeName": "nowhere", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "web", "image": "web:1"}],
        },
    });
    make(cluster, &stray.to_string()).await;
    patch(cluster, &image("web:2")).await;
    cluster.held("web").await.unwrap();
    assert_eq!(cluster.proxy.rules().faults_left(), 0, "everything went wrong that was to");
}

/// Runs from the hold on, with the first controller.
pub(crate) async fn until_evicted(cluster: &TestCluster) {
    complete(cluster, "web:2").await;
    let sets: Api<OrderedReplicaSet> = api(cluster);
    let of_web = ListParams::default().labels("app=web");
    let first = sets.list(&of_web).await.unwrap().items.into_iter();
    let first = first.min_by_key(|set| set.metadata.creation_timestamp.clone()).unwrap();
    let mut spec = image("web:3");
    spec["podDeletion"] = "Evict".into();
    let before = cluster.deletions().await.unwrap().len();
    // The controller lists the budgets of a pod with several of them.
    let version = version(cluster, &["policy/v1", "policy/v1beta1"]).await;
    for name in ["one", "two"] {
        let budget = json!({
            "apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": "100%"},
        });
        make(cluster, &budget.to_string()).await;
    }
    patch(cluster, &spec).await;
    let are_named = |object: &OrderedDeployment| {
        let condition =
            object.status.as_ref().and_then(|status| status.condition(condition::REPLICA_FAILURE)).cloned();
        condition.is_some_and(|one| one.message.contains("(PodDisruptionBudgets one, two)"))
    };
    cluster.until("web", "refused, with the names of both budgets", are_named).await.unwrap();
    run(cluster, &["delete", "pdb", "one", "two"]).await;
    complete(cluster, "web:3").await;
    let evicted = cluster.deletions().await.unwrap().split_off(before);
    assert!(evicted.len() == 10 && evicted.iter().all(|one| one.evicted), "{evicted:?}");
    // The history keeps one old set, not two.
    let uid = first.uid().unwrap();
    await_condition(sets, &first.name_any(), conditions::is_deleted(&uid)).await.unwrap();
}

/// A Deployment is adopted with its pods and adopted back by a user with the documented roles. Without them the command
/// changes nothing. The controller checks whether the previous controllers are gone.
pub(crate) async fn adopts(cluster: &TestCluster) {
    let manifest = MANIFEST.replace("web", "moved").replace("replicas: 10", "replicas: 2");
    let (head, rest) = manifest.split_once("  deletionOrder").unwrap();
    let (_, template) = rest.split_once("  template").unwrap();
    let plain = format!("{head}  template{template}")
        .replace("ordereddeployment.io/v1alpha1", "apps/v1")
        .replace("OrderedDeployment", "Deployment");
    make(cluster, &plain).await;
    run(cluster, &["rollout", "status", "deployment/moved", "--timeout=60s"]).await;
    let pods = cluster.pods_of_image("moved:1").await.unwrap();

    let (namespace, account) = (cluster.namespace.as_str(), "mover");
    run(cluster, &["create", "serviceaccount", account]).await;
    let subject = format!("{namespace}:{account}");
    let bind = async |role: &str| {
        let name = format!("{account}-{role}");
        run(cluster, &["create", "rolebinding", &name, "--clusterrole", role, "--serviceaccount", &subject])
            .await;
    };
    bind("edit").await;
    let kubeconfig =
        cluster.control_plane().unwrap().kubeconfig_of_account(namespace, account).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig).unwrap();
    let adopt = async |more: &[&str]| {
        let mut adopt = tokio::process::Command::new(scenarios::beside_the_test("kubectl-ordered").unwrap());
        adopt.args(["adopt", "deployment/moved", "--namespace", namespace, "--kubeconfig"]).arg(file.path());
        let adopted = adopt.args(more).kill_on_drop(true).output().await.unwrap();
        (adopted.status.success(), String::from_utf8_lossy(&adopted.stderr).into_owned())
    };
    // The authorizer sees a binding with a delay.
    let refused = ": create orderedreplicasets, delete orderedreplicasets\n";
    let limit = tokio::time::Instant::now() + user_roles::TIMEOUT;
    let mut said = adopt(&[]).await;
    while !said.1.contains(refused) && tokio::time::Instant::now() < limit {
        said = adopt(&[]).await;
    }
    assert!(said.1.contains(refused) && said.1.contains("ordered-deployment-adopter"), "{said:?}");
    assert!(cluster.deployments().get_opt("moved").await.unwrap().is_none(), "nothing is touched");
    bind("ordered-deployment-adopter").await;
    while !said.0 && tokio::time::Instant::now() < limit {
        said = adopt(&[]).await;
    }
    assert!(said.0, "{said:?}");
    cluster.complete("moved", 2).await.unwrap();
    for more in [&["--back"][..], &[]] {
        let said = adopt(more).await;
        assert!(said.0, "{said:?}");
    }
    cluster.complete("moved", 2).await.unwrap();
    assert_eq!(cluster.pods_of_image("moved:1").await.unwrap(), pods);
    run(cluster, &["delete", "od", "moved"]).await;
    let of_moved = |pod: &Pod| pod.labels().get("app").is_some_and(|app| app == "moved");
    cluster.until_pods("gone with moved", |pods| !pods.iter().any(of_moved)).await.unwrap();
}

/// With the rules of the release, for pods of a Deployment with the label `tier=inference` on nodes of any pool.
pub(crate) async fn a_plain_deployments_pods_get_their_cost(cluster: &TestCluster, cost: &str) {
    let plain = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "plain", "labels": {"tier": "inference"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "plain"}},
            "template": {
                "metadata": {"labels": {"app": "plain"}},
                "spec": {"containers": [{"name": "main", "image": "plain:1"}]},
            },
        },
    });
    make(cluster, &plain.to_string()).await;
    let has_cost =
        |pod: &&Pod| pod.annotations().get(annotation::POD_DELETION_COST).is_some_and(|it| it == cost);
    cluster.until_pods("two at a cost", |pods| pods.iter().filter(has_cost).count() == 2).await.unwrap();
}
