//! Templates and pods that the API server rejects never cost a running pod. Equivalent spellings of a
//! template restart no pods, as with a Deployment; a real change does.

use kube::ResourceExt;
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, OrderedReplicaSet};
use scenarios::{Setting, TestCluster, condition_of, manifest, side_by_side};
use serde_json::{Value, json};

/// API servers refuse unknown fields from this minor version on, if they are asked to.
pub(crate) const STRICT: u32 = 25;

/// A container with a misspelt probe.
fn misspelt() -> Value {
    json!([{"name": "web", "image": "web:1", "livenesProbe": {"tcpSocket": {"port": 80}}}])
}

/// Without other pods, the pods are created. Older servers drop the field without an error.
async fn pods_without_a_misspelt_field_are_reported(cluster: TestCluster) {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": misspelt()}});
    cluster.deployed(&json!({"replicas": 2, "template": template})).await.unwrap();
    cluster.until_event(reason::UNKNOWN_FIELDS).await.unwrap();
}

async fn a_refused_template_costs_no_pod(cluster: TestCluster, surge: i32, unavailable: i32) {
    let bounds = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    let pods = cluster.deployed(&json!({"replicas": 3, "strategy": bounds})).await.unwrap();
    // The CRD schema allows these, and the API server rejects the pods.
    let mut refused =
        vec![(json!([{"name": "web", "image": "a"}, {"name": "web", "image": "b"}]), "Duplicate")];
    if cluster.control_plane().is_none_or(|plane| plane.minor() >= STRICT) {
        refused.push((misspelt(), "unknown field \"spec.containers[0].livenesProbe\""));
    }
    for (containers, said) in refused {
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        cluster.patch(&patch).await.unwrap();
        let is_it = |object: &OrderedDeployment| {
            condition_of(object, condition::STALLED).is_some_and(|stalled| {
                stalled.reason == reason::TEMPLATE_REFUSED && stalled.message.contains(said)
            })
        };
        let status = cluster.until("web", "refused", is_it).await.unwrap().status.unwrap();
        assert_eq!(status.available_replicas, Some(3));
        assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
        let now: Vec<_> = cluster.pods_of_image("web:1").await.unwrap();
        assert_eq!(now, pods);
    }
    cluster.set_image("web:2").await.unwrap();
    let status = cluster.complete("web", 3).await.unwrap().status.unwrap();
    assert_eq!(status.condition(condition::STALLED).unwrap().status, ConditionStatus::False);
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 3);
}

async fn a_refused_template_costs_no_pod_where_a_new_one_comes_first(cluster: TestCluster) {
    a_refused_template_costs_no_pod(cluster, 1, 0).await;
}

async fn a_refused_template_costs_no_pod_where_an_old_one_must_go_first(cluster: TestCluster) {
    a_refused_template_costs_no_pod(cluster, 0, 1).await;
}

/// One apply of the whole manifest: the API server may reject the first pods, since their service account
/// does not exist yet.
async fn an_object_applied_together_with_its_namespace_comes_up(cluster: TestCluster) {
    let name = format!("{}-fresh", cluster.namespace);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut object = manifest("ordereddeployment.io/v1alpha1", "OrderedDeployment", &json!({"replicas": 3}));
    object["metadata"]["namespace"] = json!(name);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [namespace, object]});
    // The manifest contains the namespace, which differs from that of the scenario.
    let kubectl = cluster.kubectl.anywhere();
    kubectl.run_with(&["apply", "-f", "-"], &list.to_string()).await.unwrap();
    let inside = cluster.inside(&name);
    inside.complete("web", 3).await.unwrap();
    inside.clear().await.unwrap();
}

async fn a_rollout_completes_if_the_quota_has_no_room_for_the_surge(cluster: TestCluster) {
    cluster.set_quota(3).await.unwrap();
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 3);
    cluster.until_event(reason::FAILED_CREATE).await.unwrap();
    // Two more than the quota has room for.
    cluster.scale(5).await.unwrap();
    let (failure, why) = (condition::REPLICA_FAILURE, reason::FAILED_CREATE);
    let message = cluster.until_said(failure, ConditionStatus::True, why).await.unwrap();
    let words = "exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3";
    assert!(message.contains("is forbidden") && message.contains(words), "{message}");
    cluster.set_quota(5).await.unwrap();
    let status = cluster.complete("web", 5).await.unwrap().status.unwrap();
    assert_eq!(status.condition(failure), None);
}

