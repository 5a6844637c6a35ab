//! Plain Deployments on a real control plane that runs without its own controller of ReplicaSets: this controller reconciles them.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{LocalBoxFuture, join_all};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use kube_runtime::WatchStreamExt;
use kube_runtime::watcher::{self, watcher};
use ordereddeployment_api::names::{annotation, condition, reason};
use rand::RngExt;
use rand::seq::SliceRandom;
use scenarios::{Deletion, Manager, Server, Setting, TestCluster, is_ready, share_the_machine};
use serde_json::{Value, json};

use crate::built_in::budget;

/// The namespace of the probe.
const PROBES: &str = "default";

fn setting() -> Setting {
    Setting { built_in_controllers: "*,-replicaset".to_owned(), ..Setting::default() }
}

fn start(cluster: &TestCluster, more: &[&str]) -> Manager {
    let probes = format!("--probe-namespace={PROBES}");
    let arguments = ["--controllers=replicaset", &probes];
    cluster.start_manager_with(&[&arguments[..], more].concat()).unwrap()
}

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "web:1"}]},
    })
}

/// A Deployment `web`, once all its pods are ready.
async fn deployed(cluster: &TestCluster, replicas: usize, strategy: Value) -> Vec<String> {
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": strategy}, "template": template("web"),
        },
    });
    apply(cluster, &manifest).await;
    rolled_out(cluster).await;
    names(
        &cluster
            .until_pods("ready", |pods| pods.len() == replicas && pods.iter().all(is_ready))
            .await
            .unwrap(),
    )
}

async fn apply(cluster: &TestCluster, manifest: &Value) {
    cluster.kubectl.run_with(&["apply", "-f", "-"], &manifest.to_string()).await.unwrap();
}

async fn rolled_out(cluster: &TestCluster) {
    cluster.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
}

fn names(pods: &[Pod]) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// Priorities that decrease in the order of these names.
async fn prioritize(cluster: &TestCluster, pods: &[String]) {
    for (place, pod) in pods.iter().enumerate() {
        cluster.prioritise(pod, 100 - i32::try_from(place).unwrap()).await.unwrap();
    }
}

/// The pods of `app` that the controller deleted, in order.
async fn deleted(cluster: &TestCluster) -> Vec<String> {
    let deletions = cluster.deletions().await.unwrap();
    deletions.into_iter().filter(Deletion::by_the_controller).map(|deletion| deletion.pod).collect()
}

fn deployments(cluster: &TestCluster) -> Api<Deployment> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

fn sets(cluster: &TestCluster) -> Api<ReplicaSet> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

fn is_paused(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| spec.paused == Some(true))
}

fn state(deployment: &Deployment) -> Value {
    let text =
        deployment.annotations().get(annotation::ROLLOUT_STATE).cloned().unwrap_or_else(|| "{}".to_owned());
    serde_json::from_str(&text).unwrap()
}

fn condition_of<'s>(set: &'s ReplicaSet, type_: &str) -> Option<&'s str> {
    let mut conditions = set.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_)?.message.as_deref()
}

fn strict() -> Value {
    json!({"maxSurge": 1, "maxUnavailable": 0})
}

async fn a_rollout_deletes_pods_in_the_users_order(cluster: TestCluster) {
    let pods = deployed(&cluster, 6, strict()).await;
    prioritize(&cluster, &pods).await;
    cluster.kubectl.run(&["set", "image", "deployment/web", "main=web:2"]).await.unwrap();
    rolled_out(&cluster).await;
    cluster
        .until_pods("new", |found| {
            found.len() == 6 && found.iter().all(|pod| !pods.contains(&pod.name_any()))
        })
        .await
        .unwrap();
    assert_eq!(deleted(&cluster).await, pods);
    let status = sets(&cluster).list(&ListParams::default()).await.unwrap().items;
    let sizes: Vec<_> =
        status.iter().map(|set| set.status.as_ref().map_or(0, |status| status.replicas)).collect();
    assert!(sizes.contains(&6) && sizes.contains(&0), "{sizes:?}");
}

