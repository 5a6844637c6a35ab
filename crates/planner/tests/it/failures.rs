//! Pods that fail, that are unschedulable, or that do not terminate: what waits for what, and what is
//! reported.

use jiff::SignedDuration;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, PodReplacementPolicy};
use ordereddeployment_planner::{
    Act, Decision, DryRun, Failure, FailureKind, Snapshot, decide, whole_seconds,
};
use serde_json::json;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// Fails every active pod with that image; returns how many.
fn fail_all(cluster: &mut Cluster, image: &str) -> usize {
    let count = cluster.of_image(image);
    if count > 0 {
        cluster.play(&format!("fail {image}, unseen"));
    }
    count
}

/// A rollout to v2 whose pods all fail, for so many seconds.
fn failing(mut cluster: Cluster, seconds: usize) -> Cluster {
    cluster.play("deadline 100, image v2, unseen");
    for _ in 0..seconds {
        cluster.rest();
        fail_all(&mut cluster, "v2");
        cluster.play("rest\n wait 1, unseen");
    }
    cluster
}

fn condition_of(cluster: &Cluster, type_: &str) -> (ConditionStatus, String, String) {
    let status = cluster.status();
    let found = status.condition(type_).unwrap();
    (found.status, found.reason.clone(), found.message.clone())
}

histories! {
    pods_that_ran_for_long_are_all_replaced_at_once:
        rolling(9, 1, 1, "") => "wait 601, fail all, rest => active=9 sound";
    a_young_pod_that_fails_once_is_replaced_after_a_second_without_a_condition:
        rolling(3, 1, 1, "") =>
            "fail #0, rest => active=2 sound
             wait 1, rest => active=3" |
            "fail #0, wake => active=3";
    // A running pod is replaced meanwhile.
    other_creates_do_not_wait_for_a_failing_pod:
        one_fails_again_and_again() => "
            scale 8, rest => active=7
            delete #0, rest => active=7";
    // The floor stands.
    replacements_of_failed_pods_are_no_progress_and_the_deadline_passes:
        failing(rolling(3, 1, 0, ""), 110) => "rest => v1=3 Progressing=ProgressDeadlineExceeded";
    // A moment of refusals is none. The crashing pod goes out of order.
    creates_refused_for_some_time_count_as_a_reached_ceiling:
        rolling(4, 1, 1, "") =>
            "priorities 5 4 3 0, unready #3, quota 4, image v2, rest
             wait 9, rest => deleted=0
             wait 1, rest => deleted=1
             settle => complete";
}

#[test]
fn pods_that_fail_repeatedly_are_replaced_with_backoff_up_to_five_minutes() {
    let mut cluster = rolling(3, 1, 1, "");
    cluster.play("image v2, unseen");
    let (start, mut attempts, mut last) = (cluster.now, Vec::new(), cluster.now);
    for _ in 0..3600 {
        cluster.rest();
        let failed = fail_all(&mut cluster, "v2");
        assert!(failed <= 2, "no more at once than the rollout may have");
        if failed > 0 {
            attempts.push(cluster.now.duration_since(last).as_secs());
            last = cluster.now;
        }
        cluster.rest();
        if let Some(wake) = cluster.wake {
            assert!(wake <= cluster.now + SignedDuration::from_mins(5), "and it wakes up for the next");
        }
        cluster.tick(1);
    }
    // The second wave is of another pod, for which the first deletion of an old pod made room.
    assert!(attempts.len() <= 22, "{attempts:?}");
    assert!(attempts.iter().all(|gap| *gap <= 300), "{attempts:?}");
    assert!(attempts.iter().filter(|gap| **gap == 300).count() >= 8, "{attempts:?}");
    assert!(cluster.now.duration_since(start).as_secs() >= 3600);
    assert_eq!(cluster.of_image("v1"), 2, "the floor stands");
    let (holds, why, message) = condition_of(&cluster, condition::REPLICA_FAILURE);
    assert_eq!((holds, why.as_str()), (ConditionStatus::True, reason::PODS_FAILED));
    assert!(message.contains("OutOfcpu") && message.contains("300 seconds"), "{message}");
    // A good template does not wait for the failures of a bad one, and the condition disappears.
    cluster.play("image v3 => complete sound");
}

