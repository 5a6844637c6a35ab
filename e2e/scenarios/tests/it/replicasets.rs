//! Plain Deployments on a real control plane that runs without its own controller of ReplicaSets: this
//! controller reconciles them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::names::{annotation, condition, reason};
use rand::RngExt;
use rand::seq::SliceRandom;
use scenarios::{
    Deletion, Manager, Server, Setting, TestCluster, is_ready, node_of, share_the_machine, workload,
};
use serde_json::{Value, json};

use crate::built_in::{set_budget, until_counted};

/// The namespace of the probe.
const PROBES: &str = "default";
/// The log lines of the probe.
const NO_OTHER: &str = "no other controller of ReplicaSets is alive";
const STANDS_ASIDE: &str = "stands aside: kube-controller-manager's replicaset controller is alive";

async fn control_plane() -> TestCluster {
    let setting = Setting { built_in_controllers: "*,-replicaset".to_owned(), ..Setting::default() };
    TestCluster::with(Server::Real, setting).await.unwrap()
}

fn start(cluster: &TestCluster, more: &[&str]) -> Manager {
    let probes = format!("--probe-namespace={PROBES}");
    let arguments = ["--controllers=replicaset", &probes];
    cluster.start_manager_with(&[&arguments[..], more].concat()).unwrap()
}

/// A controller that starts at once: no built-in one runs beside.
async fn start_at_once(cluster: &TestCluster) -> Manager {
    let mut manager = start(cluster, &["--force"]);
    manager.until_logged("every watch has synced").await.unwrap();
    manager
}

/// Applies an object of one of these kinds for the pods of this application.
async fn apply(cluster: &TestCluster, kind: &str, name: &str, spec: Value) {
    let mut object = workload("apps/v1", kind, name, &spec);
    object["metadata"]["labels"] = json!({"tier": "inference"});
    cluster.make(&object.to_string()).await.unwrap();
}

/// A Deployment `web`, once all its pods are ready.
async fn deployed(cluster: &TestCluster, replicas: usize) -> Vec<String> {
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    apply(cluster, "Deployment", "web", json!({"replicas": replicas, "strategy": strategy})).await;
    cluster.rolled_out("web").await.unwrap();
    let ready = |pods: &[Pod]| pods.len() == replicas && pods.iter().all(is_ready);
    names(&cluster.until_pods("ready", ready).await.unwrap())
}

/// Waits until the rollout has replaced all of these pods by this number of ready ones.
async fn replaced(cluster: &TestCluster, old: &[String], count: usize) -> Vec<String> {
    cluster.rolled_out("web").await.unwrap();
    let new = |found: &[Pod]| {
        found.len() == count && found.iter().all(|pod| is_ready(pod) && !old.contains(&pod.name_any()))
    };
    names(&cluster.until_pods("new", new).await.unwrap())
}

async fn set_image(cluster: &TestCluster, number: usize) {
    cluster.kubectl.run(&["set", "image", "deployment/web", &format!("web=web:{number}")]).await.unwrap();
}

/// Scales the Deployment or set and waits until there are this many pods.
async fn scaled(cluster: &TestCluster, object: &str, replicas: usize) -> Vec<String> {
    cluster.kubectl.run(&["scale", object, &format!("--replicas={replicas}")]).await.unwrap();
    names(&cluster.until_pods("scaled", |pods| pods.len() == replicas).await.unwrap())
}

fn names(pods: &[Pod]) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// The pods that the controller deleted, in order.
async fn deleted(cluster: &TestCluster) -> Vec<String> {
    let deletions = cluster.deletions().await.unwrap();
    deletions.into_iter().filter(Deletion::by_the_controller).map(|deletion| deletion.pod).collect()
}

async fn until_deployment(
    cluster: &TestCluster,
    what: &str,
    wanted: impl Fn(&Deployment) -> bool,
) -> Deployment {
    cluster.until_object(cluster.api(), "web", what, wanted).await.unwrap()
}

async fn until_sets(
    cluster: &TestCluster,
    what: &str,
    wanted: impl Fn(&[ReplicaSet]) -> bool,
) -> Vec<ReplicaSet> {
    cluster.until_all(cluster.api(), what, wanted).await.unwrap()
}

fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| spec.paused == Some(true))
}

fn state(deployment: &Deployment) -> Value {
    let text = deployment.annotations().get(annotation::ROLLOUT_STATE).map_or("{}", String::as_str);
    serde_json::from_str(text).unwrap()
}

fn condition_of<'s>(set: &'s ReplicaSet, type_: &str) -> Option<&'s str> {
    let mut conditions = set.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_)?.message.as_deref()
}

async fn a_rollout_and_a_scale_down_delete_pods_in_the_users_order(cluster: TestCluster) {
    let pods = deployed(&cluster, 6).await;
    cluster.prioritise_in_order(&pods).await.unwrap();
    set_image(&cluster, 2).await;
    let mut left = replaced(&cluster, &pods, 6).await;
    assert_eq!(deleted(&cluster).await, pods);
    until_sets(&cluster, "of these sizes", |sets| {
        let mut sizes: Vec<_> = sets.iter().filter_map(|set| Some(set.status.as_ref()?.replicas)).collect();
        sizes.sort_unstable();
        sizes == [0, 6]
    })
    .await;
    // An annotation that is written just before a scale-down counts.
    for size in [5, 4, 3] {
        cluster.prioritise(&left.remove(size / 2), 7).await.unwrap();
        assert_eq!(scaled(&cluster, "deployment/web", size).await, left);
    }
}

async fn a_pause_point_pauses_the_deployment_until_kubectl_resumes_it(cluster: TestCluster) {
    let pods = deployed(&cluster, 6).await;
    cluster.prioritise_in_order(&pods).await.unwrap();
    cluster.pause_at(&pods[2], "before").await.unwrap();
    set_image(&cluster, 2).await;
    let paused = until_deployment(&cluster, "paused", is_paused).await;
    let hold = &state(&paused)["hold"];
    let waiting = cluster.api::<Pod>().get(&pods[2]).await.unwrap();
    assert_eq!((&hold["pod"], &hold["podUID"]), (&json!(pods[2]), &json!(waiting.uid())));
    assert_eq!(hold["node"], node_of(&waiting));
    cluster.until_event(reason::PAUSE_POINT_REACHED).await.unwrap();
    let is_held_back = |set: &ReplicaSet| condition_of(set, condition::PODS_HELD_BACK).is_some();
    until_sets(&cluster, "held back", |sets| sets.iter().any(is_held_back)).await;
    assert_eq!(deleted(&cluster).await, pods[..2]);

    // Scaling goes on while it is paused, and the held pod stays.
    cluster.kubectl.run(&["scale", "deployment/web", "--replicas=4"]).await.unwrap();
    let fewer = |found: &[Pod]| found.iter().filter(|pod| pods.contains(&pod.name_any())).count() < 4;
    let found = cluster.until_pods("scaled", fewer).await.unwrap();
    assert!(names(&found).contains(&pods[2]));
    assert!(is_paused(&cluster.api::<Deployment>().get("web").await.unwrap()));
    cluster.kubectl.run(&["rollout", "resume", "deployment/web"]).await.unwrap();
    replaced(&cluster, &pods, 4).await;
    let end = state(&until_deployment(&cluster, "not paused", |found| !is_paused(found)).await);
    assert_eq!((&end["hold"], end["passed"].as_array().map(Vec::len)), (&Value::Null, Some(1)));
    until_sets(&cluster, "nothing held back", |sets| !sets.iter().any(is_held_back)).await;
}

