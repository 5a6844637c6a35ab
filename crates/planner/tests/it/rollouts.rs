//! Rollouts, step by step.

use ordereddeployment_api::{StrategyType, names::condition, names::reason};
use ordereddeployment_planner::Purpose;
use serde_json::{Value, json};

use crate::model::Cluster;

fn rolling(replicas: i32, surge: &Value, unavailable: &Value) -> Value {
    json!({
        "replicas": replicas,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
    })
}

#[test]
fn a_new_deployment_gets_its_pods_and_completes() {
    let cluster = Cluster::running(&json!({"replicas": 3}));
    assert_eq!(cluster.of_image("v1"), 3);
    assert!(cluster.is_complete());
    assert_eq!(cluster.status().rollout.unwrap().revision, 1);
    assert_eq!(cluster.count_events(reason::ROLLOUT_STARTED), 0);
}

#[test]
fn a_rollout_follows_the_priorities_and_ends_with_new_pods_only() {
    let mut cluster = Cluster::running(&rolling(6, &json!(1), &json!(0)));
    cluster.prioritize(&[0, 5, -1, 9, 5, 0]);
    let named: Vec<_> = cluster.active().map(|pod| (pod.facts.priority.unwrap(), pod.name.clone())).collect();
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 6);
    assert!(cluster.is_complete());
    let priority = |name: &String| named.iter().find(|(_, pod)| pod == name).unwrap().0;
    let order: Vec<_> = cluster.deleted.iter().map(|(name, _)| priority(name)).collect();
    assert_eq!(order, [9, 5, 5, 0, 0, -1]);
    assert!(cluster.deleted.iter().all(|(_, purpose)| *purpose == Purpose::Rollout));
}

#[test]
fn without_surge_a_dry_run_verifies_the_template_before_the_first_delete() {
    let mut cluster = Cluster::running(&rolling(4, &json!(0), &json!(1)));
    cluster.refused.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 4, "a refused template costs no pod");
    let stalled = cluster.status().condition(condition::STALLED).cloned().unwrap();
    assert_eq!(stalled.reason, reason::TEMPLATE_REFUSED);
    cluster.refused.clear();
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 4);
}

#[test]
fn with_surge_a_refused_template_costs_no_pod_either() {
    let mut cluster = Cluster::running(&rolling(4, &json!(1), &json!(1)));
    cluster.refused.insert("v2".into());
    cluster.set_image("v2");
    for _ in 0..20 {
        cluster.step();
        cluster.tick(1);
    }
    assert_eq!(cluster.of_image("v1"), 4);
    let status = cluster.status();
    assert_eq!(status.condition(condition::REPLICA_FAILURE).unwrap().reason, reason::FAILED_CREATE);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!(cluster.of_image("v3"), 4);
    assert!(cluster.status().condition(condition::REPLICA_FAILURE).is_none());
}

#[test]
fn a_template_that_never_becomes_ready_stops_at_the_floor_and_passes_the_deadline() {
    let mut cluster = Cluster::running(&rolling(10, &json!(2), &json!(2)));
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    for _ in 0..10 {
        cluster.settle();
    }
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 4));
    cluster.tick(600);
    cluster.settle();
    let progressing = cluster.status().condition(condition::PROGRESSING).cloned().unwrap();
    assert_eq!(progressing.reason, reason::PROGRESS_DEADLINE_EXCEEDED);
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 4));
}

#[test]
fn unavailable_old_pods_are_deleted_out_of_order_only_if_the_rollout_is_blocked() {
    for (mode, expected) in [("WhenBlocked", 10), ("InOrder", 2)] {
        let mut spec = rolling(10, &json!(1), &json!(0));
        spec["deletionOrder"] = json!({"unavailablePods": mode});
        let mut cluster = Cluster::running(&spec);
        cluster.prioritize(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        cluster.pod(9).facts.ready = false;
        cluster.set_image("v2");
        cluster.settle();
        let reached = if expected == 10 { 10 } else { 1 };
        assert_eq!(cluster.of_image("v2"), reached, "{mode}");
        let stalled = cluster.status().condition(condition::STALLED).cloned().unwrap();
        assert_eq!(stalled.reason == reason::WAITING_IN_ORDER, mode == "InOrder");
    }
}

#[test]
fn recreate_deletes_all_in_order_and_creates_when_the_last_is_gone() {
    let mut cluster = Cluster::running(&json!({"replicas": 4, "strategy": {"type": "Recreate"}}));
    cluster.prioritize(&[1, 4, 2, 3]);
    let names: Vec<_> = cluster.active().map(|pod| pod.name.clone()).collect();
    cluster.set_image("v2");
    cluster.rest();
    let deleted: Vec<_> = cluster.deleted.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(deleted, [1, 3, 2, 0].map(|index: usize| names[index].clone()));
    assert_eq!(cluster.of_image("v2"), 0, "old pods still terminate");
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 4);
    assert!(cluster.is_complete());
}