/// Three pods, of which the first has failed seven times in a row.
fn one_fails_again_and_again() -> Cluster {
    let mut cluster = rolling(3, 1, 1, "");
    let mut failures = 0;
    while failures < 7 {
        cluster.rest();
        if cluster.active().count() == 3 {
            cluster.play("fail #2, unseen");
            failures += 1;
        }
        cluster.play("rest\n wait 1, unseen");
    }
    cluster.play("rest => active=2");
    cluster
}

#[test]
fn a_rollout_without_room_for_its_surge_has_a_requeue_time() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("priorities 5 4 3 0, unready #3, quota 4, image v2, rest");
    assert!(cluster.wake.unwrap() <= cluster.now + SignedDuration::from_secs(10));
}

#[test]
fn deleting_the_failed_pods_ends_the_backoff() {
    let mut cluster = one_fails_again_and_again();
    cluster.pods.retain(|pod| !pod.finished);
    cluster.play("rest => active=3");
}

#[test]
fn a_deadline_exceeded_by_unschedulable_pods_says_so() {
    let mut cluster = rolling(3, 2, 0, "");
    cluster.play("deadline 100, broken v2, image v2, rest => v2=2");
    let waiting = cluster.chosen(&["v2"]);
    for pod in cluster.pods.iter_mut().filter(|pod| waiting.contains(&pod.facts.uid)) {
        pod.unscheduled = Some("0/6 nodes are available".into());
    }
    cluster.play("wait 101, rest => Progressing=ProgressDeadlineExceeded");
    let (holds, _, message) = condition_of(&cluster, condition::PROGRESSING);
    assert_eq!(holds, ConditionStatus::False);
    assert!(message.contains("cannot be scheduled, nor 1 more (0/6 nodes are available)"), "{message}");
}

/// Terminating pods on the node n1, which should end in 30 seconds.
fn ending_soon(cluster: &mut Cluster) {
    let ends = whole_seconds(cluster.now) + SignedDuration::from_secs(30);
    for pod in cluster.pods.iter_mut().filter(|pod| pod.terminating) {
        pod.ends = Some(ends);
        pod.facts.node = Some("n1".into());
    }
}

/// The condition Stalled after so many seconds in which no pod ends.
fn stalled_after(cluster: &mut Cluster, seconds: i64) -> (ConditionStatus, String, String) {
    cluster.now += SignedDuration::from_secs(seconds);
    cluster.rest();
    condition_of(cluster, condition::STALLED)
}

#[test]
fn a_stuck_terminating_pod_is_reported_only_if_creates_wait_for_it() {
    let stuck = |policy: PodReplacementPolicy| {
        // Without a surge there is no room for another pod.
        let mut cluster = rolling(3, 0, 1, "");
        cluster.edit(|spec| spec.pod_replacement_policy = policy);
        cluster.play("rest\n delete #0, unseen");
        ending_soon(&mut cluster);
        cluster
    };
    let mut cluster = stuck(PodReplacementPolicy::TerminationComplete);
    assert_eq!(stalled_after(&mut cluster, 44).0, ConditionStatus::False);
    assert!(cluster.wake.unwrap() <= cluster.now + SignedDuration::from_secs(1), "it wakes up for it");
    let (holds, why, message) = stalled_after(&mut cluster, 1);
    assert_eq!((holds, why.as_str()), (ConditionStatus::True, reason::POD_STUCK_TERMINATING));
    assert!(message.contains("on node n1") && message.contains("--force"), "{message}");
    cluster.play("wait 1, settle => complete Stalled=NotStalled");
    // It has been replaced already.
    let mut cluster = stuck(PodReplacementPolicy::TerminationStarted);
    assert_eq!(stalled_after(&mut cluster, 100).0, ConditionStatus::False);
    cluster.play("=> active=3");
}