async fn a_set_without_a_deployment_adopts_releases_and_scales(cluster: TestCluster) {
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "lone"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    });
    cluster.make(&orphan.to_string()).await.unwrap();
    apply(&cluster, "ReplicaSet", "lone", json!({"replicas": 3})).await;
    let is_whole = |set: &ReplicaSet| {
        let status = set.status.clone().unwrap_or_default();
        (status.available_replicas, status.fully_labeled_replicas) == (Some(3), Some(3))
            && status.observed_generation == set.metadata.generation
    };
    cluster.until_object(cluster.api(), "lone", "available", is_whole).await.unwrap();
    let found = cluster.pods().await.unwrap();
    let owner =
        |pod: &Pod| pod.owner_references().first().map(|owner| (owner.kind.clone(), owner.name.clone()));
    assert!(
        found.iter().all(|pod| owner(pod) == Some(("ReplicaSet".to_owned(), "lone".to_owned()))),
        "{found:#?}"
    );
    assert_eq!(found.iter().filter(|pod| pod.metadata.generate_name.as_deref() == Some("lone-")).count(), 2);
    assert!(names(&found).contains(&"orphan".to_owned()));

    cluster.kubectl.run(&["label", "pod", "orphan", "app=debug", "--overwrite"]).await.unwrap();
    let four = |pods: &[Pod]| pods.len() == 4 && pods.iter().all(is_ready);
    let (free, kept): (Vec<Pod>, Vec<Pod>) =
        cluster.until_pods("four", four).await.unwrap().into_iter().partition(|pod| owner(pod).is_none());
    assert_eq!(names(&free), ["orphan"]);
    let kept = names(&kept);
    cluster.prioritise(&kept[1], 3).await.unwrap();
    cluster.kubectl.run(&["scale", "replicaset/lone", "--replicas=2"]).await.unwrap();
    let left = names(&cluster.until_pods("three", |pods| pods.len() == 3).await.unwrap());
    assert_eq!(left, [kept[0].clone(), kept[2].clone(), "orphan".to_owned()]);
}

async fn other_controllers_work_beside(cluster: TestCluster) {
    let pods = deployed(&cluster, 3).await;
    apply(&cluster, "StatefulSet", "db", json!({"replicas": 2, "serviceName": "db"})).await;
    apply(&cluster, "DaemonSet", "agent", json!({})).await;
    let all = |number: usize| move |pods: &[Pod]| pods.len() == number && pods.iter().all(is_ready);
    cluster.until_pods("all", all(2 + 6 + 3)).await.unwrap();
    // The disruption controller counts the size of the Deployment.
    set_budget(&cluster, "web", ("maxUnavailable", 1)).await;
    until_counted(&cluster, "web", 3, 1).await;
    // The autoscaler has no metrics: it keeps the size within its limits.
    cluster.kubectl.run(&["autoscale", "deployment", "web", "--min=5", "--max=6"]).await.unwrap();
    cluster.until_pods("scaled up", all(2 + 6 + 5)).await.unwrap();
    cluster.prioritise(&pods[1], 4).await.unwrap();
    let fewer = json!({"spec": {"minReplicas": 1, "maxReplicas": 4}}).to_string();
    cluster.kubectl.run(&["patch", "hpa", "web", "--type=merge", "-p", &fewer]).await.unwrap();
    cluster.until_pods("scaled down", all(2 + 6 + 4)).await.unwrap();
    assert_eq!(deleted(&cluster).await, pods[1..2]);
}

async fn the_plugin_shows_orders_marks_and_resumes_a_plain_deployment(cluster: TestCluster) {
    let pods = deployed(&cluster, 4).await;
    let plugin = cluster.plugin().unwrap();
    let marked = plugin.ok(&["mark", &pods[2], "--priority", "5"]).await.unwrap();
    assert!(marked.contains("deployment/web: it is number 1 of 4 in the order"), "{marked}");
    plugin.ok(&["mark", &pods[0], "--priority", "3", "--pause", "before"]).await.unwrap();
    let order = plugin.ok(&["order", "deployment/web", "-o", "name"]).await.unwrap();
    assert!(order.starts_with(&format!("pod/{}\npod/{}\n", pods[2], pods[0])), "{order}");

    set_image(&cluster, 2).await;
    // The Deployment controller fills the surge while it is paused, and one pod waits beyond the sizes.
    let whole = |pods: &[Pod]| pods.len() == 6 && pods.iter().all(is_ready);
    cluster.until_pods("one beyond the sizes", whole).await.unwrap();
    let is_counted = |found: &Deployment| {
        let status = found.status.clone().unwrap_or_default();
        is_paused(found)
            && status.observed_generation == found.metadata.generation
            && status.available_replicas == Some(6)
    };
    until_deployment(&cluster, "paused", is_counted).await;
    let tree = plugin.ok(&["get", "deployment/web"]).await.unwrap();
    for part in [
        "paused at a pause point of revision 2",
        &format!("paused at pause point {} (before)", pods[0]),
        "resume with: kubectl ordered resume deployment/web",
    ] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    assert!(!tree.contains("note:"), "{tree}");
    plugin.ok(&["resume", "deployment/web", &pods[0]]).await.unwrap();
    cluster.rolled_out("web").await.unwrap();
    let tree = plugin.ok(&["get", "deployment/web"]).await.unwrap();
    assert!(tree.contains("complete at revision 2"), "{tree}");
    assert_eq!(deleted(&cluster).await[..2], [pods[2].clone(), pods[0].clone()]);
}

