//! Actions of users, kubelets, nodes and other controllers.

use ordereddeployment_api::names::annotation;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::{moment, one};
use crate::case::{Fault, Forgery, Millis, PodSelector, RequestMatcher, ResumeRequest, UserAction};
use crate::scenarios::{SPELLINGS, deployment, hash, spelled, template};
use crate::user::DEPLOYMENT;

/// Images whose revisions may exist.
const IMAGES: &[&str] = &["web:1", "web:2", "web:3"];

/// An action, and the action that undoes it after some time.
type Undoable = (UserAction, Option<(Millis, UserAction)>);

pub(super) fn fault(rng: &mut StdRng) -> Fault {
    let at = moment(rng);
    let (action, undo) = match rng.random_range(0..15) {
        0..3 => (annotation(rng), None),
        3 => point(rng),
        4 | 5 => pod(rng),
        6 | 7 => spec(rng),
        8 => (resume(rng), None),
        9 => ownership(rng),
        10 => node(rng),
        11 => (collector(rng), None),
        12 => (forgery(rng), None),
        13 => (status(rng), Some((150_000, UserAction::Resume(ResumeRequest::All)))),
        _ => namespace(rng),
    };
    Fault::Action { at, action, undo }
}

/// An action just before a request. It is not undone.
pub(super) fn before(rng: &mut StdRng) -> Fault {
    let action = match rng.random_range(0..8) {
        0 => annotation(rng),
        1 => UserAction::ForceDeletePod(selector(rng)),
        2 => UserAction::PatchSpec(json!({"replicas": rng.random_range(0..7)})),
        3 => resume(rng),
        4 => collector(rng),
        5 => forgery(rng),
        6 => status(rng),
        _ => ownership(rng).0,
    };
    let verb = one(rng, &["write", "write", "create", "delete", "patch", "get", "list"]);
    let matcher = RequestMatcher::of(verb, "", "");
    Fault::ActionBefore { matcher, skip: rng.random_range(0..60), action }
}

/// The garbage collector is slow, lags, or is frozen.
fn collector(rng: &mut StdRng) -> UserAction {
    UserAction::SetGarbageCollector {
        pace: one(rng, &[0, 20, 50, 1000]),
        lag: one(rng, &[0, 0, 500, 5000]),
        frozen: one(rng, &[0, 0, 1000, 20_000]),
    }
}

fn selector(rng: &mut StdRng) -> PodSelector {
    let place = rng.random_range(0..6);
    one(
        rng,
        &[
            PodSelector::Any(place),
            PodSelector::Any(place),
            PodSelector::Old(place),
            PodSelector::Updated(place),
            PodSelector::Held,
        ],
    )
}

fn soon(rng: &mut StdRng) -> Millis {
    let max = one(rng, &[50, 2000, 20_000, 90_000]);
    rng.random_range(0..max)
}

fn annotate(selector: PodSelector, key: &str, value: Option<&str>) -> UserAction {
    UserAction::AnnotatePod(selector, key.to_owned(), value.map(str::to_owned))
}

fn annotation(rng: &mut StdRng) -> UserAction {
    let key = one(
        rng,
        &[
            annotation::DELETE_PRIORITY,
            annotation::DELETE_PRIORITY,
            annotation::DELETE_PRIORITY_ALIAS,
            annotation::POD_DELETION_COST,
            annotation::PAUSE_DURATION,
        ],
    );
    let values = [
        Some("9"),
        Some("-9"),
        Some("35"),
        Some("2147483647"),
        Some("-2147483648"),
        Some("+1"),
        Some("3s"),
        None,
    ];
    annotate(selector(rng), key, one(rng, &values))
}

/// A pause point is added, and resumed later, or removed.
fn point(rng: &mut StdRng) -> Undoable {
    let value = one(rng, &[Some("before"), Some("after"), Some("true"), Some("never"), None]);
    let undo = (150_000, UserAction::Resume(ResumeRequest::All));
    (annotate(selector(rng), annotation::PAUSE_POINT, value), Some(undo))
}

