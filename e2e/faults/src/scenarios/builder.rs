//! Builds scenarios.

use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{Template, canonical, template_hash};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::case::{Case, Cluster, Millis, Outcome, PodSelector, ResumeRequest, Step, UserAction, WaitFor};
use crate::user::SETS;

/// What the tables of scenarios use.
pub(super) mod prelude {
    pub(in crate::scenarios) use ordereddeployment_api::names::{annotation, condition, label, reason};
    pub(in crate::scenarios) use serde_json::{Value, json};

    pub(in crate::scenarios) use super::{
        Draw, SPELLINGS, Scenario, ScenarioBuilder, annotate, bounded, delete, deployment, disowned, four,
        hash, image, labelled, line, node, prioritise, respell, scale, set, stay, template, until_gone, web,
    };
    pub(in crate::scenarios) use crate::case::PodSelector::{self, Any, Held, Old, Orphan, Updated};
    pub(in crate::scenarios) use crate::case::ResumeRequest::{All, AtPod, Current, Previous, Raw};
    pub(in crate::scenarios) use crate::case::UserAction::{
        self, Abort, Create, Delete, DeleteNode, DeletePod, FailPod, ForceDeletePod, Forge, NoAction, Patch,
        PatchPod, PatchSpec, RemoveFinalizers, ReplacePod, Resume, Retry, SetReady, StartNode, StopNode,
    };
    pub(in crate::scenarios) use crate::case::{Forgery, Millis, Outcome};
    pub(in crate::scenarios) use crate::user::DEPLOYMENT;
}

/// A scenario: its name, and its steps. It draws its parameters from random numbers.
pub struct Scenario(pub(super) &'static str, pub(super) fn(&mut Draw<'_>) -> ScenarioBuilder);

impl Scenario {
    /// The case with the parameters that these random numbers give; those of seed 1 give the default
    /// parameters.
    pub fn case(&self, rng: &mut StdRng) -> Case {
        (self.1)(&mut Draw::from(rng)).build(self.0)
    }
}

/// Draws the parameters of a scenario.
pub(super) struct Draw<'a> {
    rng: &'a mut StdRng,
    /// Whether every parameter has its default, the first option.
    plain: bool,
}

impl<'a> Draw<'a> {
    pub(super) fn from(rng: &'a mut StdRng) -> Self {
        let plain = *rng == StdRng::seed_from_u64(1);
        Self { rng, plain }
    }

    pub(super) fn of<T: Clone + Default>(&mut self, options: &[T]) -> T {
        let first = options.first().cloned().unwrap_or_default();
        if self.plain { first } else { options.choose(self.rng).cloned().unwrap_or(first) }
    }

    /// A time between two steps. `plain` is the default.
    pub(super) fn pause(&mut self, plain: Millis) -> Millis {
        if self.plain {
            return plain;
        }
        match self.rng.random_range(0..4) {
            0 => 0,
            1 => plain,
            2 => self.rng.random_range(0..100),
            _ => self.rng.random_range(0..5000),
        }
    }

    /// The number of pods.
    pub(super) fn pods(&mut self) -> usize {
        self.of(&[4, 5, 6])
    }

    /// The bounds of a rolling update.
    pub(super) fn bounds(&mut self) -> Value {
        let options = [
            json!({"maxSurge": 1, "maxUnavailable": 1}),
            json!({"maxSurge": 1, "maxUnavailable": 0}),
            json!({"maxSurge": 0, "maxUnavailable": 1}),
            json!({"maxSurge": 0, "maxUnavailable": 2}),
            json!({"maxSurge": 2, "maxUnavailable": 0}),
            json!({"maxSurge": "25%", "maxUnavailable": "25%"}),
            json!({"maxSurge": "10%", "maxUnavailable": "10%"}),
            json!({"maxSurge": 0, "maxUnavailable": "10%"}),
            json!({"maxSurge": "100%", "maxUnavailable": 0}),
            json!({"maxSurge": 0, "maxUnavailable": "100%"}),
        ];
        json!({"rollingUpdate": self.of(&options)})
    }

    /// `before` or `after`.
    pub(super) fn point(&mut self) -> &'static str {
        self.of(&["before", "after", "true"])
    }

    /// The place of one of that many pods. `plain` is the default.
    pub(super) fn place(&mut self, plain: usize, pods: usize) -> usize {
        if self.plain { plain } else { self.rng.random_range(0..pods) }
    }
}

