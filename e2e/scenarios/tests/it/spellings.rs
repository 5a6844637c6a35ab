//! Equivalent spellings of a template restart no pods, as with a Deployment; a real change does.

use kube::ResourceExt;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::annotation;
use scenarios::{Setting, TestCluster, manifest, side_by_side};
use serde_json::{Value, json};

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
    another_spelling_of_a_template_restarts_nothing;
    only on a real server:
    a_deployment_restarts_nothing_either,
);