#[test]
fn a_pod_lost_in_a_rollout_is_replaced_from_the_current_revision_unless_too_few_would_be_left() {
    let mut cluster = Cluster::running(&rolling(10, &json!(1), &json!(0)));
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (10, 1));
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.delete(&uid);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (10, 1), "the floor asks for an old pod");
}

#[test]
fn an_undo_uses_the_old_set_again_as_a_new_revision() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    cluster.set_image("v2");
    cluster.settle();
    cluster.set_image("v1");
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 3);
    assert_eq!(cluster.status().rollout.unwrap().revision, 3);
    assert_eq!(cluster.sets.len(), 2);
    assert_eq!(cluster.sets[0].revision, 3);
}

#[test]
fn the_history_keeps_as_many_old_sets_as_the_limit_says() {
    let mut spec = rolling(2, &json!(1), &json!(0));
    spec["revisionHistoryLimit"] = json!(2);
    let mut cluster = Cluster::running(&spec);
    for image in ["v2", "v3", "v4", "v5"] {
        cluster.set_image(image);
        cluster.settle();
    }
    let mut revisions: Vec<_> = cluster.sets.iter().map(|set| set.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [3, 4, 5]);
}

#[test]
fn an_invalid_spec_moves_nothing_and_says_why() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    cluster.edit(|spec| {
        spec.strategy.type_ = StrategyType::Recreate;
        spec.replicas = 0;
    });
    cluster.settle();
    assert_eq!(cluster.of_image("v1"), 3);
    let stalled = cluster.status().condition(condition::STALLED).cloned().unwrap();
    assert_eq!(stalled.reason, reason::INVALID_SPEC);
    assert!(stalled.message.contains("rollingUpdate must not be given"), "{}", stalled.message);
}

#[test]
fn a_paused_rollout_starts_nothing_and_continues_when_unpaused() {
    let mut cluster = Cluster::running(&rolling(4, &json!(1), &json!(0)));
    cluster.edit(|spec| spec.paused = true);
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.sets.len()), (4, 1));
    cluster.edit(|spec| spec.paused = false);
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 4);
    assert!(cluster.is_complete());
}

#[test]
fn pods_lost_while_the_template_is_refused_are_replaced_from_the_old_set() {
    let mut cluster = Cluster::running(&rolling(10, &json!(1), &json!(1)));
    cluster.refused.insert("v2".into());
    cluster.set_image("v2");
    for _ in 0..5 {
        let uid = cluster.pod(0).facts.uid.clone();
        cluster.delete(&uid);
    }
    for _ in 0..20 {
        cluster.step();
        cluster.tick(1);
    }
    assert_eq!(cluster.of_image("v1"), 9, "as many as the floor asks for");
}

#[test]
fn an_old_set_whose_pods_are_refused_does_not_block_the_new_one() {
    let mut cluster = Cluster::running(&rolling(3, &json!(0), &json!(1)));
    // In either order of the hashes.
    for (old, new) in [("v1", "v2"), ("v2", "v1")] {
        cluster.refused.clear();
        cluster.set_image(old);
        cluster.settle();
        cluster.refused.insert(old.into());
        for _ in 0..2 {
            let uid = cluster.pod(0).facts.uid.clone();
            cluster.delete(&uid);
        }
        cluster.set_image(new);
        cluster.settle();
        assert!(cluster.is_complete());
        assert_eq!(cluster.of_image(new), 3);
    }
}

#[test]
fn a_name_that_is_too_long_for_its_set_is_cut_before_the_hash() {
    let mut cluster = Cluster::new(&json!({"replicas": 1}));
    cluster.deployment.metadata.name = Some("w".repeat(253));
    cluster.settle();
    let name = &cluster.sets[0].name;
    assert_eq!(*name, format!("{}-{}", "w".repeat(252 - cluster.sets[0].hash.len()), cluster.sets[0].hash));
}

#[test]
fn the_collision_count_distinguishes_a_hash_of_another_owner() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    let mut template = cluster.deployment.spec.template.clone();
    template.edit(|template| template["spec"]["containers"][0]["image"] = json!("v2"));
    for collisions in 0..2 {
        let hash = ordereddeployment_api::template_hash(&template, collisions);
        cluster.taken_names.insert(format!("web-{hash}"));
    }
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.is_complete());
    let status = cluster.status();
    assert_eq!((status.collision_count, status.rollout.unwrap().revision), (Some(2), 2));
}

