//! Whose pods are whose: orphans, releases, names that are taken, objects deleted and created again.

use ordereddeployment_api::names::{condition, label};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::story::{Draw, NOTHING, Story, deployment, hash, image, prioritise, scale, set, template};
use crate::case::{Act, Case, Ends, Pick};
use crate::people::DEPLOYMENT;

fn four(name: &str, draw: &mut Draw<'_>) -> Story {
    let bounds = draw.bounds();
    Story::of(name, draw, &json!({"strategy": bounds}))
}

fn disowned() -> Value {
    json!({"metadata": {"ownerReferences": null}})
}

fn labelled(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

/// It is taken in again, once in a rollout.
pub(super) fn pod_orphaned(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pod-orphaned", draw)
        .after(0, Act::Pod(Pick::Any(1), disowned()))
        .after(draw.pause(2000), image("web:2"))
        .updated(1, Act::Pod(Pick::Old(0), disowned()))
        .after(draw.pause(200), Act::Pod(Pick::Updated(0), disowned()))
        .end()
}

/// Somebody takes a pod out, and gives it back.
pub(super) fn pod_released(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pod-released", draw)
        .after(0, Act::Pod(Pick::Any(1), labelled("quarantine")))
        .after(draw.pause(4000), Act::Pod(Pick::Orphan(0), labelled("web")))
        .after(5000, NOTHING)
        .end()
}

/// Released, annotated and given back while it is scaled down.
pub(super) fn orphan_annotated(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("orphan-annotated", draw)
        .after(0, Act::Pod(Pick::Any(1), disowned()))
        .after(0, prioritise(Pick::Any(1), draw.of(&[9, -9])))
        .after(draw.pause(0), scale(draw.of(&[3, 2])))
        .end()
}

/// Another pod of the same name.
pub(super) fn pod_replaced(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pod-replaced", draw)
        .ranked(4)
        .after(0, Act::Replace(Pick::Any(draw.of(&[0, 3])), draw.of(&[true, false])))
        .after(draw.pause(100), image("web:2"))
        .updated(1, Act::Replace(Pick::Old(0), draw.of(&[false, true])))
        .after(5000, NOTHING)
        .end()
}

pub(super) fn set_orphaned(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("set-orphaned", draw)
        .after(0, Act::Patch(set("web:1"), disowned()))
        .after(draw.pause(2000), image("web:2"))
        .updated(1, Act::Patch(set(draw.of(&["web:1", "web:2"])), disowned()))
        .after(2000, NOTHING)
        .end()
}

/// Its name stays taken: the next one has another hash.
pub(super) fn set_released(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("set-released", draw)
        .after(0, Act::Patch(set("web:1"), labelled("quarantine")))
        .after(draw.pause(8000), Act::Patch(set("web:1"), labelled("web")))
        .after(5000, NOTHING)
        .end()
}

/// By somebody, with its pods or without.
pub(super) fn set_deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let policy = draw.of(&["Background", "Orphan", "Foreground"]);
    four("set-deleted", draw)
        .rollout(draw)
        .updated(
            draw.of(&[1, 2, 4]),
            Act::Delete(set(draw.of(&["web:1", "web:2"])), json!({"propagationPolicy": policy})),
        )
        .after(5000, NOTHING)
        .end()
}

/// A set in the place of the next one, of another template or of somebody else's.
pub(super) fn name_taken(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let foreign = json!([{
        "apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "other", "controller": true,
    }]);
    let owners = draw.of(&[foreign, Value::Null]);
    // What no owner keeps is collected; the garbage collector cannot look up kinds that there are not.
    let template = if owners.is_null() { template("other:1") } else { template("web:2") };
    four("name-taken", draw)
        .after(0, Act::Create(replica_set("web:2", "taken", &template, &owners)))
        .rollout(draw)
        .end()
}

/// It is of the right template, and nobody owns it.
pub(super) fn name_taken_by_an_orphan(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let app = draw.of(&["web", "other"]);
    four("name-taken-by-an-orphan", draw)
        .after(0, Act::Create(replica_set("web:2", app, &template("web:2"), &Value::Null)))
        .after(draw.pause(500), image("web:2"))
        .end()
}

