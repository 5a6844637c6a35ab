//! Disruption budgets: what they expect during a rollout. `witness` tests how they stop evictions.

use kube::Api;
use kube::api::DynamicObject;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use scenarios::TestCluster;
use serde_json::{Value, json};

use super::{objects, version};

pub(crate) async fn budget(cluster: &TestCluster, max_unavailable: Value) -> Api<DynamicObject> {
    let version = version(cluster, &["policy/v1", "policy/v1beta1"]).await;
    let budget = json!({
        "apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": max_unavailable},
    });
    cluster.kubectl.run_with(&["apply", "-f", "-"], &budget.to_string()).await.unwrap();
    objects(cluster, &version, "PodDisruptionBudget")
}

/// Waits until the budget expects this number of pods, all of them healthy.
async fn counts(cluster: &TestCluster, budgets: &Api<DynamicObject>, pods: i64) {
    let counted = |budget: &DynamicObject| {
        let number = |key: &str| budget.data.pointer(&format!("/status/{key}")).and_then(Value::as_i64);
        number("expectedPods") == Some(pods)
            && number("currentHealthy") == Some(pods)
            && number("desiredHealthy") == Some(pods - 1)
            && number("disruptionsAllowed") == Some(1)
    };
    let what = format!("a budget of {pods} pods");
    cluster.until_object(budgets.clone(), "web", &what, counted).await.unwrap();
}

/// A budget with `maxUnavailable` sums the scale of the owners of its pods: our sets.
pub(super) async fn a_disruption_budget_expects_the_desired_pods_at_any_point_of_a_rollout(
    cluster: TestCluster,
) {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    let budgets = budget(&cluster, json!(1)).await;
    counts(&cluster, &budgets, 6).await;
    for (pod, priority) in [(&pods[0], 5), (&pods[1], 4), (&pods[2], 3), (&pods[3], 2)] {
        cluster.prioritise(pod, priority).await.unwrap();
    }
    for held in [&pods[1], &pods[3]] {
        cluster.pause_at(held, "before").await.unwrap();
    }
    // Between the writes of two sets the sum may be too large, but never too small: that would allow one eviction too
    // many. The test does not check the status of the budget meanwhile, because the disruption controller reads only
    // the sets whose pods it has seen.
    let all: Api<OrderedReplicaSet> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let sizes = cluster.until_all(all, "never", |sets| {
        let sum: i32 = sets.iter().map(|set| set.spec.replicas).sum();
        assert!(sum >= 6, "sizes of {sum} in all");
        false
    });
    let rollout = async {
        cluster.set_image("web:2").await.unwrap();
        cluster.held_with(1, 6).await.unwrap();
        counts(&cluster, &budgets, 6).await;
        cluster.resume().await.unwrap();
        cluster.held_with(3, 6).await.unwrap();
        counts(&cluster, &budgets, 6).await;
    };
    tokio::select! {
        () = rollout => {}
        ended = sizes => panic!("{ended:?}"),
    }
    // Scaled during the hold.
    for replicas in [9, 4] {
        cluster.scale(replicas).await.unwrap();
        let available = |object: &OrderedDeployment| {
            let status = object.status.clone().unwrap_or_default();
            status.hold.is_some() && status.available_replicas == Some(replicas)
        };
        cluster.until("web", "scaled in its hold", available).await.unwrap();
        counts(&cluster, &budgets, i64::from(replicas)).await;
    }
    cluster.resume().await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    counts(&cluster, &budgets, 4).await;
}
