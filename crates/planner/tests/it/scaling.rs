//! Scaling: outside a rollout, in one, held and paused.

use ordereddeployment_api::PausePoint;
use ordereddeployment_planner::Purpose;
use serde_json::json;

use crate::model::Cluster;

fn ten() -> Cluster {
    Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
    }))
}

#[test]
fn a_scale_down_deletes_the_first_of_the_order() {
    let mut cluster = ten();
    cluster.pod(6).facts.priority = Some(9);
    let name = cluster.pod(6).name.clone();
    cluster.edit(|spec| spec.replicas = 9);
    cluster.settle();
    assert_eq!(cluster.deleted, [(name, Purpose::Scale)]);
    assert!(cluster.is_complete());
    cluster.edit(|spec| spec.replicas = 12);
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 12);
}

#[test]
fn a_scale_down_of_a_paused_object_without_a_rollout_deletes_the_first_of_the_order() {
    let mut cluster = ten();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    // Two available pods are first in the order, and few are available.
    cluster.prioritize(&[9, 8]);
    for unready in 2..10 {
        cluster.pod(unready).facts.ready = false;
    }
    let names = [0, 1].map(|index| (cluster.pod(index).name.clone(), Purpose::Scale));
    cluster.edit(|spec| spec.replicas = 8);
    cluster.step();
    assert_eq!(cluster.deleted, names);
}

#[test]
fn zero_replicas_allow_no_pod_and_a_rollout_at_zero_completes() {
    let mut cluster = ten();
    cluster.edit(|spec| spec.replicas = 0);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.active().count(), 0);
    assert!(cluster.is_complete());
    cluster.edit(|spec| spec.replicas = 3);
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 3);
}

#[test]
fn scaling_while_held_keeps_the_split_and_never_advances_the_release() {
    let mut cluster = ten();
    cluster.prioritize(&[5, 5, 3]);
    let held = cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    for (replicas, split) in
        [(5, (4, 1)), (0, (0, 0)), (10, (8, 2)), (20, (16, 4)), (1, (1, 0)), (10, (8, 2))]
    {
        cluster.edit(|spec| spec.replicas = replicas);
        cluster.settle();
        assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), split, "{replicas} replicas");
        assert!(cluster.status().hold.is_some());
        if replicas == 5 {
            assert!(cluster.active().any(|pod| pod.name == held), "the held pod goes last");
        }
    }
    cluster.resume();
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 10);
}

#[test]
fn scaling_while_paused_keeps_the_split() {
    let mut cluster = ten();
    cluster.set_image("v2");
    for _ in 0..9 {
        cluster.step();
        cluster.tick(1);
    }
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    let split = |cluster: &Cluster| (cluster.of_image("v1"), cluster.of_image("v2"));
    let before = split(&cluster);
    assert!(before.0 > 0 && before.1 > 0, "{before:?}");
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    assert_eq!(split(&cluster), (0, 0));
    cluster.edit(|spec| spec.replicas = 10);
    cluster.settle();
    assert_eq!(split(&cluster), before);
    cluster.edit(|spec| spec.paused = false);
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 10);
}

/// Eight old and two new pods, held.
fn held() -> Cluster {
    let mut cluster = ten();
    cluster.prioritize(&[5, 5, 3]);
    cluster.pause_at(2, PausePoint::Before);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
    cluster
}

#[test]
fn replicas_changed_together_with_paused_are_scaled() {
    for replicas in [5, 14] {
        let mut cluster = ten();
        cluster.edit(|spec| {
            spec.paused = true;
            spec.replicas = replicas;
        });
        cluster.settle();
        assert_eq!(cluster.active().count(), usize::try_from(replicas).unwrap());
    }
}

#[test]
fn replicas_changed_together_with_a_resume_are_scaled_in_proportion_first() {
    let mut cluster = held();
    let before = cluster.deleted.len();
    cluster.edit(|spec| spec.replicas = 5);
    cluster.resume();
    cluster.rest();
    let first: Vec<_> = cluster.deleted[before..].iter().take(4).map(|(_, purpose)| *purpose).collect();
    assert_eq!(first, [Purpose::Scale; 4], "ten pods become six");
}

#[test]
fn replicas_changed_together_with_the_end_of_paused_are_scaled_in_proportion_first() {
    let mut cluster = ten();
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    let split = |cluster: &Cluster| (cluster.of_image("v1"), cluster.of_image("v2"));
    assert_eq!(split(&cluster), (9, 2));
    cluster.edit(|spec| {
        spec.paused = false;
        spec.replicas = 5;
    });
    let before = cluster.deleted.len();
    cluster.rest();
    let first: Vec<_> = cluster.deleted[before..].iter().take(5).map(|(_, purpose)| *purpose).collect();
    assert_eq!(first, [Purpose::Scale; 5], "eleven pods become six");
}

