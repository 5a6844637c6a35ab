//! kube-apiserver and etcd are killed during rollouts and restarted on the same port with the same data.

use scenarios::proxy::Moment;
use scenarios::real::Component;

use super::{PRIORITIES, Strike, Trial, setting};

use Moment::{BeforeRequest, BeforeResponse, During};

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
    let findings = trial.check().await;
    assert_eq!(findings.rolled, PRIORITIES);
    assert_eq!((findings.created, findings.scaled, findings.lost, findings.sets), (20, 0, 0, 2));
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
