//! Actions of users, kubelets, nodes and other controllers.

use ordereddeployment_api::names::annotation;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::requests::{moment, one};
use crate::case::UserAction::{self, PatchSpec, Resume};
use crate::case::{Fault, Forgery, Millis, PodSelector, RequestMatcher, ResumeRequest};
use crate::scenarios::{
    SPELLINGS, annotate, delete, deployment, disowned, hash, image, labelled, node as path_of, respell,
    scale, set, stay,
};
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
        13 => (status(rng), Some((150_000, Resume(ResumeRequest::All)))),
        _ => namespace(rng),
    };
    Fault::Action { at, action, undo }
}

/// An action just before a request. It is not undone.
pub(super) fn before(rng: &mut StdRng) -> Fault {
    let action = match rng.random_range(0..8) {
        0 => annotation(rng),
        1 => UserAction::ForceDeletePod(selector(rng)),
        2 => scale(rng.random_range(0..7)),
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
    use PodSelector::{Any, Held, Old, Updated};
    let place = rng.random_range(0..6);
    one(rng, &[Any(place), Any(place), Old(place), Updated(place), Held])
}

fn soon(rng: &mut StdRng) -> Millis {
    let max = one(rng, &[50, 2000, 20_000, 90_000]);
    rng.random_range(0..max)
}

fn annotation(rng: &mut StdRng) -> UserAction {
    use annotation::{DELETE_PRIORITY, DELETE_PRIORITY_ALIAS, PAUSE_DURATION, POD_DELETION_COST};
    let keys = [DELETE_PRIORITY, DELETE_PRIORITY, DELETE_PRIORITY_ALIAS, POD_DELETION_COST, PAUSE_DURATION];
    let key = one(rng, &keys);
    // The last one removes the annotation.
    let values = ["9", "-9", "35", "2147483647", "-2147483648", "+1", "3s", ""];
    let selector = selector(rng);
    annotate(selector, key, Some(one(rng, &values)).filter(|value| !value.is_empty()))
}

/// A pause point is added, and resumed later, or removed.
fn point(rng: &mut StdRng) -> Undoable {
    let value = one(rng, &[Some("before"), Some("after"), Some("true"), Some("never"), None]);
    let undo = (150_000, Resume(ResumeRequest::All));
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
        _ => (UserAction::PatchPod(selector, stay()), Some((after, UserAction::RemoveFinalizers))),
    }
}

fn spec(rng: &mut StdRng) -> Undoable {
    let after = soon(rng);
    let bounds = |surge: u32, unavailable: u32| {
        let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": bounds}})
    };
    let name = one(rng, &["web:1", "web:2", "web:3", "web:4"]);
    let respelled = respell(name, rng.random_range(0..SPELLINGS));
    let good = image(name);
    let bad = image(one(rng, &["broken:5", "refused:5", "crash:5"]));
    match rng.random_range(0..10) {
        0 => (good, None),
        9 => (respelled, None),
        1 => (bad, Some((after, good))),
        2 | 3 => (scale(rng.random_range(0..7)), None),
        4 => (scale(0), Some((after, scale(3)))),
        5 => {
            let pause = |paused: bool| PatchSpec(json!({"paused": paused}));
            (pause(true), Some((after, pause(false))))
        }
        6 => (PatchSpec(one(rng, &[bounds(1, 0), bounds(0, 1), bounds(3, 2)])), None),
        7 => (PatchSpec(json!({"minReadySeconds": one(rng, &[0, 1, 10])})), None),
        _ => {
            let pool = one(rng, &["hybrid", "inference"]);
            let rule = json!({"nodeSelector": {"matchLabels": {"node.usage": pool}}, "priority": 20});
            (PatchSpec(json!({"deletionOrder": {"nodePriorities": [rule]}})), None)
        }
    }
}

fn resume(rng: &mut StdRng) -> UserAction {
    let at = ResumeRequest::AtPod(selector(rng));
    let all = [ResumeRequest::Current, ResumeRequest::All, ResumeRequest::Previous, at];
    let texts = ["*@1", "web@2", "@"].map(|text| ResumeRequest::Raw(text.to_owned()));
    Resume(one(rng, &[&all[..], &texts].concat()))
}

fn ownership(rng: &mut StdRng) -> Undoable {
    let after = soon(rng);
    let selector = selector(rng);
    let set = set(one(rng, IMAGES));
    let policy = one(rng, &["Background", "Foreground", "Orphan"]);
    match rng.random_range(0..8) {
        0..3 => (UserAction::PatchPod(selector, disowned()), None),
        3 => (
            UserAction::PatchPod(selector, labelled("other")),
            Some((after, UserAction::PatchPod(PodSelector::Orphan(0), labelled("web")))),
        ),
        4 => (UserAction::Patch(set, disowned()), None),
        5 => (
            UserAction::Patch(set.clone(), labelled("other")),
            Some((after, UserAction::Patch(set, labelled("web")))),
        ),
        6 => (delete(&set, policy), None),
        _ => {
            let again = UserAction::Create(deployment("web", &json!({"replicas": rng.random_range(1..5)})));
            (delete(DEPLOYMENT, policy), Some((after, again)))
        }
    }
}

fn node(rng: &mut StdRng) -> Undoable {
    let after = one(rng, &[500, 20_000, 400_000]);
    let name = one(rng, &["n1", "n2", "n3"]);
    let patch = |change: Value| UserAction::Patch(path_of(name), change);
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
    let pod = Forgery::Pod(place, priority);
    let all = [pod, pod, Forgery::Set(place), Forgery::TerminatingSet(place), Forgery::Orphan];
    UserAction::Forge(one(rng, &all))
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