fn template(container: &Value, pod: &Value) -> Value {
    let mut web =
        json!({"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}});
    web.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut spec = json!({"containers": [web]});
    spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

/// Equivalent spellings of the template, each different.
fn spellings() -> Vec<Value> {
    vec![
        template(&json!({"resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}), &json!({})),
        template(&json!({}), &json!({"terminationGracePeriodSeconds": 30, "restartPolicy": "Always"})),
        template(&json!({"imagePullPolicy": "IfNotPresent"}), &json!({"dnsPolicy": "ClusterFirst"})),
        template(&json!({"env": [], "command": []}), &json!({"tolerations": [], "volumes": []})),
        template(
            &json!({"tty": false, "workingDir": ""}),
            &json!({"nodeSelector": {}, "hostNetwork": false}),
        ),
    ]
}

fn ordered(template: &Value) -> String {
    let spec = json!({"replicas": 3, "template": template});
    manifest("ordereddeployment.io/v1alpha1", "OrderedDeployment", &spec).to_string()
}

async fn replace(cluster: &TestCluster, template: &Value) {
    cluster.kubectl.run_with(&["replace", "-f", "-"], &ordered(template)).await.unwrap();
}

async fn another_spelling_of_a_template_restarts_nothing(cluster: TestCluster) {
    let plain = template(&json!({}), &json!({}));
    cluster.deployed(&json!({"replicas": 3, "template": plain})).await.unwrap();
    let (pods, plugin) = (cluster.uids().await.unwrap(), cluster.plugin().unwrap());
    for spelled in spellings().iter().chain([&plain]) {
        let foretold = plugin.ok_with(&["plan", "-f", "-"], &ordered(spelled)).await.unwrap().out;
        assert!(foretold.contains("no pod would be created or deleted"), "{foretold}");
        replace(&cluster, spelled).await;
        let status = cluster.complete("web", 3).await.unwrap().status.unwrap();
        assert_eq!(status.rollout.unwrap().revision, 1, "{spelled}");
        assert_eq!(cluster.uids().await.unwrap(), pods, "{spelled}");
    }
    let remembers = |sets: &[OrderedReplicaSet]| {
        matches!(sets,
        [one] if one.annotations()[annotation::EQUAL_TEMPLATES].split(',').count() == 5)
    };
    cluster.until_all(cluster.sets(), "one set that remembers five spellings", remembers).await.unwrap();

    let changed = template(&json!({"resources": {"limits": {"cpu": "1001m", "memory": "1Gi"}}}), &json!({}));
    replace(&cluster, &changed).await;
    let status = cluster.complete("web", 3).await.unwrap().status.unwrap();
    assert_eq!(status.rollout.unwrap().revision, 2);
    assert!(cluster.uids().await.unwrap().iter().all(|uid| !pods.contains(uid)));
}

/// The same spellings for a Deployment.
#[cfg(feature = "real-servers")]
async fn a_deployment_restarts_nothing_either(cluster: TestCluster) {
    let kubectl = &cluster.kubectl;
    let first = template(&json!({}), &json!({}));
    cluster.apply_plain(&json!({"replicas": 3, "template": first})).await.unwrap();
    let pods = cluster.uids().await.unwrap();
    for spelled in spellings() {
        let plain = manifest("apps/v1", "Deployment", &json!({"replicas": 3, "template": spelled}));
        kubectl.run_with(&["replace", "-f", "-"], &plain.to_string()).await.unwrap();
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
        assert_eq!(cluster.uids().await.unwrap(), pods, "{spelled}");
    }
}

side_by_side!(
    Setting::default();
    another_spelling_of_a_template_restarts_nothing,
    a_refused_template_costs_no_pod_where_a_new_one_comes_first,
    a_refused_template_costs_no_pod_where_an_old_one_must_go_first,
    an_object_applied_together_with_its_namespace_comes_up,
    pods_without_a_misspelt_field_are_reported,
    a_rollout_completes_if_the_quota_has_no_room_for_the_surge;
    only on a real server:
    a_deployment_restarts_nothing_either,
);