/// Builds a scenario step by step.
pub(super) struct ScenarioBuilder(Case);

impl ScenarioBuilder {
    /// A scenario without steps.
    pub(super) fn new(draw: &mut Draw<'_>) -> Self {
        let plain = Cluster::default();
        let cluster = Cluster {
            ready_delay: draw.of(&[plain.ready_delay, 0, 300, 4000]),
            termination_delay: draw.of(&[plain.termination_delay, 0, 2500]),
            page_limit: draw.of(&[plain.page_limit, plain.page_limit, 2]),
            ..plain
        };
        let seed = if draw.plain { 1 } else { draw.rng.random_range(1..1_000_000) };
        Self(Case {
            name: String::new(),
            seed,
            cluster,
            steps: Vec::new(),
            faults: Vec::new(),
            outcome: Outcome::Complete,
            short: false,
        })
    }

    /// Pods take at least a second to become ready, so that steps can happen during the rollout.
    pub(super) fn slow_pods(mut self) -> Self {
        self.0.cluster.ready_delay = self.0.cluster.ready_delay.max(1000);
        self
    }

    fn step(mut self, wait_for: WaitFor, action: UserAction) -> Self {
        self.0.steps.push(Step { wait_for, action });
        self
    }

    /// Nothing happens for that time.
    pub(super) fn wait(self, pause: Millis) -> Self {
        self.after(pause, UserAction::NoAction)
    }

    pub(super) fn after(self, pause: Millis, action: UserAction) -> Self {
        self.step(WaitFor::After(pause), action)
    }

    pub(super) fn when_complete(self, action: UserAction) -> Self {
        self.step(WaitFor::Complete, action)
    }

    pub(super) fn when_held(self, action: UserAction) -> Self {
        self.step(WaitFor::Held, action)
    }

    pub(super) fn resume(self) -> Self {
        self.when_held(UserAction::Resume(ResumeRequest::Current))
    }

    pub(super) fn when_updated(self, pods: usize, action: UserAction) -> Self {
        self.step(WaitFor::UpdatedPods(pods), action)
    }

    pub(super) fn reason(self, condition: &str, reason: &str, action: UserAction) -> Self {
        self.step(WaitFor::ConditionReason(condition.to_owned(), reason.to_owned()), action)
    }

    /// Waits until the condition has that reason.
    pub(super) fn until(self, condition: &str, reason: &str) -> Self {
        self.reason(condition, reason, UserAction::NoAction)
    }

    /// Waits until no object is at that path.
    pub(super) fn until_gone(mut self, path: &str) -> Self {
        self.0.steps.push(until_gone(path));
        self
    }

    pub(super) fn field_equals(self, path: &str, pointer: &str, value: Value, action: UserAction) -> Self {
        self.step(WaitFor::FieldEquals(path.to_owned(), pointer.to_owned(), value), action)
    }

    /// The first pods, by name, get descending delete priorities.
    pub(super) fn ranked(self, pods: usize) -> Self {
        (0..pods).fold(self, |builder, place| {
            let priority = i32::try_from(10 * (pods - place)).unwrap_or_default();
            builder.after(0, prioritise(PodSelector::Any(place), priority))
        })
    }

    /// Sets the pause point of a pod.
    pub(super) fn point(self, selector: PodSelector, point: &str) -> Self {
        self.after(0, annotate(selector, annotation::PAUSE_POINT, Some(point)))
    }

    pub(super) fn rollout(self, draw: &mut Draw<'_>) -> Self {
        self.after(draw.pause(50), image("web:2"))
    }

    /// That many instances elect a leader.
    pub(super) fn instances(mut self, instances: u32) -> Self {
        self.0.cluster.instances = instances;
        self
    }

    /// The scenario gets crashes at every pair of writes.
    pub(super) fn short(mut self) -> Self {
        self.0.short = true;
        self
    }

