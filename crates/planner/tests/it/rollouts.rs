//! Rollouts, step by step.

use ordereddeployment_api::StrategyType;
use ordereddeployment_api::names::condition;
use ordereddeployment_planner::Purpose;
use serde_json::json;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

histories! {
    without_surge_a_dry_run_verifies_the_template_before_the_first_delete:
        rolling(4, 0, 1, "") => "
            refused v2, image v2 => v1=4 Stalled=TemplateRefused
            accepted, settle => v2=4";
    a_template_that_never_becomes_ready_stops_at_the_floor_and_passes_the_deadline:
        rolling(10, 2, 2, "") => "
            broken v2, image v2 => v1=8 v2=4
            wait 600, settle => v1=8 v2=4 Progressing=ProgressDeadlineExceeded";
    // The floor asks for an old pod.
    a_pod_lost_in_a_rollout_is_replaced_from_the_current_revision_unless_too_few_would_be_left:
        rolling(10, 1, 0, "") => "
            broken v2, image v2 => v1=10 v2=1
            delete #0 => v1=10 v2=1";
    an_undo_uses_the_old_set_again_as_a_new_revision:
        rolling(3, 1, 0, "") => "
            image v2
            image v1 => v1=3 revision=3 sets=2";
    a_paused_rollout_starts_nothing_and_continues_when_unpaused:
        rolling(4, 1, 0, "") => "
            pause, image v2 => v1=4 sets=1
            unpause => v2=4 complete";
    // In either order of the hashes.
    an_old_set_whose_pods_are_refused_does_not_block_the_new_one:
        rolling(3, 0, 1, "") => "
            refused v1, delete #0 #1, image v2 => complete v2=3
            accepted, refused v2, delete #0 #1, image v1 => complete v1=3";
    the_requeue_time_is_when_pods_become_available_or_the_deadline_passes:
        rolling(4, 1, 0, "") => "
            min-ready 30, image v2, wake => complete
            broken v3, image v3, wake => Progressing=ProgressDeadlineExceeded";
    unavailable_old_pods_are_deleted_out_of_order_only_if_the_rollout_is_blocked:
        rolling(10, 1, 0, "") =>
            "priorities 9 8 7 6 5 4 3 2 1 0, unready #9, image v2 => v2=10" |
            "in-order, priorities 9 8 7 6 5 4 3 2 1 0, unready #9, image v2 => v2=1 Stalled=WaitingInOrder";
    with_surge_the_first_pod_verifies_the_template_without_a_dry_run:
        rolling(4, 1, 0, "") => "image v2 => v2=4 dry-runs=0";
    a_revision_is_never_reused_after_its_set_was_deleted:
        rolling(3, 1, 0, "") => "
            image v2
            delete set v2, image v3 => revision=3";
    // If another set is the newest, it gets the next revision.
    a_set_of_the_newest_revision_keeps_it_if_the_status_was_lost:
        rolling(3, 1, 0, "") => "
            image v2
            lose status => revision=2 complete
            image v1, lose status => revision=3";
    a_quota_that_leaves_no_room_for_the_surge_does_not_stop_a_rollout:
        rolling(6, 1, 1, "") => "quota 6, image v2, until v2=6 ticking, settle => v1=0 complete";
}

#[test]
fn a_rollout_follows_the_priorities_and_ends_with_new_pods_only() {
    let mut cluster = rolling(6, 1, 0, "");
    cluster.prioritize(&[0, 5, -1, 9, 5, 0]);
    let named: Vec<_> = cluster.active().map(|pod| (pod.facts.priority.unwrap(), pod.name.clone())).collect();
    cluster.play("image v2 => v2=6 complete");
    let priority = |name: &String| named.iter().find(|(_, pod)| pod == name).unwrap().0;
    let order: Vec<_> = cluster.deleted.iter().map(|(name, _)| priority(name)).collect();
    assert_eq!(order, [9, 5, 5, 0, 0, -1]);
    assert!(cluster.deleted.iter().all(|(_, purpose)| *purpose == Purpose::Rollout));
}

