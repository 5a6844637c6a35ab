//! The cluster of a scenario, with a controller, and a record of its deletions and events.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::reason;
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_planner::whole_seconds;
use ordereddeployment_preview::Preview;
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};
use serde_json::{Value, json};

use super::scenario::Scenario;
use super::sorted;
use crate::embedded::Embedded;

const SECOND: Duration = Duration::from_secs(1);
/// In the model, all events of a tick come before the decision.
const COALESCE: Duration = Duration::from_millis(20);
const BASE: &str = "2030-01-01T00:00:00Z";

/// A sandbox with a ticking clock, and a controller.
pub(super) struct Fixture {
    pub(super) cluster: Embedded,
    pub(super) client: Client,
    pub(super) clock: Clock,
}

impl Fixture {
    pub(super) async fn start(scenario: &Scenario) -> Self {
        let ticking = SandboxClock::simulated(BASE.parse().unwrap()).with_beat(SECOND);
        let config = Config {
            seed: scenario.seed,
            nodes: scenario.nodes.clone(),
            ready_delay: Duration::from_secs(scenario.ready),
            termination_delay: Duration::from_secs(scenario.gone),
            clock: ticking.clone(),
            ..Config::default()
        };
        let mut cluster = Embedded::start(config).await.unwrap();
        // All decisions of one tick have the same time, as in the model: the duration of requests does not
        // count.
        let clock = Clock::from_fn(move || whole_seconds(ticking.now()));
        let client = cluster.sandbox.connect("test").unwrap();
        let fixture = Self {
            cluster: {
                let names = Names::seeded(scenario.seed);
                cluster.start_controller(clock.clone(), names, COALESCE).unwrap();
                cluster
            },
            client,
            clock,
        };
        fixture.pass(1).await;
        fixture
    }

    /// Waits that many ticks, up to the middle between two of them.
    pub(super) async fn pass(&self, ticks: u64) {
        let now = self.cluster.sandbox.now();
        let to = whole_seconds(now)
            + SignedDuration::from_millis(500)
            + SignedDuration::from_secs(i64::try_from(ticks).unwrap());
        tokio::time::sleep(Duration::try_from(to.duration_since(now)).unwrap_or_default()).await;
    }

    pub(super) fn deployments(&self) -> Api<OrderedDeployment> {
        Api::default_namespaced(self.client.clone())
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub(super) async fn patch(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.deployments().patch("web", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn patch_status(&self, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.deployments().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn change_pods(&self, scenario: &mut Scenario) {
        let mut pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        pods.sort_by_key(ResourceExt::name_any);
        for pod in &pods {
            let (annotations, status) = scenario.pod_changes(self.clock.now());
            let name = pod.name_any();
            let params = PatchParams::default();
            self.pods().patch(&name, &params, &Patch::Merge(annotations)).await.unwrap();
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
                let patch = Patch::Strategic(json!({"status": status}));
                self.pods().patch_status(&name, &params, &patch).await.unwrap();
            }
        }
    }

    /// Waits until some time after the planned end. Resumes each pause when the plan does.
    pub(super) async fn run_to_the_end(&self, preview: &Preview, resumed_after: u64) {
        let last = preview.steps.last().map_or(preview.start, |step| step.at);
        let end = last + SignedDuration::from_secs(45);
        let after = SignedDuration::from_secs(i64::try_from(resumed_after).unwrap());
        while self.clock.now() < end {
            let now = self.clock.now();
            let status = self.deployments().get("web").await.unwrap().status.unwrap_or_default();
            let hold = status.hold;
            let due = hold.as_ref().map(|hold| hold.since.0.max(preview.start) + after);
            let mut wait = SignedDuration::from_secs(1);
            match (hold, due) {
                (Some(hold), Some(due)) if due <= now => {
                    self.patch_status(&json!({"resumeRequested": hold.id})).await;
                }
                (_, Some(due)) => wait = due.duration_since(now),
                // A pause that starts in this time is not due before.
                (_, None) => wait = after,
            }
            self.pass(u64::try_from(wait.as_secs()).unwrap()).await;
        }
    }

    /// The pod deletions since that request, grouped by time and sorted by name.
    pub(super) fn deletions(&self, from: usize) -> Vec<Vec<String>> {
        let requests = self.cluster.sandbox.requests().into_iter().skip(from);
        let own = requests.filter(|record| {
            record.user_agent.starts_with("ordered-controller-manager")
                && record.plural == "pods"
                && record.code < 300
                && (record.verb == "delete" || record.subresource.as_deref() == Some("eviction"))
        });
        let mut groups: Vec<(Timestamp, Vec<String>)> = Vec::new();
        for record in own {
            let name = record.name.unwrap_or_default();
            match groups.last_mut() {
                Some((at, group)) if *at == record.at => group.push(name),
                _ => groups.push((record.at, vec![name])),
            }
        }
        groups.into_iter().map(|(_, group)| sorted(group)).collect()
    }

    /// The messages of events since that version, in order: of deletions, and of pauses and resumes.
    pub(super) async fn messages(&self, from: u64) -> (Vec<String>, Vec<String>) {
        let api: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = api.list(&ListParams::default()).await.unwrap().items;
        let version = |event: &Event| event.resource_version().unwrap_or_default().parse().unwrap_or(0);
        let mut events: Vec<(u64, Event)> =
            events.into_iter().map(|event| (version(&event), event)).collect();
        events.retain(|(version, _)| *version > from);
        events.sort_by_key(|(version, _)| *version);
        let (mut deletions, mut pauses) = (Vec::new(), Vec::new());
        for (_, event) in events {
            let (event_reason, message) =
                (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            if event_reason == reason::SUCCESSFUL_DELETE {
                // One event can have the messages of several deletions.
                deletions.extend(message.split("; ").map(str::to_owned));
            } else if is_pause_event(&event_reason) {
                pauses.push(message);
            }
        }
        (deletions, pauses)
    }
}

pub(super) fn is_pause_event(event_reason: &str) -> bool {
    [reason::PAUSE_POINT_REACHED, reason::PAUSE_POINT_RESUMED].contains(&event_reason)
}