async fn an_annotation_written_just_before_a_scale_down_counts(cluster: TestCluster) {
    let pods = deployed(&cluster, 6, strict()).await;
    let mut left = pods.clone();
    for size in [5, 4, 3] {
        let chosen = left.remove(left.len() / 2);
        cluster.prioritise(&chosen, 7).await.unwrap();
        cluster.kubectl.run(&["scale", "deployment/web", &format!("--replicas={size}")]).await.unwrap();
        let found = cluster.until_pods("fewer", |found| found.len() == size).await.unwrap();
        assert_eq!(names(&found), left);
    }
}

async fn a_pause_point_pauses_the_deployment_until_kubectl_resumes_it(cluster: TestCluster) {
    let pods = deployed(&cluster, 6, strict()).await;
    prioritize(&cluster, &pods).await;
    cluster.pause_at(&pods[2], "before").await.unwrap();
    cluster.kubectl.run(&["set", "image", "deployment/web", "main=web:2"]).await.unwrap();
    let paused = cluster.until_object(deployments(&cluster), "web", "paused", is_paused).await.unwrap();
    let hold = &state(&paused)["hold"];
    let waiting_pod: Pod =
        Api::namespaced(cluster.client.clone(), &cluster.namespace).get(&pods[2]).await.unwrap();
    assert_eq!(
        (hold["pod"].as_str(), hold["podUID"].as_str()),
        (Some(&*pods[2]), waiting_pod.metadata.uid.as_deref())
    );
    assert_eq!(hold["node"].as_str(), waiting_pod.spec.unwrap().node_name.as_deref());
    cluster.until_event(reason::PAUSE_POINT_REACHED).await.unwrap();
    let waits =
        |sets: &[ReplicaSet]| sets.iter().any(|set| condition_of(set, condition::PODS_HELD_BACK).is_some());
    cluster.until_all(sets(&cluster), "held back", waits).await.unwrap();
    assert_eq!(deleted(&cluster).await, pods[..2]);

    // Scaling goes on while it is paused, and the held pod stays.
    cluster.kubectl.run(&["scale", "deployment/web", "--replicas=4"]).await.unwrap();
    let found = cluster
        .until_pods("scaled", |found| found.iter().filter(|pod| pods.contains(&pod.name_any())).count() < 4)
        .await
        .unwrap();
    assert!(names(&found).contains(&pods[2]));
    assert!(is_paused(&deployments(&cluster).get("web").await.unwrap()));

    cluster.kubectl.run(&["rollout", "resume", "deployment/web"]).await.unwrap();
    rolled_out(&cluster).await;
    cluster
        .until_pods("new", |found| {
            found.len() == 4 && found.iter().all(|pod| !pods.contains(&pod.name_any()))
        })
        .await
        .unwrap();
    let end = cluster
        .until_object(deployments(&cluster), "web", "not paused", |found| !is_paused(found))
        .await
        .unwrap();
    assert_eq!(
        (&state(&end)["hold"], state(&end)["passed"].as_array().map(Vec::len)),
        (&Value::Null, Some(1))
    );
    let none_waits =
        |sets: &[ReplicaSet]| sets.iter().all(|set| condition_of(set, condition::PODS_HELD_BACK).is_none());
    cluster.until_all(sets(&cluster), "nothing held back", none_waits).await.unwrap();
}