/// Steps of a second each, for a rollout that does not settle.
fn steps(cluster: &mut Cluster, number: usize) {
    for _ in 0..number {
        cluster.step();
        cluster.tick(1);
    }
}

#[test]
fn with_surge_a_refused_template_costs_no_pod_either() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("refused v2, image v2, unseen");
    steps(&mut cluster, 20);
    cluster.play("=> v1=4 ReplicaFailure=FailedCreate\n image v3 => v3=4");
    assert!(cluster.status().condition(condition::REPLICA_FAILURE).is_none());
    // Lost pods are replaced from the old set: as many as the floor asks for.
    let mut cluster = rolling(10, 1, 1, "");
    cluster.play("refused v2, image v2, delete #0 #1 #2 #3 #4, unseen");
    steps(&mut cluster, 20);
    cluster.play("=> v1=9");
}

#[test]
fn recreate_deletes_all_in_order_and_creates_when_the_last_is_gone() {
    let mut cluster = recreate(4, "");
    let names: Vec<_> = cluster.active().map(|pod| pod.name.clone()).collect();
    // Old pods still terminate.
    cluster.play("priorities 1 4 2 3, image v2, rest => v2=0");
    let deleted: Vec<_> = cluster.deleted.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(deleted, [1, 3, 2, 0].map(|index: usize| names[index].clone()));
    cluster.play("settle => v2=4 complete");
}

#[test]
fn the_history_keeps_as_many_old_sets_as_the_limit_says() {
    let mut cluster = rolling(2, 1, 0, "");
    cluster.play("history 2, image v2\n image v3\n image v4\n image v5");
    let mut revisions: Vec<_> = cluster.sets.iter().map(|set| set.revision).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [3, 4, 5]);
}

#[test]
fn an_invalid_spec_moves_nothing_and_says_why() {
    let mut cluster = rolling(3, 1, 0, "");
    cluster.edit(|spec| spec.strategy.type_ = StrategyType::Recreate);
    cluster.play("scale 0 => v1=3 Stalled=InvalidSpec");
    assert!(cluster.stalled().contains("rollingUpdate must not be given"), "{}", cluster.stalled());
}

#[test]
fn a_name_that_is_too_long_for_its_set_is_cut_before_the_hash() {
    let mut cluster = Cluster::new(&json!({"replicas": 1}));
    cluster.deployment.metadata.name = Some("w".repeat(253));
    cluster.settle();
    let set = &cluster.sets[0];
    assert_eq!(set.name, format!("{}-{}", "w".repeat(252 - set.hash.len()), set.hash));
}

#[test]
fn the_collision_count_distinguishes_a_hash_of_another_owner() {
    let mut cluster = rolling(3, 1, 0, "");
    let mut template = cluster.deployment.spec.template.clone();
    template.edit(|template| template["spec"]["containers"][0]["image"] = json!("v2"));
    for collisions in 0..2 {
        let hash = ordereddeployment_api::template_hash(&template, collisions);
        cluster.taken_names.insert(format!("web-{hash}"));
    }
    cluster.play("image v2 => complete revision=2");
    assert_eq!(cluster.status().collision_count, Some(2));
}

#[test]
fn a_collision_during_a_rollout_starts_no_other_rollout() {
    let mut cluster = rolling(3, 1, 0, "");
    cluster.play("image v2, step");
    let rollout = cluster.status().rollout.unwrap();
    // Only the create of the set shows that its name is taken.
    cluster.taken_names.insert(format!("web-{}", rollout.template_hash));
    cluster.play("settle => revision=2 complete RolloutStarted=1");
    assert_eq!(cluster.status().collision_count, Some(1));
    assert_ne!(cluster.status().rollout.unwrap().template_hash, rollout.template_hash);
}

