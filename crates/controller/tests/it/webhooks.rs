//! Admission that fails, takes its time, or changes what is created.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use kube::ResourceExt;
use kube::api::DeleteParams;
use ordereddeployment_api::names::{condition, reason};
use serde_json::{Value, json};

use crate::cluster::{Cluster, names};
use crate::fault_injector::{RequestFault, RequestInfo};

const TAKEN: &str = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
    "reason": "AlreadyExists", "message": "injected 409"}"#;

fn bounds(surge: i32, unavailable: i32) -> Value {
    json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

#[tokio::test(start_paused = true)]
async fn a_create_as_slow_as_a_webhook_may_be_succeeds() {
    let cluster = Cluster::start().await;
    let slow = || RequestFault::Delay(Duration::from_secs(30));
    cluster.faults.when(|info| info.is(&Method::POST, "/pods"), slow);
    let mark = cluster.mark();
    cluster.deployed(json!({"replicas": 2})).await;
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_status_keeps_up_while_creates_are_slow() {
    let cluster = Cluster::start_with_quick_pods(Duration::ZERO).await;
    cluster.deployed(json!({"replicas": 10, "strategy": bounds(1, 1)})).await;
    let is_slow = |info: &RequestInfo| info.creates_pod("web:2") && !info.is_dry_run();
    cluster.faults.when(is_slow, || RequestFault::Delay(Duration::from_secs(10)));
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
        let spec = json!({"replicas": 4, "strategy": bounds(0, 1), "progressDeadlineSeconds": 60});
        let (cluster, pods) = Cluster::with(spec).await;
        cluster.faults.when(RequestInfo::is_dry_run, move || RequestFault::Response(fate));
        let mark = cluster.mark();
        cluster.set_image("web:2").await;
        cluster.pass(Duration::from_secs(90)).await;
        let view = cluster.view().await;
        assert_eq!(names(&view.pods), pods);
        let (why, message) = view.why(condition::REPLICA_FAILURE).unwrap();
        assert_eq!(why, reason::TEMPLATE_UNPROVEN);
        assert!(message.contains(&fate.to_string()), "{message}");
        assert_eq!(view.why(condition::STALLED).unwrap().0, reason::PROGRESS_DEADLINE_EXCEEDED);
        assert!(!cluster.events_of(reason::TEMPLATE_UNPROVEN).await.is_empty());
        assert!(cluster.asked(mark, "patch", "ordereddeployments").len() < 20, "it is reported once");
        cluster.faults.clear();
        let view = cluster.until_out(4).await;
        assert_eq!(view.why(condition::REPLICA_FAILURE), None);
    }
}

/// Lets that many seconds pass; then creates or changes have failed. Returns the message.
async fn failed_create(cluster: &Cluster, seconds: u64) -> String {
    cluster.pass(Duration::from_secs(seconds)).await;
    let (why, message) = cluster.view().await.why(condition::REPLICA_FAILURE).unwrap();
    assert_eq!(why, reason::FAILED_CREATE);
    message
}

/// An object that comes back as nobody's.
fn disowned(object: &mut Value) {
    object["metadata"]["ownerReferences"] = json!([]);
    object["metadata"]["labels"] = json!({"other": "x"});
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_back_changed_are_not_created_endlessly() {
    let without_labels: fn(&mut Value) = |pod| pod["metadata"]["labels"] = json!({"other": "x"});
    for (change, missing) in [(without_labels, "app=web"), (disowned, "owner reference")] {
        let cluster = Cluster::start().await;
        cluster.faults.mutate(|info| info.is(&Method::POST, "/pods"), change);
        let mark = cluster.mark();
        cluster.deploy(json!({"replicas": 3})).await;
        let message = failed_create(&cluster, 300).await;
        let made = || {
            let asked = cluster.asked(mark, "create", "pods");
            asked.iter().filter(|record| !record.path.contains("dryRun")).count()
        };
        assert_eq!(made(), 1, "no more than it takes to see");
        let pod = cluster.all_pods().await.remove(0);
        assert!(message.contains(&pod.name_any()) && message.contains(missing), "{message}");
        cluster.faults.clear();
        cluster.until_there_are(3).await;
        assert!(made() <= 4);
    }
}

/// The sets that are created, as a webhook changes them.
async fn stray_sets(change: fn(&mut Value), word: &str) -> Cluster {
    let cluster = Cluster::start().await;
    cluster.faults.mutate(|info| info.is(&Method::POST, "/orderedreplicasets"), change);
    let mark = cluster.mark();
    cluster.deploy(json!({"replicas": 2})).await;
    let message = failed_create(&cluster, 600).await;
    assert!(message.contains(word), "{message}");
    let sets = cluster.all_sets().await.len();
    assert!((1..=2).contains(&sets), "{sets}");
    assert!(cluster.asked(mark, "create", "pods").iter().all(|asked| asked.path.contains("dryRun")));
    cluster.faults.clear();
    cluster
}

#[tokio::test(start_paused = true)]
async fn sets_that_come_back_changed_are_not_created_endlessly() {
    let cluster = stray_sets(disowned, "owner reference").await;
    assert_eq!(cluster.all_sets().await.len(), 1);
    cluster.until_there_are(2).await;
    assert_eq!(cluster.all_sets().await.len(), 2, "the first one keeps the name that it has");

    let change =
        |set: &mut Value| set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other:1");
    let cluster = stray_sets(change, "with another template").await;
    let view = cluster.until_there_are(2).await;
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
    cluster.until_there_are(2).await;
}

/// Changes of sets that come back without one field are reported, back off, and continue once it is kept.
#[tokio::test(start_paused = true)]
async fn a_field_of_a_set_that_is_not_kept_is_not_written_endlessly() {
    let revision = "/metadata/annotations/ordereddeployment.io~1revision";
    let first = json!({"spec": {"containers": [{"name": "main", "image": "web:1"}]}});
    for (field, kept, spec, said) in [
        ("/spec/replicas", json!(2), json!({"replicas": 3}), "spec.replicas (3)"),
        (
            "/spec/minReadySeconds",
            json!(0),
            json!({"replicas": 3, "minReadySeconds": 1}),
            "spec.minReadySeconds (1)",
        ),
        (
            revision,
            json!("1"),
            json!({"replicas": 3, "template": first}),
            "ordereddeployment.io/revision (\"3\")",
        ),
    ] {
        let (cluster, _) = Cluster::with_pods(2).await;
        if field == revision {
            cluster.set_image("web:2").await;
            cluster.until_out(2).await;
        }
        let is_hit = move |info: &RequestInfo| {
            let is_change = info.is(&Method::PATCH, "/orderedreplicasets/") && !info.path.contains("/status");
            is_change && info.body.pointer(field).is_some()
        };
        cluster.faults.mutate(is_hit, move |set| set.pointer_mut(field).unwrap().clone_from(&kept));
        let mark = cluster.mark();
        cluster.patch(json!({"spec": spec})).await;
        let message = failed_create(&cluster, 600).await;
        assert!(message.contains(said), "{message}");
        let patches = cluster.asked(mark, "patch", "orderedreplicasets").len();
        assert!((2..60).contains(&patches), "{patches}");
        cluster.faults.clear();
        cluster.until_there_are(3).await;
    }
}

/// Requests that are always refused with a conflict: they are reported, back off, and continue after that.
#[tokio::test(start_paused = true)]
async fn requests_refused_with_conflicts_are_not_retried_endlessly() {
    let conflict: fn() -> RequestFault = || RequestFault::Response(409);
    // A name that is always taken.
    let taken: fn() -> RequestFault = || RequestFault::Answer(409, "application/json", TAKEN);
    for (deletion, method, part, fault, to, why) in [
        ("Delete", Method::DELETE, "/pods/", conflict, 2, reason::FAILED_DELETE),
        ("Evict", Method::POST, "/eviction", conflict, 2, reason::FAILED_DELETE),
        ("Delete", Method::PATCH, "/orderedreplicasets/", conflict, 4, reason::FAILED_CREATE),
        ("Delete", Method::POST, "/pods?", taken, 4, reason::FAILED_CREATE),
    ] {
        let (cluster, _) = Cluster::with(json!({"replicas": 3, "podDeletion": deletion})).await;
        let is_hit = move |info: &RequestInfo| info.is(&method, part) && !info.is_dry_run();
        let asked = cluster.faults.counted(is_hit, move |_| fault());
        let mark = cluster.mark();
        cluster.scale(to).await;
        cluster.pass(Duration::from_secs(60)).await;
        assert!(asked.load(Ordering::Relaxed) >= 3, "{asked:?}");
        assert!(cluster.mark() - mark < 600, "{}", cluster.mark() - mark);
        let (found, message) = cluster.view().await.why(condition::REPLICA_FAILURE).unwrap();
        assert_eq!(found, why);
        assert!(message.contains("injected 409"), "{message}");
        cluster.faults.clear();
        let there = usize::try_from(to).unwrap();
        cluster.until("it goes on", |view| view.is_complete() && view.active().len() == there).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_refused_with_conflicts_is_not_written_endlessly() {
    for code in [409, 404] {
        let (cluster, _) = Cluster::with_pods(3).await;
        let is_hit = |info: &RequestInfo| info.is(&Method::PATCH, "/ordereddeployments/web/status");
        let asked = cluster.faults.counted(is_hit, move |_| RequestFault::Response(code));
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
