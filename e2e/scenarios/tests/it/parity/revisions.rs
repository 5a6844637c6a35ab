//! Revisions: numbers, undo, and the history limit.

#[cfg(feature = "real-servers")]
use kube::Api;
use kube::ResourceExt;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::annotation;
use scenarios::TestCluster;
use serde_json::json;

/// The steps for either kind, and the revisions of its sets after each, by image.
const WALK: [(&str, &[(&str, &str)]); 5] = [
    ("web:2", &[("1", "web:1"), ("2", "web:2")]),
    ("web:3", &[("1", "web:1"), ("2", "web:2"), ("3", "web:3")]),
    ("undo", &[("1", "web:1"), ("3", "web:3"), ("4", "web:2")]),
    ("undo to 1", &[("3", "web:3"), ("4", "web:2"), ("5", "web:1")]),
    // The previous revision has the second largest number.
    ("undo", &[("3", "web:3"), ("5", "web:1"), ("6", "web:2")]),
];

fn owned(revisions: &[(&str, &str)]) -> Vec<(String, String)> {
    revisions.iter().map(|(number, image)| ((*number).to_owned(), (*image).to_owned())).collect()
}

pub(super) async fn undo_and_revision_numbers_are_those_of_a_deployment(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    let sets = cluster.sets();
    for (step, expected) in WALK {
        match step {
            "undo" => drop(cluster.ordered(&["undo", "web"]).await.unwrap()),
            "undo to 1" => drop(cluster.ordered(&["undo", "web", "--to-revision", "1"]).await.unwrap()),
            image => cluster.set_image(image).await.unwrap(),
        }
        let object = cluster.complete("web", 2).await.unwrap();
        let newest = expected.last().unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision.to_string(), newest.0, "{step}");
        assert_eq!(cluster.pods_of_image(newest.1).await.unwrap().len(), 2, "{step}");
        let are_those = |sets: &[OrderedReplicaSet]| {
            let mut found: Vec<_> = sets
                .iter()
                .map(|set| {
                    let image = &set.spec.template.value()["spec"]["containers"][0]["image"];
                    (set.annotations()[annotation::REVISION].clone(), image.as_str().unwrap().to_owned())
                })
                .collect();
            found.sort();
            found == owned(expected)
        };
        cluster.until_all(sets.clone(), &format!("as after {step}"), are_those).await.unwrap();
    }
    let history = cluster.ordered(&["history", "web"]).await.unwrap();
    assert!(["3", "5", "6"].iter().all(|number| history.contains(number)), "{history}");
    cluster.ordered(&["undo", "web", "--to-revision", "4"]).await.unwrap_err();
}

/// The same steps with `kubectl rollout undo`.
#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_numbers_its_revisions_the_same(cluster: TestCluster) {
    use k8s_openapi::api::apps::v1::ReplicaSet;

    let kubectl = &cluster.kubectl;
    kubectl.run(&["create", "deployment", "web", "--image=web:1", "--replicas=2"]).await.unwrap();
    let sets: Api<ReplicaSet> = cluster.api();
    for (step, expected) in WALK {
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();
        match step {
            "undo" => kubectl.run(&["rollout", "undo", "deployment/web"]).await.unwrap(),
            "undo to 1" => {
                kubectl.run(&["rollout", "undo", "deployment/web", "--to-revision=1"]).await.unwrap()
            }
            image => kubectl.run(&["set", "image", "deployment/web", &format!("web={image}")]).await.unwrap(),
        };
        let are_those = |sets: &[ReplicaSet]| {
            let mut found: Vec<_> = sets
                .iter()
                .map(|set| {
                    let template = set.spec.as_ref().unwrap().template.as_ref().unwrap();
                    let image = template.spec.as_ref().unwrap().containers[0].image.clone();
                    (set.annotations()["deployment.kubernetes.io/revision"].clone(), image.unwrap())
                })
                .collect();
            found.sort();
            found == owned(expected)
        };
        cluster.until_all(sets.clone(), &format!("as after {step}"), are_those).await.unwrap();
    }
}

pub(super) async fn a_history_limit_of_zero_keeps_no_old_set(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 1, "revisionHistoryLimit": 0})).await.unwrap();
    let sets = cluster.sets();
    for (version, revision) in [(2, "2"), (3, "3")] {
        cluster.set_image(&format!("web:{version}")).await.unwrap();
        cluster.complete("web", 1).await.unwrap();
        let only = |sets: &[OrderedReplicaSet]| {
            matches!(sets,
            [one] if one.annotations()[annotation::REVISION] == revision)
        };
        cluster.until_all(sets.clone(), "the current one alone", only).await.unwrap();
    }
    let refused = cluster.ordered(&["undo", "web"]).await.unwrap_err().to_string();
    assert!(refused.contains("revision"), "{refused}");
}
