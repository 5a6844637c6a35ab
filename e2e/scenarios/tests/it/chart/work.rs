//! Triggers each feature of the controller once.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube_runtime::wait::{await_condition, conditions};
use ordereddeployment_api::names::{GROUP, annotation, condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedReplicaSet};
use scenarios::{TestCluster, workload};
use serde_json::json;

use crate::built_in::set_budget;

async fn run(cluster: &TestCluster, arguments: &[&str]) -> String {
    cluster.kubectl.run(arguments).await.unwrap()
}

/// Waits until `web` is complete with ten pods of this image.
pub(crate) async fn complete(cluster: &TestCluster, image: &str) {
    cluster.complete("web", 10).await.unwrap();
    assert_eq!(cluster.pods_of_image(image).await.unwrap().len(), 10, "{image}");
}

/// Creates `web` with this image. Three of four pods have a priority by node; the history keeps one old
/// revision.
pub(crate) async fn apply(cluster: &TestCluster, image: &str) {
    let rule = json!({"nodeSelector": {"matchLabels": {"node.usage": "hybrid"}}, "priority": 5});
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]},
    });
    let spec = json!({
        "replicas": 10, "revisionHistoryLimit": 1, "deletionOrder": {"nodePriorities": [rule]},
        "template": template,
    });
    cluster.apply(&spec).await.unwrap();
}

/// The name of the only set of this OrderedDeployment.
async fn set_of(cluster: &TestCluster, deployment: &str) -> String {
    let selector = ListParams::default().labels(&format!("app={deployment}"));
    let sets = cluster.sets().list(&selector).await.unwrap().items;
    assert_eq!(sets.len(), 1, "{sets:?}");
    sets[0].name_any()
}

/// Runs up to the hold in the first rollout.
pub(crate) async fn until_held(cluster: &TestCluster) {
    // Equal failures of creates are one Event, which is patched.
    cluster.proxy.rules().refuse(("create", "pods"), 500, 3);
    apply(cluster, "web:1").await;
    complete(cluster, "web:1").await;
    let events: Api<Event> = cluster.api();
    let events = events.list(&ListParams::default()).await.unwrap();
    assert!(events.iter().any(|event| event.count > Some(1)), "an event published twice is one event");

    let hash = set_of(cluster, "web").await.trim_start_matches("web-").to_owned();

    // The controller reads and releases a set that no longer matches.
    let tiny =
        workload("ordereddeployment.io/v1alpha1", "OrderedDeployment", "tiny", &json!({"replicas": 0}));
    cluster.make(&tiny.to_string()).await.unwrap();
    cluster.complete("tiny", 0).await.unwrap();
    let set = set_of(cluster, "tiny").await;
    run(cluster, &["label", "ors", &set, "app-"]).await;
    let is_free = |set: Option<&OrderedReplicaSet>| set.is_some_and(|set| set.owner_references().is_empty());
    await_condition(cluster.sets(), &set, is_free).await.unwrap();
    run(cluster, &["delete", "od", "tiny"]).await;

    // The controller reads, releases and replaces a pod that no longer matches.
    let released = cluster.pods_of_image("web:1").await.unwrap().remove(0);
    run(cluster, &["label", "pod", &released, "app=other", "--overwrite"]).await;
    let is_free = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.owner_references().is_empty());
    await_condition(cluster.api::<Pod>(), &released, is_free).await.unwrap();
    run(cluster, &["delete", "pod", &released]).await;
    complete(cluster, "web:1").await;

    // After a conflict on a delete, the controller reads the pod again.
    cluster.proxy.rules().refuse(("delete", "pods"), 409, 1);
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
    cluster.make(&stray.to_string()).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.held("web").await.unwrap();
    assert_eq!(cluster.proxy.rules().faults_left(), 0, "everything went wrong that was to");
}

