//! `podDeletion: Evict`: the controller waits for refused evictions in order and with backoff.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_sandbox::Record;
use serde_json::json;

use crate::cluster::{Cluster, View, names};
use crate::fault_injector::RequestFault;

/// A budget with this limit for all pods of `web`, and time for its status to be computed.
async fn budget(cluster: &Cluster, limit: (&str, i32)) {
    let spec = json!({limit.0: limit.1, "selector": {"matchLabels": {"app": "web"}}});
    cluster.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster.pass(Duration::from_secs(3)).await;
}

/// That many pods, without a surge and one by one, by eviction.
async fn deployed(replicas: i32) -> (Cluster, Vec<String>) {
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let spec = json!({"replicas": replicas, "podDeletion": "Evict", "strategy": bounds});
    let (cluster, pods) = Cluster::with(spec).await;
    for (place, pod) in pods.iter().enumerate() {
        cluster.prioritise(pod, 100 - i32::try_from(place).unwrap()).await;
    }
    (cluster, pods)
}

fn is_refused(view: &View) -> bool {
    view.why(condition::REPLICA_FAILURE).is_some_and(|(why, _)| why == reason::EVICTION_REFUSED)
}

/// The evictions requested since then, accepted or not.
/// The evictions since then. Each pod is read before its eviction.
fn evictions(cluster: &Cluster, from: usize, accepted: bool) -> Vec<Record> {
    let is_eviction = |one: &Record| one.subresource.as_deref() == Some("eviction");
    let mut asked = cluster.all_asked(from);
    for (at, eviction) in asked.iter().enumerate().filter(|(_, one)| is_eviction(one)) {
        let before = asked[..at].iter().rfind(|one| one.plural == "pods" && one.name == eviction.name);
        assert!(before.is_some_and(|before| before.verb == "get"), "{eviction:?}");
    }
    asked.retain(|one| is_eviction(one) && (one.code < 300) == accepted);
    asked
}

fn evicted(cluster: &Cluster, from: usize) -> Vec<String> {
    evictions(cluster, from, true).into_iter().filter_map(|one| one.name).collect()
}

#[tokio::test(start_paused = true)]
async fn an_eviction_refused_for_hours_is_retried_twice_a_minute() {
    let (cluster, _) = deployed(3).await;
    budget(&cluster, ("minAvailable", 9)).await;
    cluster.set_image("web:2").await;
    cluster.until("it is refused", is_refused).await;
    cluster.pass(Duration::from_secs(120)).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(3600)).await;
    let asked = evictions(&cluster, mark, false).len();
    assert!((115..=121).contains(&asked), "{asked}");
    // One event is updated, at most once per refusal; the status says that the deadline has passed.
    assert!(cluster.asked(mark, "patch", "events").len() <= asked);
    assert_eq!(cluster.asked(mark, "patch", "ordereddeployments").len(), 1);
    let table = [
        ("get", "ordereddeployments", 0),
        ("list", "pods", 0),
        ("get", "pods", asked),
        ("list", "poddisruptionbudgets", asked),
    ];
    for (verb, plural, count) in table {
        assert_eq!(cluster.asked(mark, verb, plural).len(), count, "{verb} {plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_eviction_is_retried_early_only_after_another_pod_becomes_ready() {
    let (cluster, pods) = deployed(3).await;
    budget(&cluster, ("minAvailable", 9)).await;
    cluster.set_image("web:2").await;
    cluster.until("it is refused", is_refused).await;
    cluster.pass(Duration::from_secs(240)).await;
    let mark = cluster.mark();
    for change in 0..100 {
        cluster.annotate(&pods[2], "note", change.to_string()).await;
        cluster.pass(Duration::from_millis(100)).await;
    }
    let asked = evictions(&cluster, mark, false).len();
    assert!(asked <= 1, "{asked} in ten seconds");
    // Without an event, the next attempt is up to half a minute away. (The floor would let the pod go.)
    cluster.patch(json!({"spec": {"deletionOrder": {"unavailablePods": "InOrder"}}})).await;
    cluster.set_ready(&pods[2], false).await;
    cluster.pass(Duration::from_secs(1)).await;
    let mark = cluster.mark();
    cluster.set_ready(&pods[2], true).await;
    cluster.pass(Duration::from_secs(1)).await;
    assert!(!evictions(&cluster, mark, false).is_empty());
}

/// A budget that counts between the writes of two sets expects too many pods. No node could be drained in the
/// pause.
#[tokio::test(start_paused = true)]
async fn a_budget_that_was_counted_between_two_sizes_is_counted_again_in_a_pause() {
    let cluster = Cluster::start_with_quick_pods(Duration::from_millis(100)).await;
    let pods = names(&cluster.deployed(json!({"replicas": 4})).await);
    for (pod, priority) in [(&pods[0], 3), (&pods[1], 2), (&pods[2], 1)] {
        cluster.prioritise(pod, priority).await;
    }
    cluster.annotate(&pods[2], annotation::PAUSE_POINT, "before").await;
    budget(&cluster, ("maxUnavailable", 1)).await;
    let counted = async || {
        let status = cluster.api::<PodDisruptionBudget>().get("web").await.unwrap().status.unwrap();
        (status.expected_pods, status.disruptions_allowed)
    };
    let between = Arc::new(Mutex::new(Vec::new()));
    let (seen, client, other) = (Arc::clone(&between), cluster.client.clone(), pods[3].clone());
    // The size after the second delete is written in the pause, when no pod changes any more.
    cluster.faults.rule(move |info| {
        if !info.is(&Method::PATCH, "/orderedreplicasets/") || info.body["spec"]["replicas"] != json!(2) {
            return RequestFault::None;
        }
        let (seen, client, other) = (Arc::clone(&seen), client.clone(), other.clone());
        RequestFault::After(Box::pin(async move {
            let pods: Api<Pod> = Api::default_namespaced(client.clone());
            let note = format!("change {}", seen.lock().unwrap().len());
            let note = Patch::Merge(json!({"metadata": {"annotations": {"note": note}}}));
            pods.patch(&other, &PatchParams::default(), &note).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client);
            let status = budgets.get("web").await.unwrap().status.unwrap();
            seen.lock().unwrap().push(status.expected_pods);
        }))
    });
    cluster.set_image("web:2").await;
    cluster.until_held().await;
    cluster.pass(Duration::from_secs(120)).await;
    assert_eq!(*between.lock().unwrap(), [4, 5], "before the first write, and between both");
    assert_eq!(counted().await, (4, 1));
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(3600)).await;
    assert_eq!(cluster.asked(mark, "list", "poddisruptionbudgets").len(), 0, "once");
}