#[test]
fn a_pod_is_available_by_the_time_of_its_own_set() {
    let mut cluster = rolling(4, 0, 4, "");
    cluster.edit(|spec| spec.min_ready_seconds = 100);
    cluster.play("image v2, rest");
    assert_eq!(cluster.sets[0].min_ready_seconds, 0, "what is not current stays as it was");
    cluster.play("wait 1, rest");
    assert_eq!(cluster.status().available_replicas, Some(0));
    cluster.play("wait 100, rest => complete");
    // Without a rollout the spec applies, also to existing pods.
    cluster.edit(|spec| spec.min_ready_seconds = 300);
    cluster.rest();
    assert_eq!(cluster.status().available_replicas, Some(0));
}

#[test]
fn a_template_with_its_own_hash_label_is_rolled_out_once() {
    let mut cluster = rolling(3, 1, 0, "");
    cluster.edit(|spec| {
        spec.template.edit(|template| template["metadata"]["labels"]["pod-template-hash"] = json!("mine"));
    });
    cluster.play("image v2 => complete v2=3 sets=2");
    assert_eq!(cluster.status().collision_count, None);
}

#[test]
fn no_pod_is_deleted_out_of_order_below_the_ceiling() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 9 8 7 6, unready #3, quota 4, image v2, unseen");
    steps(&mut cluster, 10);
    cluster.play("=> deleted=0");
}

#[test]
fn after_the_deadline_unavailable_old_pods_are_deleted_even_if_updated_ones_are_unavailable() {
    let mut cluster = rolling(4, 1, 1, "");
    let last = cluster.pod(3).name.clone();
    cluster.play(
        "priorities 9 8 7 6, unready #3, broken v2, image v2, rest
         wait 1, rest => deleted=0
         wake",
    );
    assert_eq!(cluster.deleted, [(last, Purpose::Rollout)]);
}

#[test]
fn neither_floor_counts_surplus_pods_deleted_in_the_same_decision() {
    // The first updated pod of the order is deleted, an available one: three are left, as the floor requires.
    let mut cluster = rolling(4, 4, 0, "");
    cluster.play(
        "broken v2, image v2
         priority 9 #4 #5, ready #4 #5 => v1=2 v2=4
         scale 3 => v1=2 v2=3",
    );
    assert_eq!(cluster.deleted.last().unwrap().1, Purpose::Scale);
    // The number of unready old pods: the last one, which only the second floor counts; all, so that only the
    // second floor binds.
    for (unready, left) in [("#3", 3), ("#0 #1 #2 #3", 2)] {
        let mut cluster = rolling(4, 4, 0, "");
        cluster.play(&format!("priorities 4 3 2 1, unready {unready}, broken v2, image v2, rest"));
        cluster.play("priority 9 #4 #5, ready #4 #5, unseen");
        cluster.pods.iter_mut().for_each(|pod| pod.facts.phase = ordereddeployment_sorter::Phase::Running);
        cluster.play(&format!("settle => v1={left} v2=4"));
    }
}

#[test]
fn recreate_waits_only_for_old_pods_that_still_run() {
    let mut cluster = recreate(2, "");
    // At rest a lost pod is replaced at once.
    cluster.play("delete #0, rest => v1=2\n wait 1, image v2, rest => v2=0");
    for pod in &mut cluster.pods {
        pod.finished = true;
    }
    cluster.play("rest => v2=2");
}

#[test]
fn an_old_set_with_pods_that_still_terminate_is_kept_beyond_the_limit() {
    let mut cluster = rolling(2, 2, 0, "");
    cluster.play("history 0, image v2, rest\n ready all, rest => complete sets=2");
    assert!(cluster.pods.iter().any(|pod| pod.terminating));
    cluster.play("wait 1, rest => sets=1");
}

#[test]
fn of_old_sets_with_one_revision_the_older_one_is_deleted_first() {
    let mut cluster = rolling(1, 1, 0, "");
    cluster.play("history 1, image v2\n wait 10, image v3, history 3 => sets=3");
    // The annotation was edited by hand.
    let kept = cluster.sets[0].name.clone();
    cluster.sets[0].revision = 2;
    cluster.sets[0].created =
        cluster.sets[1].created.map(|created| created + jiff::SignedDuration::from_secs(1));
    cluster.play("history 1");
    assert!(cluster.sets.iter().any(|set| set.name == kept), "{:?}", cluster.sets);
}