/// A set of the name that the set of that image would have, with no pods.
fn replica_set(image: &str, app: &str, template: &Value, owners: &Value) -> Value {
    let hash = hash(image);
    let mut template = template.clone();
    let labels = json!({"app": "web", label::POD_TEMPLATE_HASH: hash});
    template["metadata"]["labels"] = labels.clone();
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
        "metadata": {
            "name": format!("web-{hash}"), "ownerReferences": owners,
            "labels": {"app": app, label::POD_TEMPLATE_HASH: hash},
        },
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    })
}

/// Two objects that select each other's pods: neither takes what the other owns, either may take an orphan.
pub(super) fn two_of_one_selector(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let small = json!({"replicas": 2});
    Story::of("two-of-one-selector", draw, &small)
        .after(draw.pause(100), Act::Create(deployment("api", &small)))
        .after(5000, Act::Pod(Pick::Any(draw.of(&[0, 1, 2, 3])), disowned()))
        .after(draw.pause(2000), image("web:2"))
        .updated(1, Act::Pod(Pick::Any(draw.of(&[1, 3])), disowned()))
        .after(8000, NOTHING)
        .end()
}

fn delete(policy: &str) -> Act {
    Act::Delete(DEPLOYMENT.to_owned(), json!({"propagationPolicy": policy}))
}

/// On the way to another template.
fn under_way(name: &str, draw: &mut Draw<'_>) -> Story {
    let pods = draw.of(&[1, 2]);
    four(name, draw).rollout(draw).updated(pods, NOTHING)
}

pub(super) fn deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pause = draw.pause(100);
    under_way("deleted", draw).after(pause, delete("Background")).gone(DEPLOYMENT, NOTHING).ends(Ends::Gone)
}

pub(super) fn deleted_in_the_foreground(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pause = draw.pause(100);
    under_way("deleted-in-the-foreground", draw)
        .after(pause, delete("Foreground"))
        .gone(DEPLOYMENT, NOTHING)
        .ends(Ends::Gone)
}

/// Somebody's finalizer keeps it for a while: nothing is made or taken away any more, and its pods stay until it is gone.
pub(super) fn deleted_with_a_finalizer(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let keep = |finalizers: Value| {
        Act::Patch(DEPLOYMENT.to_owned(), json!({"metadata": {"finalizers": finalizers}}))
    };
    let pauses = [draw.pause(0), draw.pause(1000), draw.pause(20_000)];
    under_way("deleted-with-a-finalizer", draw)
        .after(0, keep(json!(["example.com/not-yet"])))
        .after(pauses[0], delete("Background"))
        .after(pauses[1], Act::KillPod(Pick::Any(0)))
        .after(pauses[2], keep(Value::Null))
        .gone(DEPLOYMENT, NOTHING)
        .ends(Ends::Gone)
}

pub(super) fn deleted_without_its_pods(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pause = draw.pause(100);
    under_way("deleted-without-its-pods", draw)
        .after(pause, delete("Orphan"))
        .gone(DEPLOYMENT, NOTHING)
        .ends(Ends::Orphaned)
}

pub(super) fn deleted_while_held(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let policy = draw.of(&["Background", "Foreground"]);
    let point = draw.point();
    four("deleted-while-held", draw)
        .ranked(4)
        .point(Pick::Any(1), point)
        .rollout(draw)
        .held(delete(policy))
        .gone(DEPLOYMENT, NOTHING)
        .ends(Ends::Gone)
}

/// And created again at once, under the same name.
pub(super) fn deleted_and_created(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let image = draw.of(&["web:1", "web:2", "web:3"]);
    let spec = json!({"replicas": draw.of(&[3, 4]), "template": template(image)});
    let pauses = [draw.pause(100), draw.pause(0)];
    under_way("deleted-and-created", draw)
        .after(pauses[0], delete("Background"))
        .gone(DEPLOYMENT, NOTHING)
        .after(pauses[1], Act::Create(deployment("web", &spec)))
        .after(5000, NOTHING)
        .end()
}

/// What was left is taken in again.
pub(super) fn orphaned_and_created(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let image = draw.of(&["web:2", "web:1", "web:3"]);
    let spec = json!({"replicas": draw.of(&[4, 3]), "template": template(image)});
    let pauses = [draw.pause(100), draw.pause(0)];
    under_way("orphaned-and-created", draw)
        .after(pauses[0], delete("Orphan"))
        .gone(DEPLOYMENT, NOTHING)
        .after(pauses[1], Act::Create(deployment("web", &spec)))
        .told(condition::AVAILABLE, ordereddeployment_api::names::reason::MINIMUM_REPLICAS_AVAILABLE, NOTHING)
        .end()
}
