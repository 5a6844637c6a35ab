//! Pods that fail, that are unschedulable, or that do not terminate: what waits for what, and what is
//! reported.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeploymentStatus, PodReplacementPolicy};
use ordereddeployment_planner::{
    Act, Decision, DryRun, Failed, Failure, FailureKind, Pod, Snapshot, decide, whole_seconds,
};
use serde_json::{Value, json};

use crate::model::Cluster;

fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Value {
    json!({
        "replicas": replicas,
        "progressDeadlineSeconds": 100,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge,
        "maxUnavailable": unavailable}},
    })
}

/// The kubelet fails the pod now.
fn fail(pod: &mut Pod, now: Timestamp, why: &str) {
    pod.finished = true;
    pod.facts.ready = false;
    let at = whole_seconds(now);
    let failed = Failed { at, seen: at, reason: why.into(), message: "Node didn't have enough".into() };
    pod.failed = Some(Box::new(failed));
}

/// Fails every active pod with that image; returns how many.
fn fail_all(cluster: &mut Cluster, image: &str) -> usize {
    let doomed: Vec<Arc<str>> = cluster
        .active()
        .filter(|pod| cluster.image(pod) == image)
        .map(|pod| Arc::clone(&pod.facts.uid))
        .collect();
    let now = cluster.now;
    for pod in cluster.pods.iter_mut().filter(|pod| doomed.contains(&pod.facts.uid)) {
        fail(pod, now, "OutOfcpu");
    }
    doomed.len()
}

fn condition_of(cluster: &Cluster, type_: &str) -> Option<(ConditionStatus, String, String)> {
    let status: OrderedDeploymentStatus = cluster.status();
    status.condition(type_).map(|found| (found.status, found.reason.clone(), found.message.clone()))
}

#[test]
fn pods_that_fail_repeatedly_are_replaced_with_backoff_up_to_five_minutes() {
    let mut cluster = Cluster::running(&rolling(3, 1, 1));
    cluster.set_image("v2");
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
    let (holds, why, message) = condition_of(&cluster, condition::REPLICA_FAILURE).unwrap();
    assert_eq!((holds, why.as_str()), (ConditionStatus::True, reason::PODS_FAILED));
    assert!(message.contains("OutOfcpu") && message.contains("300 seconds"), "{message}");
    // A good template does not wait for the failures of a bad one, and the condition disappears.
    cluster.play("image v3 => complete");
    assert_eq!(condition_of(&cluster, condition::REPLICA_FAILURE), None);
}

#[test]
fn pods_that_ran_for_long_are_all_replaced_at_once() {
    let mut cluster = Cluster::running(&rolling(9, 1, 1));
    cluster.tick(601);
    let now = cluster.now;
    for index in (0..9).rev() {
        fail(cluster.pod(index), now, "Evicted");
    }
    cluster.rest();
    assert_eq!(cluster.active().count(), 9);
    assert_eq!(condition_of(&cluster, condition::REPLICA_FAILURE), None);
}

#[test]
fn a_young_pod_that_fails_once_is_replaced_after_a_second_without_a_condition() {
    let mut cluster = Cluster::running(&rolling(3, 1, 1));
    let now = cluster.now;
    fail(cluster.pod(0), now, "Evicted");
    cluster.rest();
    assert_eq!(cluster.active().count(), 2);
    assert!(cluster.wake.unwrap() <= now + SignedDuration::from_secs(1));
    assert_eq!(condition_of(&cluster, condition::REPLICA_FAILURE), None);
    cluster.play("wait 1, rest => active=3");
}

/// Three pods, of which the first has failed seven times in a row.
fn one_fails_again_and_again() -> Cluster {
    let mut cluster = Cluster::running(&rolling(3, 1, 1));
    let mut failures = 0;
    while failures < 7 {
        cluster.rest();
        let (now, young) = (cluster.now, cluster.active().count() == 3);
        if young {
            let newest = cluster.active().map(|pod| pod.facts.uid.clone()).max().unwrap();
            let pod = cluster.pods.iter_mut().find(|pod| pod.facts.uid == newest).unwrap();
            fail(pod, now, "UnexpectedAdmissionError");
            failures += 1;
        }
        cluster.rest();
        cluster.tick(1);
    }
    cluster.rest();
    assert_eq!(cluster.active().count(), 2);
    cluster
}

#[test]
fn other_creates_do_not_wait_for_a_failing_pod() {
    let mut cluster = one_fails_again_and_again();
    cluster.play("scale 8, rest => active=7");
    // A running pod is replaced meanwhile.
    let uid = cluster.pod(0).facts.uid.clone();
    cluster.delete(&uid);
    cluster.rest();
    assert_eq!(cluster.active().count(), 7);
}

#[test]
fn deleting_the_failed_pods_ends_the_backoff() {
    let mut cluster = one_fails_again_and_again();
    cluster.pods.retain(|pod| !pod.finished);
    cluster.rest();
    assert_eq!(cluster.active().count(), 3);
}