async fn a_set_without_a_deployment_adopts_releases_and_scales(cluster: TestCluster) {
    let orphan = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "lone"}}, "spec": template("lone")["spec"]});
    apply(&cluster, &orphan).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "lone"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "lone"}}, "template": template("lone")},
    });
    apply(&cluster, &set).await;
    let is_whole = |set: &ReplicaSet| {
        let status = set.status.clone().unwrap_or_default();
        status.available_replicas == Some(3)
            && status.fully_labeled_replicas == Some(3)
            && status.observed_generation == set.metadata.generation
    };
    cluster.until_object(sets(&cluster), "lone", "available", is_whole).await.unwrap();
    let found = names(
        &cluster.until_pods("three", |pods| pods.len() == 3 && pods.iter().all(is_ready)).await.unwrap(),
    );
    assert!(found.contains(&"orphan".to_owned()), "{found:?}");
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let owner =
        |pod: &Pod| pod.owner_references().first().map(|owner| (owner.kind.clone(), owner.name.clone()));
    assert_eq!(owner(&api.get("orphan").await.unwrap()), Some(("ReplicaSet".to_owned(), "lone".to_owned())));
    let made = found.iter().find(|name| *name != "orphan").unwrap();
    assert_eq!(api.get(made).await.unwrap().metadata.generate_name.as_deref(), Some("lone-"));

    cluster.kubectl.run(&["label", "pod", "orphan", "app=debug", "--overwrite"]).await.unwrap();
    let found =
        cluster.until_pods("four", |pods| pods.len() == 4 && pods.iter().all(is_ready)).await.unwrap();
    assert_eq!(
        found.iter().filter(|pod| owner(pod).is_none()).map(ResourceExt::name_any).collect::<Vec<_>>(),
        ["orphan"]
    );
    let mut left = names(&found);
    left.retain(|name| name != "orphan");
    cluster.prioritise(&left[1], 3).await.unwrap();
    cluster.kubectl.run(&["scale", "replicaset/lone", "--replicas=2"]).await.unwrap();
    let found = cluster.until_pods("three", |pods| pods.len() == 3).await.unwrap();
    left.remove(1);
    left.push("orphan".to_owned());
    assert_eq!(names(&found), left);
}

async fn failed_creates_are_reported_and_recover(cluster: TestCluster) {
    cluster.set_quota(2).await.unwrap();
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")},
    });
    apply(&cluster, &manifest).await;
    let fails = |sets: &[ReplicaSet]| {
        sets.iter().any(|set| {
            condition_of(set, condition::REPLICA_FAILURE)
                .is_some_and(|message| message.contains("exceeded quota"))
        })
    };
    cluster.until_all(sets(&cluster), "failing", fails).await.unwrap();
    let is_told = |found: &Deployment| {
        let conditions =
            found.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|found| found.type_ == condition::REPLICA_FAILURE && found.status == "True")
    };
    cluster.until_object(deployments(&cluster), "web", "failing", is_told).await.unwrap();
    cluster.set_quota(10).await.unwrap();
    rolled_out(&cluster).await;
    let recovers =
        |sets: &[ReplicaSet]| sets.iter().all(|set| condition_of(set, condition::REPLICA_FAILURE).is_none());
    cluster.until_all(sets(&cluster), "recovered", recovers).await.unwrap();
}

async fn deletion_removes_or_orphans_as_asked(cluster: TestCluster) {
    for cascade in ["background", "foreground"] {
        deployed(&cluster, 3, strict()).await;
        cluster.kubectl.run(&["delete", "deployment/web", &format!("--cascade={cascade}")]).await.unwrap();
        cluster.until_pods("none", <[Pod]>::is_empty).await.unwrap();
        cluster.until_all(sets(&cluster), "none", <[ReplicaSet]>::is_empty).await.unwrap();
    }
    let pods = deployed(&cluster, 3, strict()).await;
    cluster.kubectl.run(&["delete", "deployment/web", "--cascade=orphan"]).await.unwrap();
    cluster
        .until_all(sets(&cluster), "orphaned", |sets| {
            sets.iter().all(|set| set.owner_references().is_empty())
        })
        .await
        .unwrap();
    // The set has no Deployment any more, and goes on.
    let set = sets(&cluster).list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    cluster.prioritise(&pods[1], 5).await.unwrap();
    cluster.kubectl.run(&["scale", &format!("replicaset/{set}"), "--replicas=2"]).await.unwrap();
    let found = cluster.until_pods("two", |found| found.len() == 2).await.unwrap();
    assert_eq!(names(&found), [pods[0].clone(), pods[2].clone()]);
    cluster.kubectl.run(&["delete", &format!("replicaset/{set}"), "--cascade=orphan"]).await.unwrap();
    let orphans = |pods: &[Pod]| pods.len() == 2 && pods.iter().all(|pod| pod.owner_references().is_empty());
    cluster.until_pods("orphans", orphans).await.unwrap();
}

