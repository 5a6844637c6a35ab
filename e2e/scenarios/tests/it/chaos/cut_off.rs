//! A network partition between controller and server: no bytes get through, and no connection is closed.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use scenarios::proxy::Moment;

use super::crashes::ARGUMENTS;
use super::{AFTER, BEFORE, PRIORITIES, Trial, held_at, setting};
use crate::election::leader;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_recovers_from_a_network_partition_in_a_rollout_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    let cluster = trial.cluster.clone();
    let rules = cluster.proxy.rules();
    let mut manager = cluster.start_manager().unwrap();
    trial.deploy().await;
    let old = trial.mark().await;
    let mut trap = rules.trap(Some(("create", "pods")), 2, Moment::BeforeResponse);
    cluster.set_image("web:2").await.unwrap();
    trap.reached().await;
    let stalled = Instant::now();
    rules.stall();
    trap.release();
    // The server has processed the write, and the controller gets no response until it gives up.
    cluster.lose(&old[8]).await.unwrap();
    let gone = |pods: &[Pod]| pods.iter().all(|one| one.name_any() != old[8]);
    cluster.until_pods("without the lost one", gone).await.unwrap();
    rules.until_given_up().await;
    println!("it gave up after {:.1?}", stalled.elapsed());
    rules.flow();
    held_at(&cluster, &old[BEFORE], 3, 10).await;
    trial.resume_to_the_end(&old).await;
    assert!(manager.runs().unwrap(), "the controller ended");
    let findings = trial.check().await;
    assert_eq!(findings.rolled, [7, 7, 5, 3, 2, 1, 0, 0, -3]);
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (20, 0, 1, 2));
}

/// The lease of `ARGUMENTS`, and two seconds.
const PROMISED: Duration = Duration::from_secs(3 + 2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_leader_is_replaced_in_time_and_writes_nothing_more_on_a_real_server() {
    let _machine = scenarios::hold_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    let cluster = trial.cluster.clone();
    let mut first = cluster.start_manager_with(&ARGUMENTS).unwrap();
    first.until_logged("acquired lease").await.unwrap();
    let beside = cluster.behind_another_proxy().await.unwrap();
    let mut second = beside.start_manager_with(&ARGUMENTS).unwrap();
    second.until_logged("every watch has synced").await.unwrap();
    trial.deploy().await;
    let old = trial.mark().await;
    let (holder, _) = leader(&cluster, None).await;
    assert!(holder.contains(&format!("_{}_", first.id().unwrap())), "{holder}");

    let rules = cluster.proxy.rules();
    let mut trap = trial.trap();
    cluster.set_image("web:2").await.unwrap();
    trap.reached().await;
    rules.stall();
    let cut_off = Instant::now();
    trap.release();
    let (_, followed) = leader(&cluster, Some(&holder)).await;
    held_at(&cluster, &old[BEFORE], 3, 10).await;
    let written = beside.proxy.rules().written();
    let took = [followed, *written.first().unwrap()].map(|at| at - cut_off);
    println!("followed after {:.2?}, first write after {:.2?}", took[0], took[1]);
    assert!(took.iter().all(|took| *took <= PROMISED), "{took:?}");

    // The old leader exits, and its pending writes have no effect.
    assert!(!first.ended().await.unwrap(), "it ends, and says that something was wrong");
    rules.flow();
    cluster.resume().await.unwrap();
    held_at(&cluster, &old[AFTER], 6, 10).await;
    cluster.resume().await.unwrap();
    cluster.complete("web", 10).await.unwrap();
    let late: Vec<_> = rules.written().into_iter().filter(|at| *at > followed).collect();
    assert!(late.is_empty(), "{late:?}");
    assert!(second.runs().unwrap());
    let findings = trial.check().await;
    assert_eq!(findings.rolled, PRIORITIES);
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (20, 0, 0, 2));
}
