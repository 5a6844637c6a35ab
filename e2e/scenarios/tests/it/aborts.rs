//! Aborts at random moments of a rollout, with a controller that is killed, on a real API server.
//!
//! `E2E_SEED` selects other moments, `E2E_MOMENTS` sets their number. The checks use the history of etcd.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{condition, reason};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scenarios::{Commit, History, Manager, Server, Setting, TestCluster};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The number of moments; all of a round run concurrently.
const MOMENTS: usize = 5;
const UNAVAILABLE: i64 = 2;

fn setting() -> Setting {
    Setting { faults: true, termination_delay: Duration::from_millis(300), ..Setting::default() }
}

/// One object, the moment of its abort, and that of a retry.
#[derive(Clone, Copy, Debug)]
struct Moment {
    replicas: usize,
    /// How many changes of pods to see before the abort.
    abort: usize,
    /// How many more changes to see before a retry; `None`: it stays aborted.
    retry: Option<usize>,
    /// Whether the controller is killed before the abort, and after it.
    kills: (bool, bool),
}

impl Moment {
    fn draw(dice: &mut StdRng) -> Self {
        let replicas = dice.random_range(8..=16);
        let retry = dice.random_bool(0.4).then(|| dice.random_range(1..replicas));
        let kills = (dice.random_bool(0.3), dice.random_bool(0.5));
        Self { replicas, abort: dice.random_range(1..3 * replicas), retry, kills }
    }
}

/// Waits for this number of changes of pods, or until every pod has this image.
async fn changes(cluster: &TestCluster, count: usize, end: &str) {
    let left = std::cell::Cell::new(count + 1);
    let has = |pod: &Pod| pod.spec.clone().unwrap().containers[0].image.as_deref() == Some(end);
    let seen = |pods: &[Pod]| {
        left.set(left.get().saturating_sub(1));
        left.get() == 0 || pods.iter().all(has)
    };
    cluster.until_pods(&format!("changed {count} times"), seen).await.unwrap();
}

async fn request(cluster: &TestCluster, field: &str, revision: i64) {
    let patch = json!({"status": {field: revision}}).to_string();
    let patch = ["patch", "od", "web", "--subresource=status", "--type=merge", "-p", &patch];
    cluster.kubectl.run(&patch).await.unwrap();
}

/// Kills the controller, which serves all objects, and starts another.
async fn restart(cluster: &TestCluster, manager: &Mutex<Option<Manager>>) {
    let mut manager = manager.lock().await;
    manager.take().unwrap().kill().await.unwrap();
    *manager = Some(cluster.start_manager().unwrap());
}

/// Rolls out, aborts at the moment, and waits for the end. Returns the image of every pod then.
async fn play(cluster: &TestCluster, moment: Moment, manager: &Mutex<Option<Manager>>) -> &'static str {
    let strategy = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": UNAVAILABLE}});
    cluster.deployed(&json!({"replicas": moment.replicas, "strategy": strategy})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    changes(cluster, moment.abort, "web:2").await;
    if moment.kills.0 {
        restart(cluster, manager).await;
    }
    request(cluster, "abortRequested", 2).await;
    if moment.kills.1 {
        restart(cluster, manager).await;
    }
    let handled = |object: &OrderedDeployment| {
        object.status.as_ref().is_some_and(|status| status.abort_requested.is_none())
    };
    let status = cluster.until("web", "answered", handled).await.unwrap().status.unwrap();
    if status.aborted.is_none() {
        // The rollout was complete before.
        cluster.complete("web", i32::try_from(moment.replicas).unwrap()).await.unwrap();
        return "web:2";
    }
    if let Some(retry) = moment.retry {
        changes(cluster, retry, "web:1").await;
        request(cluster, "retryRequested", 2).await;
        cluster.complete("web", i32::try_from(moment.replicas).unwrap()).await.unwrap();
        return "web:2";
    }
    let is_aborted = |object: &OrderedDeployment| {
        let status = object.status.clone().unwrap_or_default();
        let stalled = status.condition(condition::STALLED).is_some_and(|one| one.reason == reason::ABORTED);
        stalled
            && status.updated_replicas == Some(0)
            && status.replicas == i32::try_from(moment.replicas).ok()
            && status.available_replicas == status.replicas
    };
    cluster.until("web", "rolled back", is_aborted).await.unwrap();
    "web:1"
}

/// Checks that enough pods were ready at every commit, from the first moment at which all were.
fn check_floor(commits: &[Commit], namespace: &str, replicas: usize) -> Result<i64, String> {
    let mut ready: BTreeMap<&str, bool> = BTreeMap::new();
    let floor = i64::try_from(replicas).unwrap() - UNAVAILABLE;
    let (mut started, mut least) = (false, i64::MAX);
    for commit in commits.iter().filter(|one| one.namespace == namespace && one.plural == "pods") {
        let serves = |pod: &Value| {
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            conditions.into_iter().flatten().any(is_ready)
                && pod.pointer("/metadata/deletionTimestamp").is_none()
        };
        match &commit.object {
            Some(pod) => ready.insert(&commit.name, serves(pod)),
            None => ready.remove(commit.name.as_str()),
        };
        let count = i64::try_from(ready.values().filter(|is_ready| **is_ready).count()).unwrap();
        started |= count == floor + UNAVAILABLE;
        if started {
            least = least.min(count);
        }
    }
    if least < floor { Err(format!("{least} pods were ready, the floor is {floor}")) } else { Ok(least) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_at_any_moment_keeps_the_floor_and_ends_on_a_real_server() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("E2E_SEED").unwrap_or(1);
    let wanted = number("E2E_MOMENTS").map_or(MOMENTS, |count| usize::try_from(count).unwrap());
    // Printed if the test fails.
    println!("E2E_SEED={seed} E2E_MOMENTS={wanted}");
    let mut dice = StdRng::seed_from_u64(seed);
    let _machine = scenarios::share_the_machine().await;
    let cluster = TestCluster::with(Server::Real, setting()).await.unwrap();
    let manager = Mutex::new(Some(cluster.start_manager().unwrap()));
    let (mut history, mut broken) = (History::default(), Vec::new());
    for round in 0..wanted.div_ceil(MOMENTS) {
        let count = MOMENTS.min(wanted - round * MOMENTS);
        let moments: Vec<Moment> = (0..count).map(|_| Moment::draw(&mut dice)).collect();
        let playing = moments.iter().enumerate().map(async |(index, moment)| {
            let cluster = cluster.apart(&format!("{}-{round}-{index}", cluster.namespace)).await.unwrap();
            let end = play(&cluster, *moment, &manager).await;
            let images = cluster.pods_of_image(end).await.unwrap().len();
            (cluster, *moment, end, images)
        });
        let played = join_all(playing).await;
        let commits = history.take_all(&cluster).await.unwrap();
        for (cluster, moment, end, images) in played {
            let floor = check_floor(&commits, &cluster.namespace, moment.replicas);
            println!("{}: {moment:?}: {images} of {end}, at least {floor:?} ready", cluster.namespace);
            if images != moment.replicas {
                broken.push(format!("{} {moment:?}: {images} pods of {end}", cluster.namespace));
            }
            broken.extend(floor.err().map(|why| format!("{} {moment:?}: {why}", cluster.namespace)));
            cluster.clear().await.unwrap();
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
