//! Plain Deployments under random users and random faults: which pods are deleted when, and how all ends.
//!
//! Each run has a seed. `PLAIN_RUNS` sets how many there are, and `PLAIN_SEED` the first one.

pub mod deployments;
mod history;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_sandbox::{Collector, Record};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::cluster::{Cluster, spec_of};
use crate::fault_injector::RequestFault;
use history::{Seen, violations};

/// How many seeds a usual test run plays.
const RUNS: u64 = 60;
/// The actions of one user.
const ACTIONS: usize = 12;

async fn create(cluster: &Cluster, rng: &mut StdRng) {
    let bounds = [(1, 0), (1, 1), (2, 1), (0, 1), (0, 2), (3, 0)].choose(rng).unwrap();
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": bounds.0, "maxUnavailable": bounds.1}});
    let strategy = if rng.random_bool(0.2) { json!({"type": "Recreate"}) } else { rolling };
    let mut spec = spec_of("web", "web:1", rng.random_range(3..8));
    spec["strategy"] = strategy;
    cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

async fn patch(cluster: &Cluster, patch: Value) {
    cluster.merge::<Deployment>("web", patch).await;
}

/// One action of a user.
async fn act(cluster: &Cluster, rng: &mut StdRng) {
    let pods = cluster.all_pods().await;
    let active: Vec<String> = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .map(ResourceExt::name_any)
        .collect();
    let annotate = async |rng: &mut StdRng, key: &str, value: Value| {
        if let Some(pod) = active.choose(rng) {
            let change = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
            // The pod may be gone by now.
            cluster.pods().patch(pod, &PatchParams::default(), &change).await.ok();
        }
    };
    match rng.random_range(0..13) {
        0 | 1 | 10 => {
            let image = format!("web:{}", rng.random_range(1..4));
            let template = &spec_of("web", &image, 0)["template"];
            patch(cluster, json!({"spec": {"template": template}})).await;
        }
        2 | 3 => patch(cluster, json!({"spec": {"replicas": rng.random_range(0..9)}})).await,
        4 | 5 => {
            let priority = rng.random_range(-2..5).to_string();
            annotate(rng, annotation::DELETE_PRIORITY, json!(priority)).await;
        }
        6 | 11 | 12 => {
            let side = *["before", "after"].choose(rng).unwrap();
            annotate(rng, annotation::PAUSE_POINT, json!(side)).await;
        }
        7 => annotate(rng, annotation::PAUSE_POINT, Value::Null).await,
        8 => patch(cluster, json!({"spec": {"paused": false}})).await,
        _ => {
            if let Some(pod) = active.choose(rng) {
                let ready = rng.random_bool(0.5);
                if cluster.pods().get_opt(pod).await.unwrap().is_some() {
                    cluster.set_ready(pod, ready).await;
                }
            }
        }
    }
}

/// The faults of a run: some requests are late or fail, get lost, or lose their answer.
fn faults(cluster: &Cluster, seed: u64) {
    let rng = Mutex::new(StdRng::seed_from_u64(seed));
    cluster.faults.rule(move |info| {
        let rng = &mut *rng.lock().unwrap();
        if info.is_watch() || !rng.random_bool(0.12) {
            return RequestFault::None;
        }
        match rng.random_range(0..7) {
            0 => RequestFault::Delay(Duration::from_millis(rng.random_range(1..3000))),
            1 | 2 => RequestFault::DelayAnswer(Duration::from_millis(rng.random_range(1..3000))),
            3 => RequestFault::Response(500),
            4 => RequestFault::Response(409),
            // It is carried out, and the answer is lost.
            5 => RequestFault::DelayAnswer(Duration::from_secs(40)),
            _ => RequestFault::After(Box::pin(std::future::pending())),
        }
    });
}

const WATCHED: [&str; 3] = ["deployments", "replicasets", "pods"];

/// The watch shows nothing any more.
fn break_watch(cluster: &Cluster, which: Option<usize>) {
    if let Some(which) = which {
        cluster.sandbox.delay_watch(WATCHED[which], Duration::from_secs(3600));
    }
}

/// The watch that was broken expires: a list follows.
fn restore_watch(cluster: &Cluster, which: Option<usize>) {
    if let Some(which) = which {
        cluster.sandbox.compact(u64::MAX);
        cluster.sandbox.delay_watch(WATCHED[which], Duration::ZERO);
    }
}

/// A user who resumes what is paused until all is done.
async fn finish(cluster: &Cluster) -> Result<(), String> {
    for pod in cluster.pods().list(&ListParams::default()).await.unwrap() {
        cluster.set_ready(&pod.name_any(), true).await;
    }
    let mut last = String::new();
    for _ in 0..120 {
        patch(cluster, json!({"spec": {"paused": false}})).await;
        cluster.pass(Duration::from_secs(5)).await;
        let deployment = cluster.api::<Deployment>().get("web").await.unwrap();
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let status = deployment.status.clone().unwrap_or_default();
        let sets = cluster.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
        let pods = cluster.all_pods().await;
        let size = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let sized = |set: &ReplicaSet| {
            let own = pods.iter().filter(|pod| {
                pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.uid().as_ref())
            });
            own.count() == usize::try_from(size(set)).unwrap_or(0)
                && set.status.as_ref().is_some_and(|status| {
                    status.replicas == size(set) && status.observed_generation == set.metadata.generation
                })
        };
        let number = |count: Option<i32>| count.unwrap_or(0);
        let is_done = status.observed_generation == deployment.metadata.generation
            && [status.replicas, status.updated_replicas, status.available_replicas].map(number)
                == [desired; 3]
            && sets.iter().all(sized);
        if is_done {
            return Ok(());
        }
        last = format!("{status:?}, {} pods for {desired}", pods.len());
    }
    Err(format!("it does not end: {last}"))
}

