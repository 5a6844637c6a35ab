//! Processes that are killed at writes or cut off: the controller before the server receives a write, while
//! it processes it, and after it; kube-apiserver and etcd, restarted with the same data; and the network
//! between controller and server, where no bytes get through and no connection is closed.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use scenarios::Manager;
use scenarios::proxy::Moment::{self, BeforeRequest, BeforeResponse, During};
use scenarios::real::Component;

use super::{AFTER, BEFORE, PRIORITIES, Strike, Trial, held_at, setting};
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
    trial.ends(&[PRIORITIES, PRIORITIES].concat(), [30, 0, 0, 3]).await;
}

/// The lease of `ARGUMENTS`.
const LEASE: Duration = Duration::from_secs(3);
const ARGUMENTS: [&str; 4] =
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
    trial.ends(&PRIORITIES, [20, 0, 0, 2]).await;
}

/// Kills the server at these writes of pods, one third of them in each part of the rollout, and once in a
/// hold.
async fn continues_after_kills(component: Component, aims: Vec<(&'static str, Moment)>) {
    let times = aims.len() / 3;
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    trial.aims = aims.into_iter();
    let cluster = trial.cluster.clone();
    let mut manager = cluster.start_manager().unwrap();
    trial.deploy().await;
    trial
        .roll_out("web:2", times, async |strike| {
            let plane = cluster.control_plane().unwrap();
            plane.kill(component).unwrap();
            match strike {
                // The write reaches an API server that is down or cannot store it.
                Strike::At(trap) if trap.moment == BeforeRequest => trap.release(),
                // The server has processed the write, and the client gets no response.
                strike => drop(strike),
            }
            plane.start_again(component).await.unwrap();
        })
        .await;
    assert!(manager.runs().unwrap(), "the controller ended");
    assert!(trial.strikes > 2 * times, "only {} strikes", trial.strikes);
    trial.ends(&PRIORITIES, [20, 0, 0, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_continues_after_kube_apiserver_is_killed_on_a_real_server() {
    let aims = vec![("create", BeforeResponse), ("delete", BeforeResponse), ("create", During)];
    Box::pin(continues_after_kills(Component::ApiServer, aims)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_continues_after_etcd_is_killed_on_a_real_server() {
    let aims = vec![
        ("create", BeforeResponse),
        ("delete", During),
        ("create", During),
        ("delete", BeforeResponse),
        ("create", BeforeRequest),
        ("delete", BeforeRequest),
    ];
    Box::pin(continues_after_kills(Component::Etcd, aims)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_recovers_from_a_network_partition_in_a_rollout_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    let cluster = trial.cluster.clone();
    let rules = cluster.proxy.rules();
    let mut manager = cluster.start_manager().unwrap();
    trial.deploy().await;
    let old = trial.mark().await;
    let mut trap = rules.trap(Some(("create", "pods")), 2, BeforeResponse);
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
    trial.ends(&[7, 7, 5, 3, 2, 1, 0, 0, -3], [20, 0, 1, 2]).await;
}

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
    assert!(took.iter().all(|took| *took <= LEASE + Duration::from_secs(2)), "{took:?}");

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
    trial.ends(&PRIORITIES, [20, 0, 0, 2]).await;
}