#[test]
fn a_rollout_from_a_set_scaled_while_its_pods_failed_continues() {
    let mut cluster = Cluster::running(&rolling(4, 1, 1));
    cluster.set_image("v2");
    for _ in 0..120 {
        cluster.rest();
        fail_all(&mut cluster, "v2");
        cluster.rest();
        cluster.tick(1);
    }
    cluster.play("scale 9, rest\n image v1");
    assert!(cluster.is_complete(), "{:?}", cluster.status());
}

#[test]
fn a_deadline_exceeded_by_unschedulable_pods_says_so() {
    let mut cluster = Cluster::running(&rolling(3, 2, 0));
    cluster.play("broken v2, image v2, rest");
    let waiting: Vec<Arc<str>> =
        cluster.active().filter(|pod| cluster.image(pod) == "v2").map(|pod| pod.facts.uid.clone()).collect();
    assert_eq!(waiting.len(), 2);
    for pod in cluster.pods.iter_mut().filter(|pod| waiting.contains(&pod.facts.uid)) {
        pod.unscheduled = Some("0/6 nodes are available".into());
    }
    cluster.play("wait 101, rest");
    let (holds, why, message) = condition_of(&cluster, condition::PROGRESSING).unwrap();
    assert_eq!((holds, why.as_str()), (ConditionStatus::False, reason::PROGRESS_DEADLINE_EXCEEDED));
    assert!(message.contains("cannot be scheduled, nor 1 more (0/6 nodes are available)"), "{message}");
}

#[test]
fn a_stuck_terminating_pod_is_reported_only_if_creates_wait_for_it() {
    let stuck = |spec: &Value, policy: PodReplacementPolicy| {
        let mut cluster = Cluster::running(spec);
        cluster.edit(|spec| spec.pod_replacement_policy = policy);
        cluster.rest();
        let uid = cluster.pod(0).facts.uid.clone();
        cluster.delete(&uid);
        let ends = whole_seconds(cluster.now) + SignedDuration::from_secs(30);
        for pod in cluster.pods.iter_mut().filter(|pod| pod.terminating) {
            pod.ends = Some(ends);
            pod.facts.node = Some("n1".into());
        }
        cluster
    };
    // Without a surge there is no room for another pod.
    let spec = rolling(3, 0, 1);
    let mut cluster = stuck(&spec, PodReplacementPolicy::TerminationComplete);
    let condition = |cluster: &mut Cluster, seconds: i64| {
        // `tick` would remove it.
        cluster.now += SignedDuration::from_secs(seconds);
        cluster.rest();
        condition_of(cluster, condition::STALLED).unwrap()
    };
    assert_eq!(condition(&mut cluster, 44).0, ConditionStatus::False);
    assert!(cluster.wake.unwrap() <= cluster.now + SignedDuration::from_secs(1), "it wakes up for it");
    let (holds, why, message) = condition(&mut cluster, 1);
    assert_eq!((holds, why.as_str()), (ConditionStatus::True, reason::POD_STUCK_TERMINATING));
    assert!(message.contains("on node n1") && message.contains("--force"), "{message}");
    cluster.play("wait 1, settle => complete");
    assert_eq!(condition_of(&cluster, condition::STALLED).unwrap().0, ConditionStatus::False);
    // It has been replaced already.
    let mut cluster = stuck(&spec, PodReplacementPolicy::TerminationStarted);
    assert_eq!(condition(&mut cluster, 100).0, ConditionStatus::False);
    assert_eq!(cluster.active().count(), 3);
}

#[test]
fn a_stuck_terminating_pod_stalls_nothing_if_no_create_waits_for_it() {
    let mut cluster = Cluster::running(&rolling(3, 2, 0));
    cluster.edit(|spec| spec.pod_replacement_policy = PodReplacementPolicy::TerminationComplete);
    cluster.play("image v2, rest\n wait 1, rest");
    // Two of the old pods are deleted, and one of these does not terminate.
    let stuck = cluster.pods.iter().find(|pod| pod.terminating).unwrap().facts.uid.clone();
    cluster.pods.retain(|pod| !pod.terminating || pod.facts.uid == stuck);
    let ends = whole_seconds(cluster.now) + SignedDuration::from_secs(30);
    cluster.pods.iter_mut().find(|pod| pod.facts.uid == stuck).unwrap().ends = Some(ends);
    cluster.rest();
    assert_eq!(
        (cluster.of_image("v1"), cluster.of_image("v2")),
        (1, 3),
        "there is room for all that are wanted"
    );
    cluster.now += SignedDuration::from_secs(60);
    cluster.rest();
    let (holds, why, message) = condition_of(&cluster, condition::STALLED).unwrap();
    assert_eq!((holds, why.as_str()), (ConditionStatus::False, reason::NOT_STALLED), "{message}");
    assert_eq!(condition_of(&cluster, condition::RECONCILING).unwrap().0, ConditionStatus::True);
}

