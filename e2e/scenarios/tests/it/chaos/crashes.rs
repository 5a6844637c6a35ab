//! Repeatedly kills the controller at its writes: before the server receives a write, while it processes it, and after
//! it.

use std::time::{Duration, Instant};

use scenarios::{Manager, Server, TestCluster, on_both};

use super::{PRIORITIES, Strike, Trial, setting};
use crate::election::leader;

async fn a_controller_killed_at_any_write_continues_the_rollout(server: Server) {
    let mut trial = Trial::start(server, setting()).await;
    let cluster = trial.cluster.clone();
    let mut manager = Some(cluster.start_manager().unwrap());
    trial.deploy().await;
    for image in ["web:2", "web:3"] {
        trial
            .roll_out(image, 5, async |strike| {
                manager.take().unwrap().kill().await.unwrap();
                // After the kill: a trapped write that was not sent is lost with its sender.
                drop(strike);
                manager = Some(cluster.start_manager().unwrap());
            })
            .await;
    }
    assert!(trial.strikes >= 20, "only {} strikes", trial.strikes);
    let findings = trial.check().await;
    assert_eq!(findings.rolled, [PRIORITIES, PRIORITIES].concat());
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (30, 0, 0, 3));
}

const LEASE: Duration = Duration::from_secs(3);
pub(super) const ARGUMENTS: [&str; 4] =
    ["--leader-elect", "--lease-duration=3s", "--renew-deadline=2s", "--retry-period=250ms"];

/// Two replicas with leader election.
struct Pair {
    cluster: TestCluster,
    replicas: Vec<Manager>,
}

impl Pair {
    fn start(cluster: &TestCluster) -> Self {
        let start = || cluster.start_manager_with(&ARGUMENTS).unwrap();
        Self { cluster: cluster.clone(), replicas: vec![start(), start()] }
    }

    /// Kills the leader, starts another replica, and waits for a new leader with a deadline.
    async fn kill_the_leader(&mut self, strike: Strike) {
        let (holder, _) = leader(&self.cluster, None).await;
        let leads = |one: &Manager| one.id().is_some_and(|id| holder.contains(&format!("_{id}_")));
        let place = self.replicas.iter().position(leads).unwrap();
        let killed = Instant::now();
        self.replicas.remove(place).kill().await.unwrap();
        drop(strike);
        self.replicas.push(self.cluster.start_manager_with(&ARGUMENTS).unwrap());
        let (_, at) = leader(&self.cluster, Some(&holder)).await;
        let took = at - killed;
        println!("followed after {took:.2?} of a lease of {LEASE:?}");
        assert!(took <= LEASE + Duration::from_secs(2));
    }
}

async fn a_leader_killed_at_any_write_is_replaced_in_time_and_the_rollout_continues(server: Server) {
    let mut trial = Trial::start(server, setting()).await;
    let mut pair = Pair::start(&trial.cluster);
    trial.deploy().await;
    trial.roll_out("web:2", 1, async |strike| pair.kill_the_leader(strike).await).await;
    assert_eq!(trial.strikes, 4);
    let findings = trial.check().await;
    assert_eq!(findings.rolled, PRIORITIES);
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (20, 0, 0, 2));
}

on_both!(
    a_controller_killed_at_any_write_continues_the_rollout;
    alone on a real server:
    a_leader_killed_at_any_write_is_replaced_in_time_and_the_rollout_continues,
);