async fn other_controllers_work_beside(cluster: TestCluster) {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db")},
    });
    let daemons = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")},
    });
    let mut of_job = template("job");
    of_job["spec"]["restartPolicy"] = json!("Never");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
        "spec": {"parallelism": 2, "completions": 2, "template": of_job},
    });
    let pods = deployed(&cluster, 3, strict()).await;
    for manifest in [set, daemons, job] {
        apply(&cluster, &manifest).await;
    }
    let all = |number: usize| move |pods: &[Pod]| pods.len() == number && pods.iter().all(is_ready);
    cluster.until_pods("all", all(2 + 6 + 2 + 3)).await.unwrap();

    // The disruption controller counts the size of the Deployment, and kubectl drains.
    let budgets = budget(&cluster, json!(1)).await;
    let counted = |budget: &DynamicObject| {
        budget.data.pointer("/status/expectedPods") == Some(&json!(3))
            && budget.data.pointer("/status/disruptionsAllowed") == Some(&json!(1))
    };
    cluster.until_object(budgets, "web", "counted", counted).await.unwrap();

    // The autoscaler has no metrics: it keeps the size within its limits.
    cluster.kubectl.run(&["autoscale", "deployment", "web", "--min=5", "--max=6"]).await.unwrap();
    cluster.until_pods("scaled up", all(2 + 6 + 2 + 5)).await.unwrap();
    cluster.prioritise(&pods[1], 4).await.unwrap();
    cluster
        .kubectl
        .run(&["patch", "hpa", "web", "--type=merge", "-p", r#"{"spec":{"minReplicas":1,"maxReplicas":4}}"#])
        .await
        .unwrap();
    let left = cluster.until_pods("scaled down", all(2 + 6 + 2 + 4)).await.unwrap();
    assert!(!names(&left).contains(&pods[1]));
    assert_eq!(deleted(&cluster).await, pods[1..2]);
}

async fn the_plugin_shows_orders_marks_and_resumes_a_plain_deployment(cluster: TestCluster) {
    let pods = deployed(&cluster, 4, strict()).await;
    let plugin = cluster.plugin().unwrap();
    let run = async |arguments: &[&str]| {
        let printed = plugin.run(arguments).await.unwrap();
        assert_eq!(printed.code, 0, "{arguments:?}: {}{}", printed.out, printed.err);
        printed.out
    };
    let marked = run(&["mark", &pods[2], "--priority", "5"]).await;
    assert!(marked.contains("deployment/web: it is number 1 of 4 in the order"), "{marked}");
    run(&["mark", &pods[0], "--priority", "3", "--pause", "before"]).await;
    let order = run(&["order", "deployment/web", "-o", "name"]).await;
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order[..2], [format!("pod/{}", pods[2]), format!("pod/{}", pods[0])]);
    let preview = run(&["order", "deployment/web", "--replicas", "3"]).await;
    assert!(
        preview.contains("scaling from 4 to 3 would delete 1 pod\n") && preview.contains(&pods[2]),
        "{preview}"
    );

    cluster.kubectl.run(&["set", "image", "deployment/web", "main=web:2"]).await.unwrap();
    // The Deployment controller fills the surge while it is paused, and one pod waits beyond the sizes.
    let whole = |pods: &[Pod]| pods.len() == 6 && pods.iter().all(is_ready);
    cluster.until_pods("one beyond the sizes", whole).await.unwrap();
    let is_counted = |found: &Deployment| {
        let status = found.status.clone().unwrap_or_default();
        is_paused(found)
            && status.observed_generation == found.metadata.generation
            && status.available_replicas == Some(6)
    };
    cluster.until_object(deployments(&cluster), "web", "paused", is_counted).await.unwrap();
    let tree = run(&["get", "deployment/web"]).await;
    for part in [
        "deployment/web in",
        "paused at a pause point of revision 2",
        &format!("paused at pause point {} (before)", pods[0]),
        "resume with: kubectl ordered resume deployment/web",
    ] {
        assert!(tree.contains(part), "{part}: {tree}");
    }
    assert!(!tree.contains("note:"), "{tree}");
    run(&["resume", "deployment/web", &pods[0]]).await;
    rolled_out(&cluster).await;
    let tree = run(&["get", "deployment/web"]).await;
    assert!(tree.contains("complete at revision 2"), "{tree}");
    assert_eq!(deleted(&cluster).await[..2], [pods[2].clone(), pods[0].clone()]);
}