#[test]
fn replacements_of_failed_pods_are_no_progress_and_the_deadline_passes() {
    let mut cluster = Cluster::running(&rolling(3, 1, 0));
    cluster.set_image("v2");
    for _ in 0..110 {
        cluster.rest();
        fail_all(&mut cluster, "v2");
        cluster.rest();
        cluster.tick(1);
    }
    cluster.rest();
    let (holds, why, _) = condition_of(&cluster, condition::PROGRESSING).unwrap();
    assert_eq!((holds, why.as_str()), (ConditionStatus::False, reason::PROGRESS_DEADLINE_EXCEEDED));
    assert_eq!(cluster.of_image("v1"), 3, "the floor stands");
}

#[test]
fn refused_creates_are_a_row_until_one_is_accepted() {
    let mut cluster = Cluster::new(&json!({"replicas": 3}));
    cluster.quota = Some(0);
    let mut since = Vec::new();
    let begun = cluster.now;
    for second in 0..8 {
        // There is room for one pod from the fourth second on.
        cluster.quota = Some(usize::from(second >= 4));
        cluster.step();
        let seconds =
            |failure: &ordereddeployment_planner::Failure| failure.since.duration_since(begun).as_secs();
        since.extend(cluster.failure.as_ref().map(seconds));
        cluster.now += SignedDuration::from_secs(1);
    }
    assert_eq!(since.first(), Some(&1));
    assert!(since.windows(2).all(|pair| pair[0] == pair[1] || pair[1] >= 4), "{since:?}");
    assert!(since.last().is_some_and(|last| *last >= 4), "{since:?}");
}

/// Four pods with priorities 5, 4, 3 and 0, the last one crashing, with a quota of four.
fn with_a_quota_of_four() -> Cluster {
    let mut cluster = Cluster::running(&json!({
        "replicas": 4,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    }));
    cluster.prioritize(&[5, 4, 3, 0]);
    cluster.pod(3).facts.ready = false;
    cluster.quota = Some(4);
    cluster.set_image("v2");
    cluster
}

#[test]
fn creates_refused_for_some_time_count_as_a_reached_ceiling() {
    let mut cluster = with_a_quota_of_four();
    let crashing = cluster.pod(3).name.clone();
    cluster.rest();
    cluster.play("wait 9, rest");
    assert_eq!(cluster.deleted, [], "a moment of refusals is none");
    cluster.play("wait 1, rest");
    assert_eq!(cluster.rolled_out(), [crashing]);
    cluster.settle();
    assert!(cluster.is_complete());
}

#[test]
fn a_rollout_without_room_for_its_surge_has_a_requeue_time() {
    let mut cluster = with_a_quota_of_four();
    cluster.rest();
    let wake = cluster.wake.unwrap();
    assert!(wake <= cluster.now + jiff::SignedDuration::from_secs(10), "{wake}");
}

fn decide_with(cluster: &Cluster, dry_run: DryRun) -> Act {
    let decision = decide(&Snapshot { live: true, dry_run, ..cluster.observed() });
    let Decision::Act(act) = decision else { panic!("{decision:?}") };
    act
}

#[test]
fn while_adoption_fails_nothing_is_created_or_deleted_and_the_deadline_runs() {
    let mut cluster = Cluster::running(&rolling(4, 1, 1));
    cluster.set_image("v2");
    cluster.step();
    cluster.step();
    let since = cluster.now;
    cluster.failure = Some(Failure { what: FailureKind::Claim, message: "no".into(), since });
    for _ in 0..2 {
        let act = decide_with(&cluster, DryRun::Accepted);
        assert!(act.is_idle());
        let condition = act.status.condition(condition::REPLICA_FAILURE).unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), (reason::FAILED_CLAIM, "no"));
        cluster.store(&act.status);
        cluster.now += SignedDuration::from_secs(200);
    }
    let late = condition_of(&cluster, condition::STALLED).unwrap();
    assert_eq!((late.0, late.1.as_str()), (ConditionStatus::True, reason::PROGRESS_DEADLINE_EXCEEDED));
    cluster.failure = None;
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 4);
}

#[test]
fn without_an_answer_to_the_dry_run_only_deletions_for_the_template_wait() {
    for spec in [rolling(4, 0, 1), json!({"replicas": 4, "strategy": {"type": "Recreate"}})] {
        let mut cluster = Cluster::running(&spec);
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
    let mut cluster = Cluster::running(&rolling(4, 0, 1));
    cluster.set_image("v2");
    cluster.step();
    cluster.step();
    cluster.pods.truncate(2);
    let first = |cluster: &Cluster| {
        let act = decide_with(cluster, DryRun::Accepted);
        assert_eq!(act.creates.len(), 2);
        let hash = &act.creates[0].hash;
        let set = cluster.sets.iter().find(|set| set.hash == *hash).unwrap();
        cluster.image_of(set)
    };
    assert_eq!(first(&cluster), "v2");
    let since = cluster.now;
    cluster.failure = Some(Failure { what: FailureKind::Create, message: "500".into(), since });
    assert_eq!(first(&cluster), "v1");
}
