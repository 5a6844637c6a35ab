//! What people, kubelets and others do in a run, and what they wait for. They never fail a run: what the server refuses them is
//! noted.

use std::time::Duration;

use http::Request;
use kube::Client;
use ordereddeployment_api::names::{condition, label};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use ordereddeployment_sandbox::Clock;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::case::{Act, Pick, Resumption, When};

/// The object that scenarios are about.
pub(crate) const DEPLOYMENT: &str =
    "/apis/ordereddeployment.io/v1alpha1/namespaces/default/ordereddeployments/web";
/// Its pods.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Somebody with a client of their own, whom no fault strikes.
#[derive(Clone)]
pub(crate) struct Somebody {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
}

impl Somebody {
    async fn call(&self, request: http::request::Builder, body: Option<&Value>) -> Result<Value, String> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(bytes).map_err(|error| error.to_string())?;
        self.client.request::<Value>(request).await.map_err(|error| error.to_string())
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, String> {
        self.call(Request::get(path), None).await
    }

    async fn patch(&self, path: &str, kind: &str, change: &Value) -> Result<(), String> {
        let request = Request::patch(path).header("content-type", format!("application/{kind}-patch+json"));
        self.call(request, Some(change)).await.map(drop)
    }

    async fn delete(&self, path: &str, options: &Value) -> Result<(), String> {
        let request = Request::delete(path).header("content-type", "application/json");
        self.call(request, Some(options)).await.map(drop)
    }

    async fn deployment(&self) -> Option<OrderedDeployment> {
        serde_json::from_value(self.get(DEPLOYMENT).await.ok()?).ok()
    }

    /// Waits for that; whether it came.
    pub(crate) async fn wait(&self, when: When) -> bool {
        let (limit, is_reached): (_, fn(&OrderedDeployment) -> bool) = match when {
            When::After(millis) => {
                sleep(Duration::from_millis(millis)).await;
                return true;
            }
            When::Complete(millis) => (millis, is_complete),
            When::Held(millis) => (millis, is_held),
        };
        let deadline = Instant::now() + Duration::from_millis(limit);
        loop {
            if self.deployment().await.is_some_and(|found| is_reached(&found)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(LOOK).await;
        }
    }

    /// Does that; what the server said, where it refused.
    pub(crate) async fn act(&self, act: &Act) -> Result<(), String> {
        match act {
            Act::Nothing => Ok(()),
            Act::Create(object) => {
                let request = Request::post(collection(object)).header("content-type", "application/json");
                self.call(request, Some(object)).await.map(drop)
            }
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
            Act::Resume(resumption) => self.resume(resumption).await,
        }
    }

    /// Writes a pod's status as a kubelet would: with the time of the change.
    async fn set_status(&self, pod: &Value, mut status: Value) -> Result<(), String> {
        let since = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!(since);
        }
        let path = format!("{}/status", path_of(pod));
        self.patch(&path, "strategic-merge", &json!({"status": status})).await
    }

    async fn resume(&self, resumption: &Resumption) -> Result<(), String> {
        let status = self.deployment().await.and_then(|found| found.status).unwrap_or_default();
        let id = match resumption {
            Resumption::Text(text) => Some(text.clone()),
            Resumption::Current => status.hold.map(|hold| hold.id),
            Resumption::All => status.rollout.map(|rollout| format!("*@{}", rollout.revision)),
        };
        let Some(id) = id else { return Ok(()) };
        let path = format!("{DEPLOYMENT}/status");
        self.patch(&path, "merge", &json!({"status": {"resumeRequested": id}})).await
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
        });
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        let place = match pick {
            Pick::Any(place) | Pick::Updated(place) | Pick::Old(place) => place,
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

/// Whether the status speaks of the current spec and says that it is complete.
pub(crate) fn is_complete(deployment: &OrderedDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && status.condition(condition::COMPLETE).is_some_and(|told| told.status == ConditionStatus::True)
}

fn is_held(deployment: &OrderedDeployment) -> bool {
    deployment.status.as_ref().is_some_and(|status| status.hold.is_some())
}
