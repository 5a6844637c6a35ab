//! Templates that the API server refuses never cost a running pod; colliding hashes are distinguished.

use std::time::Duration;

use kube::api::PostParams;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, template_hash};
use serde_json::{Value, json};

use crate::cluster::{Cluster, names};
use crate::fault_injector::RequestFault;

/// Containers that the CRD does not check and the API server refuses, and a part of its message.
fn refused() -> [(Value, &'static str); 2] {
    let misspelt = json!({"name": "main", "image": "web:1", "livenesProbe": {"tcpSocket": {"port": 80}}});
    [
        (json!([{"name": "main", "image": "a"}, {"name": "main", "image": "b"}]), "Duplicate"),
        (json!([misspelt]), "unknown field \"spec.containers[0].livenesProbe\""),
    ]
}

async fn a_refused_template_costs_no_pod(max_surge: i32, max_unavailable: i32) {
    for (containers, said) in refused() {
        a_template_costs_no_pod(max_surge, max_unavailable, containers, said).await;
    }
}

async fn a_template_costs_no_pod(max_surge: i32, max_unavailable: i32, containers: Value, said: &str) {
    let cluster = Cluster::start().await;
    let bounds = json!({"rollingUpdate": {"maxSurge": max_surge, "maxUnavailable": max_unavailable}});
    let pods = names(&cluster.deployed(json!({"replicas": 4, "strategy": bounds})).await);
    let mark = cluster.mark();
    cluster.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    cluster.pass(Duration::from_secs(300)).await;
    let view = cluster.view().await;
    assert_eq!(names(&view.pods), pods);
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
    let status = view.status();
    let conditions = [condition::STALLED, condition::REPLICA_FAILURE]
        .into_iter()
        .filter_map(|type_| status.condition(type_));
    let conditions: Vec<_> = conditions.filter(|one| one.status == ConditionStatus::True).collect();
    assert!(conditions.iter().any(|one| one.message.contains(said)), "{status:#?}");
    // It backs off instead of retrying constantly.
    assert!(
        cluster.asked(mark, "create", "pods").len() < 80,
        "{}",
        cluster.asked(mark, "create", "pods").len()
    );

    cluster.set_image("web:3").await;
    cluster.until("the right one is out", |view| view.is_complete() && view.updated().len() == 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_template_costs_no_pod_with_a_surge() {
    a_refused_template_costs_no_pod(1, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_template_costs_no_pod_without_a_surge() {
    a_refused_template_costs_no_pod(0, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_template_that_stays_refused_is_reported_once() {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}})).await;
    let containers = json!([{"name": "Not A Name", "image": "a"}]);
    cluster.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    cluster.pass(Duration::from_secs(60)).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(300)).await;
    // The message of the API server contains the name of the pod, and each try has another name.
    assert_eq!(cluster.asked(mark, "patch", "ordereddeployments").len(), 0);
    assert!(cluster.asked(mark, "create", "pods").len() >= 5, "it is tried on");
}

#[tokio::test(start_paused = true)]
async fn a_broken_image_stops_the_rollout_at_its_floor() {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({"replicas": 5})).await;
    cluster.set_image("web:broken").await;
    cluster.pass(Duration::from_secs(900)).await;
    let view = cluster.view().await;
    assert_eq!((view.available(), view.active().len()), (4, 6));
    let progressing = view.status().condition(condition::PROGRESSING).cloned().unwrap();
    assert_eq!(progressing.reason, reason::PROGRESS_DEADLINE_EXCEEDED);
    cluster.set_image("web:1").await;
    cluster.until("it is back", |view| view.is_complete() && view.available() == 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_of_another_owner_with_our_name_is_a_collision() {
    let cluster = Cluster::start().await;
    let template = ordereddeployment_api::Template::new(&json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }));
    let taken = format!("web-{}", template_hash(&template, 0));
    let foreign: OrderedReplicaSet = serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet", "metadata": {"name": taken},
        "spec": {"selector": {"matchLabels": {"other": "x"}}, "template": {"metadata": {"labels": {"other": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    }))
    .unwrap();
    cluster.sets().create(&PostParams::default(), &foreign).await.unwrap();
    cluster.deployed(json!({"replicas": 2})).await;
    let status = cluster.view().await.status();
    assert_eq!(status.collision_count, Some(1));
    assert_eq!(status.rollout.unwrap().template_hash, template_hash(&template, 1));
}

#[tokio::test(start_paused = true)]
async fn if_nothing_else_serves_pods_are_created_without_misspelt_fields_and_users_are_told() {
    let [_, (containers, _)] = refused();
    let cluster = Cluster::start().await;
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    cluster.deployed(json!({"replicas": 3, "template": template})).await;
    let said = cluster.events_of(reason::UNKNOWN_FIELDS).await;
    assert!(matches!(said.as_slice(), [one] if one.contains("containers[0].livenesProbe")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_lost_on_the_way_are_named() {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({"replicas": 2})).await;
    cluster.faults.rule(|info| {
        let mut body = info.body.clone();
        let has_it = body.pointer_mut("/spec").and_then(|spec| spec.as_object_mut()?.remove("hostname"));
        if has_it.is_some() { RequestFault::Mutate(body) } else { RequestFault::None }
    });
    cluster.patch(json!({"spec": {"template": {"spec": {"hostname": "h"}}}})).await;
    cluster.until("it is out", |view| view.is_complete() && view.updated().len() == 2).await;
    let said = cluster.events_of(reason::UNKNOWN_FIELDS).await;
    assert!(matches!(said.as_slice(), [one] if one.contains(": spec.hostname.")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_field_reaches_the_pod() {
    let cluster = Cluster::start().await;
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"team": "shop"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}], "priorityClassName": "high", "hostname": "h"},
    });
    let pods = cluster.deployed(json!({"replicas": 1, "template": template})).await;
    assert_eq!(pods[0].spec.as_ref().unwrap().hostname.as_deref(), Some("h"));
    assert_eq!(pods[0].metadata.annotations.as_ref().unwrap()["team"], "shop");
}
