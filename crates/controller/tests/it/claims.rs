//! Ownership of pods: release, adoption, and an object deleted with orphan propagation.

use std::time::Duration;

use http::Method;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::{condition, reason};
use serde_json::json;

use crate::cluster::{Cluster, View, names, spec_of};
use crate::fault_injector::{RequestFault, RequestInfo};

#[tokio::test(start_paused = true)]
async fn a_pod_relabelled_during_a_reconciliation_is_released_and_not_deleted() {
    for method in [Method::DELETE, Method::GET] {
        let (cluster, pods) = Cluster::with_pods(3).await;
        cluster.prioritise(&pods[1], 9).await;
        cluster.pass(Duration::from_secs(1)).await;
        cluster.sandbox.delay_watch("pods", Duration::from_secs(20));
        let relabel = Patch::Merge(json!({"metadata": {"labels": {"app": "quarantine"}}}));
        let (taken, api) = (pods[1].clone(), cluster.pods());
        if method == Method::GET {
            // The delete meets a conflict first, and the read after it shows other labels.
            let (name, api) = (pods[1].clone(), cluster.pods());
            cluster.faults.before(Method::DELETE, "/pods/", async move {
                let write = Patch::Merge(json!({"metadata": {"annotations": {"other": "x"}}}));
                api.patch(&name, &PatchParams::default(), &write).await.unwrap();
            });
        }
        cluster.faults.before(method, "/pods/", async move {
            api.patch(&taken, &PatchParams::default(), &relabel).await.unwrap();
        });
        cluster.scale(2).await;
        cluster.pass(Duration::from_secs(60)).await;
        let released = cluster.pods().get(&pods[1]).await.unwrap();
        assert_eq!(released.owner_references(), []);
        assert_eq!(cluster.view().await.active().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_go_while_another_one_is_released_do_not_count_for_a_scale_down() {
    let (mut cluster, pods) = Cluster::with_pods(6).await;
    let (api, released, gone) = (cluster.pods(), format!("/pods/{}", pods[0]), pods[1..3].to_vec());
    let mut reads = 0;
    cluster.faults.rule(move |info| {
        reads += usize::from(info.is(&Method::GET, &released));
        // The first read is a live read's, the second one that of the release.
        if reads != 2 || !info.is(&Method::GET, &released) {
            return RequestFault::None;
        }
        let (api, gone) = (api.clone(), gone.clone());
        RequestFault::After(Box::pin(async move {
            for name in gone {
                api.delete(&name, &DeleteParams::default().grace_period(0)).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }))
    });
    // The controller sees both changes at once.
    cluster.kill();
    cluster.patch_pod(&pods[0], json!({"metadata": {"labels": {"app": "quarantine"}}})).await;
    let mark = cluster.mark();
    cluster.scale(4).await;
    cluster.start_controller();
    let view = cluster.until_complete().await;
    assert_eq!(view.active().len(), 4);
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
}

async fn label_set(cluster: &Cluster, name: &str, app: &str) {
    let relabel = json!({"metadata": {"labels": {"app": app}}});
    cluster.merge::<OrderedReplicaSet>(name, relabel).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_relabelled_by_hand_is_released_with_its_pods_and_adopted_again_when_labelled_back() {
    let (cluster, pods) = Cluster::with_pods(3).await;
    let set = cluster.all_sets().await[0].name_any();
    label_set(&cluster, &set, "quarantine").await;
    // Its name stays taken: the new set has another hash, as a Deployment's would.
    let replaced = |view: &View| {
        view.status().collision_count == Some(1) && view.updated().len() == 3 && view.is_complete()
    };
    let view = cluster.until("there are three others", replaced).await;
    assert_eq!(view.pods.len(), 6, "the released ones run on");
    let released = cluster.sets().get(&set).await.unwrap();
    assert_eq!(released.owner_references(), []);
    assert_eq!(released.spec.replicas, 3);
    assert_eq!(view.status().replicas, Some(3));

    label_set(&cluster, &set, "web").await;
    let view = cluster.until("it is taken again", |view| view.pods.len() == 3 && view.is_complete()).await;
    assert_eq!(cluster.sets().get(&set).await.unwrap().owner_references().len(), 1);
    // Of two sets with one template the older one is the current one.
    assert_eq!(names(&view.pods), pods);
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_set_with_the_same_hash_is_adopted_with_its_pods() {
    // The order of the sets' UIDs is random: here each order occurs.
    for drawn in 0..4 {
        let cluster = Cluster::start().await;
        for index in 0..drawn {
            cluster.deploy_as(&format!("other-{index}"), spec_of("other", "web:1", 0)).await;
        }
        let pods = names(&cluster.deployed(json!({"replicas": 2})).await);
        let mark = cluster.mark();
        cluster.deploy_as("api", json!({"replicas": 2})).await;
        cluster.pass(Duration::from_secs(30)).await;
        cluster.deployments().delete("web", &DeleteParams::orphan()).await.unwrap();
        cluster.pass(Duration::from_secs(30)).await;
        // The pods of both sets are of the current template: two of the four stay, by the order.
        let there = || async { cluster.all_pods().await };
        let left = names(&there().await);
        assert!(left.len() == 2 && left.iter().any(|pod| pods.contains(pod)), "{left:?}");
        cluster.delete_pod(&left[0]).await;
        cluster.pass(Duration::from_secs(30)).await;
        assert_eq!(there().await.len(), 2);
        // Two for the new set, and one for the lost pod.
        assert_eq!((cluster.asked(mark, "create", "pods").len(), cluster.deleted(mark).len()), (3, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn pods_orphaned_by_a_set_are_adopted_by_the_set_that_replaces_it() {
    let (cluster, pods) = Cluster::with_pods(3).await;
    let set = cluster.all_sets().await[0].name_any();
    let mark = cluster.mark();
    // The set appears after the watch has shown the pods.
    cluster.refuse("create", "orderedreplicasets", 500, 5);
    cluster.sets().delete(&set, &DeleteParams::orphan()).await.unwrap();
    cluster.pass(Duration::from_secs(10)).await;
    let there = cluster.view().await;
    assert_eq!(names(&there.pods), pods);
    assert!(there.is_complete() && there.pods.iter().all(|pod| pod.owner_references().len() == 1));
    assert!(cluster.asked(mark, "create", "pods").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_seen_as_orphans_after_the_new_set_was_created_are_adopted_by_it_too() {
    let (cluster, _) = Cluster::with_pods(3).await;
    let set = cluster.all_sets().await[0].name_any();
    // The pods are released, and the other set is created; the watches show it two and four seconds later.
    cluster.sandbox.delay_watch("orderedreplicasets", Duration::from_secs(4));
    cluster.sandbox.delay_watch("pods", Duration::from_secs(2));
    cluster.sets().delete(&set, &DeleteParams::orphan()).await.unwrap();
    cluster.pass(Duration::from_secs(40)).await;
    let there = cluster.view().await;
    assert!(there.pods.iter().all(|pod| pod.owner_references().len() == 1), "{:?}", names(&there.pods));
    assert!(there.is_complete() && there.active().len() == 3);
}

/// The owner references of all sets and pods.
async fn owners(cluster: &Cluster) -> Vec<String> {
    let sets = cluster.all_sets().await;
    let pods = cluster.all_pods().await;
    let owners = sets.iter().flat_map(ResourceExt::owner_references);
    owners
        .chain(pods.iter().flat_map(ResourceExt::owner_references))
        .map(|owner| owner.name.clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_object_with_an_invalid_spec_adopts_nothing_until_it_is_valid() {
    let cluster = Cluster::start().await;
    // The server accepts any spec, like one without validation rules.
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    cluster.change_schema(|fields| fields["spec"] = any).await;
    let pods = names(&cluster.deployed(json!({"replicas": 3})).await);
    let set = cluster.all_sets().await[0].name_any();
    // Pods of an own set, and then that set.
    cluster.patch(json!({"spec": {"minReadySeconds": -1}})).await;
    cluster.pass(Duration::from_secs(5)).await;
    free(&cluster, &pods[..1]).await;
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(owners(&cluster).await.len(), 3);
    cluster.merge::<OrderedReplicaSet>(&set, json!({"metadata": {"ownerReferences": null}})).await;
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(owners(&cluster).await, [set.clone(), set]);
    cluster.patch(json!({"spec": {"minReadySeconds": 0}})).await;
    let view = cluster.until_there_are(3).await;
    assert_eq!((names(&view.pods), owners(&cluster).await.len()), (pods, 4));
}

/// Removes the owner references of the pods, as a user with edit permission can.
async fn free(cluster: &Cluster, pods: &[String]) {
    for pod in pods {
        cluster.patch_pod(pod, json!({"metadata": {"ownerReferences": null}})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_created_or_deleted_while_an_adoption_is_refused() {
    let (cluster, pods) = Cluster::with_pods(4).await;
    let mark = cluster.mark();
    cluster.faults.when(RequestInfo::patches_pod, || RequestFault::Response(403));
    free(&cluster, &pods).await;
    cluster.pass(Duration::from_secs(120)).await;
    let view = cluster.view().await;
    assert_eq!(names(&view.pods), pods);
    assert_eq!(cluster.asked(mark, "create", "pods").len() + cluster.asked(mark, "delete", "pods").len(), 0);
    let (found, message) = view.why(condition::REPLICA_FAILURE).unwrap();
    assert_eq!(found, reason::FAILED_CLAIM);
    assert!(message.contains(&pods[0]) && message.contains("403"), "{message}");
    assert!(!cluster.events_of(reason::FAILED_CLAIM).await.is_empty());

    // One pod is lost: it is replaced once the owners of all pods are known.
    cluster.delete_pod(&pods[3]).await;
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 0);
    cluster.faults.clear();
    let healed = |view: &View| {
        view.is_complete() && view.available() == 4 && view.why(condition::REPLICA_FAILURE).is_none()
    };
    let view = cluster.until("it is healed", healed).await;
    assert!(pods[..3].iter().all(|pod| names(&view.pods).contains(pod)));
    assert_eq!((cluster.asked(mark, "create", "pods").len(), cluster.deleted(mark).len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_adoption_with_a_conflict_is_retried_at_once_without_an_event() {
    let (cluster, pods) = Cluster::with_pods(3).await;
    cluster.refuse("patch", "pods", 409, 1);
    let mark = cluster.mark();
    free(&cluster, &pods[..1]).await;
    cluster.pass(Duration::from_millis(300)).await;
    assert_eq!(cluster.pods().get(&pods[0]).await.unwrap().owner_references().len(), 1);
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 0);
    assert_eq!(cluster.events_of(reason::FAILED_CLAIM).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_back_from_its_adoption_without_an_owner_is_not_replaced() {
    let (cluster, pods) = Cluster::with_pods(3).await;
    cluster.faults.mutate(RequestInfo::patches_pod, |pod| pod["metadata"]["ownerReferences"] = json!([]));
    let mark = cluster.mark();
    free(&cluster, &pods).await;
    cluster.pass(Duration::from_secs(60)).await;
    let view = cluster.view().await;
    assert_eq!(names(&view.pods), pods);
    assert_eq!(view.why(condition::REPLICA_FAILURE).unwrap().0, reason::FAILED_CLAIM);
    assert!(cluster.asked(mark, "patch", "pods").len() < 100, "it backs off");
    cluster.faults.clear();
    cluster
        .until("they are taken in", |view| {
            view.is_complete() && view.why(condition::REPLICA_FAILURE).is_none()
        })
        .await;
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 0);
}