#[test]
fn the_requeue_time_is_when_pods_become_available_or_the_deadline_passes() {
    let mut spec = rolling(4, &json!(1), &json!(0));
    spec["minReadySeconds"] = json!(30);
    let mut cluster = Cluster::new(&spec);
    cluster.settle_when_asked();
    assert!(cluster.is_complete());
    cluster.set_image("v2");
    cluster.settle_when_asked();
    assert!(cluster.is_complete());
    cluster.broken.insert("v3".into());
    cluster.set_image("v3");
    cluster.settle_when_asked();
    let progressing = cluster.status().condition(condition::PROGRESSING).cloned().unwrap();
    assert_eq!(progressing.reason, reason::PROGRESS_DEADLINE_EXCEEDED);
}

#[test]
fn a_pod_is_available_by_the_time_of_its_own_set() {
    let mut cluster = Cluster::running(&rolling(4, &json!(0), &json!(4)));
    cluster.edit(|spec| spec.min_ready_seconds = 100);
    cluster
        .edit(|spec| spec.template.edit(|template| template["spec"]["containers"][0]["image"] = json!("v2")));
    cluster.rest();
    assert_eq!(cluster.sets[0].min_ready_seconds, 0, "what is not current stays as it was");
    cluster.tick(1);
    cluster.rest();
    assert_eq!(cluster.status().available_replicas, Some(0));
    cluster.tick(100);
    cluster.rest();
    assert!(cluster.is_complete());
    // Without a rollout the spec applies, also to existing pods.
    cluster.edit(|spec| spec.min_ready_seconds = 300);
    cluster.rest();
    assert_eq!(cluster.status().available_replicas, Some(0));
}

#[test]
fn a_template_with_its_own_hash_label_is_rolled_out_once() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    cluster.edit(|spec| {
        spec.template.edit(|template| template["metadata"]["labels"]["pod-template-hash"] = json!("mine"));
    });
    cluster.set_image("v2");
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!((cluster.of_image("v2"), cluster.sets.len()), (3, 2));
    assert_eq!(cluster.status().collision_count, None);
}

#[test]
fn with_surge_the_first_pod_verifies_the_template_without_a_dry_run() {
    let mut cluster = Cluster::running(&rolling(4, &json!(1), &json!(0)));
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!((cluster.of_image("v2"), cluster.dry_runs), (4, 0));
}

#[test]
fn no_pod_is_deleted_out_of_order_below_the_ceiling() {
    let mut cluster = Cluster::running(&rolling(4, &json!(1), &json!(1)));
    cluster.prioritize(&[9, 8, 7, 6]);
    cluster.pod(3).facts.ready = false;
    cluster.quota = Some(4);
    cluster.set_image("v2");
    for _ in 0..10 {
        cluster.step();
        cluster.tick(1);
    }
    assert_eq!(cluster.deleted, []);
}

#[test]
fn after_the_deadline_unavailable_old_pods_are_deleted_even_if_updated_ones_are_unavailable() {
    let mut cluster = Cluster::running(&rolling(4, &json!(1), &json!(1)));
    cluster.prioritize(&[9, 8, 7, 6]);
    cluster.pod(3).facts.ready = false;
    let last = cluster.pod(3).name.clone();
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.rest();
    cluster.tick(1);
    cluster.rest();
    assert_eq!(cluster.deleted, []);
    cluster.settle_when_asked();
    assert_eq!(cluster.deleted, [(last, Purpose::Rollout)]);
}

#[test]
fn the_rollout_does_not_count_on_surplus_pods_deleted_in_the_same_decision() {
    let mut cluster = Cluster::running(&rolling(4, &json!(4), &json!(0)));
    cluster.broken.insert("v2".into());
    cluster.set_image("v2");
    cluster.settle();
    for index in [4, 5] {
        let pod = cluster.pod(index);
        pod.facts.priority = Some(9);
        pod.facts.ready = true;
        pod.facts.ready_since = pod.facts.created;
    }
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (2, 4));
    cluster.edit(|spec| spec.replicas = 3);
    cluster.settle();
    // The first updated pod of the order is deleted, an available one: three are left, as the floor requires.
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (2, 3));
    assert_eq!(cluster.deleted.last().unwrap().1, Purpose::Scale);
}

#[test]
fn recreate_waits_only_for_old_pods_that_still_run() {
    let mut cluster = Cluster::running(&json!({"replicas": 2, "strategy": {"type": "Recreate"}}));
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.delete(&uid);
    cluster.rest();
    assert_eq!(cluster.of_image("v1"), 2, "at rest a lost pod is replaced at once");
    cluster.tick(1);
    cluster.set_image("v2");
    cluster.rest();
    assert_eq!(cluster.of_image("v2"), 0);
    for pod in &mut cluster.pods {
        pod.finished = true;
    }
    cluster.rest();
    assert_eq!(cluster.of_image("v2"), 2);
}

