//! What people, kubelets, nodes and other controllers do in the midst of it.

use ordereddeployment_api::names::annotation;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::draw::{moment, one};
use crate::case::{Act, Class, Fault, Millis, Pick, Resumption};
use crate::people::DEPLOYMENT;
use crate::scenarios::{SPELLINGS, deployment, hash, spelled, template};

/// What is done, and how it is mended after how long.
type Deed = (Act, Option<(Millis, Act)>);

pub(super) fn fault(rng: &mut StdRng) -> Fault {
    let at = moment(rng);
    let (act, mend) = match rng.random_range(0..13) {
        0..3 => (annotation(rng), None),
        3 => point(rng),
        4 | 5 => pod(rng),
        6 | 7 => spec(rng),
        8 => (resume(rng), None),
        9 => ownership(rng),
        10 => node(rng),
        11 => (collector(rng), None),
        _ => namespace(rng),
    };
    Fault::Somebody { at, act, mend }
}

/// Just before a request: what needs no mending.
pub(super) fn before(rng: &mut StdRng) -> Fault {
    let act = match rng.random_range(0..6) {
        0 => annotation(rng),
        1 => Act::KillPod(pick(rng)),
        2 => Act::Spec(json!({"replicas": rng.random_range(0..7)})),
        3 => resume(rng),
        4 => collector(rng),
        _ => ownership(rng).0,
    };
    let verb = one(rng, &["write", "write", "create", "delete", "patch", "get", "list"]);
    let class = Class::of(verb, "", "");
    Fault::Before { class, skip: rng.random_range(0..60), act }
}

/// The garbage collector is slow, late, or not there at all.
fn collector(rng: &mut StdRng) -> Act {
    Act::Collector {
        pace: one(rng, &[0, 20, 50, 1000]),
        lag: one(rng, &[0, 0, 500, 5000]),
        frozen: one(rng, &[0, 0, 1000, 20_000]),
    }
}

fn pick(rng: &mut StdRng) -> Pick {
    let place = rng.random_range(0..6);
    one(rng, &[Pick::Any(place), Pick::Any(place), Pick::Old(place), Pick::Updated(place), Pick::Held])
}

fn soon(rng: &mut StdRng) -> Millis {
    let most = one(rng, &[50, 2000, 20_000, 90_000]);
    rng.random_range(0..most)
}

fn annotate(pick: Pick, key: &str, value: Option<&str>) -> Act {
    Act::Annotate(pick, key.to_owned(), value.map(str::to_owned))
}

fn annotation(rng: &mut StdRng) -> Act {
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
    annotate(pick(rng), key, one(rng, &values))
}

/// A pause point more, which somebody resumes in the end; or one less.
fn point(rng: &mut StdRng) -> Deed {
    let value = one(rng, &[Some("before"), Some("after"), Some("true"), Some("never"), None]);
    let mend = (150_000, Act::Resume(Resumption::All));
    (annotate(pick(rng), annotation::PAUSE_POINT, value), Some(mend))
}

fn pod(rng: &mut StdRng) -> Deed {
    let pick = pick(rng);
    let after = soon(rng);
    match rng.random_range(0..7) {
        0 => (Act::DeletePod(pick), None),
        1 | 2 => (Act::KillPod(pick), None),
        3 => (Act::Ready(pick, false), Some((after, Act::Ready(pick, true)))),
        4 => (Act::Fail(pick), None),
        5 => (Act::Replace(pick, rng.random_range(0..2) == 0), None),
        _ => (
            Act::Pod(pick, json!({"metadata": {"finalizers": ["example.com/stay"]}})),
            Some((after, Act::Free)),
        ),
    }
}

