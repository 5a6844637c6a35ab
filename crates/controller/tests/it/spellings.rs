//! Templates that are spelled differently restart nothing: the API server normalizes them.

use std::time::Duration;

use kube::ResourceExt;
use ordereddeployment_api::ConditionStatus;
use ordereddeployment_api::names::{annotation, condition, reason};
use serde_json::{Value, json};

use crate::cluster::{Cluster, names};

fn template(container: &Value, pod: &Value) -> Value {
    let mut main = json!({"name": "main", "image": "web:1", "resources": {"limits": {"cpu": "1"}}});
    main.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut spec = json!({"containers": [main]});
    spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

fn plain() -> Value {
    template(&json!({}), &json!({}))
}

/// Other spellings of the same template.
fn spellings() -> [Value; 4] {
    [
        template(&json!({"resources": {"limits": {"cpu": "1000m"}}}), &json!({})),
        template(
            &json!({"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}),
            &json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst"}),
        ),
        template(&json!({"env": [], "command": null}), &json!({"tolerations": [], "volumes": []})),
        template(&json!({"tty": false}), &json!({"hostNetwork": false, "nodeSelector": {}})),
    ]
}

impl Cluster {
    async fn set_template(&self, template: &Value) {
        // A merge patch would merge the templates.
        let operation = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
        let patch = kube::api::Patch::<()>::Json(serde_json::from_value(operation).unwrap());
        self.deployments().patch("web", &kube::api::PatchParams::default(), &patch).await.unwrap();
    }

    fn compared(&self, from: usize) -> usize {
        self.asked(from, "create", "podtemplates").len()
    }
}

#[tokio::test(start_paused = true)]
async fn another_spelling_of_a_template_restarts_nothing_and_is_compared_once() {
    let (mut cluster, pods) = Cluster::with(json!({"replicas": 4, "template": plain()})).await;
    let mark = cluster.mark();
    for spelled in spellings() {
        cluster.set_template(&spelled).await;
        cluster.pass(Duration::from_secs(5)).await;
        cluster.until_complete().await;
    }
    // The new and the old template, for each spelling.
    assert_eq!(cluster.compared(mark), 8);
    let mark = cluster.mark();
    for spelled in [plain()].into_iter().chain(spellings()) {
        cluster.kill();
        cluster.set_template(&spelled).await;
        cluster.start_controller();
        cluster.pass(Duration::from_secs(5)).await;
        cluster.until_complete().await;
    }
    assert_eq!(cluster.compared(mark), 0);
    let view = cluster.view().await;
    assert_eq!(names(&view.pods), pods);
    assert_eq!(view.status().rollout.unwrap().revision, 1);
    let sets = cluster.all_sets().await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].annotations()[annotation::EQUAL_TEMPLATES].split(',').count(), 4);
}

#[tokio::test(start_paused = true)]
async fn while_the_server_does_not_compare_no_rollout_starts_and_scaling_continues() {
    let (mut cluster, _) = Cluster::with(json!({"replicas": 4, "template": plain()})).await;
    let mark = cluster.mark();
    cluster.refuse("create", "podtemplates", 503, 1_000_000);
    cluster.set_template(&template(&json!({"image": "web:2"}), &json!({}))).await;
    cluster.pass(Duration::from_secs(20)).await;
    let stalled = |view: &crate::cluster::View| view.status().condition(condition::STALLED).unwrap().clone();
    assert_eq!(stalled(&cluster.view().await).status, ConditionStatus::False);
    cluster.scale(6).await;
    cluster.pass(Duration::from_secs(20)).await;
    let view = cluster.view().await;
    assert_eq!((view.active().len(), cluster.deleted(mark).len()), (6, 0));
    assert_eq!(
        (stalled(&view).status, stalled(&view).reason.as_str()),
        (ConditionStatus::True, reason::TEMPLATE_NOT_COMPARED)
    );
    assert_eq!(cluster.events_of(reason::TEMPLATE_NOT_COMPARED).await.len(), 1);
    cluster.kill();
    cluster.start_controller();
    cluster.pass(Duration::from_secs(300)).await;
    let view = cluster.view().await;
    assert_eq!((view.active().len(), cluster.deleted(mark).len()), (6, 0));
    assert_eq!(stalled(&view).status, ConditionStatus::True);
    assert_eq!(cluster.events_of(reason::TEMPLATE_NOT_COMPARED).await.len(), 1);
    assert!(cluster.compared(mark) < 40, "it backs off: {}", cluster.compared(mark));
    cluster.sandbox.clear_faults();
    let view = cluster.until_out(6).await;
    assert_eq!(stalled(&view).status, ConditionStatus::False);
}

#[tokio::test(start_paused = true)]
async fn without_permission_templates_are_compared_as_written_and_an_event_says_so() {
    let (cluster, _) = Cluster::with(json!({"replicas": 2, "template": plain()})).await;
    cluster.refuse("create", "podtemplates", 403, 1_000_000);
    cluster.set_template(&spellings()[0]).await;
    cluster.pass(Duration::from_secs(5)).await;
    let view = cluster.until_complete().await;
    assert_eq!(view.status().rollout.unwrap().revision, 2);
    let messages = cluster.events_of(reason::COMPARED_AS_WRITTEN).await;
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("create podtemplates"), "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn an_equality_that_is_not_stored_at_first_is_stored_before_it_counts() {
    for code in [409, 500, 503] {
        let (mut cluster, pods) = Cluster::with(json!({"replicas": 3, "template": plain()})).await;
        cluster.refuse("patch", "orderedreplicasets", code, 4);
        cluster.set_template(&spellings()[1]).await;
        cluster.pass(Duration::from_millis(40)).await;
        cluster.kill();
        cluster.start_controller();
        cluster.pass(Duration::from_secs(60)).await;
        let view = cluster.until_complete().await;
        assert_eq!((names(&view.pods), view.status().rollout.unwrap().revision), (pods, 1), "{code}");
    }
}
