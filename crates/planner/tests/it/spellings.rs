//! Templates with different spellings: which belong to one revision, when the API server is asked, and what
//! waits for its answer.

use ordereddeployment_api::{ConditionStatus, names::condition, names::reason};
use ordereddeployment_planner::ComparisonResult;
use serde_json::{Value, json};

use crate::model::{Cluster, Compares};
use crate::play::{histories, recreate};

fn compared(mut cluster: Cluster) -> Cluster {
    cluster.compares = Some(Compares::default());
    cluster
}

fn running(replicas: i32) -> Cluster {
    compared(Cluster::running(&json!({"replicas": replicas})))
}

fn revision(cluster: &Cluster) -> i64 {
    cluster.status().rollout.unwrap().revision
}

#[test]
fn a_template_spelled_differently_restarts_nothing_and_is_compared_once() {
    let mut cluster = running(4);
    cluster.play("respell 1");
    cluster.restart();
    cluster.settle();
    assert!(cluster.is_complete());
    assert_eq!((cluster.deleted.len(), cluster.sets.len(), revision(&cluster)), (0, 1, 1));
    assert_eq!(cluster.count_events(reason::ROLLOUT_STARTED), 0);
    assert_eq!(cluster.asked(), 1);
    // Back to the first spelling, and to a stored one.
    for template in [json!({}), json!({"spelling": 1})] {
        cluster.edit(|spec| {
            spec.template.edit(|written| {
                let pod = written["spec"].as_object_mut().unwrap();
                pod.remove("spelling");
                pod.extend(template.as_object().unwrap().clone());
            });
        });
        cluster.settle();
    }
    assert_eq!((cluster.asked(), cluster.deleted.len()), (1, 0));
}

#[test]
fn the_equality_is_stored_before_any_other_write_and_only_then_used() {
    let mut cluster = running(4);
    cluster.respell(1);
    cluster.edit(|spec| spec.replicas = 6);
    cluster.step();
    assert_eq!(cluster.sets[0].equal_templates.len(), 1);
    assert_eq!(cluster.active().count(), 4);
    // The controller crashes before the write: the next process asks again.
    cluster.sets[0].equal_templates.clear();
    cluster.settle();
    assert_eq!((cluster.asked(), cluster.active().count(), cluster.deleted.len()), (2, 6, 0));
}

#[test]
fn eight_spellings_are_stored_the_newest_first() {
    let mut cluster = running(2);
    for how in 1..=12 {
        cluster.play(&format!("respell {how}"));
    }
    assert_eq!(cluster.sets[0].equal_templates.len(), 8);
    cluster.play("=> asked=12\n respell 5 => asked=12\n respell 4 => asked=13 deleted=0");
}

#[test]
fn stored_spellings_are_invalid_once_the_template_of_the_set_is_edited() {
    let mut cluster = running(2);
    cluster.play("respell 1");
    cluster.sets[0].template.edit(|template| template["spec"]["real"] = json!("edited"));
    cluster.settle();
    assert_eq!((cluster.asked(), cluster.sets.len()), (2, 2));
}

#[test]
fn a_new_object_and_equal_templates_are_not_compared() {
    let mut cluster = Cluster::new(&json!({"replicas": 3}));
    cluster.play("compares, settle");
    cluster.edit(|spec| spec.template.edit(|template| template["spec"]["nothing"] = Value::Null));
    cluster.play("settle => asked=0 deleted=0");
}