fn spec(rng: &mut StdRng) -> Deed {
    let after = soon(rng);
    let image = |image: &str| Act::Spec(json!({"template": template(image)}));
    let bounds = |surge: u32, unavailable: u32| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    let name = one(rng, &["web:1", "web:2", "web:3", "web:4"]);
    let other_words = Act::Spec(json!({"template": spelled(name, rng.random_range(0..SPELLINGS))}));
    let good = image(name);
    let bad = image(one(rng, &["broken:5", "refused:5", "crash:5"]));
    match rng.random_range(0..10) {
        0 => (good, None),
        9 => (other_words, None),
        1 => (bad, Some((after, good))),
        2 | 3 => (Act::Spec(json!({"replicas": rng.random_range(0..7)})), None),
        4 => (Act::Spec(json!({"replicas": 0})), Some((after, Act::Spec(json!({"replicas": 3}))))),
        5 => (Act::Spec(json!({"paused": true})), Some((after, Act::Spec(json!({"paused": false}))))),
        6 => (Act::Spec(one(rng, &[bounds(1, 0), bounds(0, 1), bounds(3, 2)])), None),
        7 => (Act::Spec(json!({"minReadySeconds": one(rng, &[0, 1, 10])})), None),
        _ => {
            let pool = one(rng, &["hybrid", "inference"]);
            let rule = json!({"nodeSelector": {"matchLabels": {"node.usage": pool}}, "priority": 20});
            (Act::Spec(json!({"deletionOrder": {"nodePriorities": [rule]}})), None)
        }
    }
}

fn resume(rng: &mut StdRng) -> Act {
    let text = |text: &str| Resumption::Text(text.to_owned());
    let at = Resumption::At(pick(rng));
    Act::Resume(one(
        rng,
        &[
            Resumption::Current,
            Resumption::All,
            Resumption::Earlier,
            at,
            text("*@1"),
            text("web@2"),
            text("@"),
        ],
    ))
}

fn ownership(rng: &mut StdRng) -> Deed {
    let after = soon(rng);
    let pick = pick(rng);
    let disowned = json!({"metadata": {"ownerReferences": null}});
    let labelled = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let set = format!(
        "/apis/ordereddeployment.io/v1alpha1/namespaces/default/orderedreplicasets/web-{}",
        hash(one(rng, &["web:1", "web:2", "web:3"]))
    );
    let policy = one(rng, &["Background", "Foreground", "Orphan"]);
    match rng.random_range(0..8) {
        0..3 => (Act::Pod(pick, disowned), None),
        3 => (Act::Pod(pick, labelled("other")), Some((after, Act::Pod(Pick::Orphan(0), labelled("web"))))),
        4 => (Act::Patch(set, disowned), None),
        5 => (Act::Patch(set.clone(), labelled("other")), Some((after, Act::Patch(set, labelled("web"))))),
        6 => (Act::Delete(set, json!({"propagationPolicy": policy})), None),
        _ => {
            let again = Act::Create(deployment("web", &json!({"replicas": rng.random_range(1..5)})));
            (Act::Delete(DEPLOYMENT.to_owned(), json!({"propagationPolicy": policy})), Some((after, again)))
        }
    }
}

fn node(rng: &mut StdRng) -> Deed {
    let after = one(rng, &[500, 20_000, 400_000]);
    let name = one(rng, &["n1", "n2", "n3"]);
    let patch = |change: Value| Act::Patch(format!("/api/v1/nodes/{name}"), change);
    let cordon = |cordoned: bool| patch(json!({"spec": {"unschedulable": cordoned}}));
    let relabel = |pool: &str| patch(json!({"metadata": {"labels": {"node.usage": pool}}}));
    match rng.random_range(0..4) {
        0 => (cordon(true), Some((after, cordon(false)))),
        1 => (Act::NodeGone(name.to_owned()), None),
        2 => (Act::NodeLost(name.to_owned()), Some((after, Act::NodeBack(name.to_owned())))),
        _ => (relabel(one(rng, &["hybrid", "inference", "spot"])), None),
    }
}

fn namespace(rng: &mut StdRng) -> Deed {
    let after = soon(rng);
    let (kind, plural, version, spec) = if rng.random_range(0..2) == 0 {
        let spec = json!({"hard": {"pods": rng.random_range(0..6).to_string()}});
        ("ResourceQuota", "api/v1/namespaces/default/resourcequotas", "v1", spec)
    } else {
        let spec = json!({"minAvailable": 99, "selector": {"matchLabels": {"app": "web"}}});
        let plural = "apis/policy/v1/namespaces/default/poddisruptionbudgets";
        ("PodDisruptionBudget", plural, "policy/v1", spec)
    };
    let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "trouble"}, "spec": spec});
    (Act::Create(object), Some((after, Act::Delete(format!("/{plural}/trouble"), json!({})))))
}
