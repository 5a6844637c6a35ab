//! People delete sets, and statuses are lost: what served last is gone, or not known any more.

use ordereddeployment_api::names::{condition, reason};
use serde_json::{Value, json};

use crate::model::Cluster;

/// Four pods of v1, which served.
fn running(points: &Value) -> Cluster {
    Cluster::running(&spec(points))
}

fn spec(points: &Value) -> Value {
    let bounds = json!({"maxSurge": 1, "maxUnavailable": 1});
    json!({
        "replicas": 4,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": bounds, "pausePoints": points},
    })
}

fn canary() -> Value {
    json!([{"name": "canary", "afterUpdated": 1}])
}

/// Four pods of v1, which never got ready, and the first one of v2.
fn unserved() -> Cluster {
    let mut cluster = Cluster::new(&spec(&canary()));
    cluster.broken.insert("v1".to_owned());
    cluster.settle();
    play(&mut cluster, "v2");
    cluster
}

/// v1 and v2 served without points. Now there is a canary.
fn two_releases() -> Cluster {
    let mut cluster = running(&json!([]));
    play(&mut cluster, "v2");
    cluster.edit(|spec| spec.strategy.pause_points = serde_json::from_value(canary()).unwrap());
    cluster.settle();
    cluster
}

/// Sets without a record of what served, as of an older controller or a Deployment. The template was changed at once.
fn adopted() -> Cluster {
    let mut cluster = running(&canary());
    for set in &mut cluster.sets {
        set.served = None;
    }
    play(&mut cluster, "lose + v2");
    cluster
}

/// Plays deeds. Those with a `+` between them come before the next decision. `v3` sets that image, `delete v1` deletes its set with its
/// pods, `lose` clears the status.
fn play(cluster: &mut Cluster, deeds: &str) {
    for deed in deeds.split(", ") {
        for part in deed.split(" + ") {
            match part.split_once(' ').unwrap_or((part, "")) {
                ("delete", image) => {
                    let mut sets = cluster.sets.iter();
                    let at = sets.position(|set| !set.terminating && cluster.image_of(set) == image).unwrap();
                    cluster.delete_set(at);
                }
                ("scale", replicas) => cluster.edit(|spec| spec.replicas = replicas.parse().unwrap()),
                ("lose", _) => {
                    cluster.forged = true;
                    cluster.deployment.status = None;
                }
                ("abort", revision) => cluster.request_abort(revision.parse().unwrap()),
                ("retry", revision) => cluster.request_retry(revision.parse().unwrap()),
                ("pause", _) => cluster.edit(|spec| spec.paused = true),
                (image, _) => cluster.set_image(image),
            }
        }
        cluster.settle();
    }
}

fn stalled(cluster: &Cluster) -> (String, String) {
    let found = cluster.status().condition(condition::STALLED).unwrap().clone();
    (found.reason, found.message)
}

/// The start, what people do, and the image that stays at its canary.
type Case = (fn() -> Cluster, &'static str, &'static str);

#[test]
fn no_release_passes_its_canary_when_sets_are_deleted() {
    let one_pod: [Case; 14] = [
        (unserved, "delete v1, v3", "v2"),
        (unserved, "delete v1, v1", "v2"),
        (unserved, "v1, delete v1", "v2"),
        (unserved, "v1, v3, scale 8", "v2"),
        (|| running(&canary()), "v2, delete v1, lose, v3", "v2"),
        (|| running(&canary()), "v2, delete v1, v1, v4, scale 8", "v2"),
        (|| running(&canary()), "delete v1 + v2", "v2"),
        (|| running(&canary()), "v2, abort 2, delete v1, v3", "v3"),
        (|| running(&canary()), "v2, scale 0, lose + v3, scale 4", "v3"),
        (|| running(&canary()), "v2, abort 2, delete v2, scale 0, lose, scale 4", "v2"),
        (two_releases, "v1, scale 0, lose, scale 4", "v1"),
        (adopted, "scale 0, lose, scale 4", "v2"),
        (adopted, "scale 0, scale 4, v3", "v2"),
        (adopted, "v1, scale 8, v3", "v2"),
    ];
    for (start, deeds, image) in one_pod {
        let mut cluster = start();
        play(&mut cluster, deeds);
        assert!(cluster.of_image(image) <= 1, "{deeds}: {} pods of {image}", cluster.of_image(image));
    }
}

#[test]
fn an_older_release_has_its_canary_when_the_set_of_a_later_one_is_made_again() {
    let mut cluster = two_releases();
    play(&mut cluster, "v3, delete v2, v2, v1");
    assert!(cluster.status().hold.is_some());
}

#[test]
fn a_rejected_release_gets_no_pods_when_the_one_that_served_does_not_come_back() {
    let mut cluster = running(&canary());
    play(&mut cluster, "v2, v1");
    cluster.broken.insert("v1".to_owned());
    play(&mut cluster, "delete v1, v3, scale 8");
    assert_eq!(cluster.of_image("v2"), 0);
}

#[test]
fn an_adopted_release_gets_its_pods_back() {
    let mut cluster = adopted();
    play(&mut cluster, "scale 0, scale 4");
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (3, 1));
    play(&mut cluster, "v1, scale 8");
    assert_eq!((cluster.of_image("v1"), cluster.of_image("v2")), (8, 0));
}

#[test]
fn a_template_that_never_had_a_pod_gets_none() {
    let mut cluster = Cluster::new(&spec(&canary()));
    cluster.edit(|spec| spec.replicas = 0);
    cluster.broken.insert("v2".to_owned());
    cluster.settle();
    play(&mut cluster, "v2, scale 4, v3, scale 8");
    assert_eq!(cluster.of_image("v1"), 0);
}

#[test]
fn pods_that_cannot_be_made_are_explained() {
    let gate = json!([{"name": "gate", "beforePriority": 0}]);
    let recreate = json!({"replicas": 4, "strategy": {"type": "Recreate", "pausePoints": gate}});
    let mut cluster = Cluster::running(&recreate);
    cluster.prioritize(&[5, 5, 0, 0]);
    play(&mut cluster, "v2, abort 2, delete v1, retry 2");
    assert_eq!((cluster.of_image("v2"), stalled(&cluster).0.as_str()), (0, reason::NO_EARLIER_REVISION));

    let mut cluster = running(&json!([]));
    play(&mut cluster, "pause + v2, delete v1");
    let (found, message) = stalled(&cluster);
    assert_eq!(found, reason::NO_EARLIER_REVISION);
    assert!(message.contains("kubectl ordered unpause web") && !message.contains("resume"), "{message}");

    let mut cluster = running(&canary());
    play(&mut cluster, "v2, pause + v1");
    cluster.quota = Some(3);
    let lost = cluster.pods.iter().position(|pod| cluster.image(pod) == "v2").unwrap();
    cluster.pods.remove(lost);
    cluster.settle();
    assert_ne!(stalled(&cluster).0, reason::NO_EARLIER_REVISION);
}
