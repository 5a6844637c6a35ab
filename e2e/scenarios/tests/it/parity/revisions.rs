//! Revisions: numbers and undo.

use kube::ResourceExt;
use kube::api::DynamicObject;
use ordereddeployment_api::names::annotation;
use scenarios::TestCluster;
use serde_json::{Value, json};

/// A step, and the revisions of the sets after it, by image.
type Step = (&'static str, &'static [(&'static str, &'static str)]);

/// The steps for either kind.
const WALK: [Step; 5] = [
    ("web:2", &[("1", "web:1"), ("2", "web:2")]),
    ("web:3", &[("1", "web:1"), ("2", "web:2"), ("3", "web:3")]),
    ("undo", &[("1", "web:1"), ("3", "web:3"), ("4", "web:2")]),
    ("undo to 1", &[("3", "web:3"), ("4", "web:2"), ("5", "web:1")]),
    // The previous revision has the second largest number.
    ("undo", &[("3", "web:3"), ("5", "web:1"), ("6", "web:2")]),
];

/// Waits until the sets of this kind have the revisions of the step in this annotation.
async fn until_numbered(cluster: &TestCluster, (version, kind): (&str, &str), key: &str, step: Step) {
    let are_those = |sets: &[DynamicObject]| {
        let mut found: Vec<_> = sets
            .iter()
            .map(|set| {
                let image = set.data.pointer("/spec/template/spec/containers/0/image");
                (set.annotations()[key].as_str(), image.and_then(Value::as_str).unwrap())
            })
            .collect();
        found.sort_unstable();
        found == step.1
    };
    let sets = cluster.objects(version, kind);
    cluster.until_all(sets, &format!("as after {}", step.0), are_those).await.unwrap();
}

pub(super) async fn undo_and_revision_numbers_are_those_of_a_deployment(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    for (step, expected) in WALK {
        let image = format!("web={step}");
        let command = match step {
            "undo" => vec!["undo", "web"],
            "undo to 1" => vec!["undo", "web", "--to-revision", "1"],
            _ => vec!["set", "image", "web", image.as_str()],
        };
        plugin.ok(&command).await.unwrap();
        let object = cluster.complete("web", 2).await.unwrap();
        let newest = expected.last().unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision.to_string(), newest.0, "{step}");
        assert_eq!(cluster.pods_of_image(newest.1).await.unwrap().len(), 2, "{step}");
        let sets = ("ordereddeployment.io/v1alpha1", "OrderedReplicaSet");
        until_numbered(&cluster, sets, annotation::REVISION, (step, expected)).await;
    }
    let history = plugin.ok(&["history", "web"]).await.unwrap();
    assert!(["3", "5", "6"].iter().all(|number| history.contains(number)), "{history}");
    plugin.fails(1, &["undo", "web", "--to-revision", "4"]).await.unwrap();
}

/// The same steps with `kubectl rollout undo`.
#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_numbers_its_revisions_the_same(cluster: TestCluster) {
    cluster.apply_plain(&json!({"replicas": 2})).await.unwrap();
    for (step, expected) in WALK {
        let image = format!("web={step}");
        let command = match step {
            "undo" => vec!["rollout", "undo", "deployment/web"],
            "undo to 1" => vec!["rollout", "undo", "deployment/web", "--to-revision=1"],
            _ => vec!["set", "image", "deployment/web", image.as_str()],
        };
        cluster.kubectl.run(&command).await.unwrap();
        let sets = ("apps/v1", "ReplicaSet");
        until_numbered(&cluster, sets, "deployment.kubernetes.io/revision", (step, expected)).await;
        cluster.kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
    }
}