#[test]
fn a_new_template_while_paused_at_no_replicas_restores_the_revision_that_served() {
    let mut cluster = held();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    for image in ["v3", "v4"] {
        cluster.set_image(image);
        cluster.settle();
    }
    cluster.edit(|spec| spec.replicas = 10);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (10, 0));
}

#[test]
fn a_new_template_while_paused_moves_no_pod() {
    let mut cluster = held();
    cluster.edit(|spec| spec.paused = true);
    cluster.edit(|spec| spec.replicas = 1);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (1, 0));
    let before = cluster.deleted.len();
    // Now the pods of v2 are the old ones.
    cluster.set_image("v1");
    cluster.settle();
    assert_eq!(cluster.deleted.len(), before);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (1, 0));
}

#[test]
fn a_scale_up_in_a_rollout_creates_no_more_updated_pods_than_replicas() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 4,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 4, "maxUnavailable": 0}},
    }));
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (4, 4));
    let now = cluster.now;
    for pod in cluster.pods.iter_mut().skip(5) {
        pod.facts.ready = true;
        pod.facts.ready_since = Some(now);
    }
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (1, 4));
    cluster.edit(|spec| spec.replicas = 5);
    cluster.settle();
    assert!(cluster.deleted.iter().all(|(_, purpose)| *purpose == Purpose::Rollout), "{:?}", cluster.deleted);
}

#[test]
fn replicas_reverted_while_paused_are_scaled_although_the_first_scaling_never_ended() {
    for surge in [json!("25%"), json!(1)] {
        let strategy = json!({"rollingUpdate": {"maxSurge": surge}});
        let mut cluster = Cluster::running(&json!({"replicas": 0, "strategy": strategy}));
        cluster.edit(|spec| spec.replicas = 1);
        while cluster.active().next().is_none() {
            assert!(cluster.step());
        }
        cluster.edit(|spec| spec.paused = true);
        cluster.step();
        cluster.edit(|spec| spec.replicas = 0);
        cluster.set_image("v2");
        cluster.settle();
        assert_eq!(cluster.active().count(), 0);
    }
}

#[test]
fn replacements_in_a_hold_wait_for_terminating_pods_if_the_policy_says_so() {
    let mut cluster = held();
    cluster.edit(|spec| {
        spec.pod_replacement_policy = ordereddeployment_api::PodReplacementPolicy::TerminationComplete;
    });
    for _ in 0..3 {
        let uid = cluster.pod(3).facts.uid.clone();
        cluster.delete(&uid);
    }
    cluster.rest();
    // The ceiling of eleven leaves room for one.
    assert_eq!(cluster.active().count(), 8);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
}

#[test]
fn a_pause_creates_no_surge_pod_after_the_surge_was_lowered() {
    let mut cluster = ten();
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.edit(|spec| {
        let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
        spec.strategy = serde_json::from_value(bounds).unwrap();
    });
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
}

#[test]
fn pods_that_scaling_deletes_from_several_sets_follow_one_order() {
    for hold in [true, false] {
        let mut cluster = held();
        if !hold {
            cluster.broken.insert("v2".into());
            cluster.resume();
            cluster.settle();
        }
        let priorities: Vec<i32> = (0..11).map(|index| index * 7 % 11).collect();
        let count = cluster.active().count();
        cluster.prioritize(&priorities[..count]);
        let before = cluster.deleted.len();
        let priority = |cluster: &Cluster, name: &str| {
            cluster.pods.iter().find(|pod| pod.name == name).unwrap().facts.priority.unwrap()
        };
        cluster.edit(|spec| spec.replicas = 2);
        while cluster.deleted.len() == before {
            assert!(cluster.step());
        }
        let gone: Vec<_> =
            cluster.deleted[before..].iter().map(|(name, _)| priority(&cluster, name)).collect();
        assert!(gone.len() > 6 && gone.is_sorted_by(|first, second| first >= second), "{gone:?}");
    }
}

#[test]
fn a_rollout_that_cannot_be_scaled_continues() {
    let mut cluster = ten();
    cluster.quota = Some(11);
    cluster.set_image("v2");
    cluster.step();
    cluster.step();
    cluster.edit(|spec| spec.replicas = 11);
    for _ in 0..200 {
        cluster.step();
        cluster.tick(1);
    }
    assert_eq!(cluster.of_image("v1"), 0);
}

