//! The words in which scenarios are told.

use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{Template, canonical, template_hash};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::case::{Act, Case, Cluster, Ends, Millis, Pick, Resumption, Step, When};

/// How long a step waits for what it wants to see, where faults may keep that from coming.
const PATIENCE: Millis = 120_000;
/// Where the sets of these scenarios are.
const SETS: &str = "/apis/ordereddeployment.io/v1alpha1/namespaces/default/orderedreplicasets";

/// Draws parameters.
pub(super) struct Draw<'a> {
    rng: &'a mut StdRng,
    /// Everything is the first of what it may be.
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

    /// A time between two steps, that one where nothing is drawn.
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

    /// How many pods.
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

    /// A place in a line of that many.
    pub(super) fn place(&mut self, plain: usize, pods: usize) -> usize {
        if self.plain { plain } else { self.rng.random_range(0..pods) }
    }
}

/// A scenario being told.
pub(super) struct Story(Case);

impl From<Case> for Story {
    /// It goes on.
    fn from(case: Case) -> Self {
        Self(case)
    }
}

impl Story {
    /// Nothing has happened yet.
    pub(super) fn new(name: &str, draw: &mut Draw<'_>) -> Self {
        let plain = Cluster::default();
        let cluster = Cluster {
            ready: draw.of(&[plain.ready, 0, 300, 4000]),
            gone: draw.of(&[plain.gone, 0, 2500]),
            page: draw.of(&[plain.page, plain.page, 2]),
            ..plain
        };
        let seed = if draw.plain { 1 } else { draw.rng.random_range(1..1_000_000) };
        Self(Case {
            name: name.to_owned(),
            seed,
            cluster,
            steps: Vec::new(),
            faults: Vec::new(),
            ends: Ends::Complete,
            short: false,
        })
    }

    /// `web` stands, with these fields of the spec.
    pub(super) fn of(name: &str, draw: &mut Draw<'_>, spec: &Value) -> Self {
        Self::new(name, draw).after(100, Act::Create(deployment("web", spec))).complete(Act::Nothing)
    }

    /// Pods take a while to get ready, so that there is a way to be on.
    pub(super) fn slow(mut self) -> Self {
        self.0.cluster.ready = self.0.cluster.ready.max(1000);
        self
    }

    fn step(mut self, when: When, act: Act) -> Self {
        self.0.steps.push(Step { when, act });
        self
    }

    pub(super) fn after(self, pause: Millis, act: Act) -> Self {
        self.step(When::After(pause), act)
    }

    pub(super) fn complete(self, act: Act) -> Self {
        self.step(When::Complete(PATIENCE), act)
    }

    pub(super) fn held(self, act: Act) -> Self {
        self.step(When::Held(PATIENCE), act)
    }

    pub(super) fn resumed(self) -> Self {
        self.held(Act::Resume(Resumption::Current))
    }

    pub(super) fn updated(self, pods: usize, act: Act) -> Self {
        self.step(When::Updated(pods, PATIENCE), act)
    }

    pub(super) fn told(self, condition: &str, reason: &str, act: Act) -> Self {
        self.step(When::Reason(condition.to_owned(), reason.to_owned(), PATIENCE), act)
    }

    pub(super) fn gone(self, path: &str, act: Act) -> Self {
        self.step(When::Gone(path.to_owned(), PATIENCE), act)
    }

    pub(super) fn shows(self, path: &str, pointer: &str, value: Value, act: Act) -> Self {
        self.step(When::Shows(path.to_owned(), pointer.to_owned(), value, PATIENCE), act)
    }

    /// The first so many pods, by name, go one after the other, the first one first.
    pub(super) fn ranked(self, pods: usize) -> Self {
        (0..pods).fold(self, |story, place| {
            let priority = i32::try_from(10 * (pods - place)).unwrap_or_default();
            story.after(0, prioritise(Pick::Any(place), priority))
        })
    }

    /// The rollout halts at that one.
    pub(super) fn point(self, pick: Pick, point: &str) -> Self {
        self.after(0, annotate(pick, annotation::PAUSE_POINT, Some(point)))
    }

    pub(super) fn rollout(self, draw: &mut Draw<'_>) -> Self {
        self.after(draw.pause(50), image("web:2"))
    }

    /// All is well at the end.
    pub(super) fn end(self) -> Case {
        self.complete(Act::Nothing).0
    }

    /// All is well at the end, and it does not take long.
    pub(super) fn short_end(self) -> Case {
        Case { short: true, ..self.end() }
    }

    /// It ends like that.
    pub(super) fn ends(self, ends: Ends) -> Case {
        Case { ends, ..self.0 }
    }
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

pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// The number of ways in which [`spelled`] spells a template.
pub(crate) const SPELLINGS: usize = 5;

/// The same template in other words; each number has its own.
pub(crate) fn spelled(image: &str, how: usize) -> Value {
    let mut template = template(image);
    let spec = &mut template["spec"];
    match how % SPELLINGS {
        0 => spec["terminationGracePeriodSeconds"] = json!(30),
        1 => spec["restartPolicy"] = json!("Always"),
        2 => spec["containers"][0]["env"] = json!([]),
        3 => spec["containers"][0]["tty"] = json!(false),
        _ => spec["tolerations"] = json!([]),
    }
    template
}

/// A template without what [`spelled`] may have put in.
pub(crate) fn in_plain_words(template: &Template) -> Value {
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

/// Writes the same template in other words.
pub(super) fn respell(image: &str, how: usize) -> Act {
    Act::Spec(json!({"template": spelled(image, how)}))
}

pub(super) fn image(image: &str) -> Act {
    Act::Spec(json!({"template": template(image)}))
}

pub(super) fn scale(replicas: usize) -> Act {
    Act::Spec(json!({"replicas": replicas}))
}

pub(super) fn annotate(pick: Pick, key: &str, value: Option<&str>) -> Act {
    Act::Annotate(pick, key.to_owned(), value.map(str::to_owned))
}

pub(super) fn prioritise(pick: Pick, priority: i32) -> Act {
    annotate(pick, annotation::DELETE_PRIORITY, Some(&priority.to_string()))
}

/// The hash of the pods of that image.
pub(crate) fn hash(image: &str) -> String {
    template_hash(&Template::new(&template(image)), 0)
}

/// Where `web`'s set of that image is.
pub(super) fn set(image: &str) -> String {
    format!("{SETS}/web-{}", hash(image))
}

pub(super) const NOTHING: Act = Act::Nothing;
