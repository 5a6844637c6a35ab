//! Permissions are removed and granted again during a rollout: the controller reports the missing permission,
//! does nothing else, and continues when it has the permission.

use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{GROUP, condition, reason};
use scenarios::{TestCluster, condition_of};

use super::{AFTER, BEFORE, PRIORITIES, Trial, held_at, setting};

const USER: &str = "system:serviceaccount:default:controller";

/// A part of the permissions of the controller, in a role of its own: the role, its verbs, its resources, and
/// one of its permissions.
type Right = (&'static str, &'static str, &'static str, (&'static str, &'static str, &'static str));

const SEES: Right = (
    "sees",
    "get,list,watch",
    "pods,nodes,ordereddeployments.ordereddeployment.io,orderedreplicasets.ordereddeployment.io",
    ("list", "", "pods"),
);
const MAKES: Right = ("makes", "create,patch", "pods,events", ("create", "", "pods"));
const KEEPS: Right = (
    "keeps",
    "create,patch,delete,update",
    "orderedreplicasets.ordereddeployment.io,orderedreplicasets.ordereddeployment.io/status,\
     orderedreplicasets.ordereddeployment.io/finalizers,ordereddeployments.ordereddeployment.io/finalizers",
    ("create", GROUP, "orderedreplicasets"),
);
const DELETES: Right = ("deletes", "delete", "pods", ("delete", "", "pods"));
const TELLS: Right = (
    "tells",
    "patch",
    "ordereddeployments.ordereddeployment.io/status",
    ("patch", GROUP, "ordereddeployments/status"),
);
const ALL: [Right; 5] = [SEES, MAKES, KEEPS, DELETES, TELLS];

async fn give(cluster: &TestCluster, rights: &[Right]) {
    for (role, _, _, permission) in rights {
        let bind = ["create", "clusterrolebinding", role, "--clusterrole", role, "--user", USER];
        cluster.kubectl.run(&bind).await.unwrap();
        cluster.until_may(USER, *permission, true).await.unwrap();
    }
}

async fn take_away(cluster: &TestCluster, rights: &[Right]) {
    for (role, _, _, permission) in rights {
        cluster.kubectl.run(&["delete", "clusterrolebinding", role]).await.unwrap();
        cluster.until_may(USER, *permission, false).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_continues_when_permissions_are_granted_again_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    trial.cluster.kubectl.run(&["create", "serviceaccount", "controller"]).await.unwrap();
    for (role, verbs, resources, _) in ALL {
        let create = ["create", "clusterrole", role, "--verb", verbs, "--resource", resources];
        trial.cluster.kubectl.run(&create).await.unwrap();
    }
    give(&trial.cluster, &ALL).await;
    trial.cluster.act_as(("default", "controller"), "default").await.unwrap();
    let cluster = trial.cluster.clone();
    let mut manager = cluster.start_manager().unwrap();
    trial.deploy().await;
    let old = trial.mark().await;

    // Without permission to delete, the controller reports this in the status and creates no more pods than
    // allowed.
    take_away(&cluster, &[DELETES]).await;
    cluster.set_image("web:2").await.unwrap();
    let (failure, why) = (condition::REPLICA_FAILURE, reason::FAILED_DELETE);
    let message = cluster.until_said(failure, ConditionStatus::True, why).await.unwrap();
    assert!(message.contains("forbidden"), "{message}");
    cluster.until_event(reason::FAILED_DELETE).await.unwrap();
    assert_eq!(cluster.deletions().await.unwrap(), []);
    assert_eq!(cluster.pods().await.unwrap().len(), 11);
    assert!(manager.runs().unwrap(), "the controller ended");
    give(&cluster, &[DELETES]).await;
    held_at(&cluster, &old[BEFORE], 3, 10).await;
    let is_gone = |object: &_| condition_of(object, failure).is_none_or(|one| one.reason != why);
    cluster.until("web", "without the error", is_gone).await.unwrap();

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
    trial.ends(&PRIORITIES, [20, 0, 0, 2]).await;
    // Without a backoff it would have sent a few dozen requests within minutes.
    let requests = cluster.requests().await.unwrap();
    let refused = requests.iter().filter(|one| one.by_the_controller() && one.code == 403).count();
    println!("{refused} refused requests");
    assert!((1..200).contains(&refused), "{refused} refused requests");
}
