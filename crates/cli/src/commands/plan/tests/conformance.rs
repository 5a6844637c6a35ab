//! Compares plans with rollouts on random clusters in the sandbox: deletions, their reasons and pauses must
//! be the same. Both use one clock, one scheduler and one model of kubelets. The test computes the plan as
//! the command does, then writes the change, runs the controller, and resumes each pause after the time that
//! the plan assumes.

mod random;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_planner::{Purpose, whole_seconds};
use ordereddeployment_preview::{Action, End, Preview};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};
use ordereddeployment_wire::Family;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::client::reader;
use crate::commands::plan::forecast::{AssumptionFlags, plan};
use crate::commands::plan::spec_change::SpecChange;
use crate::embedded::Embedded;
use random::{change, nodes, one_in, pod_change, spec, template};

/// The number of clusters, unless `PLAN_CLUSTERS` sets another one. Each takes about a second without
/// optimizations.
const CLUSTERS: u64 = 120;
/// In the model, all events of a tick come before the decision.
const COALESCE: Duration = Duration::from_millis(20);

/// A sandbox with a ticking clock, and a controller.
struct Cluster {
    embedded: Embedded,
    client: Client,
    clock: Clock,
}

impl Cluster {
    async fn start(seed: u64, config: Config) -> Self {
        let base = "2030-01-01T00:00:00Z".parse().unwrap();
        let ticking = SandboxClock::simulated(base).with_beat(Duration::from_secs(1));
        let config = Config { seed, clock: ticking.clone(), ..config };
        let mut embedded = Embedded::start(config).await.unwrap();
        // All decisions of one tick have the same time, as in the model: the duration of requests does not
        // count.
        let clock = Clock::from_fn(move || whole_seconds(ticking.now()));
        let client = embedded.sandbox.connect("test").unwrap();
        embedded.start_controller(clock.clone(), Names::seeded(seed), COALESCE).unwrap();
        let cluster = Self { embedded, client, clock };
        cluster.pass(1).await;
        cluster
    }

    /// Waits that many ticks, up to the middle between two of them.
    async fn pass(&self, ticks: u64) {
        let now = self.embedded.sandbox.now();
        let to = whole_seconds(now) + SignedDuration::from_millis(500) + seconds(ticks);
        tokio::time::sleep(Duration::try_from(to.duration_since(now)).unwrap_or_default()).await;
    }

    fn deployments(&self) -> Api<OrderedDeployment> {
        Api::default_namespaced(self.client.clone())
    }

    async fn patch(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.deployments().patch("web", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn request(&self, field: &str, value: Value) {
        let patch = Patch::Merge(json!({"status": {field: value}}));
        self.deployments().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn change_pods(&self, rng: &mut StdRng) {
        let (api, params) = (Api::<Pod>::default_namespaced(self.client.clone()), PatchParams::default());
        let mut pods = api.list(&ListParams::default()).await.unwrap().items;
        pods.sort_by_key(ResourceExt::name_any);
        for pod in &pods {
            let (annotations, status) = pod_change(rng, self.clock.now());
            let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
            api.patch(&pod.name_any(), &params, &patch).await.unwrap();
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
                let patch = Patch::Strategic(json!({"status": status}));
                api.patch_status(&pod.name_any(), &params, &patch).await.unwrap();
            }
        }
    }

    /// Waits until some time after the planned end. Resumes each pause when the plan does.
    async fn run_to_the_end(&self, preview: &Preview, resumed_after: u64) {
        let last = preview.steps.last().map_or(preview.start, |step| step.at);
        let after = seconds(resumed_after);
        while self.clock.now() < last + seconds(45) {
            let now = self.clock.now();
            let hold = self.deployments().get("web").await.unwrap().status.unwrap_or_default().hold;
            let due = hold.as_ref().map(|hold| hold.since.0.max(preview.start) + after);
            let mut wait = seconds(1);
            match (hold, due) {
                (Some(hold), Some(due)) if due <= now => {
                    self.request("resumeRequested", hold.id.into()).await;
                }
                (_, Some(due)) => wait = due.duration_since(now),
                // A pause that starts in this time is not due before.
                (_, None) => wait = after,
            }
            self.pass(u64::try_from(wait.as_secs()).unwrap()).await;
        }
    }

    /// The events since that version, in order, and their versions.
    async fn events(&self, from: u64) -> Vec<(u64, Event)> {
        let api: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = api.list(&ListParams::default()).await.unwrap().items;
        let version = |event: &Event| event.resource_version().unwrap_or_default().parse().unwrap_or(0);
        let mut events: Vec<(u64, Event)> =
            events.into_iter().map(|event| (version(&event), event)).collect();
        events.retain(|(version, _)| *version > from);
        events.sort_by_key(|(version, _)| *version);
        events
    }
}

fn seconds(count: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(count).unwrap())
}

/// The messages of deletions, and those of pauses and resumes.
#[derive(Debug, Default, PartialEq)]
struct Messages {
    deletions: Vec<String>,
    pauses: Vec<String>,
}

impl Messages {
    fn add(&mut self, event_reason: &str, message: &str) {
        if event_reason == reason::SUCCESSFUL_DELETE {
            // One event can have the messages of several deletions.
            self.deletions.extend(message.split("; ").map(str::to_owned));
        } else if [reason::PAUSE_POINT_REACHED, reason::PAUSE_POINT_RESUMED].contains(&event_reason) {
            self.pauses.push(message.to_owned());
        }
    }

