//! Terminating sets: the garbage collector decides about their pods.

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// The garbage collector begins to release the pods of the current set, which another one replaces.
fn collected() -> [Cluster; 2] {
    [recreate(4, ""), rolling(4, 0, 1, "")].map(|mut cluster| {
        cluster.play("collect v1, rest => sets=2 active=4 deleted=0 revision=1");
        cluster
    })
}

histories! {
    scaling_deletes_no_pod_of_a_set_that_is_being_deleted:
        rolling(4, 1, 0, "") => "
            collect v1, scale 1, rest
            scale 0, rest => deleted=0";
}

#[test]
fn pods_of_the_current_template_stay_while_their_set_is_being_deleted() {
    for mut cluster in collected() {
        // The other set would adopt released pods.
        let [first, second] = &cluster.sets[..] else { panic!("{:?}", cluster.sets) };
        assert_eq!(first.hash, second.hash);
        assert_eq!(second.name, format!("{}-2", first.name));
        let (old, new) = (first.uid.clone(), second.uid.clone());
        for pod in cluster.pods.iter_mut().filter(|pod| pod.set == old) {
            // Released and adopted one by one.
            pod.set = new.clone();
        }
        cluster.play("settle => deleted=0 active=4 complete sets=1");
    }
}

#[test]
fn a_lost_pod_is_replaced_in_the_new_set() {
    for mut cluster in collected() {
        cluster.play("lose #0, rest => active=4 deleted=0");
        let second = cluster.sets[1].uid.clone();
        assert_eq!(cluster.active().filter(|pod| pod.set == second).count(), 1);
    }
}

#[test]
fn a_rollout_skips_old_pods_that_are_being_released() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 9, mark before #0, image v2 => held=mark\n collect v1, resume, unseen");
    for _ in 0..20 {
        cluster.rest();
        cluster.now += jiff::SignedDuration::from_secs(1);
    }
    cluster.play("=> deleted=0 v1>0");
}