histories! {
    a_real_change_is_rolled_out_and_compared_once:
        running(3) => "image v2 => v2=3 asked=1 revision=2";
    a_new_spelling_during_a_rollout_does_not_interrupt_it:
        running(6) => "
            begin v2 => v1>0
            respell 1 => v2=6 sets=2 revision=2 RolloutStarted=1";
    a_hold_survives_another_spelling:
        running(4) => "
            mark before #1, image v2 => held=mark
            respell 1 => held=mark revision=2 PausePointReached=1
            resume => v2=4";
    without_an_answer_a_rollout_without_a_set_starts_no_other:
        running(3) => "
            pause, image v2 => revision=2
            silent, image v3, unpause => v1=3 sets=1 revision=2 RolloutStarted=1";
    an_undo_spelled_differently_finds_the_older_set:
        running(3) => "
            image v2
            respell 7, image v1 => v1=3 sets=2 revision=3 complete";
    // The model allows no second decision at once.
    without_an_answer_the_progress_deadline_passes_without_repeated_decisions:
        running(3) => "
            deadline 60, silent, image v2
            wait 600, rest => Stalled=TemplateNotCompared
            answers => v2=3";
    without_an_answer_a_running_rollout_deletes_no_more_pods:
        running(6) => "
            breaks 2, image v2, until deleted>0
            breaks none, silent, image v3 => deleted=1 v1=5 v3=0
            answers => v3=6",
        compared(recreate(6, "")) => "
            breaks 2, image v2, until deleted>0
            breaks none, silent, image v3 => deleted=2 v1=4 v3=0
            answers => v3=6";
}

#[test]
fn without_an_answer_no_rollout_starts_and_scaling_and_replacements_continue() {
    let mut cluster = running(4);
    cluster.silence(true);
    cluster.set_image("v2");
    cluster.rest();
    let stalled = |cluster: &Cluster| cluster.status().condition(condition::STALLED).unwrap().clone();
    let complete = cluster.status().condition(condition::COMPLETE).unwrap().clone();
    assert_eq!(
        (complete.status, complete.reason.as_str()),
        (ConditionStatus::False, reason::TEMPLATE_NOT_COMPARED)
    );
    assert_eq!(stalled(&cluster).status, ConditionStatus::False);
    cluster.pod(0).terminating = true;
    cluster.edit(|spec| spec.replicas = 6);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), cluster.sets.len()), (6, 1));
    cluster.edit(|spec| spec.replicas = 3);
    cluster.tick(30);
    cluster.settle();
    assert_eq!((cluster.of_image("v1"), revision(&cluster)), (3, 1));
    let condition = stalled(&cluster);
    assert_eq!(
        (condition.status, condition.reason.as_str()),
        (ConditionStatus::True, reason::TEMPLATE_NOT_COMPARED)
    );
    assert!(condition.message.contains("it is down"), "{}", condition.message);
    assert_eq!(cluster.count_events(reason::TEMPLATE_NOT_COMPARED), 1);
    // A restarted process does not start to count again.
    let now = cluster.now;
    cluster.compares.as_mut().unwrap().silent = Some(now);
    cluster.comparison = ComparisonResult::Not;
    cluster.rest();
    assert_eq!(stalled(&cluster).status, ConditionStatus::True);
    cluster.silence(false);
    cluster.settle();
    assert_eq!((cluster.of_image("v2"), revision(&cluster)), (3, 2));
    assert_eq!(stalled(&cluster).status, ConditionStatus::False);
}

#[test]
fn the_first_spelling_restarts_nothing_after_its_set_was_replaced() {
    let mut cluster = running(4);
    cluster.play("respell 1");
    // The set is deleted with orphan propagation: the set that replaces it has the current spelling.
    cluster.play("collect v1, rest");
    let [first, second] = &cluster.sets[..] else { panic!("{:?}", cluster.sets) };
    let (first, second) = (first.uid.clone(), second.uid.clone());
    for pod in cluster.pods.iter_mut().filter(|pod| pod.set == first) {
        pod.set = second.clone();
    }
    cluster.settle();
    assert_eq!((cluster.sets.len(), cluster.asked()), (1, 1));
    cluster.edit(|spec| {
        spec.template.edit(|template| _ = template["spec"].as_object_mut().unwrap().remove("spelling"));
    });
    cluster.settle();
    assert_eq!((cluster.asked(), cluster.deleted.len(), revision(&cluster)), (2, 0, 1));
}
