//! Terminating sets: the garbage collector decides about their pods.

use ordereddeployment_api::PausePoint;
use serde_json::json;

use crate::model::Cluster;

/// The garbage collector begins to release the pods of the current set.
fn collected(strategy: &serde_json::Value) -> Cluster {
    let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": strategy}));
    let set = &mut cluster.sets[0];
    set.terminating = true;
    cluster
}

fn strategies() -> [serde_json::Value; 2] {
    [
        json!({"type": "Recreate"}),
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
    ]
}

#[test]
fn pods_of_the_current_template_stay_while_their_set_is_being_deleted() {
    for strategy in strategies() {
        let mut cluster = collected(&strategy);
        cluster.rest();
        assert_eq!((cluster.deleted.len(), cluster.active().count()), (0, 4), "{strategy}");
        // Another set replaces it at once, and would adopt released pods.
        let [first, second] = &cluster.sets[..] else { panic!("{:?}", cluster.sets) };
        assert_eq!(first.hash, second.hash);
        assert_eq!(second.name, format!("{}-2", first.name));
        let (old, new) = (first.uid.clone(), second.uid.clone());
        assert_eq!(cluster.status().rollout.unwrap().revision, 1, "no rollout begins");
        for pod in cluster.pods.iter_mut().filter(|pod| pod.set == old) {
            pod.set = new.clone();
            // Released and adopted one by one.
        }
        cluster.settle();
        assert_eq!((cluster.deleted.len(), cluster.active().count()), (0, 4));
        assert!(cluster.is_complete());
        assert_eq!(cluster.sets.len(), 1);
    }
}

#[test]
fn a_lost_pod_is_replaced_in_the_new_set() {
    for strategy in strategies() {
        let mut cluster = collected(&strategy);
        cluster.rest();
        let lost = cluster.pod(0).facts.uid.clone();
        cluster.pods.retain(|pod| pod.facts.uid != lost);
        cluster.rest();
        assert_eq!(cluster.active().count(), 4);
        let second = cluster.sets[1].uid.clone();
        assert_eq!(cluster.active().filter(|pod| pod.set == second).count(), 1);
        assert_eq!(cluster.deleted, []);
    }
}

#[test]
fn scaling_deletes_no_pod_of_a_set_that_is_being_deleted() {
    let mut cluster = collected(&json!({}));
    cluster.play("scale 1, rest\n scale 0, rest");
    assert_eq!(cluster.deleted, []);
}

#[test]
fn a_rollout_skips_old_pods_that_are_being_released() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 4,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    }));
    cluster.set_image("v2");
    cluster.prioritize(&[9]);
    cluster.pause_at(0, PausePoint::Before);
    cluster.settle();
    let v2 = cluster.sets[1].uid.clone();
    assert!(cluster.status().hold.is_some());
    cluster.resume();
    cluster.sets[0].terminating = true;
    for _ in 0..20 {
        cluster.rest();
        cluster.now += jiff::SignedDuration::from_secs(1);
    }
    assert_eq!(cluster.deleted, []);
    assert!(cluster.active().any(|pod| pod.set != v2));
}
