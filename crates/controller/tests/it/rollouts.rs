//! Rollouts without pause points: which pods are created and deleted, in which order.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, line};

#[tokio::test(start_paused = true)]
async fn a_complete_deployment_costs_no_writes() {
    let (cluster, _) = Cluster::with_pods(5).await;
    cluster.pass(Duration::from_secs(60)).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(3600)).await;
    let requests = cluster.sandbox.requests().into_iter().skip(mark);
    let own: Vec<_> =
        requests.filter(|record| record.user_agent.starts_with("ordered-controller-manager")).collect();
    let writes: Vec<_> =
        own.iter().filter(|record| !matches!(record.verb, "watch" | "list" | "get")).map(line).collect();
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
    let requests = cluster.sandbox.requests().into_iter().skip(mark);
    let of_pods = requests.filter(|one| one.plural == "pods" && one.subresource.is_none());
    let own = of_pods.filter(|one| one.user_agent.starts_with("ordered-controller-manager"));
    let writes: Vec<&str> =
        own.map(|one| one.verb).filter(|verb| ["create", "delete"].contains(verb)).collect();
    let before = writes.iter().take_while(|verb| **verb == "create").count();
    assert_eq!(before, 31);
}