#[tokio::test(start_paused = true)]
async fn a_not_found_answer_about_another_object_loses_no_pod_and_no_eviction_version() {
    let (cluster, pods) = deployed(3).await;
    let versions = Arc::new(Mutex::new(Vec::new()));
    let record = |cluster: &Cluster| {
        let asked = Arc::clone(&versions);
        cluster.faults.rule(move |info| {
            if info.is(&Method::POST, "/eviction") {
                asked.lock().unwrap().push(info.body["apiVersion"].clone());
            }
            RequestFault::None
        });
    };
    record(&cluster);
    cluster.faults.when(|info| info.is(&Method::POST, "/eviction"), || RequestFault::Response(404));
    let mark = cluster.mark();
    cluster.set_image("web:2").await;
    cluster.pass(Duration::from_secs(60)).await;
    let view = cluster.view().await;
    assert_eq!(names(&view.active()), pods);
    let (_, message) = view.why(condition::REPLICA_FAILURE).unwrap();
    assert!(message.contains("injected 404"), "{message}");
    assert!(cluster.mark() - mark < 200, "{}", cluster.mark() - mark);
    cluster.faults.clear();
    // Both versions are tried while neither is known; the usual one stays the first.
    let tried = std::mem::take(&mut *versions.lock().unwrap());
    assert_eq!(tried[..2], ["policy/v1", "policy/v1beta1"]);
    record(&cluster);
    cluster.until_out(3).await;
    assert_eq!(evicted(&cluster, mark), pods);
    assert!(versions.lock().unwrap().iter().all(|version| version == "policy/v1"), "{versions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_counts_an_eviction_that_failed_is_explained() {
    let (cluster, pods) = deployed(3).await;
    budget(&cluster, ("minAvailable", 2)).await;
    let (api, pod) = (cluster.pods(), pods[0].clone());
    cluster.faults.before(Method::POST, "/eviction", async move {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"note": "now"}}}));
        api.patch(&pod, &PatchParams::default(), &patch).await.unwrap();
    });
    cluster.scale(2).await;
    let view = cluster.until("it is refused", is_refused).await;
    let (_, message) = view.why(condition::REPLICA_FAILURE).unwrap();
    assert!(message.contains("an eviction of this pod that was not carried out"), "{message}");
    cluster.pass(Duration::from_secs(180)).await;
    assert_eq!(cluster.view().await.active().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unavailable_pods_are_deleted_regardless_of_budgets() {
    let (cluster, pods) = deployed(3).await;
    cluster.set_ready(&pods[0], false).await;
    budget(&cluster, ("minAvailable", 9)).await;
    let mark = cluster.mark();
    cluster.set_image("web:2").await;
    cluster.until("it is refused", is_refused).await;
    assert_eq!(cluster.deleted(mark), pods[..1]);
    cluster.merge::<PodDisruptionBudget>("web", json!({"spec": {"minAvailable": 0}})).await;
    cluster.until_out(3).await;
    assert_eq!((cluster.deleted(mark), evicted(&cluster, mark)), (pods[..1].to_vec(), pods[1..].to_vec()));
}

/// The disruption controller counts when a pod or the budget changes, and a change of `replicas` is neither.
/// A new set without pods is not counted, so the old set keeps its size, and the budget allows no eviction.
#[tokio::test(start_paused = true)]
async fn a_budget_is_not_counted_with_the_size_of_a_new_set_without_pods() {
    let (cluster, pods) = deployed(3).await;
    budget(&cluster, ("maxUnavailable", 0)).await;
    let mark = cluster.mark();
    cluster.set_image("web:2").await;
    cluster.until("it is refused", is_refused).await;
    cluster.annotate(&pods[2], "note", "a change that makes the budget count".to_owned()).await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(evicted(&cluster, mark), [""; 0]);
    assert_eq!(cluster.view().await.active().len(), 3);
}
