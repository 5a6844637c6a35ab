//! Ownership: orphans, releases, names that are taken, objects that are deleted and created again.

use super::builder::prelude::*;

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

/// A rollout in which the object is deleted after a pause.
fn deleted(draw: &mut Draw<'_>, pause: Millis, policy: &str) -> ScenarioBuilder {
    let pods = draw.of(&[1, 2]);
    let rollout = four(draw).rollout(draw).when_updated(pods, NoAction);
    rollout.after(pause, delete(DEPLOYMENT, policy)).until_gone(DEPLOYMENT)
}

fn gone(draw: &mut Draw<'_>, policy: &str) -> ScenarioBuilder {
    let pause = draw.pause(100);
    deleted(draw, pause, policy)
}

/// The object is deleted in a rollout, and created again with one of these images.
fn again(draw: &mut Draw<'_>, images: &[&str], replicas: &[u32], policy: &str) -> ScenarioBuilder {
    let image = draw.of(images);
    let spec = json!({"replicas": draw.of(replicas), "template": template(image)});
    let pauses = [draw.pause(100), draw.pause(0)];
    deleted(draw, pauses[0], policy).after(pauses[1], Create(deployment("web", &spec)))
}

/// The scenarios of this file.
pub(super) const ALL: &[Scenario] = &[
    // A tenant of another namespace forges pods and sets before a rollout and in it.
    Scenario("forged-elsewhere", |draw| {
        let forge = |builder: ScenarioBuilder, forgery| builder.after(0, Forge(forgery));
        let forged = Forgery::ALL.into_iter().fold(line(draw), forge);
        let forged = forged.after(draw.pause(50), scale(3)).rollout(draw).when_updated(1, NoAction);
        Forgery::ALL.into_iter().fold(forged, forge)
    }),
    // Orphaned pods are adopted again, also during a rollout.
    Scenario("pod-orphaned", |draw| {
        four(draw)
            .after(0, PatchPod(Any(1), disowned()))
            .after(draw.pause(2000), image("web:2"))
            .when_updated(1, PatchPod(Old(0), disowned()))
            .after(draw.pause(200), PatchPod(Updated(0), disowned()))
    }),
    // A user changes the label of a pod, and restores it.
    Scenario("pod-released", |draw| {
        four(draw)
            .after(0, PatchPod(Any(1), labelled("quarantine")))
            .after(draw.pause(4000), PatchPod(Orphan(0), labelled("web")))
            .wait(5000)
    }),
    // A pod is orphaned and annotated before the object is scaled down.
    Scenario("orphan-annotated", |draw| {
        four(draw)
            .after(0, PatchPod(Any(1), disowned()))
            .after(0, prioritise(Any(1), draw.of(&[9, -9])))
            .after(draw.pause(0), scale(draw.of(&[3, 2])))
    }),
    // A pod is replaced by another one of the same name.
    Scenario("pod-replaced", |draw| {
        line(draw)
            .after(0, ReplacePod(Any(draw.of(&[0, 3])), draw.of(&[true, false])))
            .after(draw.pause(100), image("web:2"))
            .when_updated(1, ReplacePod(Old(0), draw.of(&[false, true])))
            .wait(5000)
    }),
    Scenario("set-orphaned", |draw| {
        four(draw)
            .after(0, Patch(set("web:1"), disowned()))
            .after(draw.pause(2000), image("web:2"))
            .when_updated(1, Patch(set(draw.of(&["web:1", "web:2"])), disowned()))
            .wait(2000)
    }),
    // The name of a released set stays taken: the next set has another hash.
    Scenario("set-released", |draw| {
        four(draw)
            .after(0, Patch(set("web:1"), labelled("quarantine")))
            .after(draw.pause(8000), Patch(set("web:1"), labelled("web")))
            .wait(5000)
    }),
    // A user deletes a set, with or without its pods.
    Scenario("set-deleted", |draw| {
        let policy = draw.of(&["Background", "Orphan", "Foreground"]);
        four(draw)
            .rollout(draw)
            .when_updated(draw.of(&[1, 2, 4]), delete(&set(draw.of(&["web:1", "web:2"])), policy))
            .wait(5000)
    }),
    // The name of the next set is taken by a set of another template or of another owner.
    Scenario("name-taken", |draw| {
        let foreign = json!([{
            "apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "other",
            "controller": true,
        }]);
        let owners = draw.of(&[foreign, Value::Null]);
        // The garbage collector does not collect the set: it cannot look up the unknown kind of its owner.
        let template = if owners.is_null() { template("other:1") } else { template("web:2") };
        four(draw).after(0, Create(replica_set("web:2", "taken", &template, &owners))).rollout(draw)
    }),
    // The name of the next set is taken by an orphan with its template.
    Scenario("name-taken-by-an-orphan", |draw| {
        let app = draw.of(&["web", "other"]);
        four(draw)
            .after(0, Create(replica_set("web:2", app, &template("web:2"), &Value::Null)))
            .after(draw.pause(500), image("web:2"))
    }),
    // Two objects with the same selector: neither adopts the other's pods, and both may adopt orphans.
    Scenario("two-of-one-selector", |draw| {
        let small = json!({"replicas": 2});
        web(draw, &small)
            .after(draw.pause(100), Create(deployment("api", &small)))
            .after(5000, PatchPod(Any(draw.of(&[0, 1, 2, 3])), disowned()))
            .after(draw.pause(2000), image("web:2"))
            .when_updated(1, PatchPod(Any(draw.of(&[1, 3])), disowned()))
            .wait(8000)
    }),
    Scenario("deleted", |draw| gone(draw, "Background").ends(Outcome::Deleted)),
    Scenario("deleted-in-the-foreground", |draw| gone(draw, "Foreground").ends(Outcome::Deleted)),
    // A finalizer delays the deletion: nothing is created or deleted, and the pods stay until the object is
    // deleted.
    Scenario("deleted-with-a-finalizer", |draw| {
        let keep =
            |finalizers: Value| Patch(DEPLOYMENT.to_owned(), json!({"metadata": {"finalizers": finalizers}}));
        let pauses = [draw.pause(0), draw.pause(1000), draw.pause(20_000)];
        let pods = draw.of(&[1, 2]);
        four(draw)
            .rollout(draw)
            .when_updated(pods, NoAction)
            .after(0, keep(json!(["example.com/not-yet"])))
            .after(pauses[0], delete(DEPLOYMENT, "Background"))
            .after(pauses[1], ForceDeletePod(Any(0)))
            .after(pauses[2], keep(Value::Null))
            .until_gone(DEPLOYMENT)
            .ends(Outcome::Deleted)
    }),
    Scenario("deleted-without-its-pods", |draw| gone(draw, "Orphan").ends(Outcome::Orphaned)),
    Scenario("deleted-while-held", |draw| {
        let policy = draw.of(&["Background", "Foreground"]);
        let point = draw.point();
        line(draw)
            .point(Any(1), point)
            .rollout(draw)
            .when_held(delete(DEPLOYMENT, policy))
            .until_gone(DEPLOYMENT)
            .ends(Outcome::Deleted)
    }),
    // The object is deleted, and created again under the same name.
    Scenario("deleted-and-created", |draw| {
        again(draw, &["web:1", "web:2", "web:3"], &[3, 4], "Background").wait(5000)
    }),
    // The object is deleted without its pods, and created again. It adopts them.
    Scenario("orphaned-and-created", |draw| {
        again(draw, &["web:2", "web:1", "web:3"], &[4, 3], "Orphan")
            .until(condition::AVAILABLE, reason::MINIMUM_REPLICAS_AVAILABLE)
    }),
];