    fn planned(preview: &Preview) -> Self {
        let mut messages = Self::default();
        for step in &preview.steps {
            match &step.action {
                Action::Event(event) => messages.add(event.reason, &event.message),
                Action::Delete { purpose, pods } => {
                    let word = if *purpose == Purpose::Rollout { "rollout" } else { "scale" };
                    let message = |pod: &ordereddeployment_preview::Deleted| {
                        format!("Deleted pod {} for the {word} ({})", pod.name, pod.why)
                    };
                    messages.deletions.extend(pods.iter().map(message));
                }
                _ => {}
            }
        }
        messages
    }

    /// The same without what a plan cannot know: the names of pods that are created during the rollout, and
    /// with `any_order` everything that depends on their UIDs.
    fn comparable(mut self, known: &BTreeSet<String>, any_order: bool) -> Self {
        for message in &mut self.deletions {
            let pod = message.split(' ').nth(2).unwrap_or_default();
            if !known.contains(pod) {
                "Deleted a new pod".clone_into(message);
            } else if any_order {
                *message = format!("Deleted pod {pod}");
            }
        }
        if any_order {
            self.deletions.sort();
        }
        self
    }
}

/// The pauses of a plan, and those of them at declared pause points.
async fn compare_plan_with_rollout(seed: u64) -> (usize, usize) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let (ready, gone, resumed) = (rng.random_range(1..4), rng.random_range(1..5), rng.random_range(1..30));
    let config = Config {
        nodes: nodes(rng),
        ready_delay: Duration::from_secs(ready),
        termination_delay: Duration::from_secs(gone),
        ..Config::default()
    };
    let mut cluster = Cluster::start(seed, config).await;
    let revision = prepare(&cluster, rng).await;

    let now = cluster.clock.now();
    let found = reader::one(&cluster.client, Family::Ordered, ("default", "web"), now).await.unwrap();
    let status = found.deployment.status.clone().unwrap_or_default();
    let mut change = change(rng, found.deployment.spec.replicas, revision, status.hold.is_some());
    if status.aborted.is_some() && one_in(rng, 2) {
        // The plan is the rollback.
        change = json!({});
    }
    let [ready, gone, assumed] = [ready, gone, resumed].map(Duration::from_secs).map(Some);
    let given = AssumptionFlags { ready, gone, resumed: assumed };
    let spec_change = SpecChange { manifest: Some(json!({"spec": change})), ..SpecChange::default() };
    let before = cluster.embedded.sandbox.requests().len();
    let preview = plan(&cluster.client, &found, &spec_change, given).await.unwrap().preview;
    let asked = cluster.embedded.sandbox.requests();
    let asked = asked.iter().skip(before).filter(|record| record.user_agent == "test");
    // Templates are compared, and tried, by dry runs.
    let mut writes = asked.filter(|record| !["get", "list"].contains(&record.verb));
    assert!(writes.all(|record| record.path.contains("dryRun=All")), "a plan writes nothing");

