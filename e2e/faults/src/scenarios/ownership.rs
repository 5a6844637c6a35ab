//! Ownership: orphans, releases, names that are taken, objects that are deleted and created again.

use ordereddeployment_api::names::{condition, label};
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::builder::{
    Draw, NO_ACTION, ScenarioBuilder, deployment, hash, image, prioritise, scale, set, template,
};
use crate::case::{Case, Forgery, Outcome, PodSelector, UserAction};
use crate::user::DEPLOYMENT;

fn four(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let bounds = draw.bounds();
    ScenarioBuilder::of(name, draw, &json!({"strategy": bounds}))
}

fn disowned() -> Value {
    json!({"metadata": {"ownerReferences": null}})
}

fn labelled(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

/// Orphaned pods are adopted again, also during a rollout.
pub(super) fn pod_orphaned(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pod-orphaned", draw)
        .after(0, UserAction::PatchPod(PodSelector::Any(1), disowned()))
        .after(draw.pause(2000), image("web:2"))
        .when_updated(1, UserAction::PatchPod(PodSelector::Old(0), disowned()))
        .after(draw.pause(200), UserAction::PatchPod(PodSelector::Updated(0), disowned()))
        .build()
}

/// A tenant of another namespace forges pods and sets before a rollout and in it.
pub(super) fn forged_elsewhere(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let forge = |builder: ScenarioBuilder, forgery| builder.after(0, UserAction::Forge(forgery));
    let forged = Forgery::ALL.into_iter().fold(four("forged-elsewhere", draw).ranked(4), forge);
    let forged = forged.after(draw.pause(50), scale(3)).rollout(draw).when_updated(1, NO_ACTION);
    Forgery::ALL.into_iter().fold(forged, forge).build()
}

/// A user changes the label of a pod, and restores it.
pub(super) fn pod_released(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pod-released", draw)
        .after(0, UserAction::PatchPod(PodSelector::Any(1), labelled("quarantine")))
        .after(draw.pause(4000), UserAction::PatchPod(PodSelector::Orphan(0), labelled("web")))
        .after(5000, NO_ACTION)
        .build()
}

/// A pod is orphaned and annotated before the object is scaled down.
pub(super) fn orphan_annotated(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("orphan-annotated", draw)
        .after(0, UserAction::PatchPod(PodSelector::Any(1), disowned()))
        .after(0, prioritise(PodSelector::Any(1), draw.of(&[9, -9])))
        .after(draw.pause(0), scale(draw.of(&[3, 2])))
        .build()
}

/// A pod is replaced by another one of the same name.
pub(super) fn pod_replaced(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("pod-replaced", draw)
        .ranked(4)
        .after(0, UserAction::ReplacePod(PodSelector::Any(draw.of(&[0, 3])), draw.of(&[true, false])))
        .after(draw.pause(100), image("web:2"))
        .when_updated(1, UserAction::ReplacePod(PodSelector::Old(0), draw.of(&[false, true])))
        .after(5000, NO_ACTION)
        .build()
}

pub(super) fn set_orphaned(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("set-orphaned", draw)
        .after(0, UserAction::Patch(set("web:1"), disowned()))
        .after(draw.pause(2000), image("web:2"))
        .when_updated(1, UserAction::Patch(set(draw.of(&["web:1", "web:2"])), disowned()))
        .after(2000, NO_ACTION)
        .build()
}

/// The name of a released set stays taken: the next set has another hash.
pub(super) fn set_released(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    four("set-released", draw)
        .after(0, UserAction::Patch(set("web:1"), labelled("quarantine")))
        .after(draw.pause(8000), UserAction::Patch(set("web:1"), labelled("web")))
        .after(5000, NO_ACTION)
        .build()
}

/// A user deletes a set, with or without its pods.
pub(super) fn set_deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let policy = draw.of(&["Background", "Orphan", "Foreground"]);
    four("set-deleted", draw)
        .rollout(draw)
        .when_updated(
            draw.of(&[1, 2, 4]),
            UserAction::Delete(set(draw.of(&["web:1", "web:2"])), json!({"propagationPolicy": policy})),
        )
        .after(5000, NO_ACTION)
        .build()
}

/// The name of the next set is taken by a set of another template or of another owner.
pub(super) fn name_taken(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let foreign = json!([{
        "apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "other", "controller": true,
    }]);
    let owners = draw.of(&[foreign, Value::Null]);
    // The garbage collector does not collect the set: it cannot look up the unknown kind of its owner.
    let template = if owners.is_null() { template("other:1") } else { template("web:2") };
    four("name-taken", draw)
        .after(0, UserAction::Create(replica_set("web:2", "taken", &template, &owners)))
        .rollout(draw)
        .build()
}