async fn node_rules_are_a_part_of_the_order(cluster: TestCluster) {
    deployed(&cluster, 12).await;
    let hybrid = cluster.pool("hybrid").await.unwrap();
    let is_there = |pod: &Pod| hybrid.contains(node_of(pod));
    let there = cluster.pods().await.unwrap().iter().filter(|pod| is_there(pod)).count();
    assert!(there > 0 && there < 12, "{there}");
    scaled(&cluster, "deployment/web", 12 - there).await;
    let left = cluster.pods().await.unwrap();
    assert!(!left.iter().any(is_there), "the pods of the hybrid pool go first");
    let cost = |pod: &Pod| pod.annotations().contains_key(annotation::POD_DELETION_COST);
    assert!(!left.iter().any(cost), "nothing is written to pods");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_deployments_on_a_real_server() {
    let _machine = share_the_machine().await;
    let cluster = control_plane().await;
    let rules = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "costs"},
        "data": {"nodecosts.yaml": "deployments:\n- selector: {matchLabels: {tier: \
                                    inference}}\n  nodeCosts:\n  - {nodeSelector: {matchLabels: {node.usage: \
                                    hybrid}}, deletionCost: -100}\n"},
    });
    let probes = cluster.inside(PROBES);
    probes.make(&rules.to_string()).await.unwrap();
    let mut manager = start(&cluster, &[&format!("--node-costs-config={PROBES}/costs")]);
    manager.until_logged(NO_OTHER).await.unwrap();
    let scenarios = scenarios::scenarios![
        a_rollout_and_a_scale_down_delete_pods_in_the_users_order,
        a_pause_point_pauses_the_deployment_until_kubectl_resumes_it,
        a_set_without_a_deployment_adopts_releases_and_scales,
        other_controllers_work_beside,
        the_plugin_shows_orders_marks_and_resumes_a_plain_deployment,
        node_rules_are_a_part_of_the_order,
    ];
    scenarios::run_on(&cluster, scenarios).await.unwrap();
}

