//! The garbage collector is stopped in the middle of orphaning, and goes on later.

use e2e::real::Victim;
use e2e::{History, Server, World};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use serde_json::json;

use super::judge::{Case, Policy};
use super::{Moment, in_a_rollout, litter, setting, until_gone, until_quiet};

/// So much that the collector has a queue, and releases the sets one by one.
const LITTER: usize = 80;

fn sets(world: &World) -> Api<OrderedReplicaSet> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// Whole rollouts, so that the controller had time for everything else too.
async fn meanwhile(world: &World) {
    for image in ["web:2", "web:3"] {
        world.set_image(image).await.unwrap();
        world.complete("web", 6).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_left_alone_while_the_collector_stands_still_on_a_real_server() {
    let _machine = e2e::hold_the_machine().await;
    let base = World::with(Server::Real, setting()).await.unwrap();
    let plane = base.control_plane().unwrap();
    let _manager = base.start_manager().unwrap();
    let (world, elsewhere) = (base.apart("doomed").await.unwrap(), base.apart("elsewhere").await.unwrap());
    elsewhere.deployed(&json!({})).await.unwrap();
    let moment = Moment { policy: Policy::Orphan, replicas: 12, second: 24, third: 12 };
    in_a_rollout(&world, moment).await;

    let maps: Api<ConfigMap> = Api::namespaced(base.client.clone(), &base.namespace);
    let names: Vec<String> = (0..LITTER).map(|index| format!("litter-{index}")).collect();
    let created = names.iter().map(async |name| maps.create(&PostParams::default(), &litter(name)).await);
    assert!(join_all(created).await.iter().all(Result::is_ok));
    let uid = world.deployments().get("web").await.unwrap().uid().unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.deployments().delete("web", &orphan).await.unwrap();
    let released = |sets: &[OrderedReplicaSet]| sets.iter().any(|set| set.owner_references().is_empty());
    world.until_all(sets(&world), "released in part", released).await.unwrap();
    plane.suspend(Victim::ControllerManager).unwrap();
    let kept = world.deployments().get("web").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_some(), "the collector stands still before its end");

    // A pod that goes wakes the controller.
    let lost = world.pods().await.unwrap()[0].name_any();
    world.kubectl.run(&["delete", "pod", &lost, "--wait=false"]).await.unwrap();
    meanwhile(&elsewhere).await;
    assert!(world.deployments().get("web").await.is_ok());

    plane.resume(Victim::ControllerManager).unwrap();
    until_gone(&world, &uid).await;
    until_quiet(&world).await;
    let mut commits = History::default().take_all(&world).await.unwrap();
    let mut requests = world.requests().await.unwrap();
    // That one was deleted by the scenario.
    commits.retain(|one| one.name != lost);
    requests.retain(|one| one.name.as_ref() != Some(&lost));
    let case = Case { policy: Policy::Orphan, namespace: world.namespace.clone() };
    let findings = case.judge(&commits, &requests).unwrap();
    println!("{findings:?}");
}