#[test]
fn a_quota_that_leaves_no_room_for_the_surge_does_not_stop_a_rollout() {
    let mut cluster = Cluster::running(&rolling(6, &json!(1), &json!(1)));
    cluster.quota = Some(6);
    cluster.set_image("v2");
    for _ in 0..100 {
        cluster.step();
        cluster.tick(1);
    }
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (0, 6));
    assert!(cluster.is_complete());
}

#[test]
fn a_revision_is_never_reused_after_its_set_was_deleted() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    cluster.set_image("v2");
    cluster.settle();
    cluster.delete_set(1);
    cluster.set_image("v3");
    cluster.settle();
    assert_eq!(cluster.status().rollout.unwrap().revision, 3);
    assert_eq!(cluster.sets.iter().map(|set| set.revision).max(), Some(3));
}

#[test]
fn a_set_of_the_newest_revision_keeps_it_if_the_status_was_lost() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    cluster.set_image("v2");
    cluster.settle();
    cluster.deployment.status = None;
    cluster.settle();
    assert_eq!(cluster.status().rollout.unwrap().revision, 2);
    assert!(cluster.is_complete());
    // If another set is the newest, it gets the next one.
    cluster.set_image("v1");
    cluster.deployment.status = None;
    cluster.settle();
    assert_eq!(cluster.status().rollout.unwrap().revision, 3);
}

#[test]
fn an_old_set_with_pods_that_still_terminate_is_kept_beyond_the_limit() {
    let mut spec = rolling(2, &json!(2), &json!(0));
    spec["revisionHistoryLimit"] = json!(0);
    let mut cluster = Cluster::running(&spec);
    cluster.set_image("v2");
    cluster.rest();
    for pod in &mut cluster.pods {
        (pod.facts.ready, pod.facts.ready_since) = (true, pod.facts.created);
    }
    cluster.rest();
    assert!(cluster.is_complete());
    assert!(cluster.pods.iter().any(|pod| pod.terminating));
    assert_eq!(cluster.sets.len(), 2, "its pods are there still");
    cluster.tick(1);
    cluster.rest();
    assert_eq!(cluster.sets.len(), 1);
}

#[test]
fn of_old_sets_with_one_revision_the_older_one_is_deleted_first() {
    let mut spec = rolling(1, &json!(1), &json!(0));
    spec["revisionHistoryLimit"] = json!(1);
    let mut cluster = Cluster::running(&spec);
    cluster.set_image("v2");
    cluster.settle();
    cluster.tick(10);
    cluster.set_image("v3");
    cluster.edit(|spec| spec.revision_history_limit = 3);
    cluster.settle();
    assert_eq!(cluster.sets.len(), 3);
    // The annotation was edited by hand.
    let kept = cluster.sets[0].name.clone();
    cluster.sets[0].revision = 2;
    cluster.sets[0].created =
        cluster.sets[1].created.map(|created| created + jiff::SignedDuration::from_secs(1));
    cluster.edit(|spec| spec.revision_history_limit = 1);
    cluster.settle();
    assert!(cluster.sets.iter().any(|set| set.name == kept), "{:?}", cluster.sets);
}

#[test]
fn a_collision_during_a_rollout_starts_no_other_rollout() {
    let mut cluster = Cluster::running(&rolling(3, &json!(1), &json!(0)));
    cluster.set_image("v2");
    cluster.step();
    let rollout = cluster.status().rollout.unwrap();
    // Only the create of the set shows that its name is taken.
    cluster.taken_names.insert(format!("web-{}", rollout.template_hash));
    cluster.settle();
    let status = cluster.status();
    assert_eq!(
        (status.collision_count, status.rollout.as_ref().map(|rollout| rollout.revision)),
        (Some(1), Some(2))
    );
    assert_ne!(status.rollout.unwrap().template_hash, rollout.template_hash);
    assert!(cluster.is_complete());
    assert_eq!(cluster.count_events(reason::ROLLOUT_STARTED), 1);
}

#[test]
fn neither_floor_counts_surplus_pods_deleted_in_the_same_decision() {
    // The number of unready old pods: the last one, which only the second floor counts; all, so that only the second floor binds.
    for (unready, left) in [(1, 3), (4, 2)] {
        let mut cluster = Cluster::running(&rolling(4, &json!(4), &json!(0)));
        cluster.prioritize(&[4, 3, 2, 1]);
        for index in 4 - unready..4 {
            cluster.pod(index).facts.ready = false;
        }
        cluster.broken.insert("v2".into());
        cluster.set_image("v2");
        cluster.rest();
        for index in [4, 5] {
            let now = cluster.now;
            let pod = cluster.pod(index);
            pod.facts.priority = Some(9);
            (pod.facts.ready, pod.facts.ready_since) = (true, Some(now));
        }
        cluster.pods.iter_mut().for_each(|pod| pod.facts.phase = ordereddeployment_sorter::Phase::Running);
        cluster.settle();
        assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (left, 4), "{unready}");
    }
}