/// The namespace of the other tenant.
const ATTACKER: &str = "attacker";

/// The objects of this kind in this namespace.
fn api(cluster: &Cluster, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(cluster.client.clone(), namespace, &resource)
}

async fn forge(api: &Api<DynamicObject>, object: Value) -> Option<String> {
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap().uid()
}

/// Forges pods and sets of every shape in a new namespace, with the UIDs of the victim's objects.
async fn attack(cluster: &Cluster) {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": ATTACKER}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let (group, set_kind) = ("apps/v1", "ReplicaSet");
    let owner = |kind: &str, name: &str, uid: &Option<String>| {
        json!([{"apiVersion": group, "kind": kind,
        "name": name, "uid": uid, "controller": true}])
    };
    let victim = &cluster.all_pods().await[0];
    let (labels, set) = (victim.labels(), &victim.owner_references()[0]);
    let deployment = api(cluster, "default", group, "Deployment").get("web").await.unwrap().uid();
    let pod = json!({"containers": [{"name": "main", "image": "attacker:1"}]});
    let sets = api(cluster, ATTACKER, group, set_kind);
    let mut owners = vec![(set.name.clone(), Some(set.uid.clone()))];
    // A set with the name of the victim's, one with another, and one that is being deleted.
    for (name, finalizers) in
        [(&*set.name, json!([])), ("a", json!([])), ("gone", json!(["example.com/stay"]))]
    {
        let object = json!({
            "apiVersion": group, "kind": set_kind,
            "metadata": {
                "name": name, "labels": labels, "finalizers": finalizers,
                "annotations": {annotation::DEPLOYMENT_REVISION: "9"},
                "ownerReferences": owner("Deployment", "web", &deployment),
            },
            "spec": {
                "replicas": 9, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        });
        owners.push((name.to_owned(), forge(&sets, object).await));
    }
    sets.delete("gone", &DeleteParams::default()).await.unwrap();
    let pods = api(cluster, ATTACKER, "v1", "Pod");
    for (number, (name, uid)) in owners.into_iter().enumerate() {
        for (priority, point) in [("-1000", "before"), ("1000", "after"), ("x;y", "z")] {
            let metadata = json!({
                "generateName": format!("forged-{number}-"), "labels": labels,
                "annotations": {annotation::DELETE_PRIORITY: priority, annotation::PAUSE_POINT: point},
                "ownerReferences": owner(set_kind, &name, &uid),
            });
            forge(&pods, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})).await;
        }
    }
    // An orphan that the victim's selector matches.
    let metadata = json!({"name": "orphan", "labels": labels});
    forge(&pods, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})).await;
}

