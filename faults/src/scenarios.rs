//! What people do with an OrderedDeployment, each as a case without faults.

use ordereddeployment_api::names::annotation;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::case::{Act, Case, Cluster, Pick, Resumption, Step, When};

/// How long a step waits for what it wants to see, where faults may keep that from coming.
const PATIENCE: u64 = 120_000;

/// A scenario: its parameters are drawn from what it is given.
pub type Scenario = fn(&mut StdRng) -> Case;

/// Every scenario.
pub const ALL: &[Scenario] = &[rollout, hold_before, scale_down];

pub(crate) fn step(when: When, act: Act) -> Step {
    Step { when, act }
}

/// `web`, with these fields of the spec besides selector and template.
pub(crate) fn deployment(spec: &Value) -> Value {
    let mut whole = json!({
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        "template": template("web:1"),
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"}, "spec": whole,
    })
}

pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

pub(crate) fn image(image: &str) -> Act {
    Act::Spec(json!({"template": template(image)}))
}

fn case(name: &str, steps: Vec<Step>) -> Case {
    Case { name: name.to_owned(), seed: 1, cluster: Cluster::default(), steps, faults: Vec::new() }
}

fn prioritise(place: usize, priority: i32) -> Act {
    Act::Annotate(Pick::Any(place), annotation::DELETE_PRIORITY.to_owned(), Some(priority.to_string()))
}

fn rollout(_rng: &mut StdRng) -> Case {
    case(
        "rollout",
        vec![
            step(When::After(100), Act::Create(deployment(&json!({})))),
            step(When::Complete(PATIENCE), prioritise(2, 5)),
            step(When::After(50), prioritise(1, 3)),
            step(When::After(50), image("web:2")),
            step(When::Complete(PATIENCE), Act::Nothing),
        ],
    )
}

fn hold_before(_rng: &mut StdRng) -> Case {
    let point = |place| {
        Act::Annotate(Pick::Any(place), annotation::PAUSE_POINT.to_owned(), Some("before".to_owned()))
    };
    case(
        "hold-before",
        vec![
            step(When::After(100), Act::Create(deployment(&json!({})))),
            step(When::Complete(PATIENCE), prioritise(2, 5)),
            step(When::After(50), point(1)),
            step(When::After(50), image("web:2")),
            step(When::Held(PATIENCE), Act::Resume(Resumption::Current)),
            step(When::Complete(PATIENCE), Act::Nothing),
        ],
    )
}

fn scale_down(_rng: &mut StdRng) -> Case {
    case(
        "scale-down",
        vec![
            step(When::After(100), Act::Create(deployment(&json!({"replicas": 5})))),
            step(When::Complete(PATIENCE), prioritise(3, 9)),
            step(When::After(0), Act::Spec(json!({"replicas": 3}))),
            step(When::Complete(PATIENCE), Act::Spec(json!({"replicas": 0}))),
            step(When::Complete(PATIENCE), Act::Spec(json!({"replicas": 2}))),
            step(When::Complete(PATIENCE), Act::Nothing),
        ],
    )
}