async fn node_rules_are_a_part_of_the_order(cluster: TestCluster) {
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"tier": "inference"}},
        "spec": {"replicas": 12, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")},
    });
    apply(&cluster, &manifest).await;
    rolled_out(&cluster).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let nodes = nodes.list(&ListParams::default().labels("node.usage=hybrid")).await.unwrap();
    let hybrid: Vec<_> = nodes.items.iter().map(ResourceExt::name_any).collect();
    let is_there = |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        node.is_some_and(|node| hybrid.contains(&node))
    };
    let pods = cluster.pods().await.unwrap();
    let there = pods.iter().filter(|pod| is_there(pod)).count();
    assert!(there > 0 && there < 12, "{there}");
    cluster.kubectl.run(&["scale", "deployment/web", &format!("--replicas={}", 12 - there)]).await.unwrap();
    let left = cluster.until_pods("fewer", |pods| pods.len() == 12 - there).await.unwrap();
    assert!(!left.iter().any(is_there), "the pods of the hybrid pool go first");
    let cost = |pod: &Pod| pod.annotations().contains_key(annotation::POD_DELETION_COST);
    assert!(!left.iter().any(cost), "nothing is written to pods");
}

/// The lowest number of available pods in this namespace since [`Lowest::reset`].
struct Lowest {
    lowest: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Lowest {
    fn watch(cluster: &TestCluster) -> Self {
        let lowest = Arc::new(AtomicUsize::new(usize::MAX));
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let seen = Arc::clone(&lowest);
        let task = tokio::spawn(async move {
            let mut stream = pin!(watcher(pods, watcher::Config::default()).default_backoff());
            let mut known: BTreeMap<String, bool> = BTreeMap::new();
            let mut is_listed = false;
            while let Some(event) = stream.next().await {
                let serves = |pod: &Pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
                match event {
                    Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                        known.insert(pod.name_any(), serves(&pod));
                    }
                    Ok(watcher::Event::Delete(pod)) => _ = known.remove(&pod.name_any()),
                    Ok(watcher::Event::Init) => (known, is_listed) = (BTreeMap::new(), false),
                    Ok(watcher::Event::InitDone) => is_listed = true,
                    Err(_) => {}
                }
                if !is_listed {
                    continue;
                }
                seen.fetch_min(known.values().filter(|serves| **serves).count(), Ordering::SeqCst);
            }
        });
        Self { lowest, task }
    }

