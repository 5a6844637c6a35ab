//! The status as tools that wait read it: kstatus, Argo CD, `kubectl wait`.

use std::collections::BTreeSet;

use mlua::{Lua, LuaSerdeExt, Value as LuaValue};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, names::condition, names::reason};
use serde_json::{Value, json};

use crate::model::Cluster;

const ARGOCD: &str = include_str!("../../../../docs/examples/argocd/argocd-cm.yaml");

fn four() -> Value {
    let bounds = json!({"maxSurge": 1, "maxUnavailable": 1});
    json!({"replicas": 4, "progressDeadlineSeconds": 100, "strategy": {"rollingUpdate": bounds}})
}

/// kstatus' rules for unknown kinds (`pkg/kstatus/status/generic.go` in sigs.k8s.io/cli-utils).
fn kstatus(object: &OrderedDeployment) -> &'static str {
    let Some(status) = &object.status else { return "Current" };
    if status.observed_generation.is_some_and(|seen| Some(seen) != object.metadata.generation) {
        return "InProgress";
    }
    let found = status.conditions.iter().flatten().find(|found| {
        let known = [condition::RECONCILING, condition::STALLED].contains(&found.type_.as_str());
        known && found.status == ConditionStatus::True
    });
    match found.map(|found| found.type_.as_str()) {
        Some(condition::RECONCILING) => "InProgress",
        Some(_) => "Failed",
        None => "Current",
    }
}

fn customization(kind: &str) -> String {
    let map: Value = serde_saphyr::from_str(ARGOCD).unwrap();
    let key = format!("resource.customizations.{kind}.ordereddeployment.io_OrderedDeployment");
    map["data"][&key].as_str().unwrap().to_owned()
}

fn run(script: &str, object: &Value) -> Value {
    let lua = Lua::new();
    // Argo CD passes objects in which an absent field is nil.
    lua.globals().set("obj", lua.to_value(object).unwrap()).unwrap();
    let answer: LuaValue = lua.load(script).eval().unwrap();
    lua.from_value(answer).unwrap()
}

/// The health that Argo CD shows.
fn health(object: &OrderedDeployment) -> (String, String) {
    let answer = run(&customization("health"), &serde_json::to_value(object).unwrap());
    let text = |key: &str| answer[key].as_str().unwrap().to_owned();
    (text("status"), text("message"))
}

fn actions() -> Value {
    serde_saphyr::from_str(&customization("actions")).unwrap()
}

/// The actions that Argo CD offers.
fn offered(object: &OrderedDeployment) -> BTreeSet<String> {
    let script = actions()["discovery.lua"].as_str().unwrap().to_owned();
    let found = run(&script, &serde_json::to_value(object).unwrap());
    let enabled = |action: &Value| action["disabled"] != true;
    found.as_object().unwrap().iter().filter(|(_, it)| enabled(it)).map(|(name, _)| name.clone()).collect()
}

/// The object after an action.
fn act(object: &OrderedDeployment, action: &str) -> OrderedDeployment {
    let actions = actions();
    let mut all = actions["definitions"].as_array().unwrap().iter();
    let script = all.find(|it| it["name"] == action).unwrap()["action.lua"].as_str().unwrap();
    serde_json::from_value(run(script, &serde_json::to_value(object).unwrap())).unwrap()
}

fn result(cluster: &Cluster) -> (&'static str, String) {
    (kstatus(&cluster.deployment), health(&cluster.deployment).0)
}

fn is(kstatus: &'static str, argocd: &str) -> (&'static str, String) {
    (kstatus, argocd.to_owned())
}

fn held() -> Cluster {
    let mut cluster = Cluster::running(&four());
    cluster.play("priorities 9 5, mark before #1, image v2");
    cluster
}

#[test]
fn an_object_that_the_controller_has_not_seen_is_in_progress() {
    let mut cluster = Cluster::new(&four());
    // As the API server defaults it.
    cluster.deployment.status = serde_json::from_value(json!({"observedGeneration": -1})).unwrap();
    assert_eq!(result(&cluster), is("InProgress", "Progressing"));
    cluster.settle();
    assert_eq!(result(&cluster), is("Current", "Healthy"));
    cluster.set_image("v2");
    assert_eq!(
        result(&cluster),
        is("InProgress", "Progressing"),
        "a status of an older spec counts for nothing"
    );
}

#[test]
fn a_rollout_is_in_progress_until_it_is_complete() {
    let mut cluster = Cluster::running(&four());
    cluster.set_image("v2");
    let mut seen = BTreeSet::new();
    while !(cluster.is_complete() && cluster.of_image("v1") == 0) {
        cluster.step();
        cluster.tick(1);
        seen.insert(result(&cluster));
    }
    assert!(seen.contains(&is("InProgress", "Progressing")), "{seen:?}");
    assert!(seen.iter().all(|(kstatus, _)| *kstatus != "Failed"), "{seen:?}");
    cluster.settle();
    assert_eq!(result(&cluster), is("Current", "Healthy"));
}

