//! What the server's own log says of a rollout: who deleted what, in which order, bound to what, at which cost.

use std::collections::BTreeMap;

use e2e::{Deletion, Request, Server, World, on_both};
use kube::ResourceExt;

const NEW_IMAGE: &str = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}"#;

fn manifest(replicas: usize, more: &str) -> String {
    format!(
        "\
apiVersion: ordereddeployment.io/v1alpha1
kind: OrderedDeployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  strategy: {{type: RollingUpdate, rollingUpdate: {{maxSurge: 2, maxUnavailable: 2}}}}
{more}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: web, image: 'web:1'}}]
"
    )
}

/// Ten pods, complete; every pod's priority by its name.
async fn ten_pods_with_priorities(world: &World, more: &str) -> BTreeMap<String, i32> {
    world.kubectl.run_with(&["apply", "-f", "-"], &manifest(10, more)).await.unwrap();
    world.complete("web", 10).await.unwrap();
    let mut priorities = BTreeMap::new();
    // Names are random, so that this is no order of creation.
    for (index, pod) in world.pods().await.unwrap().iter().enumerate() {
        let priority = [2, 0, 7, -3, 2, 7, 0, 5, 0, 1][index];
        let annotation = format!("ordereddeployment.io/delete-priority={priority}");
        world.kubectl.run(&["annotate", "pod", &pod.name_any(), &annotation]).await.unwrap();
        priorities.insert(pod.name_any(), priority);
    }
    priorities
}

/// Every deletion is ours, bound to one version of one pod, in the order of the priorities.
fn assert_ordered(deletions: &[Deletion], priorities: &BTreeMap<String, i32>, ending: &str) {
    let mut uids: Vec<_> = deletions.iter().map(|one| one.uid.clone()).collect();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), deletions.len(), "no pod was deleted twice: {deletions:#?}");
    for deletion in deletions {
        assert!(deletion.by_the_controller(), "somebody else deleted a pod: {deletion:?}");
        assert!(
            deletion.user.as_deref().is_none_or(|user| user == "ordered-controller-manager"),
            "{deletion:?}"
        );
        assert!(deletion.uid.is_some() && deletion.resource_version.is_some(), "{deletion:?}");
        assert!(deletion.user_agent.ends_with(ending), "{deletion:?}");
    }
    let order: Vec<i32> = deletions.iter().map(|deletion| priorities[&deletion.pod]).collect();
    assert!(order.is_sorted_by(|first, second| first >= second), "{order:?}");
}

/// What the controller asked for, by verb and resource.
fn bill(requests: &[Request]) -> BTreeMap<String, usize> {
    let mut bill = BTreeMap::new();
    for request in requests.iter().filter(|request| request.by_the_controller()) {
        let part = request.subresource.as_deref().map(|part| format!("/{part}")).unwrap_or_default();
        *bill.entry(format!("{} {}{part}", request.verb, request.plural)).or_default() += 1;
    }
    bill
}

async fn a_rollout_deletes_in_order_bound_to_versions_and_at_a_known_cost(server: Server) {
    let world = World::start(server).await.unwrap();
    let manager = world.start_manager().unwrap();
    let priorities = ten_pods_with_priorities(&world, "").await;
    let before = world.requests().await.unwrap().len();
    assert_eq!(world.deletions().await.unwrap(), [], "nothing was deleted before the rollout");
    world.kubectl.run(&["patch", "od", "web", "--type=merge", "-p", NEW_IMAGE]).await.unwrap();
    world.complete("web", 10).await.unwrap();
    let deletions = world.deletions().await.unwrap();
    assert_eq!(deletions.len(), 10);
    assert_ordered(&deletions, &priorities, "/rollout");

    let requests = world.requests().await.unwrap().split_off(before);
    let ours: Vec<&Request> = requests.iter().filter(|request| request.by_the_controller()).collect();
    let writes = ours.iter().filter(|request| request.writes()).count();
    let count = |number: usize| f64::from(u32::try_from(number).unwrap()) / 10.0;
    println!(
        "requests per replaced pod on {server:?}: {:.1}, of them writes {:.1}: {:?}",
        count(ours.len()),
        count(writes),
        bill(&requests)
    );
    assert!(writes <= 120, "a delete, a create, their events, and what is published of each step");
    manager.kill().await.unwrap();
}

async fn a_scale_down_deletes_the_first_of_the_order(server: Server) {
    let world = World::start(server).await.unwrap();
    let manager = world.start_manager().unwrap();
    let priorities = ten_pods_with_priorities(&world, "").await;
    world.kubectl.run(&["scale", "od", "web", "--replicas=6"]).await.unwrap();
    world.complete("web", 6).await.unwrap();
    let deletions = world.deletions().await.unwrap();
    assert_ordered(&deletions, &priorities, "/scale");
    let gone: Vec<i32> = deletions.iter().map(|deletion| priorities[&deletion.pod]).collect();
    assert_eq!(gone, [7, 7, 5, 2], "four of ten, one of the two of priority 2");
    manager.kill().await.unwrap();
}

async fn evictions_go_in_the_same_order_and_are_bound_to_the_same(server: Server) {
    let world = World::start(server).await.unwrap();
    let manager = world.start_manager().unwrap();
    let priorities = ten_pods_with_priorities(&world, "  podDeletion: Evict").await;
    world.kubectl.run(&["patch", "od", "web", "--type=merge", "-p", NEW_IMAGE]).await.unwrap();
    world.complete("web", 10).await.unwrap();
    let deletions = world.deletions().await.unwrap();
    assert_eq!(deletions.len(), 10);
    assert!(deletions.iter().all(|deletion| deletion.evicted), "{deletions:#?}");
    assert_ordered(&deletions, &priorities, "/rollout");
    manager.kill().await.unwrap();
}

on_both!(
    a_rollout_deletes_in_order_bound_to_versions_and_at_a_known_cost,
    a_scale_down_deletes_the_first_of_the_order,
    evictions_go_in_the_same_order_and_are_bound_to_the_same,
);
