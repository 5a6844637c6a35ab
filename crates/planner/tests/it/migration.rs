//! During a migration no pod is created or deleted.

use std::collections::BTreeMap;

use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_planner::{
    Act, Decision, DryRun, Failure, FailureKind, Read, Snapshot, Source, decide,
};
use serde_json::json;

use crate::model::Cluster;

const ADOPTING: &str = "ordereddeployment.io/adopting";

fn annotated(mut cluster: Cluster, key: &str, value: &str) -> Cluster {
    cluster.deployment.metadata.annotations = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    cluster
}

fn adopting(value: &str) -> Cluster {
    annotated(Cluster::new(&json!({"replicas": 3})), ADOPTING, value)
}

fn deployment() -> Source {
    Source::Deployment("web".to_owned())
}

fn replica_set() -> Source {
    Source::ReplicaSet("web-5d9c".to_owned())
}

fn decision(cluster: &Cluster, live: bool) -> Decision {
    let snapshot = Snapshot { live, dry_run: DryRun::Accepted, ..cluster.observed() };
    decide(&snapshot)
}

fn closed(cluster: &Cluster, why: &str) -> Act {
    let Decision::Act(act) = decision(cluster, true) else { panic!("not closed") };
    assert!(act.is_idle(), "{act:?}");
    for type_ in [condition::PROGRESSING, condition::COMPLETE] {
        assert_eq!(act.status.condition(type_).unwrap().reason, why);
    }
    assert_eq!(act.status.condition(condition::COMPLETE).unwrap().status, ConditionStatus::False);
    // Pods that are not adopted yet still serve.
    assert_eq!(act.status.condition(condition::AVAILABLE).unwrap().status, ConditionStatus::Unknown);
    act
}

#[test]
fn nothing_is_done_before_the_sources_were_read() {
    let cluster = adopting("deployments/web, replicasets/web-5d9c");
    let Decision::Read(Read::Sources(asked)) = decision(&cluster, true) else { panic!("asked for nothing") };
    assert_eq!(asked, [deployment(), replica_set()].into());
}

#[test]
fn nothing_is_done_while_a_source_exists() {
    let mut cluster = adopting("deployments/web,replicasets/web-5d9c");
    for there in [[true, true], [true, false], [false, true]] {
        cluster.sources = [(deployment(), there[0]), (replica_set(), there[1])].into();
        let act = closed(&cluster, reason::ADOPTING);
        assert!(act.requeue.is_some(), "nothing tells when the others are gone");
        let message = &act.status.condition(condition::PROGRESSING).unwrap().message;
        assert_eq!(message.contains("deployments/web"), there[0], "{message}");
        assert_eq!(message.contains("replicasets/web-5d9c"), there[1], "{message}");
    }
}

#[test]
fn the_rollout_begins_once_the_sources_are_gone_and_all_pods_are_adopted() {
    let mut cluster = adopting("deployments/web,replicasets/web-5d9c");
    cluster.sources = [(deployment(), false), (replica_set(), false)].into();
    assert!(matches!(decision(&cluster, false), Decision::Read(Read::Live)));
    let message = "pod web-5d9c-a cannot be adopted".to_owned();
    cluster.failure = Some(Failure { what: FailureKind::Claim, message, since: cluster.now });
    let act = closed(&cluster, reason::ADOPTING);
    assert!(act.status.condition(condition::PROGRESSING).unwrap().message.contains("web-5d9c-a"));
    cluster.failure = None;
    let Decision::Record(record) = decision(&cluster, true) else { panic!("no rollout begins") };
    assert!(record.status.rollout.is_some());
}

#[test]
fn the_sources_are_ignored_after_the_first_rollout_has_begun() {
    let cluster = Cluster::running(&json!({"replicas": 3}));
    let mut cluster = annotated(cluster, ADOPTING, "deployments/web");
    cluster.sources = [(deployment(), true)].into();
    cluster.play("scale 4 => active=4");
}

#[test]
fn a_malformed_adopting_annotation_changes_nothing() {
    for value in ["", "web", "pods/web", "deployments/", "deployments/web,,"] {
        let act = closed(&adopting(value), reason::ADOPTING);
        let message = &act.status.condition(condition::PROGRESSING).unwrap().message;
        assert!(message.contains("names no Deployment"), "{message}");
    }
}

#[test]
fn nothing_is_done_while_the_pods_are_handed_back_and_the_controller_continues_afterwards() {
    let cluster = Cluster::running(&json!({"replicas": 3}));
    let mut cluster = annotated(cluster, "ordereddeployment.io/handing-back", "step-7");
    cluster.pods.pop();
    cluster.set_image("v2");
    let act = closed(&cluster, reason::HANDING_BACK);
    assert!(act.status.condition(condition::PROGRESSING).unwrap().message.contains("step-7"));
    assert_eq!(act.status.replicas, Some(2));
    cluster.store(&act.status);
    cluster.deployment.metadata.annotations = None;
    cluster.settle();
    assert_eq!(cluster.of_image("v2"), 3);
}