#[test]
fn a_hold_is_in_progress_and_suspended_and_the_actions_end_it() {
    let mut cluster = held();
    assert_eq!(result(&cluster), is("InProgress", "Suspended"));
    assert!(health(&cluster.deployment).1.contains("kubectl ordered resume web"));
    assert_eq!(
        offered(&cluster.deployment),
        ["abort", "pause", "restart", "resume", "resume-all"].map(str::to_owned).into()
    );
    let resumed = act(&cluster.deployment, "resume");
    assert_eq!(resumed.spec, cluster.deployment.spec);
    cluster.deployment = resumed;
    cluster.settle();
    assert_eq!(result(&cluster), is("Current", "Healthy"));
    assert!(!offered(&cluster.deployment).contains("resume"));

    let mut cluster = held();
    cluster.play("mark before #0, unseen");
    cluster.deployment = act(&cluster.deployment, "resume-all");
    cluster.settle();
    assert_eq!(result(&cluster), is("Current", "Healthy"));
}

#[test]
fn a_pause_of_an_unfinished_rollout_is_in_progress_and_suspended() {
    let mut cluster = Cluster::running(&four());
    let paused = act(&cluster.deployment, "pause");
    cluster.edit(|spec| *spec = paused.spec);
    cluster.settle();
    assert_eq!(result(&cluster), is("Current", "Healthy"), "nothing is left to do");
    cluster.play("image v2");
    assert_eq!(result(&cluster), is("InProgress", "Suspended"));
    let unpaused = act(&cluster.deployment, "unpause");
    cluster.edit(|spec| *spec = unpaused.spec);
    cluster.settle();
    assert_eq!(result(&cluster), is("Current", "Healthy"));
}

#[test]
fn an_abort_is_failed_and_degraded_until_a_retry_or_a_new_template() {
    let mut cluster = held();
    let revision = cluster.status().rollout.as_ref().unwrap().revision;
    let spec = cluster.deployment.spec.clone();
    cluster.deployment = act(&cluster.deployment, "abort");
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (4, 0), "the pods are rolled back");
    assert_eq!(cluster.deployment.spec, spec);
    assert_eq!(result(&cluster), is("Failed", "Degraded"));
    let message = health(&cluster.deployment).1;
    assert!(message.contains(&format!("The rollout to revision {revision} was aborted")), "{message}");
    assert!(!message.contains("  "), "{message}");
    assert_eq!(offered(&cluster.deployment), ["pause", "restart", "retry"].map(str::to_owned).into());

    cluster.deployment = act(&cluster.deployment, "retry");
    cluster.settle();
    assert!(cluster.status().rollout.as_ref().unwrap().revision > revision);
    assert!(!offered(&cluster.deployment).contains("retry"));
    assert_ne!(kstatus(&cluster.deployment), "Failed");

    // A new template ends an abort.
    let mut cluster = held();
    cluster.deployment = act(&cluster.deployment, "abort");
    cluster.settle();
    cluster.play("image v1");
    assert_eq!(result(&cluster), is("Current", "Healthy"));
}

#[test]
fn no_abort_is_offered_without_an_unfinished_rollout_or_an_earlier_revision() {
    let mut cluster = Cluster::new(&four());
    assert!(!offered(&cluster.deployment).contains("abort"), "no status yet");
    cluster.step();
    assert!(!offered(&cluster.deployment).contains("abort"), "the first revision");
    cluster.settle();
    cluster.play("image v2");
    assert_eq!(offered(&cluster.deployment), ["pause", "restart"].map(str::to_owned).into());
}

#[test]
fn the_restart_action_is_a_rollout() {
    let mut cluster = Cluster::running(&four());
    let restarted = act(&cluster.deployment, "restart");
    cluster.edit(|spec| *spec = restarted.spec);
    cluster.settle();
    assert_eq!(cluster.deleted.len(), 4);
    assert_eq!(result(&cluster), is("Current", "Healthy"));
}

#[test]
fn a_problem_that_needs_a_user_is_reported_as_failed_until_it_is_fixed() {
    // Past its deadline.
    let mut cluster = Cluster::running(&four());
    cluster.play("broken v2, image v2\n wait 100, settle");
    assert_eq!(result(&cluster), is("Failed", "Degraded"));
    assert_eq!(health(&cluster.deployment).1, "No progress for 100 seconds");
    cluster.play("image v1");
    assert_eq!(result(&cluster), is("Current", "Healthy"));

    // A refused template.
    cluster.refused.insert("v3".into());
    cluster.play("image v3");
    assert_eq!(result(&cluster), is("Failed", "Degraded"));
    cluster.play("image v1");
    assert_eq!(result(&cluster), is("Current", "Healthy"));

    // An invalid spec that an old server accepted: also without any pods before.
    for mut cluster in [cluster, Cluster::new(&four())] {
        cluster.edit(|spec| spec.progress_deadline_seconds = 0);
        cluster.settle();
        assert_eq!(result(&cluster), is("Failed", "Degraded"));
        for type_ in condition::ALWAYS {
            assert!(cluster.status().condition(type_).is_some(), "{type_}");
        }
        cluster.edit(|spec| spec.progress_deadline_seconds = 100);
        cluster.settle();
        assert_eq!(result(&cluster), is("Current", "Healthy"));
    }
}

#[test]
fn in_order_does_not_stall_while_a_new_pod_starts() {
    let mut cluster = Cluster::running(&four());
    cluster.play("in-order, priorities 9 8 7 6, unready #3, image v2, rest");
    let stalled = |cluster: &Cluster| cluster.status().condition(condition::STALLED).cloned().unwrap();
    assert_ne!(stalled(&cluster).reason, reason::WAITING_IN_ORDER);
    cluster.settle();
    assert!(cluster.is_complete() || stalled(&cluster).reason == reason::WAITING_IN_ORDER);
}