async fn play(seed: u64) -> Result<Seen, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut cluster = Cluster::start_with_deployments().await;
    create(&cluster, &mut rng).await;
    cluster.pass(Duration::from_secs(10)).await;
    let faulty = rng.random_bool(0.7);
    if faulty {
        faults(&cluster, seed);
    }
    if rng.random_bool(0.3) {
        // Otherwise the objects of the other tenant are deleted soon.
        cluster.sandbox.set_collector(Collector { frozen: true, ..Collector::default() });
        attack(&cluster).await;
    }
    let crash = rng.random_bool(0.5).then(|| rng.random_range(0..ACTIONS));
    for action in 0..ACTIONS {
        let broken = (faulty && rng.random_bool(0.2)).then(|| rng.random_range(0..3));
        break_watch(&cluster, broken);
        act(&cluster, &mut rng).await;
        cluster.pass(Duration::from_millis(rng.random_range(0..8000))).await;
        if crash == Some(action) {
            cluster.kill();
            cluster.pass(Duration::from_millis(rng.random_range(0..4000))).await;
            cluster.start_controller();
        }
        restore_watch(&cluster, broken);
    }
    cluster.faults.clear();
    // The requests that got no answer end.
    cluster.pass(Duration::from_secs(60)).await;
    let ended = finish(&cluster).await;
    let (mut commits, requests) = (cluster.sandbox.commits(), cluster.sandbox.requests());
    commits.retain(|commit| commit.object["metadata"]["namespace"] != ATTACKER);
    let (mut found, shown) = violations(&commits, &requests, faulty);
    let is_elsewhere = |record: &&Record| {
        record.namespace.as_deref() == Some(ATTACKER)
            && record.user_agent.starts_with("ordered-controller-manager")
    };
    found.extend(requests.iter().find(is_elsewhere).map(|record| format!("{} {}", record.verb, record.path)));
    found.extend(ended.err());
    if crash.is_none()
        && !cluster
            .metrics
            .render()
            .unwrap()
            .contains("ordereddeployment_replicaset_foreign_statuses_total 0")
    {
        found.push("an own status was taken for that of another controller".to_owned());
    }
    if found.is_empty() { Ok(shown) } else { Err(format!("seed {seed}: {}", found.join("\n"))) }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_users_and_faults_break_no_promise() {
    let (first, runs) = (number("PLAIN_SEED").unwrap_or(1), number("PLAIN_RUNS").unwrap_or(RUNS));
    let next = Arc::new(Mutex::new(first..first + runs));
    let (broken, all) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().unwrap().next() else { return };
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
                    match runtime.unwrap().block_on(play(seed)) {
                        Ok(shown) => all.lock().unwrap().push(shown),
                        Err(why) => broken.lock().unwrap().push(why),
                    }
                }
            });
        }
    });
    let broken = broken.lock().unwrap();
    assert!(broken.is_empty(), "{} of {runs} runs: {}", broken.len(), broken.join("\n\n"));
    let (deletes, holds) = all
        .lock()
        .unwrap()
        .iter()
        .fold((0, 0), |sum, seen: &Seen| (sum.0 + seen.deletes, sum.1 + seen.holds));
    println!("{runs} runs: {deletes} deletes and {holds} pauses");
    assert!(deletes > 0 && holds > 0, "nothing was checked");
}