    fn reset(&self) {
        self.lowest.store(usize::MAX, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.lowest.load(Ordering::SeqCst)
    }
}

impl Drop for Lowest {
    fn drop(&mut self) {
        self.task.abort();
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

async fn set_image(cluster: &TestCluster, number: usize) {
    cluster.kubectl.run(&["set", "image", "deployment/web", &format!("main=web:{number}")]).await.unwrap();
}

/// A controller that starts at once: no built-in one runs beside.
async fn start_at_once(cluster: &TestCluster) -> Manager {
    let mut manager = start(cluster, &["--force"]);
    manager.until_logged("every watch has synced").await.unwrap();
    manager
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_moment_keeps_order_and_floor_on_a_real_server() {
    let _machine = share_the_machine().await;
    let base = TestCluster::with(Server::Real, setting()).await.unwrap();
    let cluster = base.apart(&format!("{}-kills", base.namespace)).await.unwrap();
    let mut manager = start_at_once(&base).await;
    let mut pods = deployed(&cluster, 8, strict()).await;
    let lowest = Lowest::watch(&cluster);
    let mut before = 0;
    for round in 0..crate::moments() {
        pods.shuffle(&mut rand::rng());
        prioritize(&cluster, &pods).await;
        cluster
            .kubectl
            .run(&["set", "image", "deployment/web", &format!("main=web:{}", round + 2)])
            .await
            .unwrap();
        // The moment is the point of the test.
        let pause = rand::rng().random_range(0..700);
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        manager.kill().await.unwrap();
        manager = start_at_once(&base).await;
        rolled_out(&cluster).await;
        let new = |found: &[Pod]| {
            found.len() == 8 && found.iter().all(|pod| is_ready(pod) && !pods.contains(&pod.name_any()))
        };
        let found = cluster.until_pods("new", new).await.unwrap();
        let all = deleted(&cluster).await;
        assert_eq!(all[before..], pods, "round {round}, killed after {pause} ms");
        assert!(
            lowest.get() >= 8,
            "round {round}, killed after {pause} ms: {} pods were available",
            lowest.get()
        );
        (before, pods) = (all.len(), names(&found));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_deletion_at_any_moment_costs_no_pod_on_a_real_server() {
    let _machine = share_the_machine().await;
    let base = TestCluster::with(Server::Real, setting()).await.unwrap();
    let _manager = start_at_once(&base).await;
    for round in 0..crate::moments() {
        let cluster = base.apart(&format!("{}-orphans-{round}", base.namespace)).await.unwrap();
        deployed(&cluster, 6, strict()).await;
        let lowest = Lowest::watch(&cluster);
        cluster.kubectl.run(&["set", "image", "deployment/web", "main=web:2"]).await.unwrap();
        // The moment is the point of the test.
        let pause = rand::rng().random_range(0..500);
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        cluster.kubectl.run(&["delete", "deployment/web", "--cascade=orphan"]).await.unwrap();
        let is_settled = |sets: &[ReplicaSet]| {
            sets.iter().all(|set| {
                let (size, status) = (set.spec.as_ref().and_then(|spec| spec.replicas), set.status.clone());
                set.owner_references().is_empty()
                    && status.is_some_and(|status| {
                        Some(status.replicas) == size && status.ready_replicas.unwrap_or(0) == status.replicas
                    })
            })
        };
        let left = cluster.until_all(sets(&cluster), "orphaned", is_settled).await.unwrap();
        for set in &left {
            cluster
                .kubectl
                .run(&["delete", &format!("replicaset/{}", set.name_any()), "--cascade=orphan"])
                .await
                .unwrap();
        }
        cluster.until_all(sets(&cluster), "gone", <[ReplicaSet]>::is_empty).await.unwrap();
        let released = |pods: &[Pod]| pods.iter().all(|pod| pod.owner_references().is_empty());
        let pods = cluster.until_pods("released", released).await.unwrap();
        assert!(
            pods.len() >= 6 && lowest.get() >= 6,
            "round {round}, after {pause} ms: {} of {}",
            lowest.get(),
            pods.len()
        );
        cluster.clear().await.unwrap();
    }
}

type Scenario = fn(TestCluster) -> LocalBoxFuture<'static, ()>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_deployments_on_a_real_server() {
    let scenarios: [(&str, Scenario); 9] = [
        ("order", |cluster| a_rollout_deletes_pods_in_the_users_order(cluster).boxed_local()),
        ("causality", |cluster| an_annotation_written_just_before_a_scale_down_counts(cluster).boxed_local()),
        ("pause", |cluster| {
            a_pause_point_pauses_the_deployment_until_kubectl_resumes_it(cluster).boxed_local()
        }),
        ("lone", |cluster| a_set_without_a_deployment_adopts_releases_and_scales(cluster).boxed_local()),
        ("quota", |cluster| failed_creates_are_reported_and_recover(cluster).boxed_local()),
        ("deletion", |cluster| deletion_removes_or_orphans_as_asked(cluster).boxed_local()),
        ("beside", |cluster| other_controllers_work_beside(cluster).boxed_local()),
        ("plugin", |cluster| {
            the_plugin_shows_orders_marks_and_resumes_a_plain_deployment(cluster).boxed_local()
        }),
        ("nodes", |cluster| node_rules_are_a_part_of_the_order(cluster).boxed_local()),
    ];
    let _machine = share_the_machine().await;
    let cluster = TestCluster::with(Server::Real, setting()).await.unwrap();
    let rules = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "costs"},
        "data": {"nodecosts.yaml": "deployments:\n- selector: {matchLabels: {tier: inference}}\n  nodeCosts:\n  \
                                    - {nodeSelector: {matchLabels: {node.usage: hybrid}}, deletionCost: -100}\n"},
    });
    apply(&cluster.inside(PROBES), &rules).await;
    let mut manager = start(&cluster, &[&format!("--node-costs-config={PROBES}/costs")]);
    manager.until_logged("no other controller of ReplicaSets is alive").await.unwrap();
    let running = scenarios.into_iter().map(async |(name, scenario)| {
        let cluster = cluster.apart(&format!("{}-{name}", cluster.namespace)).await.unwrap();
        let result = AssertUnwindSafe(scenario(cluster.clone())).catch_unwind().await;
        result.err().map(|_| format!("{name}, in the namespace {}", cluster.namespace))
    });
    let failed: Vec<String> = join_all(running).await.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// The probe keeps this controller and the built-in one apart, and both hand over in the middle of a rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stands_aside_for_the_built_in_controller_on_a_real_server() {
    let _machine = share_the_machine().await;
    let base = TestCluster::with(Server::Real, setting()).await.unwrap();
    let built_in = base.start_built_in_apart("replicaset", &[]).unwrap();
    let cluster = base.apart(&format!("{}-handover", base.namespace)).await.unwrap();
    deployed(&cluster, 20, strict()).await;
    let mut manager = start(&base, &[]);
    manager
        .until_logged("stands aside: kube-controller-manager's replicaset controller is alive")
        .await
        .unwrap();
    base.inside(PROBES).until_event(reason::STANDS_ASIDE).await.unwrap();
    cluster.kubectl.run(&["scale", "deployment/web", "--replicas=19"]).await.unwrap();
    cluster.until_pods("nineteen", |pods| pods.len() == 19).await.unwrap();
    assert!(deleted(&cluster).await.is_empty(), "the built-in controller did it");

    let lowest = Lowest::watch(&cluster);
    let mut built_in = built_in;
    for round in 0..crate::moments().div_ceil(2) {
        // It is switched off in the middle of a rollout.
        let pods = names(&cluster.pods().await.unwrap());
        prioritize(&cluster, &pods).await;
        let before = deleted(&cluster).await.len();
        lowest.reset();
        set_image(&cluster, 2 * round + 2).await;
        until_some_are_new(&cluster, &pods).await;
        built_in.kill().unwrap();
        manager.until_logged("no other controller of ReplicaSets is alive").await.unwrap();
        rolled_out(&cluster).await;
        let new =
            |found: &[Pod]| found.len() == 19 && found.iter().all(|pod| !pods.contains(&pod.name_any()));
        cluster.until_pods("new", new).await.unwrap();
        let ours = deleted(&cluster).await.split_off(before);
        let mut sorted = ours.clone();
        sorted.sort_by_key(|name| pods.iter().position(|pod| pod == name));
        assert_eq!(ours, sorted, "round {round}: the rest of the rollout is in the user's order");
        assert!(!ours.is_empty());
        assert!(lowest.get() >= 19, "round {round}, switched off: {} pods were available", lowest.get());

        // And on again, in the middle of another one.
        lowest.reset();
        let pods = names(&cluster.pods().await.unwrap());
        set_image(&cluster, 2 * round + 3).await;
        until_some_are_new(&cluster, &pods).await;
        built_in =
            base.start_built_in_apart("replicaset", if round % 2 == 0 { &[] } else { &ELECTS }).unwrap();
        manager
            .until_logged("stands aside: kube-controller-manager's replicaset controller is alive")
            .await
            .unwrap();
        rolled_out(&cluster).await;
        // Both can delete for one step of the Deployment, before ours sees the first report of the built-in controller.
        assert!(lowest.get() >= 18, "round {round}, switched on: {} pods were available", lowest.get());
    }
    let before = deleted(&cluster).await.len();
    cluster.kubectl.run(&["scale", "deployment/web", "--replicas=5"]).await.unwrap();
    cluster.until_pods("five", |found| found.len() == 5).await.unwrap();
    assert_eq!(deleted(&cluster).await.len(), before);
    drop(built_in);
}