/// The name of the next set is taken by an orphan with its template.
pub(super) fn name_taken_by_an_orphan(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let app = draw.of(&["web", "other"]);
    four("name-taken-by-an-orphan", draw)
        .after(0, UserAction::Create(replica_set("web:2", app, &template("web:2"), &Value::Null)))
        .after(draw.pause(500), image("web:2"))
        .build()
}

/// A set without pods, with the name of the set of that image.
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

/// Two objects with the same selector: neither adopts the other's pods, and both may adopt orphans.
pub(super) fn two_of_one_selector(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let small = json!({"replicas": 2});
    ScenarioBuilder::of("two-of-one-selector", draw, &small)
        .after(draw.pause(100), UserAction::Create(deployment("api", &small)))
        .after(5000, UserAction::PatchPod(PodSelector::Any(draw.of(&[0, 1, 2, 3])), disowned()))
        .after(draw.pause(2000), image("web:2"))
        .when_updated(1, UserAction::PatchPod(PodSelector::Any(draw.of(&[1, 3])), disowned()))
        .after(8000, NO_ACTION)
        .build()
}

fn delete(policy: &str) -> UserAction {
    UserAction::Delete(DEPLOYMENT.to_owned(), json!({"propagationPolicy": policy}))
}

/// A rollout of another template.
fn in_a_rollout(name: &str, draw: &mut Draw<'_>) -> ScenarioBuilder {
    let pods = draw.of(&[1, 2]);
    four(name, draw).rollout(draw).when_updated(pods, NO_ACTION)
}

pub(super) fn deleted(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pause = draw.pause(100);
    in_a_rollout("deleted", draw)
        .after(pause, delete("Background"))
        .not_found(DEPLOYMENT, NO_ACTION)
        .build_with(Outcome::Deleted)
}

pub(super) fn deleted_in_foreground(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pause = draw.pause(100);
    in_a_rollout("deleted-in-the-foreground", draw)
        .after(pause, delete("Foreground"))
        .not_found(DEPLOYMENT, NO_ACTION)
        .build_with(Outcome::Deleted)
}

/// A finalizer delays the deletion: nothing is created or deleted, and the pods stay until the object is deleted.
pub(super) fn deleted_with_a_finalizer(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let keep = |finalizers: Value| {
        UserAction::Patch(DEPLOYMENT.to_owned(), json!({"metadata": {"finalizers": finalizers}}))
    };
    let pauses = [draw.pause(0), draw.pause(1000), draw.pause(20_000)];
    in_a_rollout("deleted-with-a-finalizer", draw)
        .after(0, keep(json!(["example.com/not-yet"])))
        .after(pauses[0], delete("Background"))
        .after(pauses[1], UserAction::ForceDeletePod(PodSelector::Any(0)))
        .after(pauses[2], keep(Value::Null))
        .not_found(DEPLOYMENT, NO_ACTION)
        .build_with(Outcome::Deleted)
}

pub(super) fn deleted_without_its_pods(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let pause = draw.pause(100);
    in_a_rollout("deleted-without-its-pods", draw)
        .after(pause, delete("Orphan"))
        .not_found(DEPLOYMENT, NO_ACTION)
        .build_with(Outcome::Orphaned)
}

pub(super) fn deleted_while_held(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let policy = draw.of(&["Background", "Foreground"]);
    let point = draw.point();
    four("deleted-while-held", draw)
        .ranked(4)
        .point(PodSelector::Any(1), point)
        .rollout(draw)
        .when_held(delete(policy))
        .not_found(DEPLOYMENT, NO_ACTION)
        .build_with(Outcome::Deleted)
}

/// The object is deleted, and created again under the same name.
pub(super) fn deleted_and_created(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let image = draw.of(&["web:1", "web:2", "web:3"]);
    let spec = json!({"replicas": draw.of(&[3, 4]), "template": template(image)});
    let pauses = [draw.pause(100), draw.pause(0)];
    in_a_rollout("deleted-and-created", draw)
        .after(pauses[0], delete("Background"))
        .not_found(DEPLOYMENT, NO_ACTION)
        .after(pauses[1], UserAction::Create(deployment("web", &spec)))
        .after(5000, NO_ACTION)
        .build()
}

/// The object is deleted without its pods, and created again. It adopts them.
pub(super) fn orphaned_and_created(rng: &mut StdRng) -> Case {
    let draw = &mut Draw::from(rng);
    let image = draw.of(&["web:2", "web:1", "web:3"]);
    let spec = json!({"replicas": draw.of(&[4, 3]), "template": template(image)});
    let pauses = [draw.pause(100), draw.pause(0)];
    in_a_rollout("orphaned-and-created", draw)
        .after(pauses[0], delete("Orphan"))
        .not_found(DEPLOYMENT, NO_ACTION)
        .after(pauses[1], UserAction::Create(deployment("web", &spec)))
        .reason(
            condition::AVAILABLE,
            ordereddeployment_api::names::reason::MINIMUM_REPLICAS_AVAILABLE,
            NO_ACTION,
        )
        .build()
}
