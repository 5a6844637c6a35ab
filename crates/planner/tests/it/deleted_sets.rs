//! People delete sets, and statuses are lost: what served last is gone, or not known any more.

use serde_json::json;

use crate::model::Cluster;
use crate::play::{histories, recreate, rolling};

/// Four pods of v1, which served, and a canary ahead.
fn running() -> Cluster {
    rolling(4, 1, 1, "canary after 1")
}

fn not_started() -> Cluster {
    Cluster::new(&json!({"replicas": 4, "strategy": running().deployment.spec.strategy.clone()}))
}

/// Four pods of v1, which never got ready, and the first one of v2.
fn unserved() -> Cluster {
    let mut cluster = not_started();
    cluster.play("broken v1, settle\n image v2");
    cluster
}

/// v1 and v2 served without points. Now there is a canary.
fn two_releases() -> Cluster {
    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("image v2\n points canary after 1");
    cluster
}

/// Sets without a record of what served, as of a Deployment. The template was changed
/// at once.
fn adopted() -> Cluster {
    let mut cluster = running();
    for set in &mut cluster.sets {
        set.served = None;
    }
    cluster.play("lose status, image v2");
    cluster
}

/// Plays deeds with a comma between them. Those with a `+` between them come before the next decision.
fn after(mut cluster: Cluster, deeds: &str) -> Cluster {
    for line in deeds.split(", ") {
        cluster.play(&line.replace(" + ", ", "));
    }
    cluster
}

histories! {
    no_release_passes_its_canary_when_sets_are_deleted:
        after(unserved(), "delete set v1, image v3") => "=> v2<=1",
        after(unserved(), "delete set v1, image v1") => "=> v2<=1",
        after(unserved(), "image v1, delete set v1") => "=> v2<=1",
        after(unserved(), "image v1, image v3, scale 8") => "=> v2<=1",
        after(running(), "image v2, delete set v1, lose status, image v3") => "=> v2<=1",
        after(running(), "image v2, delete set v1, image v1, image v4, scale 8") => "=> v2<=1",
        after(running(), "delete set v1 + image v2") => "=> v2<=1",
        after(running(), "image v2, abort 2, delete set v1, image v3") => "=> v3<=1",
        after(running(), "image v2, scale 0, lose status + image v3, scale 4") => "=> v3<=1",
        after(running(), "image v2, abort 2, delete set v2, scale 0, lose status, scale 4") => "=> v2<=1",
        after(two_releases(), "image v1, scale 0, lose status, scale 4") => "=> v1<=1",
        after(adopted(), "scale 0, lose status, scale 4") => "=> v2<=1",
        after(adopted(), "scale 0, scale 4, image v3") => "=> v2<=1",
        after(adopted(), "image v1, scale 8, image v3") => "=> v2<=1";
    an_older_release_has_its_canary_when_the_set_of_a_later_one_is_made_again:
        after(two_releases(), "image v3, delete set v2, image v2, image v1") => "=> held";
    a_rejected_release_gets_no_pods_when_the_one_that_served_does_not_come_back:
        after(running(), "image v2, image v1, broken v1 + delete set v1, image v3, scale 8") => "=> v2=0";
    an_adopted_release_gets_its_pods_back:
        after(adopted(), "scale 0, scale 4") => "=> v1=3 v2=1",
        after(adopted(), "scale 0, scale 4, image v1, scale 8") => "=> v1=8 v2=0";
    a_template_that_never_had_a_pod_gets_none:
        after(not_started(), "scale 0 + broken v2, image v2, scale 4, image v3, scale 8") => "=> v1=0";
}

#[test]
fn pods_that_cannot_be_made_are_explained() {
    recreate(4, "gate before priority 0").play(
        "priorities 5 5 0 0, image v2
         abort 2
         delete set v1
         retry 2 => v2=0 Stalled=NoEarlierRevision",
    );

    let mut cluster = rolling(4, 1, 1, "");
    cluster.play("pause, image v2\n delete set v1 => Stalled=NoEarlierRevision");
    let message = cluster.stalled();
    assert!(message.contains("kubectl ordered unpause web") && !message.contains("resume"), "{message}");

    let mut cluster = running();
    cluster.play("image v2\n pause, image v1\n quota 3, lose 1 v2");
    assert!(!cluster.is("Stalled=NoEarlierRevision"));
}