#[test]
fn pods_lost_just_before_a_pause_are_replaced_in_it() {
    for strategy in ["RollingUpdate", "Recreate"] {
        let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": {"type": strategy}}));
        for _ in 0..2 {
            let uid = cluster.pod(0).facts.uid.clone();
            cluster.delete(&uid);
        }
        cluster.edit(|spec| spec.paused = true);
        cluster.settle();
        assert_eq!(cluster.of_image("v1"), 4);
    }
}

#[test]
fn a_new_template_while_paused_moves_no_pod_of_a_set_that_had_none_before() {
    let mut cluster = Cluster::running(&json!({"replicas": 0}));
    cluster.set_image("v2");
    cluster.settle();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 1);
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 1);
    cluster.set_image("v1");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 1));
}

#[test]
fn a_resume_while_paused_at_no_replicas_keeps_the_split() {
    let mut cluster = held();
    cluster.edit(|spec| spec.paused = true);
    cluster.settle();
    cluster.edit(|spec| spec.replicas = 0);
    cluster.settle();
    cluster.resume();
    cluster.settle();
    assert_eq!(cluster.status().hold, None);
    cluster.edit(|spec| spec.replicas = 10);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 2));
}

/// Old and new pods side by side, as a template that never becomes ready leaves them.
fn stuck(surge: i32, unavailable: i32) -> Cluster {
    let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let mut cluster = Cluster::running(&json!({
        "replicas": 10,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": bounds},
        "deletionOrder": {"unavailablePods": "InOrder"},
    }));
    cluster.broken.extend(["v2".to_owned(), "v3".to_owned()]);
    for image in ["v2", "v3"] {
        cluster.set_image(image);
        cluster.settle();
    }
    cluster
}

/// The pods of each revision after the scaling of the sets, before the rollout continues.
fn scaled(cluster: &mut Cluster) -> [usize; 3] {
    for _ in 0..100 {
        let rollout = cluster.status().rollout.unwrap();
        if rollout.replicas == cluster.deployment.spec.replicas && rollout.scaled_from.is_none() {
            return ["v1", "v2", "v3"].map(|image| cluster.of_image(image));
        }
        cluster.step();
    }
    panic!("it is never scaled: {:#?}", cluster.status());
}

#[test]
fn interrupted_scaling_ends_in_the_same_split() {
    for (surge, unavailable) in [(1, 1), (3, 0), (5, 3)] {
        for replicas in [1, 2, 4, 7, 9, 11, 14, 20, 33] {
            let mut whole = stuck(surge, unavailable);
            whole.edit(|spec| spec.replicas = replicas);
            let expected = scaled(&mut whole);
            for breaks_after in 1..4 {
                let mut cluster = stuck(surge, unavailable);
                cluster.breaks_after = Some(breaks_after);
                cluster.edit(|spec| spec.replicas = replicas);
                assert_eq!(scaled(&mut cluster), expected, "{replicas} in steps of {breaks_after}");
            }
        }
    }
}

#[test]
fn pods_that_replaced_a_deleted_set_while_paused_stay_in_the_hold_after_it() {
    let mut cluster = Cluster::running(&json!({"replicas": 3}));
    cluster.set_image("v2");
    cluster.settle();
    cluster.prioritize(&[9]);
    cluster.pause_at(0, PausePoint::Before);
    cluster.set_image("v3");
    cluster.step();
    cluster.step();
    assert!(cluster.status().hold.is_some());
    cluster.edit(|spec| spec.paused = true);
    cluster.delete_set(1);
    cluster.settle();
    // The set of v3 does not exist yet: the only existing set fills the gap.
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v3")), (3, 0));
    cluster.edit(|spec| spec.paused = false);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v3")), (3, 0));
    assert!(cluster.status().hold.is_some());
    cluster.resume();
    cluster.settle();
    assert_eq!(cluster.of_image("v3"), 3);
}

#[test]
fn a_pause_that_begins_before_the_new_set_is_created_fills_the_largest_old_one() {
    let mut spec = json!({"replicas": 6, "deletionOrder": {"unavailablePods": "InOrder"}});
    spec["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}});
    let mut cluster = Cluster::running(&spec);
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (6, 2));
    for _ in 0..3 {
        let uid = cluster.active().find(|pod| cluster.image(pod) == "v1").unwrap().facts.uid.clone();
        cluster.delete(&uid);
    }
    cluster.edit(|spec| spec.paused = true);
    cluster.set_image("v3");
    cluster.settle();
    // There are five pods, and six are wanted.
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2"), cluster.of_image("v3")), (4, 2, 0));
}