    let version = cluster.events(0).await.last().map_or(0, |(version, _)| *version);
    if change != json!({}) {
        cluster.patch(&change).await;
    }
    cluster.run_to_the_end(&preview, resumed).await;
    let mut actual = Messages::default();
    for (_, event) in cluster.events(version).await {
        actual.add(&event.reason.unwrap_or_default(), &event.message.unwrap_or_default());
    }
    // Events of deletions before the plan can be published after it.
    let gone = found.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    let gone: Vec<String> = gone.map(|pod| format!("Deleted pod {} ", pod.name_any())).collect();
    actual.deletions.retain(|message| !gone.iter().any(|start| message.starts_with(start)));
    let known: BTreeSet<String> = found.pods.iter().map(ResourceExt::name_any).collect();
    // Which new pods a pause keeps as surge can depend on their UIDs, and with them the ranks of all others.
    let takes_new_ones = preview.deleted().any(|pod| !known.contains(&pod.name));
    let planned = Messages::planned(&preview).comparable(&known, takes_new_ones);
    let actual = actual.comparable(&known, takes_new_ones);
    assert_eq!(
        planned,
        actual,
        "seed {seed}: change {change}\n{:#?}\n{:#?}",
        preview.steps,
        found.observed()
    );
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap_or_default();
    let complete = status.condition(condition::COMPLETE).map(|complete| complete.status);
    let is_complete = complete == Some(ConditionStatus::True);
    assert_eq!(is_complete, preview.end == End::Complete, "seed {seed}: {:?}", preview.end);
    cluster.embedded.stop().await.unwrap();
    let declared = preview.holds().filter(|hold| hold.declared.is_some());
    (preview.holds().count(), declared.count())
}

/// Creates `web`, with or without a rollout. Returns its revision.
async fn prepare(cluster: &Cluster, rng: &mut StdRng) -> u32 {
    let mut object: OrderedDeployment = serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"}, "spec": spec(rng),
    }))
    .unwrap();
    // In two steps, so that ages differ.
    let replicas = object.spec.replicas;
    object.spec.replicas = rng.random_range(1..=replicas);
    cluster.deployments().create(&PostParams::default(), &object).await.unwrap();
    cluster.pass(12).await;
    if object.spec.replicas < replicas {
        cluster.pass(rng.random_range(0..200)).await;
        cluster.patch(&json!({"replicas": replicas})).await;
        cluster.pass(12).await;
    }
    cluster.change_pods(rng).await;
    cluster.pass(1).await;
    let mut revision = 1;
    if one_in(rng, 3) {
        // A rollout before, which is complete, stuck or paused when the plan is computed.
        revision = 2;
        cluster.patch(&json!({"template": template("web:2")})).await;
        cluster.pass(120).await;
        if one_in(rng, 2) {
            cluster.change_pods(rng).await;
            cluster.pass(40).await;
        }
        if one_in(rng, 2) {
            // Ignored if the rollout is complete.
            cluster.request("abortRequested", revision.into()).await;
            cluster.pass(rng.random_range(1..3)).await;
        }
    }
    cluster.pass(rng.random_range(0..4)).await;
    revision
}

/// Half of the clusters, or the one of `SEED`.
async fn clusters(half: u64) {
    let number = |variable| std::env::var(variable).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("PLAN_CLUSTERS").unwrap_or(CLUSTERS);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => half * count / 2..(half + 1) * count / 2,
    };
    let (mut pauses, mut declared) = (0, 0);
    for seed in seeds.clone() {
        let held = compare_plan_with_rollout(seed).await;
        (pauses, declared) = (pauses + held.0, declared + held.1);
    }
    let is_small = seeds.count() < 20;
    assert!(is_small || (declared > 0 && pauses > declared), "{declared} of {pauses} pauses are declared");
}

#[tokio::test(start_paused = true)]
async fn a_plan_matches_the_rollout_on_the_first_random_clusters() {
    clusters(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_matches_the_rollout_on_the_next_random_clusters() {
    clusters(1).await;
}
