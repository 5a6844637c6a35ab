//! A sandbox with a controller, and the actions and observations of the scenarios. Time is simulated.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::names::{annotation, condition, label};
use ordereddeployment_api::{
    ConditionStatus, OrderedDeployment, OrderedDeploymentStatus, OrderedReplicaSet, crds,
};
use ordereddeployment_controller::{Apart, Controller, Family, Metrics, Options, health};
use ordereddeployment_kubernetes::{
    Candidate, Clock, Fence, Health, Limiter, Limits, Names, Namespaced, Timing,
};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config, Fault, Record, Sandbox};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::fault_injector::FaultInjector;
use crate::plain::deployments;

/// The interval between checks of a condition, in simulated time.
const STEP: Duration = Duration::from_millis(250);
/// The timeout of every wait, in simulated time.
const TIMEOUT: Duration = Duration::from_secs(900);

pub struct Cluster {
    pub sandbox: Sandbox,
    pub client: Client,
    pub metrics: Arc<Metrics>,
    pub health: Health,
    pub limits: Limits,
    /// How far the clocks of controllers that start from now on are ahead of the server's.
    pub ahead: SignedDuration,
    /// The request rules for controllers that start from now on.
    pub faults: FaultInjector,
    /// How controllers of ReplicaSets that start from now on keep apart from a built-in one.
    pub apart: Option<Apart>,
    family: Family,
    clock: SandboxClock,
    controllers: u64,
    controller: Option<JoinHandle<()>>,
    /// Of plain Deployments.
    deployment_controller: JoinSet<()>,
}