/// How many random moments the scenarios try. `RANDOM_MOMENTS` raises it.
pub(crate) fn moments() -> usize {
    std::env::var("RANDOM_MOMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Waits for a random time: the moment is the point of the test.
async fn until_any_moment(milliseconds: u64) {
    let pause = rand::rng().random_range(0..milliseconds);
    println!("after {pause} ms");
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_moment_keeps_order_and_floor_on_a_real_server() {
    let _machine = share_the_machine().await;
    let base = control_plane().await;
    let cluster = base.apart(&format!("{}-kills", base.namespace)).await.unwrap();
    let mut manager = Some(start_at_once(&base).await);
    let mut pods = deployed(&cluster, 8).await;
    for round in 0..moments() {
        pods.shuffle(&mut rand::rng());
        cluster.prioritise_in_order(&pods).await.unwrap();
        let before = deleted(&cluster).await.len();
        let killed = async {
            set_image(&cluster, round + 2).await;
            until_any_moment(700).await;
            manager.take().unwrap().kill().await.unwrap();
            manager = Some(start_at_once(&base).await);
            replaced(&cluster, &pods, 8).await
        };
        let new = cluster.with_at_least(8, killed).await;
        assert_eq!(deleted(&cluster).await[before..], pods, "round {round}");
        pods = new;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_deletion_at_any_moment_costs_no_pod_on_a_real_server() {
    let _machine = share_the_machine().await;
    let base = control_plane().await;
    let _manager = start_at_once(&base).await;
    for round in 0..moments() {
        let cluster = base.apart(&format!("{}-orphans-{round}", base.namespace)).await.unwrap();
        deployed(&cluster, 6).await;
        let orphaned = async {
            set_image(&cluster, 2).await;
            until_any_moment(500).await;
            cluster.kubectl.run(&["delete", "deployment/web", "--cascade=orphan"]).await.unwrap();
            let is_settled = |set: &ReplicaSet| {
                let (size, status) = (set.spec.as_ref().and_then(|spec| spec.replicas), set.status.clone());
                let status = status.unwrap_or_default();
                set.owner_references().is_empty()
                    && Some(status.replicas) == size
                    && status.ready_replicas.unwrap_or(0) == status.replicas
            };
            for set in until_sets(&cluster, "orphaned", |sets| sets.iter().all(is_settled)).await {
                let set = format!("replicaset/{}", set.name_any());
                cluster.kubectl.run(&["delete", &set, "--cascade=orphan"]).await.unwrap();
            }
            until_sets(&cluster, "gone", <[ReplicaSet]>::is_empty).await;
            let released = |pods: &[Pod]| pods.iter().all(|pod| pod.owner_references().is_empty());
            cluster.until_pods("released", released).await.unwrap();
        };
        cluster.with_at_least(6, orphaned).await;
        cluster.clear().await.unwrap();
    }
}

/// Waits until a random number of pods is replaced.
async fn until_some_are_new(cluster: &TestCluster, old: &[String]) {
    let wanted = rand::rng().random_range(1..old.len() / 2);
    let some = |found: &[Pod]| found.iter().filter(|pod| !old.contains(&pod.name_any())).count() >= wanted;
    cluster.until_pods("some are new", some).await.unwrap();
}

/// The built-in controller runs while it holds the Lease, which it gets soon after another one was killed.
const ELECTS: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=1s",
];

/// The probe keeps this controller and the built-in one apart, and both hand over in the middle of a rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stands_aside_for_the_built_in_controller_on_a_real_server() {
    let _machine = share_the_machine().await;
    let base = control_plane().await;
    let mut built_in = Some(base.start_built_in_apart("replicaset", &[]).unwrap());
    let cluster = base.apart(&format!("{}-handover", base.namespace)).await.unwrap();
    deployed(&cluster, 20).await;
    let mut manager = start(&base, &[]);
    manager.until_logged(STANDS_ASIDE).await.unwrap();
    base.inside(PROBES).until_event(reason::STANDS_ASIDE).await.unwrap();
    let mut pods = scaled(&cluster, "deployment/web", 19).await;
    assert!(deleted(&cluster).await.is_empty(), "the built-in controller did it");
    for round in 0..moments().div_ceil(2) {
        // It is switched off in the middle of a rollout: the rest of it is in the user's order.
        cluster.prioritise_in_order(&pods).await.unwrap();
        let before = deleted(&cluster).await.len();
        let switched_off = async {
            set_image(&cluster, 2 * round + 2).await;
            until_some_are_new(&cluster, &pods).await;
            built_in.take().unwrap().kill().unwrap();
            manager.until_logged(NO_OTHER).await.unwrap();
            replaced(&cluster, &pods, 19).await
        };
        let new = cluster.with_at_least(19, switched_off).await;
        let ours = deleted(&cluster).await.split_off(before);
        let places = ours.iter().map(|name| pods.iter().position(|pod| pod == name));
        assert!(!ours.is_empty() && places.is_sorted(), "round {round}: {ours:?} of {pods:?}");

        // And on again, in the middle of another one. Both can delete for one step of the Deployment, before
        // ours sees the first report of the built-in controller.
        let switched_on = async {
            set_image(&cluster, 2 * round + 3).await;
            until_some_are_new(&cluster, &new).await;
            let arguments: &[&str] = if round % 2 == 0 { &[] } else { &ELECTS };
            built_in = Some(base.start_built_in_apart("replicaset", arguments).unwrap());
            manager.until_logged(STANDS_ASIDE).await.unwrap();
            replaced(&cluster, &new, 19).await
        };
        pods = cluster.with_at_least(18, switched_on).await;
    }
    let before = deleted(&cluster).await.len();
    scaled(&cluster, "deployment/web", 5).await;
    assert_eq!(deleted(&cluster).await.len(), before);
}