#[test]
fn a_stuck_terminating_pod_stalls_nothing_if_no_create_waits_for_it() {
    let mut cluster = rolling(3, 2, 0, "");
    cluster.edit(|spec| spec.pod_replacement_policy = PodReplacementPolicy::TerminationComplete);
    cluster.play("image v2, rest\n wait 1, rest");
    // Two of the old pods are deleted, and one of these does not terminate.
    let stuck = cluster.pods.iter().find(|pod| pod.terminating).unwrap().facts.uid.clone();
    cluster.pods.retain(|pod| !pod.terminating || pod.facts.uid == stuck);
    ending_soon(&mut cluster);
    // There is room for all that are wanted.
    cluster.play("rest => v1=1 v2=3");
    let (holds, why, message) = stalled_after(&mut cluster, 60);
    assert_eq!((holds, why.as_str()), (ConditionStatus::False, reason::NOT_STALLED), "{message}");
    assert_eq!(condition_of(&cluster, condition::RECONCILING).0, ConditionStatus::True);
}

#[test]
fn refused_creates_are_a_row_until_one_is_accepted() {
    let mut cluster = Cluster::new(&json!({"replicas": 3}));
    let mut since = Vec::new();
    let begun = cluster.now;
    for second in 0..8 {
        // There is room for one pod from the fourth second on.
        cluster.quota = Some(usize::from(second >= 4));
        cluster.step();
        let seconds = |failure: &Failure| failure.since.duration_since(begun).as_secs();
        since.extend(cluster.failure.as_ref().map(seconds));
        cluster.now += SignedDuration::from_secs(1);
    }
    assert_eq!(since.first(), Some(&1));
    assert!(since.windows(2).all(|pair| pair[0] == pair[1] || pair[1] >= 4), "{since:?}");
    assert!(since.last().is_some_and(|last| *last >= 4), "{since:?}");
}

fn decide_with(cluster: &Cluster, dry_run: DryRun) -> Act {
    let decision = decide(&Snapshot { live: true, dry_run, ..cluster.observed() });
    let Decision::Act(act) = decision else { panic!("{decision:?}") };
    act
}

#[test]
fn while_adoption_fails_nothing_is_created_or_deleted_and_the_deadline_runs() {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("deadline 100, image v2, step 2");
    cluster.failure = Some(Failure { what: FailureKind::Claim, message: "no".into(), since: cluster.now });
    for _ in 0..2 {
        let act = decide_with(&cluster, DryRun::Accepted);
        assert!(act.is_idle());
        let condition = act.status.condition(condition::REPLICA_FAILURE).unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), (reason::FAILED_CLAIM, "no"));
        cluster.store(&act.status);
        cluster.now += SignedDuration::from_secs(200);
    }
    let (holds, why, _) = condition_of(&cluster, condition::STALLED);
    assert_eq!((holds, why.as_str()), (ConditionStatus::True, reason::PROGRESS_DEADLINE_EXCEEDED));
    cluster.failure = None;
    cluster.play("settle => v2=4");
}

#[test]
fn without_an_answer_to_the_dry_run_only_deletions_for_the_template_wait() {
    for mut cluster in [rolling(4, 0, 1, ""), recreate(4, "")] {
        cluster.set_image("v2");
        while matches!(decide(&Snapshot { live: true, ..cluster.observed() }), Decision::Record(_)) {
            cluster.step();
        }
        let act = decide_with(&cluster, DryRun::NoAnswer("503".into()));
        assert!(act.deletes.is_empty());
        let condition = act.status.condition(condition::REPLICA_FAILURE).unwrap();
        assert_eq!(condition.reason, reason::TEMPLATE_UNPROVEN);
        assert!(condition.message.contains("503"));
        // An answer ends it.
        let act = decide_with(&cluster, DryRun::Accepted);
        assert!(!act.deletes.is_empty());
        assert_eq!(act.status.condition(condition::REPLICA_FAILURE), None);
    }
}

#[test]
fn after_a_failed_create_the_old_sets_heal_first() {
    let mut cluster = rolling(4, 0, 1, "");
    cluster.play("image v2, step 2");
    cluster.pods.truncate(2);
    let first = |cluster: &Cluster| {
        let act = decide_with(cluster, DryRun::Accepted);
        assert_eq!(act.creates.len(), 2);
        let set = cluster.sets.iter().find(|set| set.hash == act.creates[0].hash).unwrap();
        cluster.image_of(set)
    };
    assert_eq!(first(&cluster), "v2");
    cluster.failure = Some(Failure { what: FailureKind::Create, message: "500".into(), since: cluster.now });
    assert_eq!(first(&cluster), "v1");
}
