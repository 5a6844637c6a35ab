//! Deletions during a rollout with each propagation policy, on a real API server with its garbage collector.
//!
//! The moments are random: `E2E_SEED` selects others, `E2E_MOMENTS` sets their number per policy. The checks
//! use the history of etcd and the audit log.

mod checks;

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube_runtime::wait::{await_condition, conditions};
use ordereddeployment_api::OrderedReplicaSet;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scenarios::{History, Server, Setting, TestCluster, image_of};
use serde_json::json;

/// The number of moments per policy; all run concurrently.
const MOMENTS: usize = 5;
/// The timeout of the garbage collector for all concurrent deletions, at its limit of 20 requests per second.
const COLLECTED: Duration = Duration::from_secs(240);

fn setting() -> Setting {
    Setting { faults: true, termination_delay: Duration::from_millis(300), ..Setting::default() }
}

/// One object and the moment of its deletion.
#[derive(Clone, Debug)]
struct Moment {
    policy: PropagationPolicy,
    replicas: usize,
    /// How many changes of pods to see before the third revision starts.
    second: usize,
    /// How many more changes to see before the object is deleted.
    third: usize,
}

impl Moment {
    fn draw(policy: PropagationPolicy, dice: &mut StdRng) -> Self {
        let replicas = dice.random_range(12..=24);
        let second = dice.random_range(replicas..3 * replicas);
        Self { policy, replicas, second, third: dice.random_range(1..4 * replicas) }
    }

    /// Deploys three revisions; the second and the third one start during a rollout. Every set has pods
    /// unless the rollout was fast.
    async fn reached(&self, cluster: &TestCluster) {
        let strategy = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 3}});
        cluster.deployed(&json!({"replicas": self.replicas, "strategy": strategy})).await.unwrap();
        for (image, count) in [("web:2", self.second), ("web:3", self.third)] {
            cluster.set_image(image).await.unwrap();
            let left = Cell::new(count + 1);
            let seen = |pods: &[Pod]| {
                left.set(left.get().saturating_sub(1));
                left.get() == 0 || pods.iter().all(|pod| image_of(pod) == image)
            };
            cluster.until_pods(&format!("changed {count} times"), seen).await.unwrap();
        }
    }

    /// Deletes `web` and waits until it is removed. Unless the policy orphans the dependents, waits until
    /// nothing is left.
    async fn delete(&self, cluster: &TestCluster) {
        let uid = cluster.deployments().get("web").await.unwrap().uid().unwrap();
        let how = DeleteParams { propagation_policy: Some(self.policy.clone()), ..DeleteParams::default() };
        cluster.deployments().delete("web", &how).await.unwrap();
        let gone = await_condition(cluster.deployments(), "web", conditions::is_deleted(&uid));
        tokio::time::timeout(COLLECTED, gone).await.unwrap().unwrap();
        if !matches!(self.policy, PropagationPolicy::Orphan) {
            cluster.until_all(cluster.sets(), "gone", <[OrderedReplicaSet]>::is_empty).await.unwrap();
            cluster.until_pods("gone", <[Pod]>::is_empty).await.unwrap();
        }
    }
}

/// Waits until the garbage collector has processed its queue: it deletes a ConfigMap with an absent owner
/// that is queued later.
async fn until_quiet(cluster: &TestCluster) {
    for round in ["first", "second", "third"] {
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": format!("gone-{round}")});
        let litter: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": round, "ownerReferences": [owner]}})).unwrap();
        let made = cluster.api().create(&PostParams::default(), &litter).await.unwrap();
        let uid = made.uid().unwrap();
        let gone = await_condition(cluster.api::<ConfigMap>(), round, conditions::is_deleted(&uid));
        tokio::time::timeout(COLLECTED, gone).await.unwrap().unwrap();
    }
}

/// Runs all moments concurrently and checks each.
async fn play(cluster: &TestCluster, history: &mut History, moments: &[Moment], round: usize) -> Vec<String> {
    let start = Instant::now();
    let playing = moments.iter().enumerate().map(async |(index, moment)| {
        let cluster = cluster.apart(&format!("{}-{round}-{index}", cluster.namespace)).await.unwrap();
        let cluster = cluster.with_timeout(COLLECTED);
        let played: LocalBoxFuture<'_, ()> = Box::pin(async {
            moment.reached(&cluster).await;
            moment.delete(&cluster).await;
        });
        // A panic fails only one object; the others continue.
        let ended = AssertUnwindSafe(played).catch_unwind().await.is_ok();
        (cluster, moment, ended)
    });
    let outcomes = join_all(playing).await;
    until_quiet(cluster).await;
    let commits = history.take_all(cluster).await.unwrap();
    let requests = cluster.requests().await.unwrap();
    println!("round {round}: {} objects in {:.1?}", outcomes.len(), start.elapsed());
    let mut broken = Vec::new();
    for (cluster, moment, ended) in outcomes {
        let namespace = &cluster.namespace;
        let mut found = checks::check(&moment.policy, namespace, &commits, &requests);
        found.extend((!ended).then(|| "came to no end".to_owned()));
        println!("{namespace}: {moment:?}: {found:?}");
        broken.extend(found.into_iter().map(|why| format!("{namespace} {moment:?}: {why}")));
        cluster.clear().await.unwrap();
    }
    broken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_at_any_moment_keeps_all_or_nothing_on_a_real_server() {
    const POLICIES: [PropagationPolicy; 3] =
        [PropagationPolicy::Orphan, PropagationPolicy::Foreground, PropagationPolicy::Background];
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("E2E_SEED").unwrap_or(1);
    let wanted = number("E2E_MOMENTS").map_or(MOMENTS, |count| usize::try_from(count).unwrap());
    // Printed if the test fails.
    println!("E2E_SEED={seed} E2E_MOMENTS={wanted}");
    let mut dice = StdRng::seed_from_u64(seed);
    let _machine = scenarios::share_the_machine().await;
    let cluster = TestCluster::with(Server::Real, setting()).await.unwrap();
    let _manager = cluster.start_manager().unwrap();
    let (mut history, mut broken) = (History::default(), Vec::new());
    for round in 0..wanted.div_ceil(MOMENTS) {
        let each = MOMENTS.min(wanted - round * MOMENTS);
        let policies = POLICIES.into_iter().flat_map(|policy| std::iter::repeat_n(policy, each));
        let moments: Vec<Moment> = policies.map(|policy| Moment::draw(policy, &mut dice)).collect();
        broken.extend(Box::pin(play(&cluster, &mut history, &moments, round)).await);
    }
    assert!(broken.is_empty(), "{} violations:\n{}", broken.len(), broken.join("\n"));
}