/// The state that a scenario checks.
#[derive(Debug)]
pub struct View {
    pub deployment: OrderedDeployment,
    pub pods: Vec<Pod>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Cluster {
    /// A sandbox with the CRDs and a running controller.
    pub async fn start() -> Self {
        let mut cluster = Self::without_controller().await;
        cluster.start_controller();
        cluster
    }

    /// The same with a complete `web` of that spec, and the names of its pods.
    pub async fn with(spec: Value) -> (Self, Vec<String>) {
        let cluster = Self::start().await;
        let pods = names(&cluster.deployed(spec).await);
        (cluster, pods)
    }

    /// The same with that many pods.
    pub async fn with_pods(replicas: i32) -> (Self, Vec<String>) {
        Self::with(json!({"replicas": replicas})).await
    }

    /// The same as `start`, with pods that become ready after this time, and end at once.
    pub async fn start_with_quick_pods(ready_delay: Duration) -> Self {
        let config = Config { ready_delay, termination_delay: Duration::ZERO, ..Config::default() };
        let mut cluster = Self::with_config(config).await;
        cluster.start_controller();
        cluster
    }

    pub async fn without_controller() -> Self {
        Self::with_config(Config::default()).await
    }

    async fn with_config(config: Config) -> Self {
        let clock = SandboxClock::simulated("2030-01-01T00:00:00Z".parse().unwrap());
        let config = Config { clock: clock.clone(), ..config };
        let sandbox = Sandbox::start(config).await.unwrap();
        let client = sandbox.connect("test").unwrap();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in crds() {
            api.create(&PostParams::default(), &crd).await.unwrap();
        }
        let metrics = Arc::new(Metrics::new().unwrap());
        Self {
            sandbox,
            client,
            metrics,
            health: health(&[Family::Ordered], false),
            limits: Limits::default(),
            ahead: SignedDuration::ZERO,
            faults: FaultInjector::default(),
            apart: None,
            family: Family::Ordered,
            clock,
            controllers: 0,
            controller: None,
            deployment_controller: JoinSet::new(),
        }
    }

    pub fn start_controller(&mut self) {
        let (client, options) = self.next_controller();
        let run = Controller::run(client, options, std::future::pending());
        self.controller = Some(tokio::spawn(async move { run.await.unwrap() }));
    }

    fn next_controller(&mut self) -> (Client, Options) {
        self.controllers += 1;
        let (clock, ahead) = (self.clock.clone(), self.ahead);
        let mut options = Options::new(Arc::clone(&self.metrics));
        options.family = self.family;
        options.clock = Clock::from_fn(move || clock.now() + ahead);
        options.health = self.health.clone();
        options.limiter = Limiter::new(self.limits);
        options.names = Names::seeded(self.controllers);
        options.apart.clone_from(&self.apart);
        (self.faults.client(&self.sandbox.client().unwrap()), options)
    }

    /// Starts a controller that runs only while it holds the Lease. It runs until `stop` is sent.
    pub fn start_replica(&mut self, stop: oneshot::Receiver<()>) -> JoinHandle<()> {
        let (client, mut options) = self.next_controller();
        options.metrics = Arc::new(Metrics::new().unwrap());
        options.health = health(&[self.family], false);
        let (fence, (leadership, is_leader)) = (Fence::default(), watch::channel(false));
        options.leadership = Some((fence.clone(), is_leader));
        let name = format!("replica-{}", self.controllers);
        let (clock, health) = (options.clock.clone(), options.health.clone());
        let candidate = Candidate::new(&client, "default", &name, Timing::default(), fence, clock, health);
        let run = Controller::run(client, options, stop.map(|_| ()));
        tokio::spawn(async move { candidate.run_while_leading(run, leadership).await.unwrap().unwrap() })
    }

    /// A sandbox with Deployments, and a running controller of ReplicaSets. Its commits are recorded.
    pub async fn start_with_deployments() -> Self {
        let mut cluster = Self::with_deployments().await;
        cluster.start_controller();
        cluster
    }

    /// The same without a controller.
    pub async fn with_deployments() -> Self {
        let mut cluster = Self::with_config(Config { journal: true, ..Config::default() }).await;
        cluster.family = Family::Plain;
        let client = cluster.sandbox.connect("deployment-controller").unwrap();
        cluster.deployment_controller.spawn(deployments::run(client));
        cluster
    }

    /// The server refuses that many such requests of controllers.
    pub fn refuse(&self, verb: &'static str, plural: &str, code: u16, times: usize) {
        let user_agent = Some("ordered-controller-manager".to_owned());
        let plural = Some(plural.to_owned());
        self.sandbox.inject(Fault { verb: Some(verb), plural, user_agent, code, times });
    }

    /// Stops the controller as a crash would.
    pub fn kill(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.abort();
        }
    }

    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::default_namespaced(self.client.clone())
    }

    pub fn deployments(&self) -> Api<OrderedDeployment> {
        self.api()
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    pub fn sets(&self) -> Api<OrderedReplicaSet> {
        self.api()
    }

    pub async fn create<K: Namespaced + Serialize>(&self, object: Value) -> K {
        self.create_in("default", object).await
    }

    pub async fn create_in<K: Namespaced + Serialize>(&self, namespace: &str, object: Value) -> K {
        let object = serde_json::from_value(object).unwrap();
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Changes an object by a merge patch.
    pub async fn merge<K: Namespaced>(&self, name: &str, patch: Value) {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn all_pods(&self) -> Vec<Pod> {
        self.pods().list(&ListParams::default()).await.unwrap().items
    }

    pub async fn all_sets(&self) -> Vec<OrderedReplicaSet> {
        self.sets().list(&ListParams::default()).await.unwrap().items
    }

    pub async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn patch_pod(&self, name: &str, patch: Value) {
        self.merge::<Pod>(name, patch).await;
    }

    /// Creates `web`, with these fields of the spec besides selector and template.
    pub async fn deploy(&self, spec: Value) {
        self.deploy_as("web", spec).await;
    }

    /// The same with that name.
    pub async fn deploy_as(&self, name: &str, spec: Value) {
        self.deploy_in("default", name, spec).await;
    }

    /// The same in that namespace.
    pub async fn deploy_in(&self, namespace: &str, name: &str, spec: Value) {
        let mut whole = spec_of("web", "web:1", 10);
        whole["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let object = json!({"metadata": {"name": name}, "spec": whole});
        self.create_in::<OrderedDeployment>(namespace, object).await;
    }

    /// The same, and waits until it is complete.
    pub async fn deployed(&self, spec: Value) -> Vec<Pod> {
        self.deploy(spec).await;
        self.until_complete().await.active()
    }

    pub async fn patch(&self, patch: Value) {
        self.merge::<OrderedDeployment>("web", patch).await;
    }

    pub async fn set_image(&self, image: &str) {
        let containers = json!([{"name": "main", "image": image}]);
        self.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    }

    pub async fn scale(&self, replicas: i32) {
        self.patch(json!({"spec": {"replicas": replicas}})).await;
    }

    pub async fn annotate(&self, pod: &str, key: &str, value: impl Into<Value>) {
        self.patch_pod(pod, json!({"metadata": {"annotations": {key: value.into()}}})).await;
    }

    pub async fn prioritise(&self, pod: &str, priority: i32) {
        self.annotate(pod, annotation::DELETE_PRIORITY, priority.to_string()).await;
    }

    /// Sets whether a pod is ready, as its kubelet would.
    pub async fn set_ready(&self, pod: &str, ready: bool) {
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": now});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        self.pods().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn resume(&self, id: &str) {
        self.patch_status(json!({"resumeRequested": id})).await;
    }

    pub async fn patch_status(&self, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.deployments().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Changes the schema of the fields of OrderedDeployments.
    pub async fn change_schema(&self, change: impl FnOnce(&mut Value)) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = "ordereddeployments.ordereddeployment.io";
        let mut crd = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
        change(crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties").unwrap());
        api.replace(name, &PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    }

    pub async fn view(&self) -> View {
        let deployment = self.deployments().get("web").await.unwrap();
        let mut pods = self.pods().list(&ListParams::default().labels("app=web")).await.unwrap().items;
        pods.sort_by_key(ResourceExt::name_any);
        View { deployment, pods }
    }

    /// Waits for this condition, in simulated time.
    pub async fn until(&self, what: &str, reached: impl Fn(&View) -> bool) -> View {
        self.until_each(STEP, what, reached).await
    }

    /// The same with that interval between checks.
    pub async fn until_each(&self, step: Duration, what: &str, reached: impl Fn(&View) -> bool) -> View {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let view = self.view().await;
            if reached(&view) {
                return view;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "timed out waiting until {what}: {:#?}, {} active, {} updated and available; requests: {:#?}",
                view.status(),
                view.active().len(),
                view.updated().len(),
                self.sandbox.requests().iter().rev().take(20).map(line).collect::<Vec<_>>(),
            );
            tokio::time::sleep(step).await;
        }
    }

    pub async fn until_complete(&self) -> View {
        self.until("it is complete", View::is_complete).await
    }

    /// Waits until the rollout is complete, with that many updated pods.
    pub async fn until_out(&self, pods: usize) -> View {
        self.until("it is out", |view| view.is_complete() && view.updated().len() == pods).await
    }

    /// Waits until the rollout is complete, with that many available pods.
    pub async fn until_there_are(&self, pods: usize) -> View {
        self.until("all are there", |view| view.is_complete() && view.available() == pods).await
    }

    /// Rolls ten pods out, with priorities 5, 5, 3 and 0s, up to the one of priority 3, which
    /// has a pause point.
    pub async fn paused_at_the_third(&self, pods: &[String]) -> View {
        for (pod, priority) in [(&pods[3], 5), (&pods[8], 5), (&pods[5], 3)] {
            self.prioritise(pod, priority).await;
        }
        self.annotate(&pods[5], annotation::PAUSE_POINT, "before").await;
        self.set_image("web:2").await;
        self.until("it is held", |view| view.is_held_with(10)).await
    }

    pub async fn until_held(&self) -> View {
        self.until("it is held", |view| view.status().hold.is_some()).await
    }

    /// Lets that much time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The requests of controllers, from number `from` on.
    pub fn all_asked(&self, from: usize) -> Vec<Record> {
        let requests = self.sandbox.requests().into_iter().skip(from);
        requests.filter(|record| record.user_agent.starts_with("ordered-controller-manager")).collect()
    }

    /// Those of them with this verb and resource.
    pub fn asked(&self, from: usize, verb: &str, plural: &str) -> Vec<Record> {
        let mut asked = self.all_asked(from);
        asked.retain(|record| record.verb == verb && record.plural == plural);
        asked
    }

    /// The names of the pods deleted since then, in order.
    pub fn deleted(&self, from: usize) -> Vec<String> {
        self.asked(from, "delete", "pods")
            .into_iter()
            .filter(|record| record.code < 300)
            .filter_map(|record| record.name)
            .collect()
    }

    pub fn mark(&self) -> usize {
        self.sandbox.requests().len()
    }

    /// Reason, message and count of every Event.
    pub async fn events(&self) -> Vec<(String, String, i32)> {
        self.events_in("default").await
    }

    /// The same in that namespace.
    pub async fn events_in(&self, namespace: &str) -> Vec<(String, String, i32)> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let events = api.list(&ListParams::default()).await.unwrap().items;
        let found = events.into_iter().map(|event| {
            (event.reason.unwrap_or_default(), event.message.unwrap_or_default(), event.count.unwrap_or(1))
        });
        found.collect()
    }

    pub async fn events_of(&self, reason: &str) -> Vec<String> {
        self.events()
            .await
            .into_iter()
            .filter(|(found, ..)| found == reason)
            .map(|(_, message, _)| message)
            .collect()
    }
}

pub fn line(record: &Record) -> String {
    format!("{} {} {} {} {}", record.at, record.user_agent, record.verb, record.path, record.code)
}

impl View {
    pub fn status(&self) -> OrderedDeploymentStatus {
        self.deployment.status.clone().unwrap_or_default()
    }

    /// Whether the status is of the current spec and says that it is complete.
    pub fn is_complete(&self) -> bool {
        let status = self.status();
        let complete = status.condition(condition::COMPLETE);
        status.observed_generation == self.deployment.metadata.generation
            && complete.is_some_and(|complete| complete.status == ConditionStatus::True)
    }

    /// Whether it is held, and has that many pods, which are all available.
    pub fn is_held_with(&self, pods: usize) -> bool {
        self.status().hold.is_some() && self.available() == pods && self.pods.len() == pods
    }

    /// The reason and the message of a condition that is true.
    pub fn why(&self, type_: &str) -> Option<(String, String)> {
        let status = self.status();
        let condition = status.condition(type_).filter(|one| one.status == ConditionStatus::True)?;
        Some((condition.reason.clone(), condition.message.clone()))
    }

    pub fn active(&self) -> Vec<Pod> {
        self.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).cloned().collect()
    }

    /// Active pods of the current template.
    pub fn updated(&self) -> Vec<Pod> {
        let hash = self.status().rollout.map(|rollout| rollout.template_hash).unwrap_or_default();
        let is_updated = |pod: &Pod| pod.labels().get(label::POD_TEMPLATE_HASH) == Some(&hash);
        self.active().into_iter().filter(is_updated).collect()
    }

    pub fn available(&self) -> usize {
        self.active().iter().filter(|pod| is_ready(pod)).count()
    }
}

/// The fields of the spec that are different for each object, if `name` is.
pub fn spec_of(name: &str, image: &str, replicas: usize) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        },
    })
}

pub fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(ResourceExt::name_any).collect()
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
