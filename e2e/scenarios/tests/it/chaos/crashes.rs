//! Repeatedly kills the controller at its writes: before the server receives a write, while it processes it,
//! and after it.

use std::time::{Duration, Instant};

use scenarios::Manager;

use super::{PRIORITIES, Trial, setting};
use crate::election::leader;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_write_continues_the_rollout_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(setting()).await;
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

/// With two replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_killed_at_any_write_is_replaced_in_time_and_the_rollout_continues_on_a_real_server() {
    let _machine = scenarios::hold_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    let cluster = trial.cluster.clone();
    let start = || cluster.start_manager_with(&ARGUMENTS).unwrap();
    let mut replicas = vec![start(), start()];
    trial.deploy().await;
    trial
        .roll_out("web:2", 1, async |strike| {
            let (holder, _) = leader(&cluster, None).await;
            let leads = |one: &Manager| one.id().is_some_and(|id| holder.contains(&format!("_{id}_")));
            let place = replicas.iter().position(leads).unwrap();
            let killed = Instant::now();
            replicas.remove(place).kill().await.unwrap();
            drop(strike);
            replicas.push(start());
            let (_, at) = leader(&cluster, Some(&holder)).await;
            println!("followed after {:.2?} of a lease of {LEASE:?}", at - killed);
            assert!(at - killed <= LEASE + Duration::from_secs(2));
        })
        .await;
    assert_eq!(trial.strikes, 4);
    let findings = trial.check().await;
    assert_eq!(findings.rolled, PRIORITIES);
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (20, 0, 0, 2));
}
