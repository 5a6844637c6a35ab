//! Permissions are removed and granted again during a rollout: the controller reports the missing permission, does
//! nothing else, and continues when it has the permission.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use scenarios::{Server, TestCluster};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{AFTER, BEFORE, PRIORITIES, Trial, held_at, setting};

const USER: &str = "system:serviceaccount:default:controller";
/// The timeout until the server applies changed permissions. It is far longer than necessary.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A part of the permissions of the controller, in a separate role: group, resource, verbs.
type Rules = &'static [(&'static str, &'static str, &'static [&'static str])];

const OURS: &str = "ordereddeployment.io";
const READ: &[&str] = &["get", "list", "watch"];

/// The permissions to watch.
const SEES: (&str, Rules) = (
    "sees",
    &[
        (OURS, "ordereddeployments", READ),
        (OURS, "orderedreplicasets", READ),
        ("", "pods", READ),
        ("", "nodes", READ),
    ],
);
/// The permissions to create pods and to report them.
const MAKES: (&str, Rules) = (
    "makes",
    &[
        (OURS, "orderedreplicasets", &["create", "patch", "delete"]),
        (OURS, "orderedreplicasets/status", &["patch"]),
        (OURS, "ordereddeployments/finalizers", &["update"]),
        (OURS, "orderedreplicasets/finalizers", &["update"]),
        ("", "pods", &["create", "patch"]),
        ("", "events", &["create", "patch"]),
    ],
);
const DELETES: (&str, Rules) = ("deletes", &[("", "pods", &["delete"])]);
const TELLS: (&str, Rules) = ("tells", &[(OURS, "ordereddeployments/status", &["patch"])]);

const ALL: [(&str, Rules); 4] = [SEES, MAKES, DELETES, TELLS];

fn manifests((name, rules): (&str, Rules)) -> [Value; 2] {
    let allowed = |(group, resource, verbs): &(&str, &str, &[&str])| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let kind = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    let (mut role, mut binding) = (kind("ClusterRole"), kind("ClusterRoleBinding"));
    role["rules"] = rules.iter().map(allowed).collect();
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "controller", "namespace": "default"}]);
    [role, binding]
}

async fn give(cluster: &TestCluster, rights: &[(&str, Rules)]) {
    for right in rights {
        for manifest in manifests(*right) {
            cluster.kubectl.run_with(&["apply", "-f", "-"], &manifest.to_string()).await.unwrap();
        }
    }
    until_heeded(cluster, rights, true).await;
}

async fn take_away(cluster: &TestCluster, rights: &[(&str, Rules)]) {
    for (name, _) in rights {
        cluster.kubectl.run(&["delete", "clusterrolebinding", name]).await.unwrap();
    }
    until_heeded(cluster, rights, false).await;
}

/// Waits until the API server applies the change, for which there is no notification.
async fn until_heeded(cluster: &TestCluster, rights: &[(&str, Rules)], given: bool) {
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client.clone());
    let limit = Instant::now() + TIMEOUT;
    for (group, resource, verbs) in rights.iter().flat_map(|(_, rules)| rules.iter()) {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let wanted = ResourceAttributes {
            group: Some((*group).to_owned()),
            namespace: Some(cluster.namespace.clone()),
            resource: Some(resource.to_owned()),
            subresource: Some(part.to_owned()),
            verb: verbs.first().map(|verb| (*verb).to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            resource_attributes: Some(wanted),
            user: Some(USER.to_owned()),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        while reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed != given
        {
            assert!(Instant::now() < limit, "the server does not heed {resource}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Whether the status reports that the controller may not delete.
fn reports_forbidden_delete(object: &OrderedDeployment) -> bool {
    let failure = object.status.as_ref().and_then(|status| status.condition(condition::REPLICA_FAILURE));
    failure.is_some_and(|failure| {
        failure.status == ConditionStatus::True
            && failure.reason == reason::FAILED_DELETE
            && failure.message.contains("forbidden")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_continues_when_permissions_are_granted_again_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(Server::Real, setting()).await;
    trial.cluster.kubectl.run(&["create", "serviceaccount", "controller"]).await.unwrap();
    give(&trial.cluster, &ALL).await;
    trial.cluster.act_as(("default", "controller"), "default").await.unwrap();
    let cluster = trial.cluster.clone();
    let mut manager = cluster.start_manager().unwrap();
    trial.deploy().await;
    let old = trial.mark().await;

    // Without permission to delete, the controller reports this in the status and creates no more pods than allowed.
    take_away(&cluster, &[DELETES]).await;
    cluster.set_image("web:2").await.unwrap();
    cluster.until("web", "reporting the error", reports_forbidden_delete).await.unwrap();
    cluster.until_event(reason::FAILED_DELETE).await.unwrap();
    assert_eq!(cluster.deletions().await.unwrap(), []);
    assert_eq!(cluster.pods().await.unwrap().len(), 11);
    assert!(manager.runs().unwrap(), "the controller ended");
    give(&cluster, &[DELETES]).await;
    held_at(&cluster, &old[BEFORE], 3, 10).await;
    cluster.until("web", "without the error", |object| !reports_forbidden_delete(object)).await.unwrap();

    // Without any permission the controller cannot even start: it logs this and waits.
    take_away(&cluster, &ALL).await;
    cluster.proxy.rules().cut();
    manager.until_logged("forbidden").await.unwrap();
    assert!(manager.runs().unwrap(), "the controller ended");
    manager.kill().await.unwrap();
    let mut manager = cluster.start_manager().unwrap();
    manager.until_logged("forbidden").await.unwrap();
    cluster.resume().await.unwrap();
    assert!(manager.runs().unwrap(), "the controller ended");
    give(&cluster, &ALL).await;
    held_at(&cluster, &old[AFTER], 6, 10).await;

    // Without permission to write that a pause point is passed, it passes none.
    take_away(&cluster, &[TELLS]).await;
    cluster.resume().await.unwrap();
    manager.until_logged("cannot store the status").await.unwrap();
    assert_eq!(cluster.deletions().await.unwrap().len(), AFTER + 1);
    give(&cluster, &[TELLS]).await;
    cluster.complete("web", 10).await.unwrap();

    assert!(manager.runs().unwrap(), "the controller ended");
    let findings = trial.check().await;
    assert_eq!(findings.rolled, PRIORITIES);
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (20, 0, 0, 2));
    // Without a backoff it would have sent a few dozen requests within minutes.
    let requests = cluster.requests().await.unwrap();
    let refused = requests.iter().filter(|one| one.by_the_controller() && one.code == 403).count();
    println!("{refused} refused requests");
    assert!((1..200).contains(&refused), "{refused} refused requests");
}
