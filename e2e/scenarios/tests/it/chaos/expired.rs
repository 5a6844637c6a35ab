//! The server compacts its history while the controller is disconnected and pods are deleted: the watches of
//! the controller expire with 410.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use scenarios::{Manager, Setting};

use super::{BEFORE, Trial, held_at, setting};

impl Trial {
    /// Deletes these pods while the controller sees nothing and cannot write, then compacts the history.
    async fn lose_unseen(&mut self, pods: &[&String], manager: &mut Manager) {
        let cluster = self.cluster.clone();
        let rules = cluster.proxy.rules();
        rules.stall();
        for pod in pods {
            cluster.lose(pod).await.unwrap();
        }
        let gone = |there: &[Pod]| there.iter().all(|one| !pods.contains(&&one.name_any()));
        cluster.until_pods("rid of them", gone).await.unwrap();
        self.history.read_on(&cluster).await.unwrap();
        cluster.compact(self.history.read_until()).await.unwrap();
        rules.cut();
        rules.flow();
        manager.until_logged("too old").await.unwrap();
        self.strikes += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_lost_while_the_watch_expires_are_replaced_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    // The watch cache of the API server would still have the events that etcd has compacted.
    let arguments = vec!["--watch-cache=false".to_owned()];
    let setting = Setting { api_server_arguments: arguments, ..setting() };
    let mut trial = Trial::start(setting).await;
    let cluster = trial.cluster.clone();
    let mut manager = cluster.start_manager().unwrap();
    trial.deploy().await;
    let old = trial.mark().await;
    let mut trap = trial.trap();
    cluster.set_image("web:2").await.unwrap();
    trap.reached().await;
    trap.release();
    // During the rollout: an old pod after both pause points, which an old one replaces.
    trial.lose_unseen(&[&old[7]], &mut manager).await;
    let hold = held_at(&cluster, &old[BEFORE], 3, 10).await.status.unwrap().hold.unwrap();

    // During the hold: each replacement has the revision of the lost pod.
    let updated = cluster.pods_of_image("web:2").await.unwrap();
    trial.lose_unseen(&[&old[8], &updated[0]], &mut manager).await;
    let all_new = |pods: &[Pod]| {
        let known = |pod: &Pod| [&old[8], &updated[0]].contains(&&pod.name_any());
        pods.len() == 10 && !pods.iter().any(known)
    };
    cluster.until_pods("ten again", all_new).await.unwrap();
    let again = held_at(&cluster, &old[BEFORE], 3, 10).await.status.unwrap().hold.unwrap();
    assert_eq!((&again.id, &again.since), (&hold.id, &hold.since));
    trial.resume_to_the_end(&old).await;

    assert!(manager.runs().unwrap(), "the controller ended");
    let findings = trial.check().await;
    // Nine of the ten: the replacement of the pod that was lost in the hold has priority 0.
    assert_eq!(findings.rolled, [7, 7, 5, 3, 2, 1, 0, 0, -3]);
    assert_eq!((findings.scaled, findings.lost, findings.sets), (0, 3, 2));
}