/// Runs from the hold on, with the first controller.
pub(crate) async fn until_evicted(cluster: &TestCluster) {
    complete(cluster, "web:2").await;
    let sets = cluster.sets();
    let of_web = ListParams::default().labels("app=web");
    let first = sets.list(&of_web).await.unwrap().items.into_iter();
    let first = first.min_by_key(|set| set.metadata.creation_timestamp.clone()).unwrap();
    let before = cluster.deletions().await.unwrap().len();
    // The controller lists the budgets of a pod with several of them.
    for name in ["one", "two"] {
        set_budget(cluster, name, ("maxUnavailable", "100%")).await;
    }
    cluster.patch(&json!({"spec": {"podDeletion": "Evict"}})).await.unwrap();
    cluster.set_image("web:3").await.unwrap();
    let (failure, why) = (condition::REPLICA_FAILURE, reason::SEVERAL_BUDGETS);
    let message = cluster.until_said(failure, ConditionStatus::True, why).await.unwrap();
    assert!(message.contains("(PodDisruptionBudgets one, two)"), "{message}");
    run(cluster, &["delete", "pdb", "one", "two"]).await;
    complete(cluster, "web:3").await;
    let evicted = cluster.deletions().await.unwrap().split_off(before);
    assert!(evicted.len() == 10 && evicted.iter().all(|one| one.evicted), "{evicted:?}");
    // The history keeps one old set, not two.
    let uid = first.uid().unwrap();
    await_condition(sets, &first.name_any(), conditions::is_deleted(&uid)).await.unwrap();
}

/// A Deployment is adopted with its pods and adopted back by a user with the documented roles. Without them
/// the command changes nothing. The controller checks whether the previous controllers are gone.
pub(crate) async fn adopts(cluster: &TestCluster) {
    let mut plain = workload("apps/v1", "Deployment", "moved", &json!({"replicas": 2}));
    plain["spec"]["template"]["spec"]["containers"][0]["image"] = "moved:1".into();
    cluster.make(&plain.to_string()).await.unwrap();
    cluster.rolled_out("moved").await.unwrap();
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
    let user = format!("system:serviceaccount:{namespace}:{account}");
    cluster.until_may(&user, ("list", "apps", "deployments"), true).await.unwrap();
    let plugin = cluster.plugin_of_account(account).await.unwrap();
    let adopt = ["adopt", "deployment/moved"];
    let refused = plugin.fails(1, &adopt).await.unwrap();
    assert!(refused.contains(": create orderedreplicasets, delete orderedreplicasets\n"), "{refused}");
    assert!(refused.contains("ordered-deployment-adopter"), "{refused}");
    assert!(cluster.deployments().get_opt("moved").await.unwrap().is_none(), "nothing is touched");
    bind("ordered-deployment-adopter").await;
    cluster.until_may(&user, ("delete", GROUP, "orderedreplicasets"), true).await.unwrap();
    plugin.ok(&adopt).await.unwrap();
    cluster.complete("moved", 2).await.unwrap();
    for more in [&["--back"][..], &[]] {
        plugin.ok(&[&adopt, more].concat()).await.unwrap();
    }
    cluster.complete("moved", 2).await.unwrap();
    assert_eq!(cluster.pods_of_image("moved:1").await.unwrap(), pods);
    run(cluster, &["delete", "od", "moved"]).await;
    let of_moved = |pod: &Pod| pod.labels().get("app").is_some_and(|app| app == "moved");
    cluster.until_pods("gone with moved", |pods| !pods.iter().any(of_moved)).await.unwrap();
}

/// With the rules of the release, for pods of a Deployment with the label `tier=inference` on nodes of any
/// pool.
pub(crate) async fn a_plain_deployments_pods_get_their_cost(cluster: &TestCluster, cost: &str) {
    let mut plain = workload("apps/v1", "Deployment", "plain", &json!({"replicas": 2}));
    plain["metadata"]["labels"] = json!({"tier": "inference"});
    cluster.make(&plain.to_string()).await.unwrap();
    let has_cost =
        |pod: &&Pod| pod.annotations().get(annotation::POD_DELETION_COST).is_some_and(|it| it == cost);
    cluster.until_pods("two at a cost", |pods| pods.iter().filter(has_cost).count() == 2).await.unwrap();
}