    /// The scenario ends with that outcome, which is not [`Outcome::Complete`].
    pub(super) fn ends(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// The case of that name. It ends complete, unless it has another outcome.
    pub(super) fn build(mut self, name: &str) -> Case {
        if self.0.outcome == Outcome::Complete {
            self = self.when_complete(UserAction::NoAction);
        }
        Case { name: name.to_owned(), ..self.0 }
    }
}

/// The OrderedDeployment `web` is complete, with these fields of the spec.
pub(super) fn web(draw: &mut Draw<'_>, spec: &Value) -> ScenarioBuilder {
    let created = ScenarioBuilder::new(draw).after(100, UserAction::Create(deployment("web", spec)));
    created.when_complete(UserAction::NoAction)
}

/// The same with random bounds.
pub(super) fn bounded(draw: &mut Draw<'_>, mut spec: Value) -> ScenarioBuilder {
    spec["strategy"] = draw.bounds();
    web(draw, &spec)
}

/// The same with four pods.
pub(super) fn four(draw: &mut Draw<'_>) -> ScenarioBuilder {
    bounded(draw, json!({"replicas": 4}))
}

/// Four pods with descending priorities.
pub(super) fn line(draw: &mut Draw<'_>) -> ScenarioBuilder {
    four(draw).ranked(4)
}

/// An OrderedDeployment of pods `app=web`, with these fields of the spec besides selector and template.
pub(crate) fn deployment(name: &str, spec: &Value) -> Value {
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
        "metadata": {"name": name}, "spec": whole,
    })
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// The number of ways in which [`spelled`] spells a template.
pub(crate) const SPELLINGS: usize = 5;

/// The same template in another spelling; each number has its own.
fn spelled(image: &str, spelling: usize) -> Value {
    let mut template = template(image);
    let spec = &mut template["spec"];
    match spelling % SPELLINGS {
        0 => spec["terminationGracePeriodSeconds"] = json!(30),
        1 => spec["restartPolicy"] = json!("Always"),
        2 => spec["containers"][0]["env"] = json!([]),
        3 => spec["containers"][0]["tty"] = json!(false),
        _ => spec["tolerations"] = json!([]),
    }
    template
}

/// A template without the fields that [`spelled`] adds.
pub(crate) fn without_spelling(template: &Template) -> Value {
    let mut template = canonical(&template.value());
    let remove = |object: &mut Value, key: &str, says_nothing: &Value| {
        if let Some(fields) = object.as_object_mut().filter(|fields| fields.get(key) == Some(says_nothing)) {
            fields.remove(key);
        }
    };
    let spec = &mut template["spec"];
    remove(spec, "terminationGracePeriodSeconds", &json!(30));
    remove(spec, "restartPolicy", &json!("Always"));
    remove(spec, "tolerations", &json!([]));
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        remove(container, "env", &json!([]));
        remove(container, "tty", &json!(false));
    }
    template
}

/// Writes the same template in another spelling.
pub(crate) fn respell(image: &str, spelling: usize) -> UserAction {
    UserAction::PatchSpec(json!({"template": spelled(image, spelling)}))
}

pub(crate) fn image(image: &str) -> UserAction {
    UserAction::PatchSpec(json!({"template": template(image)}))
}

pub(crate) fn scale(replicas: usize) -> UserAction {
    UserAction::PatchSpec(json!({"replicas": replicas}))
}

pub(crate) fn annotate(selector: PodSelector, key: &str, value: Option<&str>) -> UserAction {
    UserAction::AnnotatePod(selector, key.to_owned(), value.map(str::to_owned))
}

pub(super) fn prioritise(selector: PodSelector, priority: i32) -> UserAction {
    annotate(selector, annotation::DELETE_PRIORITY, Some(&priority.to_string()))
}

/// The hash of the pods of that image.
pub(crate) fn hash(image: &str) -> String {
    template_hash(&Template::new(&template(image)), 0)
}

/// The path of the set of `web` with that image.
pub(crate) fn set(image: &str) -> String {
    format!("{SETS}/web-{}", hash(image))
}

/// Takes the owners from an object.
pub(crate) fn disowned() -> Value {
    json!({"metadata": {"ownerReferences": null}})
}

pub(crate) fn labelled(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

/// Keeps an object from being deleted.
pub(crate) fn stay() -> Value {
    json!({"metadata": {"finalizers": ["example.com/stay"]}})
}

/// Waits until no object is at that path.
pub(super) fn until_gone(path: &str) -> Step {
    Step { wait_for: WaitFor::NotFound(path.to_owned()), action: UserAction::NoAction }
}

pub(crate) fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Deletes the object at that path with that propagation policy.
pub(crate) fn delete(path: &str, policy: &str) -> UserAction {
    UserAction::Delete(path.to_owned(), json!({"propagationPolicy": policy}))
}
