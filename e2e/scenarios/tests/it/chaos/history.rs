//! The history of the server ends while the controller is disconnected: it is compacted, so that watches
//! expire with 410; or etcd is restored from a backup, so that resource versions decrease and all later
//! changes are lost.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use scenarios::{Manager, Server, Setting, TestCluster};
use serde_json::json;

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

/// The current resource version of the server.
async fn version(client: &Client) -> u64 {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap().parse().unwrap()
}

/// Writes until the server exceeds this version, so that watches from before the restore receive new events.
async fn write_past(cluster: &TestCluster, version_before: u64) {
    let maps: Api<ConfigMap> = cluster.api();
    let map = serde_json::from_value(json!({"metadata": {"generateName": "write-"}})).unwrap();
    while version(&cluster.client).await <= version_before {
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_lost_by_a_restore_of_etcd_are_not_repeated_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let setting = setting();
    let cluster = TestCluster::with(Server::Real, setting.clone()).await.unwrap();
    let plane = cluster.control_plane().unwrap();
    let mut manager = cluster.start_manager().unwrap();
    let before = cluster.deployed(&json!({"replicas": 4})).await.unwrap();
    plane.back_up().await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 4).await.unwrap();
    // A kubelet that is about to remove a pod would remove it in the restored store too.
    cluster.until_pods("of the second template alone", |pods| pods.len() == 4).await.unwrap();
    let lost = version(&cluster.client).await;

    plane.restore(&setting).await.unwrap();
    assert_eq!(cluster.names().await.unwrap(), before);
    write_past(&cluster, lost).await;
    cluster.scale(5).await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    let after = cluster.names().await.unwrap();
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 5);
    cluster.set_image("web:3").await.unwrap();
    cluster.complete("web", 5).await.unwrap();
    let new = |pods: &[Pod]| pods.len() == 5 && pods.iter().all(|pod| !after.contains(&pod.name_any()));
    cluster.until_pods("of the third template", new).await.unwrap();
    assert!(manager.runs().unwrap(), "the controller ended");
}