fn pod(rng: &mut StdRng) -> Undoable {
    let selector = selector(rng);
    let after = soon(rng);
    match rng.random_range(0..7) {
        0 => (UserAction::DeletePod(selector), None),
        1 | 2 => (UserAction::ForceDeletePod(selector), None),
        3 => (UserAction::SetReady(selector, false), Some((after, UserAction::SetReady(selector, true)))),
        4 => (UserAction::FailPod(selector), None),
        5 => (UserAction::ReplacePod(selector, rng.random_range(0..2) == 0), None),
        _ => (
            UserAction::PatchPod(selector, json!({"metadata": {"finalizers": ["example.com/stay"]}})),
            Some((after, UserAction::RemoveFinalizers)),
        ),
    }
}

fn spec(rng: &mut StdRng) -> Undoable {
    let after = soon(rng);
    let image = |image: &str| UserAction::PatchSpec(json!({"template": template(image)}));
    let bounds = |surge: u32, unavailable: u32| {
        json!({"strategy": {"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}})
    };
    let name = one(rng, &["web:1", "web:2", "web:3", "web:4"]);
    let respelled = UserAction::PatchSpec(json!({"template": spelled(name, rng.random_range(0..SPELLINGS))}));
    let good = image(name);
    let bad = image(one(rng, &["broken:5", "refused:5", "crash:5"]));
    match rng.random_range(0..10) {
        0 => (good, None),
        9 => (respelled, None),
        1 => (bad, Some((after, good))),
        2 | 3 => (UserAction::PatchSpec(json!({"replicas": rng.random_range(0..7)})), None),
        4 => (
            UserAction::PatchSpec(json!({"replicas": 0})),
            Some((after, UserAction::PatchSpec(json!({"replicas": 3})))),
        ),
        5 => (
            UserAction::PatchSpec(json!({"paused": true})),
            Some((after, UserAction::PatchSpec(json!({"paused": false})))),
        ),
        6 => (UserAction::PatchSpec(one(rng, &[bounds(1, 0), bounds(0, 1), bounds(3, 2)])), None),
        7 => (UserAction::PatchSpec(json!({"minReadySeconds": one(rng, &[0, 1, 10])})), None),
        _ => {
            let pool = one(rng, &["hybrid", "inference"]);
            let rule = json!({"nodeSelector": {"matchLabels": {"node.usage": pool}}, "priority": 20});
            (UserAction::PatchSpec(json!({"deletionOrder": {"nodePriorities": [rule]}})), None)
        }
    }
}

fn resume(rng: &mut StdRng) -> UserAction {
    let text = |text: &str| ResumeRequest::Raw(text.to_owned());
    let at = ResumeRequest::AtPod(selector(rng));
    UserAction::Resume(one(
        rng,
        &[
            ResumeRequest::Current,
            ResumeRequest::All,
            ResumeRequest::Previous,
            at,
            text("*@1"),
            text("web@2"),
            text("@"),
        ],
    ))
}

fn ownership(rng: &mut StdRng) -> Undoable {
    let after = soon(rng);
    let selector = selector(rng);
    let disowned = json!({"metadata": {"ownerReferences": null}});
    let labelled = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let set = format!(
        "/apis/ordereddeployment.io/v1alpha1/namespaces/default/orderedreplicasets/web-{}",
        hash(one(rng, &["web:1", "web:2", "web:3"]))
    );
    let policy = one(rng, &["Background", "Foreground", "Orphan"]);
    match rng.random_range(0..8) {
        0..3 => (UserAction::PatchPod(selector, disowned), None),
        3 => (
            UserAction::PatchPod(selector, labelled("other")),
            Some((after, UserAction::PatchPod(PodSelector::Orphan(0), labelled("web")))),
        ),
        4 => (UserAction::Patch(set, disowned), None),
        5 => (
            UserAction::Patch(set.clone(), labelled("other")),
            Some((after, UserAction::Patch(set, labelled("web")))),
        ),
        6 => (UserAction::Delete(set, json!({"propagationPolicy": policy})), None),
        _ => {
            let again = UserAction::Create(deployment("web", &json!({"replicas": rng.random_range(1..5)})));
            (
                UserAction::Delete(DEPLOYMENT.to_owned(), json!({"propagationPolicy": policy})),
                Some((after, again)),
            )
        }
    }
}

fn node(rng: &mut StdRng) -> Undoable {
    let after = one(rng, &[500, 20_000, 400_000]);
    let name = one(rng, &["n1", "n2", "n3"]);
    let patch = |change: Value| UserAction::Patch(format!("/api/v1/nodes/{name}"), change);
    let cordon = |cordoned: bool| patch(json!({"spec": {"unschedulable": cordoned}}));
    let relabel = |pool: &str| patch(json!({"metadata": {"labels": {"node.usage": pool}}}));
    match rng.random_range(0..4) {
        0 => (cordon(true), Some((after, cordon(false)))),
        1 => (UserAction::DeleteNode(name.to_owned()), None),
        2 => (UserAction::StopNode(name.to_owned()), Some((after, UserAction::StartNode(name.to_owned())))),
        _ => (relabel(one(rng, &["hybrid", "inference", "spot"])), None),
    }
}

/// A tenant of another namespace.
fn forgery(rng: &mut StdRng) -> UserAction {
    let place = rng.random_range(0..4);
    let priority = one(rng, &[-1000, 0, 1000]);
    UserAction::Forge(one(
        rng,
        &[
            Forgery::Pod(place, priority),
            Forgery::Pod(place, priority),
            Forgery::Set(place),
            Forgery::TerminatingSet(place),
            Forgery::Orphan,
        ],
    ))
}

/// Whoever may patch the status writes some of its fields.
fn status(rng: &mut StdRng) -> UserAction {
    let fields: serde_json::Map<String, Value> =
        (0..rng.random_range(1..4)).map(|_| forged_field(rng)).collect();
    UserAction::ForgeStatus(fields.into())
}

fn forged_field(rng: &mut StdRng) -> (String, Value) {
    let revision = one(rng, &[-1, 0, 1, 2, 3, 9, i64::MAX]);
    let size = one(rng, &[-1, 0, 1, 2, 4, 8, i32::MAX]);
    let one_hash = hash(one(rng, IMAGES));
    let at = "2030-01-01T00:00:10Z";
    let id = one(rng, &["canary@2", "web@2", "*@2", ""]);
    let (name, value) = match rng.random_range(0..12) {
        0 => ("rollout", json!({"revision": revision})),
        1 => ("rollout", json!({"templateHash": one_hash})),
        2 => ("rollout", json!({"from": {"revision": revision, "templateHash": one_hash}})),
        3 => {
            let scaling = json!({"reached": size, "replicas": size, "updated": size, "old": size});
            ("rollout", json!({"scaling": scaling, "pause": {"limit": size, "replicas": size}}))
        }
        4 => {
            let point =
                json!({"id": id, "limit": size, "replicas": size, "side": one(rng, &["Before", "After"])});
            ("rollout", json!({"points": [point], "completed": rng.random_range(0..2) == 0}))
        }
        5 => ("rollout", Value::Null),
        6 => {
            let hold = json!({
                "id": id, "pod": "web", "podUID": id, "point": one(rng, &["Before", "After"]),
                "revision": revision,
                "since": at, "replicas": size, "limit": size,
            });
            ("hold", hold)
        }
        7 => ("hold", Value::Null),
        8 => ("passed", json!([{"id": id, "podUID": id, "resumedAt": at}])),
        9 => {
            let aborted = json!({"revision": revision, "to": one(rng, &[1, 2, 3]), "templateHash": one_hash,
                                 "at": at, "reason": "forged"});
            ("aborted", aborted)
        }
        10 => ("collisionCount", json!(size)),
        _ => ("blocked", json!({"id": id, "since": at})),
    };
    (name.to_owned(), value)
}

fn namespace(rng: &mut StdRng) -> Undoable {
    let after = soon(rng);
    let (kind, plural, version, spec) = if rng.random_range(0..2) == 0 {
        let spec = json!({"hard": {"pods": rng.random_range(0..6).to_string()}});
        ("ResourceQuota", "api/v1/namespaces/default/resourcequotas", "v1", spec)
    } else {
        let spec = json!({"minAvailable": 99, "selector": {"matchLabels": {"app": "web"}}});
        let plural = "apis/policy/v1/namespaces/default/poddisruptionbudgets";
        ("PodDisruptionBudget", plural, "policy/v1", spec)
    };
    let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "fault"}, "spec": spec});
    (UserAction::Create(object), Some((after, UserAction::Delete(format!("/{plural}/fault"), json!({})))))
}
