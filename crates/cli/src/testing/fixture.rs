//! A cluster in memory with a simulated clock, the controller, and the OrderedDeployment `web` with four
//! pods.

use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube_runtime::wait::await_condition;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};
use ordereddeployment_wire::Family;
use serde_json::{Value, json};

use crate::client::{Connection, DryRun};
use crate::commands::mark::{Marks, mark};
use crate::embedded::Embedded;
use crate::view::overview::Overview;
use crate::view::phase::Phase;

/// A timeout that no step reaches.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Fixture {
    pub(crate) cluster: Embedded,
    pub(crate) connection: Connection,
}

impl Fixture {
    /// Starts the cluster and waits until the pods of `web` are available.
    pub(crate) async fn start() -> Self {
        let mut fixture = Self::without_controller().await;
        let base = base();
        fixture.cluster.start_controller(Clock::simulated(base), Names::seeded(1), Duration::ZERO).unwrap();
        fixture.until(|web| Phase::of(web) == Phase::Complete).await;
        fixture
    }

    /// The same, and the names of its pods, in order.
    pub(crate) async fn with_order() -> (Self, Vec<String>) {
        let fixture = Self::start().await;
        let order = fixture.order().await;
        (fixture, order)
    }

    /// Starts the cluster with `web` and without a controller.
    pub(crate) async fn without_controller() -> Self {
        let clock = Clock::simulated(base());
        let config = Config { clock: SandboxClock::simulated(base()), ..Config::default() };
        let cluster = Embedded::start(config).await.unwrap();
        let client = cluster.sandbox.connect("kubectl-ordered").unwrap();
        let connection = Connection {
            watching: client.clone(),
            client,
            namespace: "default".to_owned(),
            clock,
            flags: String::new(),
            dry_run: DryRun::None,
        };
        let fixture = Self { cluster, connection };
        fixture.api().create(&PostParams::default(), &manifest()).await.unwrap();
        fixture
    }

    pub(crate) fn api(&self) -> Api<OrderedDeployment> {
        Api::namespaced(self.connection.client.clone(), "default")
    }

    pub(crate) async fn until(&self, condition: impl Fn(&OrderedDeployment) -> bool) -> OrderedDeployment {
        let reached =
            await_condition(self.api(), "web", |web: Option<&OrderedDeployment>| web.is_some_and(&condition));
        tokio::time::timeout(STEP_TIMEOUT, reached).await.unwrap().unwrap().unwrap()
    }

    /// Waits until the label of the state starts with that text.
    pub(crate) async fn until_state(&self, label: &str) -> OrderedDeployment {
        self.until(|web| Phase::of(web).label().starts_with(label)).await
    }

    pub(crate) async fn patch(&self, patch: Value) -> OrderedDeployment {
        self.api().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub(crate) async fn image(&self, image: &str) {
        let containers = json!([{"name": "web", "image": image}]);
        self.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    }

    /// Starts a rollout with these pause points, and waits until it is paused at the first of them.
    pub(crate) async fn pause_at(&self, points: Value) {
        self.patch(json!({"spec": {"strategy": {"pausePoints": points}}})).await;
        self.image("web:2").await;
        self.until_state("Paused at").await;
    }

    /// Completes a rollout to revision 2, with the change cause `second`.
    pub(crate) async fn complete_second(&self) {
        self.patch(json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}})).await;
        self.image("web:2").await;
        self.until(|web| web.status.as_ref().unwrap().rollout.as_ref().unwrap().revision == 2).await;
        self.until_state("Complete").await;
    }

    pub(crate) async fn overview(&self) -> Overview {
        super::overview(&self.connection.state(Family::Ordered, "web").await.unwrap())
    }

    /// The names of the pods that have a place, in order.
    pub(crate) async fn order(&self) -> Vec<String> {
        self.overview().await.in_order().into_iter().map(|row| row.name.clone()).collect()
    }

    /// Marks a pod; returns what the command prints.
    pub(crate) async fn mark(&self, pod: &str, marks: Marks) -> String {
        mark(&self.connection, pod, marks).await.unwrap()
    }
}

/// Replaces generated names: pods by their place in `order`, nodes by `NODE`.
pub(crate) fn without_names(text: &str, order: &[String]) -> String {
    let mut text = text.to_owned();
    for (index, name) in order.iter().enumerate() {
        text = text.replace(name.as_str(), &format!("POD{}", index + 1));
    }
    for node in 1..=6 {
        text = text.replace(&format!(" on n{node}"), " on NODE");
    }
    text
}

fn base() -> jiff::Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn manifest() -> OrderedDeployment {
    serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web", "annotations": {"kubernetes.io/change-cause": "first"}},
        "spec": {
            "replicas": 4, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "initContainers": [{"name": "init", "image": "init:1"}],
                    "containers": [{"name": "web", "image": "web:1"}, {"name": "proxy", "image": "proxy:1"}],
                },
            },
        },
    }))
    .unwrap()
}
