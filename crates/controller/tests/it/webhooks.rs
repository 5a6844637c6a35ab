//! Admission that fails, takes its time, or changes what is created.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use kube::ResourceExt;
use kube::api::DeleteParams;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use serde_json::{Value, json};

use crate::cluster::{Cluster, View, names};
use crate::fault_injector::{RequestFault, RequestInfo};

fn bounds(surge: i32, unavailable: i32) -> Value {
    json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn condition_of(view: &View, type_: &str) -> Option<(String, String)> {
    let status = view.status();
    let condition = status.condition(type_).filter(|one| one.status == ConditionStatus::True)?;
    Some((condition.reason.clone(), condition.message.clone()))
}

#[tokio::test(start_paused = true)]
async fn a_create_as_slow_as_a_webhook_may_be_succeeds() {
    let cluster = Cluster::start().await;
    cluster
        .faults
        .when(|info| info.is(&Method::POST, "/pods"), || RequestFault::Delay(Duration::from_secs(30)));
    let mark = cluster.mark();
    cluster.deployed(json!({"replicas": 2})).await;
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_status_keeps_up_while_creates_are_slow() {
    let cluster = Cluster::start_with_quick_pods(Duration::ZERO).await;
    cluster.deployed(json!({"replicas": 10, "strategy": bounds(1, 1)})).await;
    cluster.faults.rule(|info| {
        let is_slow = info.creates_pod("web:2") && !info.is_dry_run();
        if is_slow { RequestFault::Delay(Duration::from_secs(10)) } else { RequestFault::None }
    });
    cluster.set_image("web:2").await;
    for count in 3..=9 {
        let view = cluster.until("the next pod is there", |view| view.updated().len() >= count).await;
        let known = view.status().updated_replicas;
        assert!(known >= i32::try_from(count).ok().map(|count| count - 2), "{known:?} of {count}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_without_an_answer_is_reported_and_stops_only_what_needs_it() {
    for fate in [500, 503, 429] {
        let cluster = Cluster::start().await;
        let spec = json!({"replicas": 4, "strategy": bounds(0, 1), "progressDeadlineSeconds": 60});
        let pods = names(&cluster.deployed(spec).await);
        cluster
            .faults
            .when(super::fault_injector::RequestInfo::is_dry_run, move || RequestFault::Response(fate));
        let mark = cluster.mark();
        cluster.set_image("web:2").await;
        cluster.pass(Duration::from_secs(90)).await;
        let view = cluster.view().await;
        assert_eq!(names(&view.pods), pods);
        let (why, message) = condition_of(&view, condition::REPLICA_FAILURE).unwrap();
        assert_eq!(why, reason::TEMPLATE_UNPROVEN);
        assert!(message.contains(&fate.to_string()), "{message}");
        assert_eq!(condition_of(&view, condition::STALLED).unwrap().0, reason::PROGRESS_DEADLINE_EXCEEDED);
        assert!(!cluster.events_of(reason::TEMPLATE_UNPROVEN).await.is_empty());
        assert!(cluster.asked(mark, "patch", "ordereddeployments").len() < 20, "it is reported once");
        cluster.faults.clear();
        let out = |view: &View| view.is_complete() && view.updated().len() == 4;
        let view = cluster.until("it is out", out).await;
        assert_eq!(condition_of(&view, condition::REPLICA_FAILURE), None);
    }
}

/// The request as a mutating webhook changes it.
fn changed(info: &RequestInfo, change: fn(&mut Value)) -> RequestFault {
    let mut body = info.body.clone();
    change(&mut body);
    RequestFault::Mutate(body)
}

async fn strays(change: fn(&mut Value), missing: &str) {
    let cluster = Cluster::start().await;
    let creates = |info: &RequestInfo| info.is(&Method::POST, "/pods") && !info.path.contains("/eviction");
    cluster.faults.rule(move |info| {
        if !creates(info) {
            return RequestFault::None;
        }
        changed(info, change)
    });
    let mark = cluster.mark();
    cluster.deploy(json!({"replicas": 3})).await;
    cluster.pass(Duration::from_secs(300)).await;
    let made = |cluster: &Cluster| {
        let asked = cluster.asked(mark, "create", "pods");
        let real: Vec<_> = asked.into_iter().filter(|record| !record.path.contains("dryRun")).collect();
        real.len()
    };
    assert_eq!(made(&cluster), 1, "no more than it takes to see");
    let pod = cluster.all_pods().await.remove(0);
    let (why, message) = condition_of(&cluster.view().await, condition::REPLICA_FAILURE).unwrap();
    assert_eq!(why, reason::FAILED_CREATE);
    assert!(message.contains(&pod.name_any()) && message.contains(missing), "{message}");
    cluster.faults.clear();
    cluster.until("there are three", |view| view.is_complete() && view.available() == 3).await;
    assert!(made(&cluster) <= 4);
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_back_without_their_labels_are_not_created_endlessly() {
    strays(|pod| pod["metadata"]["labels"] = json!({"other": "x"}), "app=web").await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_back_without_their_owner_are_not_created_endlessly() {
    let owner = |pod: &mut Value| {
        pod["metadata"]["ownerReferences"] = json!([]);
        pod["metadata"]["labels"] = json!({"other": "x"});
    };
    strays(owner, "owner reference").await;
}

/// The sets that are created, as a webhook changes them.
async fn stray_sets(change: fn(&mut Value), word: &str) -> Cluster {
    let cluster = Cluster::start().await;
    let mut asked = 0;
    cluster.faults.rule(move |info| {
        if !info.is(&Method::POST, "/orderedreplicasets") {
            return RequestFault::None;
        }
        asked += 1;
        // An endless loop would never let the time pass.
        assert!(asked < 200, "asked without end");
        changed(info, change)
    });
    let mark = cluster.mark();
    cluster.deploy(json!({"replicas": 2})).await;
    cluster.pass(Duration::from_secs(600)).await;
    let sets = cluster.all_sets().await.len();
    assert!((1..=2).contains(&sets), "{sets}");
    assert!(cluster.asked(mark, "create", "pods").iter().all(|asked| asked.path.contains("dryRun")));
    let (why, message) = condition_of(&cluster.view().await, condition::REPLICA_FAILURE).unwrap();
    assert_eq!(why, reason::FAILED_CREATE);
    assert!(message.contains(word), "{message}");
    cluster.faults.clear();
    cluster
}

#[tokio::test(start_paused = true)]
async fn sets_that_come_back_without_their_owner_are_not_created_endlessly() {
    let change = |set: &mut Value| {
        set["metadata"]["ownerReferences"] = json!([]);
        set["metadata"]["labels"] = json!({"other": "x"});
    };
    let cluster = stray_sets(change, "owner reference").await;
    assert_eq!(cluster.all_sets().await.len(), 1);
    cluster.until("there are two", |view| view.is_complete() && view.available() == 2).await;
    assert_eq!(cluster.all_sets().await.len(), 2, "the first one keeps the name that it has");
}

#[tokio::test(start_paused = true)]
async fn sets_that_come_back_with_another_template_are_not_created_endlessly() {
    let change =
        |set: &mut Value| set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other:1");
    let cluster = stray_sets(change, "with another template").await;
    let view = cluster.until("there are two", |view| view.is_complete() && view.available() == 2).await;
    assert_eq!(view.pods[0].spec.as_ref().unwrap().containers[0].image.as_deref(), Some("web:1"));
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_created_in_a_set_that_does_not_select_it() {
    let change = |set: &mut Value| {
        set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = json!("other");
    };
    let cluster = stray_sets(change, "does not select the pods of its own template").await;
    let set = cluster.all_sets().await[0].name_any();
    cluster.sets().delete(&set, &DeleteParams::default()).await.unwrap();
    cluster.until("there are two", |view| view.is_complete() && view.available() == 2).await;
}

/// Changes of sets that come back without one field: they are reported, back off, and continue once the field
/// is kept.
async fn set_changes_not_kept(
    cluster: Cluster,
    field: &'static str,
    kept: Value,
    patch: Value,
    told_of: &str,
) {
    let mut asked = 0;
    cluster.faults.rule(move |info| {
        let is_change = info.is(&Method::PATCH, "/orderedreplicasets/") && !info.path.contains("/status");
        if !is_change || info.body.pointer(field).is_none() {
            return RequestFault::None;
        }
        asked += 1;
        assert!(asked < 200, "asked without end");
        let mut body = info.body.clone();
        body.pointer_mut(field).unwrap().clone_from(&kept);
        RequestFault::Mutate(body)
    });
    let mark = cluster.mark();
    cluster.patch(patch).await;
    cluster.pass(Duration::from_secs(600)).await;
    let patches = cluster.asked(mark, "patch", "orderedreplicasets").len();
    assert!((2..60).contains(&patches), "{patches}");
    let (why, message) = condition_of(&cluster.view().await, condition::REPLICA_FAILURE).unwrap();
    assert_eq!(why, reason::FAILED_CREATE);
    assert!(message.contains(told_of), "{message}");
    cluster.faults.clear();
    cluster.until("it goes on", |view| view.is_complete() && view.available() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_size_or_a_min_ready_time_of_a_set_that_is_not_kept_is_not_written_endlessly() {
    for (field, kept, more, told_of) in [
        ("/spec/replicas", 2, json!({}), "spec.replicas (3)"),
        ("/spec/minReadySeconds", 0, json!({"minReadySeconds": 1}), "spec.minReadySeconds (1)"),
    ] {
        let (cluster, _) = Cluster::with_pods(2).await;
        let mut spec = more;
        spec["replicas"] = json!(3);
        set_changes_not_kept(cluster, field, json!(kept), json!({"spec": spec}), told_of).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_of_a_set_that_is_not_kept_is_not_written_endlessly() {
    let cluster = Cluster::start().await;
    let first = cluster.deployed(json!({"replicas": 3})).await.remove(0).spec.unwrap().containers.remove(0);
    cluster.set_image("web:2").await;
    cluster.until_out(3).await;
    let field = "/metadata/annotations/ordereddeployment.io~1revision";
    let patch = json!({"spec": {"template": {"spec": {"containers": [first]}}}});
    set_changes_not_kept(cluster, field, json!("1"), patch, "ordereddeployment.io/revision (\"3\")").await;
}

/// Requests that are always refused with a conflict: they are reported, back off, and continue after that.
async fn conflicts(
    spec: Value,
    method: Method,
    part: &'static str,
    fate: fn() -> RequestFault,
    to: i32,
    why: &str,
) {
    let cluster = Cluster::start().await;
    cluster.deployed(spec).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    cluster.faults.rule(move |info| {
        if !info.is(&method, part) || info.is_dry_run() {
            return RequestFault::None;
        }
        // An endless loop would never let the time pass.
        assert!(counted.fetch_add(1, Ordering::Relaxed) < 400, "asked without end");
        fate()
    });
    let mark = cluster.mark();
    cluster.scale(to).await;
    cluster.pass(Duration::from_secs(60)).await;
    let asked = asked.load(Ordering::Relaxed);
    assert!((3..400).contains(&asked), "{asked}");
    assert!(cluster.mark() - mark < 600, "{}", cluster.mark() - mark);
    let (found, message) = condition_of(&cluster.view().await, condition::REPLICA_FAILURE).unwrap();
    assert_eq!(found, why);
    assert!(message.contains("injected 409"), "{message}");
    cluster.faults.clear();
    let there = usize::try_from(to).unwrap();
    cluster.until("it goes on", |view| view.is_complete() && view.active().len() == there).await;
}

#[tokio::test(start_paused = true)]
async fn requests_refused_with_conflicts_are_not_retried_endlessly() {
    let spec = || json!({"replicas": 3});
    let evict = json!({"replicas": 3, "podDeletion": "Evict"});
    let conflict = || RequestFault::Response(409);
    conflicts(spec(), Method::DELETE, "/pods/", conflict, 2, reason::FAILED_DELETE).await;
    conflicts(evict, Method::POST, "/eviction", conflict, 2, reason::FAILED_DELETE).await;
    conflicts(spec(), Method::PATCH, "/orderedreplicasets/", conflict, 4, reason::FAILED_CREATE).await;
    // A name that is always taken.
    conflicts(spec(), Method::POST, "/pods?", || RequestFault::NameTaken, 4, reason::FAILED_CREATE).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_refused_with_conflicts_is_not_written_endlessly() {
    for code in [409, 404] {
        let (cluster, _) = Cluster::with_pods(3).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        cluster.faults.rule(move |info| {
            if !info.is(&Method::PATCH, "/ordereddeployments/web/status") {
                return RequestFault::None;
            }
            // An endless loop would never let the time pass.
            assert!(counted.fetch_add(1, Ordering::Relaxed) < 400, "asked without end");
            RequestFault::Response(code)
        });
        let mark = cluster.mark();
        cluster.set_image("web:2").await;
        cluster.pass(Duration::from_secs(60)).await;
        let asked = asked.load(Ordering::Relaxed);
        assert!((3..100).contains(&asked), "{asked}");
        assert!(cluster.mark() - mark < 600, "{}", cluster.mark() - mark);
        cluster.faults.clear();
        cluster.until_out(3).await;
    }
}
