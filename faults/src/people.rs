//! What people, kubelets and others do in a run, and what they wait for. They never fail a run: what the server refuses them is
//! noted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube::Client;
use ordereddeployment_api::names::{condition, label};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use ordereddeployment_sandbox::{self as sandbox, Clock, Collector, Sandbox};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::case::{Act, Millis, Pick, Resumption, When};

/// The object that scenarios are about.
pub(crate) const DEPLOYMENT: &str =
    "/apis/ordereddeployment.io/v1alpha1/namespaces/default/ordereddeployments/web";
/// Its pods.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// What a server answers where it does not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: u16,
    words: String,
}

impl Refusal {
    fn is_nothing(&self) -> bool {
        self.code == 404
    }
}

impl From<sandbox::Error> for Refusal {
    fn from(error: sandbox::Error) -> Self {
        Self { code: 0, words: error.to_string() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Somebody with a client of their own, whom no fault strikes.
#[derive(Clone)]
pub(crate) struct Somebody {
    pub(crate) client: Client,
    clock: Clock,
    sandbox: Arc<Sandbox>,
    /// The ids of the holds seen, each once, the latest at the end.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Somebody {
    pub(crate) fn new(sandbox: &Arc<Sandbox>, clock: Clock) -> Result<Self, sandbox::Error> {
        let client = sandbox.connect("somebody")?;
        Ok(Self { client, clock, sandbox: Arc::clone(sandbox), seen: Arc::default() })
    }

    async fn call(&self, request: http::request::Builder, body: Option<&Value>) -> Result<Value, Refusal> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(bytes).map_err(|error| Refusal { code: 0, words: error.to_string() })?;
        self.client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status) => Refusal { code: status.code, words: status.to_string() },
            other => Refusal { code: 0, words: other.to_string() },
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.call(Request::get(path), None).await
    }

    async fn patch(&self, path: &str, kind: &str, change: &Value) -> Result<(), Refusal> {
        let request = Request::patch(path).header("content-type", format!("application/{kind}-patch+json"));
        self.call(request, Some(change)).await.map(drop)
    }

    async fn delete(&self, path: &str, options: &Value) -> Result<(), Refusal> {
        let request = Request::delete(path).header("content-type", "application/json");
        self.call(request, Some(options)).await.map(drop)
    }

    async fn deployment(&self) -> Option<OrderedDeployment> {
        let found: OrderedDeployment = serde_json::from_value(self.get(DEPLOYMENT).await.ok()?).ok()?;
        if let Some(hold) = found.status.as_ref().and_then(|status| status.hold.as_ref()) {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.contains(&hold.id) {
                seen.push(hold.id.clone());
            }
        }
        Some(found)
    }

    /// Waits for that; whether it came.
    pub(crate) async fn wait(&self, when: &When) -> bool {
        let limit = match when {
            When::After(millis) => {
                sleep(Duration::from_millis(*millis)).await;
                return true;
            }
            When::Complete(millis)
            | When::Held(millis)
            | When::Updated(_, millis)
            | When::Reason(_, _, millis)
            | When::Gone(_, millis)
            | When::Shows(_, _, _, millis) => *millis,
        };
        let deadline = Instant::now() + Duration::from_millis(limit);
        loop {
            if self.is_reached(when).await {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(LOOK).await;
        }
    }

    async fn is_reached(&self, when: &When) -> bool {
        match when {
            When::After(_) => true,
            When::Complete(_) => self.deployment().await.is_some_and(|found| is_complete(&found)),
            When::Held(_) => self.deployment().await.is_some_and(|found| is_held(&found)),
            When::Updated(count, _) => self.deployment().await.is_some_and(|found| {
                let updated = found.status.as_ref().and_then(|status| status.updated_replicas);
                is_observed(&found) && usize::try_from(updated.unwrap_or_default()).unwrap_or(0) >= *count
            }),
            When::Reason(kind, reason, _) => self.deployment().await.is_some_and(|found| {
                let told = found.status.as_ref().and_then(|status| status.condition(kind));
                is_observed(&found) && told.is_some_and(|told| told.reason == *reason)
            }),
            When::Gone(path, _) => self.get(path).await.is_err_and(|error| error.is_nothing()),
            When::Shows(path, pointer, value, _) => {
                self.get(path).await.is_ok_and(|found| found.pointer(pointer) == Some(value))
            }
        }
    }

    /// Does that; what the server said, where it refused.
    pub(crate) async fn act(&self, act: &Act) -> Result<(), Refusal> {
        match act {
            Act::Nothing => Ok(()),
            Act::Create(object) => self.create(object).await,
            Act::Spec(change) => self.patch(DEPLOYMENT, "merge", &json!({"spec": change})).await,
            Act::Patch(path, change) => self.patch(path, "merge", change).await,
            Act::Delete(path, options) => self.delete(path, options).await,
            Act::Annotate(pick, key, value) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                let patch = json!({"metadata": {"annotations": {key.as_str(): value}}});
                self.patch(&path_of(&pod), "merge", &patch).await
            }
            Act::DeletePod(pick) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                self.delete(&path_of(&pod), &json!({})).await
            }
            Act::KillPod(pick) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                self.delete(&path_of(&pod), &json!({"gracePeriodSeconds": 0})).await
            }
            Act::Ready(pick, ready) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                let status = if *ready { "True" } else { "False" };
                self.set_status(&pod, json!({"conditions": [{"type": "Ready", "status": status}]})).await
            }
            Act::Fail(pick) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                let conditions = json!([{"type": "Ready", "status": "False"}]);
                self.set_status(&pod, json!({"phase": "Failed", "conditions": conditions})).await
            }
            Act::Pod(pick, change) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                self.patch(&path_of(&pod), "merge", change).await
            }
            Act::Free => self.free().await,
            Act::Replace(pick, owned) => {
                let Some(pod) = self.pick(*pick).await else { return Ok(()) };
                self.replace(&pod, *owned).await
            }
            Act::NodeGone(name) => {
                self.delete(&format!("/api/v1/nodes/{name}"), &json!({})).await?;
                for pod in self.pods_on(name).await? {
                    self.delete(&path_of(&pod), &json!({"gracePeriodSeconds": 0})).await?;
                }
                Ok(())
            }
            Act::NodeLost(name) => self.sandbox.lose_node(name).await.map_err(Refusal::from),
            Act::NodeBack(name) => self.sandbox.restore_node(name).await.map_err(Refusal::from),
            Act::Resume(resumption) => self.resume(resumption).await,
            Act::Collector { pace, lag, frozen } => {
                self.slow_down(*pace, *lag, *frozen);
                Ok(())
            }
        }
    }

    /// Writes a pod's status as a kubelet would: with the time of the change.
    async fn set_status(&self, pod: &Value, mut status: Value) -> Result<(), Refusal> {
        let since = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!(since);
        }
        let path = format!("{}/status", path_of(pod));
        self.patch(&path, "strategic-merge", &json!({"status": status})).await
    }

    fn slow_down(&self, pace: Millis, lag: Millis, frozen: Millis) {
        let collector = Collector {
            pace: Duration::from_millis(pace),
            lag: Duration::from_millis(lag),
            frozen: frozen > 0,
        };
        self.sandbox.set_collector(collector);
        if frozen > 0 {
            let sandbox = Arc::clone(&self.sandbox);
            tokio::spawn(async move {
                sleep(Duration::from_millis(frozen)).await;
                sandbox.set_collector(Collector { frozen: false, ..sandbox.collector() });
            });
        }
    }

    async fn resume(&self, resumption: &Resumption) -> Result<(), Refusal> {
        let status = self.deployment().await.and_then(|found| found.status).unwrap_or_default();
        let revision = status.rollout.map(|rollout| rollout.revision);
        let current = status.hold.map(|hold| hold.id);
        let id = match resumption {
            Resumption::Text(text) => Some(text.clone()),
            Resumption::Current => current,
            Resumption::All => revision.map(|revision| format!("*@{revision}")),
            Resumption::Earlier => {
                let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.iter().rev().find(|id| Some(*id) != current.as_ref()).cloned()
            }
            Resumption::At(pick) => self.pick(*pick).await.zip(revision).map(|(pod, revision)| {
                format!("{}@{revision}", pod["metadata"]["name"].as_str().unwrap_or_default())
            }),
        };
        let Some(id) = id else { return Ok(()) };
        let path = format!("{DEPLOYMENT}/status");
        self.patch(&path, "merge", &json!({"status": {"resumeRequested": id}})).await
    }

    async fn free(&self) -> Result<(), Refusal> {
        let list = self.get(PODS).await?;
        for pod in list["items"].as_array().into_iter().flatten() {
            if pod["metadata"]["finalizers"].is_array() {
                self.patch(&path_of(pod), "merge", &json!({"metadata": {"finalizers": null}})).await?;
            }
        }
        Ok(())
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Value>, Refusal> {
        let mut list = self.get(PODS).await?;
        let pods = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(pods.into_iter().filter(|pod| pod["spec"]["nodeName"] == json!(node)).collect())
    }

    async fn replace(&self, pod: &Value, owned: bool) -> Result<(), Refusal> {
        let metadata = &pod["metadata"];
        let mut fresh = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": metadata["name"], "labels": metadata["labels"]},
            "spec": {"containers": pod["spec"]["containers"]},
        });
        if owned {
            fresh["metadata"]["ownerReferences"] = metadata["ownerReferences"].clone();
        }
        self.delete(&path_of(pod), &json!({"gracePeriodSeconds": 0})).await?;
        self.create(&fresh).await
    }

    async fn create(&self, object: &Value) -> Result<(), Refusal> {
        let request = Request::post(collection(object)).header("content-type", "application/json");
        self.call(request, Some(object)).await.map(drop)
    }

    async fn pick(&self, pick: Pick) -> Option<Value> {
        let status = self.deployment().await.and_then(|found| found.status).unwrap_or_default();
        let hash = status.rollout.map(|rollout| rollout.template_hash).unwrap_or_default();
        let held = status.hold.map(|hold| hold.pod).unwrap_or_default();
        let list = self.get(PODS).await.ok()?;
        let mut pods: Vec<Value> = list["items"].as_array()?.clone();
        let is_updated = |pod: &Value| pod["metadata"]["labels"][label::POD_TEMPLATE_HASH] == json!(hash);
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.retain(|pod| match pick {
            Pick::Any(_) => true,
            Pick::Updated(_) => is_updated(pod),
            Pick::Old(_) => !is_updated(pod),
            Pick::Held => pod["metadata"]["name"] == json!(held),
            Pick::Orphan(_) => pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty),
        });
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        let place = match pick {
            Pick::Any(place) | Pick::Updated(place) | Pick::Old(place) | Pick::Orphan(place) => place,
            Pick::Held => 0,
        };
        let place = place.checked_rem(pods.len())?;
        Some(pods.swap_remove(place))
    }
}

fn path_of(pod: &Value) -> String {
    format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default())
}

/// Where objects of that kind are created.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let root = if version.contains('/') { "apis" } else { "api" };
    if ["customresourcedefinition", "node", "namespace"].contains(&kind.as_str()) {
        return format!("/{root}/{version}/{kind}s");
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    format!("/{root}/{version}/namespaces/{namespace}/{kind}s")
}

/// Whether the status speaks of the current spec.
fn is_observed(deployment: &OrderedDeployment) -> bool {
    deployment.status.as_ref().and_then(|status| status.observed_generation) == deployment.metadata.generation
}

/// Whether the status speaks of the current spec and says that it is complete.
pub(crate) fn is_complete(deployment: &OrderedDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    is_observed(deployment)
        && status.condition(condition::COMPLETE).is_some_and(|told| told.status == ConditionStatus::True)
}

/// Whether it is held, and nobody has asked to resume.
fn is_held(deployment: &OrderedDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    is_observed(deployment) && status.hold.is_some() && status.resume_requested.is_none()
}
