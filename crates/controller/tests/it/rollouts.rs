//! Rollouts without pause points: which pods are created and deleted, in which order; refused templates.

use std::time::Duration;

use ordereddeployment_api::names::reason;
use serde_json::json;

use crate::cluster::{Cluster, line};
use crate::fault_injector::RequestFault;

#[tokio::test(start_paused = true)]
async fn a_complete_deployment_costs_no_writes() {
    let (cluster, _) = Cluster::with_pods(5).await;
    cluster.pass(Duration::from_secs(60)).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(3600)).await;
    let mut writes = cluster.all_asked(mark);
    writes.retain(|record| !matches!(record.verb, "watch" | "list" | "get"));
    let writes: Vec<_> = writes.iter().map(line).collect();
    assert_eq!(writes, Vec::<String>::new());
}

/// The trace of a whole rollout: every request that the server answered.
async fn trace() -> Vec<String> {
    let (cluster, _) = Cluster::with_pods(10).await;
    cluster.set_image("web:2").await;
    cluster.until_out(10).await;
    cluster.sandbox.requests().iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn two_equal_runs_make_the_same_requests() {
    let (first, second) = (trace().await, trace().await);
    for (index, (one, other)) in first.iter().zip(&second).enumerate() {
        let before = &first[index.saturating_sub(10)..index];
        assert_eq!(one, other, "after {before:#?}");
    }
    assert_eq!(first.len(), second.len());
}

#[tokio::test(start_paused = true)]
async fn old_pods_go_while_many_new_ones_are_created() {
    let cluster = Cluster::start().await;
    let strategy = |surge: &str, unavailable: &str| {
        json!({"rollingUpdate": {"maxSurge": surge,
        "maxUnavailable": unavailable}})
    };
    cluster.deployed(json!({"replicas": 200, "strategy": strategy("1%", "0%")})).await;
    // The first updated pods show that the API server accepts the template.
    cluster.set_image("web:2").await;
    cluster.until("two are updated", |view| view.updated().len() == 2).await;
    let mark = cluster.mark();
    cluster.patch(json!({"spec": {"strategy": strategy("100%", "50%")}})).await;
    cluster.until_out(200).await;
    let of_pods = cluster.all_asked(mark).into_iter().filter(|one| one.plural == "pods");
    let verbs = of_pods.map(|one| one.verb).filter(|verb| ["create", "delete"].contains(verb));
    assert_eq!(verbs.take_while(|verb| *verb == "create").count(), 31);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_stays_refused_is_reported_once() {
    let (cluster, _) =
        Cluster::with(json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}})).await;
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
async fn fields_that_are_lost_on_the_way_are_named() {
    let (cluster, _) = Cluster::with_pods(2).await;
    cluster.faults.rule(|info| {
        let mut body = info.body.clone();
        let has_it = body.pointer_mut("/spec").and_then(|spec| spec.as_object_mut()?.remove("hostname"));
        if has_it.is_some() { RequestFault::Mutate(body) } else { RequestFault::None }
    });
    cluster.patch(json!({"spec": {"template": {"spec": {"hostname": "h"}}}})).await;
    cluster.until_out(2).await;
    let said = cluster.events_of(reason::UNKNOWN_FIELDS).await;
    assert!(matches!(said.as_slice(), [one] if one.contains(": spec.hostname.")), "{said:?}");
}
