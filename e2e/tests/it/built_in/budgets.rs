//! Disruption budgets: what they expect during a rollout. `witness` tests how they stop evictions.

use e2e::World;
use kube::Api;
use kube::api::DynamicObject;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use serde_json::{Value, json};

use super::{objects, version};

pub(crate) async fn budget(world: &World, max_unavailable: Value) -> Api<DynamicObject> {
    let version = version(world, &["policy/v1", "policy/v1beta1"]).await;
    let budget = json!({
        "apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": max_unavailable},
    });
    world.kubectl.run_with(&["apply", "-f", "-"], &budget.to_string()).await.unwrap();
    objects(world, &version, "PodDisruptionBudget")
}

/// Waits until the budget expects this number of pods, all of them healthy.
async fn counts(world: &World, budgets: &Api<DynamicObject>, pods: i64) {
    let counted = |budget: &DynamicObject| {
        let number = |key: &str| budget.data.pointer(&format!("/status/{key}")).and_then(Value::as_i64);
        number("expectedPods") == Some(pods)
            && number("currentHealthy") == Some(pods)
            && number("desiredHealthy") == Some(pods - 1)
            && number("disruptionsAllowed") == Some(1)
    };
    let what = format!("a budget of {pods} pods");
    world.until_object(budgets.clone(), "web", &what, counted).await.unwrap();
}

/// A budget with `maxUnavailable` sums the scale of the owners of its pods: our sets.
pub(super) async fn a_disruption_budget_expects_the_desired_pods_at_any_point_of_a_rollout(world: World) {
    let pods = world.deployed(&json!({})).await.unwrap();
    let budgets = budget(&world, json!(1)).await;
    counts(&world, &budgets, 6).await;
    for (pod, priority) in [(&pods[0], 5), (&pods[1], 4), (&pods[2], 3), (&pods[3], 2)] {
        world.prioritise(pod, priority).await.unwrap();
    }
    for held in [&pods[1], &pods[3]] {
        world.pause_at(held, "before").await.unwrap();
    }
    // Between the writes of two sets the sum may be too large, but never too small: that would allow one eviction too
    // many. The test does not check the status of the budget meanwhile, because the disruption controller reads only
    // the sets whose pods it has seen.
    let all: Api<OrderedReplicaSet> = Api::namespaced(world.client.clone(), &world.namespace);
    let sizes = world.until_all(all, "never", |sets| {
        let sum: i32 = sets.iter().map(|set| set.spec.replicas).sum();
        assert!(sum >= 6, "sizes of {sum} in all");
        false
    });
    let rollout = async {
        world.set_image("web:2").await.unwrap();
        world.held_with(1, 6).await.unwrap();
        counts(&world, &budgets, 6).await;
        world.resume().await.unwrap();
        world.held_with(3, 6).await.unwrap();
        counts(&world, &budgets, 6).await;
    };
    tokio::select! {
        () = rollout => {}
        ended = sizes => panic!("{ended:?}"),
    }
    // Scaled during the hold.
    for replicas in [9, 4] {
        world.scale(replicas).await.unwrap();
        let available = |object: &OrderedDeployment| {
            let status = object.status.clone().unwrap_or_default();
            status.hold.is_some() && status.available_replicas == Some(replicas)
        };
        world.until("web", "scaled in its hold", available).await.unwrap();
        counts(&world, &budgets, i64::from(replicas)).await;
    }
    world.resume().await.unwrap();
    world.complete("web", 4).await.unwrap();
    counts(&world, &budgets, 4).await;
}
