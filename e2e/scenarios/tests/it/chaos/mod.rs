//! Rollouts with faults on a real server: a process is killed, disconnected or frozen, or permissions are
//! removed, and the safety rules must hold. On the sandbox, `e2e/faults` does that under simulated time.
//!
//! Faults occur at writes that a seed selects: `E2E_SEED` sets another seed. The checks use the history and
//! the request log of the server, not the status that the controller reports.

mod checks;
mod crashes;
mod history;
mod people;
mod rights;

use std::pin::pin;
use std::time::Instant;

use checks::Findings;
use ordereddeployment_api::OrderedDeployment;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use scenarios::proxy::{Moment, Trap};
use scenarios::{History, Server, Setting, TestCluster, is_held_with};
use serde_json::json;

/// The delete priorities of ten pods, in deletion order.
const PRIORITIES: [i32; 10] = [7, 7, 5, 3, 2, 1, 0, 0, 0, -3];
/// The pods with a pause point.
const BEFORE: usize = 3;
const AFTER: usize = 5;

/// A control plane that the test may break.
fn setting() -> Setting {
    Setting { faults: true, ..Setting::default() }
}

/// A server, its history, and the random generator.
struct Trial {
    cluster: TestCluster,
    history: History,
    dice: StdRng,
    /// The writes of pods at which the next faults occur, and when.
    aims: std::vec::IntoIter<(&'static str, Moment)>,
    strikes: usize,
    start: Instant,
}

/// The moment of a fault.
enum Strike {
    /// Now, with a write in the trap.
    At(Trap),
    /// Now, while the rollout is held and nothing is written.
    Held,
}

impl Trial {
    async fn start(setting: Setting) -> Self {
        let seed = std::env::var("E2E_SEED").ok().map_or(1, |seed| seed.parse().unwrap());
        // Printed if the test fails.
        println!("E2E_SEED={seed}");
        let start = Instant::now();
        let cluster = TestCluster::with(Server::Real, setting).await.unwrap();
        let dice = StdRng::seed_from_u64(seed);
        Self { cluster, history: History::default(), dice, aims: Vec::new().into_iter(), strikes: 0, start }
    }

    /// A trap at one of the next writes: the next one in `aims`, else any write.
    fn trap(&mut self) -> Trap {
        let rules = self.cluster.proxy.rules();
        if let Some((verb, moment)) = self.aims.next() {
            return rules.trap(Some((verb, "pods")), self.dice.random_range(1..=2), moment);
        }
        let moment =
            *[Moment::BeforeRequest, Moment::During, Moment::BeforeResponse].choose(&mut self.dice).unwrap();
        rules.trap(None, self.dice.random_range(1..=5), moment)
    }

    /// Creates ten pods and waits for completion. A controller must run.
    async fn deploy(&self) {
        self.cluster.deployed(&json!({"replicas": 10})).await.unwrap();
    }

    /// Sets the priorities and pause points of the current pods. Returns the pods in deletion order.
    async fn mark(&self) -> Vec<String> {
        let pods = self.cluster.names().await.unwrap();
        assert_eq!(pods.len(), PRIORITIES.len(), "{pods:?}");
        for (pod, priority) in pods.iter().zip(PRIORITIES).filter(|(_, priority)| *priority != 0) {
            self.cluster.prioritise(pod, priority).await.unwrap();
        }
        self.cluster.pause_at(&pods[BEFORE], "before").await.unwrap();
        self.cluster.pause_at(&pods[AFTER], "after").await.unwrap();
        pods
    }

    /// Resumes the rollout at its first and at its second pause point and waits for its end.
    async fn resume_to_the_end(&self, pods: &[String]) {
        self.cluster.resume().await.unwrap();
        held_at(&self.cluster, &pods[AFTER], 6, 10).await;
        self.cluster.resume().await.unwrap();
        self.cluster.complete("web", 10).await.unwrap();
    }

    /// Waits for `there` and causes up to `times` faults meanwhile.
    async fn under_fire<T>(
        &mut self,
        times: usize,
        there: impl Future<Output = T>,
        strike: &mut impl AsyncFnMut(Strike),
    ) -> T {
        let mut there = pin!(there);
        for _ in 0..times {
            let mut trap = self.trap();
            tokio::select! {
                biased;
                result = &mut there => return result,
                () = trap.reached() => {
                    println!("{:.1?}: strike {}: {:?} a write", self.start.elapsed(), self.strikes,
                    trap.moment);
                    self.strikes += 1;
                    Box::pin(strike(Strike::At(trap))).await;
                }
            }
        }
        there.await
    }

    /// Runs a complete rollout and resumes it at both pause points: up to `times` faults each before the
    /// first pause point, before the second one and before the end, and one in the first hold.
    async fn roll_out(&mut self, image: &str, times: usize, mut strike: impl AsyncFnMut(Strike)) {
        let pods = self.mark().await;
        let cluster = self.cluster.clone();
        cluster.set_image(image).await.unwrap();
        for (point, updated) in [(BEFORE, 3), (AFTER, 6)] {
            let there = Box::pin(held_at(&cluster, &pods[point], updated, 10));
            let hold = self.under_fire(times, there, &mut strike).await.status.unwrap().hold.unwrap();
            if point == BEFORE {
                Box::pin(strike(Strike::Held)).await;
                self.strikes += 1;
            }
            let after = cluster.deployments().get("web").await.unwrap().status.unwrap().hold.unwrap();
            assert_eq!((&after.id, &after.since), (&hold.id, &hold.since), "a hold outlives everything");
            cluster.resume().await.unwrap();
        }
        let complete = Box::pin(cluster.complete("web", 10));
        self.under_fire(times, complete, &mut strike).await.unwrap();
        assert_eq!(cluster.pods_of_image(image).await.unwrap().len(), 10);
    }

    /// Checks the whole history of the server. Fails with all violated rules.
    async fn check(&mut self) -> Findings {
        self.history.read_on(&self.cluster).await.unwrap();
        let requests = self.cluster.requests().await.unwrap();
        let checked = checks::check(&self.history.commits, &requests, &self.cluster.namespace);
        let findings = checked.unwrap_or_else(|broken| panic!("broken promises:\n{broken}"));
        println!("{} strikes in {:.1?}: {findings:?}", self.strikes, self.start.elapsed());
        findings
    }

    /// Checks the whole history: our controller deleted pods of these priorities in rollouts, and this number
    /// of pods was created, scaled away, lost, and this number of sets created.
    async fn ends(&mut self, rolled: &[i32], counts: [usize; 4]) {
        let found = self.check().await;
        assert_eq!(found.rolled, rolled);
        assert_eq!([found.created, found.scaled, found.lost, found.sets], counts);
    }
}

/// Waits until `web` is held at this pod with this number of updated and of available pods.
async fn held_at(cluster: &TestCluster, pod: &str, updated: i32, available: i32) -> OrderedDeployment {
    let what = format!("held at {pod} with {updated} updated pods, {available} available");
    let held = cluster.until("web", &what, |object| {
        let status = object.status.clone().unwrap_or_default();
        status.hold.is_some_and(|hold| hold.pod == pod) && is_held_with(object, updated, available)
    });
    held.await.unwrap()
}
