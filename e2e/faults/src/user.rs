//! The user of a run, who performs the actions and waits for their conditions. A refused action does not end
//! the run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use http::Request;
use kube::Client;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{annotation, condition, label};
use ordereddeployment_oracle::is_true;
use ordereddeployment_sandbox::{Clock, Collector, Sandbox};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::case::{Forgery, Millis, PodSelector, ResumeRequest, UserAction, WaitFor};

/// The OrderedDeployment of the scenarios.
pub(crate) const DEPLOYMENT: &str =
    "/apis/ordereddeployment.io/v1alpha1/namespaces/default/ordereddeployments/web";
/// Its sets.
pub(crate) const SETS: &str = "/apis/ordereddeployment.io/v1alpha1/namespaces/default/orderedreplicasets";
/// The namespace of another tenant.
pub(crate) const HOSTILE: &str = "hostile";
/// Its pods.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// The taint of a node whose kubelet does not report.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long a step waits for its condition, which faults may prevent.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The code with which the server refused a request.
fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// A user. The faults do not affect its client.
#[derive(Clone)]
pub(crate) struct User {
    client: Client,
    clock: Clock,
    sandbox: Arc<Sandbox>,
    /// The ids of the observed holds, each once, the latest last.
    holds: Arc<Mutex<Vec<String>>>,
}

impl User {
    pub(crate) fn new(sandbox: &Arc<Sandbox>, clock: Clock) -> Result<Self> {
        let client = sandbox.connect("user")?;
        Ok(Self { client, clock, sandbox: Arc::clone(sandbox), holds: Arc::default() })
    }

    async fn call(&self, request: http::request::Builder, body: Option<&Value>) -> Result<Value> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        Ok(self.client.request::<Value>(request.body(bytes)?).await?)
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.call(Request::get(path), None).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, change: &Value) -> Result<()> {
        let request = Request::patch(path).header("content-type", format!("application/{kind}-patch+json"));
        self.call(request, Some(change)).await.map(drop)
    }

    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<()> {
        let request = Request::delete(path).header("content-type", "application/json");
        self.call(request, Some(options)).await.map(drop)
    }

    async fn deployment(&self) -> Option<OrderedDeployment> {
        let found: OrderedDeployment = serde_json::from_value(self.get(DEPLOYMENT).await.ok()?).ok()?;
        if let Some(hold) = found.status.as_ref().and_then(|status| status.hold.as_ref()) {
            let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
            if !holds.contains(&hold.id) {
                holds.push(hold.id.clone());
            }
        }
        Some(found)
    }

    /// Waits for that. Returns whether it happened within the time limit.
    pub(crate) async fn wait(&self, wait_for: &WaitFor) -> bool {
        if let WaitFor::After(millis) = wait_for {
            sleep(Duration::from_millis(*millis)).await;
            return true;
        }
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            if self.has_happened(wait_for).await {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    pub(crate) async fn has_happened(&self, wait_for: &WaitFor) -> bool {
        match wait_for {
            WaitFor::After(_) => true,
            WaitFor::Complete => self.deployment().await.is_some_and(|found| is_complete(&found)),
            WaitFor::Held => self.deployment().await.is_some_and(|found| is_held(&found)),
            WaitFor::UpdatedPods(count) => self.deployment().await.is_some_and(|found| {
                let updated = found.status.as_ref().and_then(|status| status.updated_replicas);
                is_observed(&found) && usize::try_from(updated.unwrap_or_default()).unwrap_or(0) >= *count
            }),
            WaitFor::ConditionReason(kind, reason) => self.deployment().await.is_some_and(|found| {
                let condition = found.status.as_ref().and_then(|status| status.condition(kind));
                is_observed(&found) && condition.is_some_and(|condition| condition.reason == *reason)
            }),
            WaitFor::NotFound(path) => self.get(path).await.is_err_and(|error| code(&error) == Some(404)),
            WaitFor::FieldEquals(path, pointer, value) => {
                self.get(path).await.is_ok_and(|found| found.pointer(pointer) == Some(value))
            }
        }
    }

    /// Performs that action.
    pub(crate) async fn perform(&self, action: &UserAction) -> Result<()> {
        let pod = match action {
            UserAction::AnnotatePod(selector, ..)
            | UserAction::DeletePod(selector)
            | UserAction::ForceDeletePod(selector)
            | UserAction::SetReady(selector, _)
            | UserAction::FailPod(selector)
            | UserAction::PatchPod(selector, _)
            | UserAction::ReplacePod(selector, _) => match self.select(*selector).await {
                Some(pod) => pod,
                None => return Ok(()),
            },
            _ => Value::Null,
        };
        let of_pod = path_of(&pod);
        match action {
            UserAction::NoAction => Ok(()),
            UserAction::Forge(forgery) => self.forge(*forgery).await,
            UserAction::ForgeStatus(fields) => self.patch_status(fields).await,
            UserAction::Create(object) => self.create(object).await,
            UserAction::PatchSpec(change) => self.patch(DEPLOYMENT, "merge", &json!({"spec": change})).await,
            UserAction::Patch(path, change) => self.patch(path, "merge", change).await,
            UserAction::Delete(path, options) => self.delete(path, options).await,
            UserAction::AnnotatePod(_, key, value) => {
                let annotations = json!({"metadata": {"annotations": {key.as_str(): value}}});
                self.patch(&of_pod, "merge", &annotations).await
            }
            UserAction::DeletePod(_) => self.delete(&of_pod, &json!({})).await,
            UserAction::ForceDeletePod(_) => self.delete(&of_pod, &json!({"gracePeriodSeconds": 0})).await,
            UserAction::SetReady(_, ready) => {
                let status = if *ready { "True" } else { "False" };
                self.set_status(&of_pod, json!({"conditions": [{"type": "Ready", "status": status}]})).await
            }
            UserAction::FailPod(_) => {
                let conditions = json!([{"type": "Ready", "status": "False"}]);
                self.set_status(&of_pod, json!({"phase": "Failed", "conditions": conditions})).await
            }
            UserAction::PatchPod(_, change) => self.patch(&of_pod, "merge", change).await,
            UserAction::ReplacePod(_, owned) => self.replace(&pod, *owned).await,
            UserAction::RemoveFinalizers => self.remove_finalizers().await,
            UserAction::DeleteNode(name) => {
                self.delete(&format!("/api/v1/nodes/{name}"), &json!({})).await?;
                for pod in self.pods_on(name).await? {
                    self.delete(&path_of(&pod), &json!({"gracePeriodSeconds": 0})).await?;
                }
                Ok(())
            }
            UserAction::StopNode(name) => self.set_node(name, true).await,
            UserAction::StartNode(name) => self.set_node(name, false).await,
            UserAction::Resume(request) => self.resume(request).await,
            UserAction::Abort => self.request("abortRequested").await,
            UserAction::Retry => self.request("retryRequested").await,
            UserAction::SetGarbageCollector { pace, lag, frozen } => {
                self.set_garbage_collector(*pace, *lag, *frozen);
                Ok(())
            }
        }
    }

    /// Takes a node out of service or brings it back: with the writes of Kubernetes' node controller, but at
    /// once instead of after 40 seconds. Pods are deleted by taint-based eviction.
    async fn set_node(&self, name: &str, is_lost: bool) -> Result<()> {
        self.sandbox.silence(name, is_lost);
        let path = format!("/api/v1/nodes/{name}");
        let (status, reason) =
            if is_lost { ("Unknown", "NodeStatusUnknown") } else { ("True", "KubeletReady") };
        let ready = json!({"type": "Ready", "status": status, "reason": reason, "message": ""});
        self.set_status(&path, json!({"conditions": [ready]})).await?;
        let node = self.get(&path).await?;
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let mut taints: Vec<Value> = taints.filter(|taint| taint["key"] != UNREACHABLE).cloned().collect();
        if is_lost {
            taints.extend(
                ["NoSchedule", "NoExecute"].map(|effect| json!({"key": UNREACHABLE, "effect": effect})),
            );
        }
        self.patch(&path, "merge", &json!({"spec": {"taints": taints}})).await?;
        // The reason tells pods that were ready before from those that were not.
        let (field, from, to, reason) = if is_lost {
            ("status", "True", "False", json!(UNREACHABLE))
        } else {
            ("reason", UNREACHABLE, "True", Value::Null)
        };
        for pod in self.pods_on(name).await? {
            let conditions = pod["status"]["conditions"].as_array();
            let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
            let is_terminating = !pod["metadata"]["deletionTimestamp"].is_null();
            if ready.is_some_and(|ready| ready[field] == from) && (is_lost || !is_terminating) {
                let ready = json!({"type": "Ready", "status": to, "reason": reason});
                match self.set_status(&path_of(&pod), json!({"conditions": [ready]})).await {
                    // The pod was deleted meanwhile.
                    Err(error) if matches!(code(&error), Some(404 | 409 | 422)) => {}
                    written => written?,
                }
            }
        }
        Ok(())
    }

    /// Updates the status of a pod or a node as a kubelet does, with the time of the transition.
    async fn set_status(&self, path: &str, mut status: Value) -> Result<()> {
        let since = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!(since);
        }
        self.patch(&format!("{path}/status"), "strategic-merge", &json!({"status": status})).await
    }

    fn set_garbage_collector(&self, pace: Millis, lag: Millis, frozen: Millis) {
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

    async fn resume(&self, request: &ResumeRequest) -> Result<()> {
        let status = self.deployment().await.and_then(|found| found.status).unwrap_or_default();
        let revision = status.rollout.map(|rollout| rollout.revision);
        let current = status.hold.map(|hold| hold.id);
        let id = match request {
            ResumeRequest::Raw(text) => Some(text.clone()),
            ResumeRequest::Current => current,
            ResumeRequest::All => revision.map(|revision| format!("*@{revision}")),
            ResumeRequest::Previous => {
                let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
                holds.iter().rev().find(|id| Some(*id) != current.as_ref()).cloned()
            }
            ResumeRequest::AtPod(selector) => {
                self.select(*selector).await.zip(revision).map(|(pod, revision)| {
                    format!("{}@{revision}", pod["metadata"]["name"].as_str().unwrap_or_default())
                })
            }
        };
        let Some(id) = id else { return Ok(()) };
        self.patch_status(&json!({"resumeRequested": id})).await
    }

    async fn patch_status(&self, fields: &Value) -> Result<()> {
        self.patch(&format!("{DEPLOYMENT}/status"), "merge", &json!({"status": fields})).await
    }

    /// Writes the current revision to that field of the status.
    async fn request(&self, field: &str) -> Result<()> {
        let status = self.deployment().await.and_then(|found| found.status).unwrap_or_default();
        let Some(rollout) = status.rollout else { return Ok(()) };
        self.patch_status(&json!({field: rollout.revision})).await
    }

    async fn remove_finalizers(&self) -> Result<()> {
        let list = self.get(PODS).await?;
        for pod in list["items"].as_array().into_iter().flatten() {
            if pod["metadata"]["finalizers"].is_array() {
                self.patch(&path_of(pod), "merge", &json!({"metadata": {"finalizers": null}})).await?;
            }
        }
        Ok(())
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<Value>> {
        let mut list = self.get(PODS).await?;
        let pods = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(pods.into_iter().filter(|pod| pod["spec"]["nodeName"] == json!(node)).collect())
    }

    async fn replace(&self, pod: &Value, owned: bool) -> Result<()> {
        let metadata = &pod["metadata"];
        let mut new_pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": metadata["name"], "labels": metadata["labels"]},
            "spec": {"containers": pod["spec"]["containers"]},
        });
        if owned {
            new_pod["metadata"]["ownerReferences"] = metadata["ownerReferences"].clone();
        }
        self.delete(&path_of(pod), &json!({"gracePeriodSeconds": 0})).await?;
        self.create(&new_pod).await
    }

    async fn create(&self, object: &Value) -> Result<()> {
        self.call(post(&collection(object)), Some(object)).await.map(drop)
    }

    /// Creates an object in [`HOSTILE`] that claims to belong to the OrderedDeployment or to one of its sets.
    async fn forge(&self, forgery: Forgery) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOSTILE}});
        // It exists after the first time.
        let _ = self.create(&namespace).await;
        let deployment = self.get(DEPLOYMENT).await?;
        let mut sets = self.get(SETS).await?["items"].as_array().cloned().unwrap_or_default();
        sets.sort_by_key(|set| set["metadata"]["name"].to_string());
        let set = |place: usize| place.checked_rem(sets.len()).map(|place| &sets[place]);
        let pod = |owner: Option<&Value>, priority: i32| {
            let labels = owner.or(set(0)).map(|set| set["spec"]["template"]["metadata"]["labels"].clone());
            let metadata = json!({
                "generateName": "forged-", "namespace": HOSTILE, "labels": labels,
                "annotations": {annotation::DELETE_PRIORITY: priority.to_string(),
                annotation::PAUSE_POINT: "before"},
                "ownerReferences": owner.map(owned_by).into_iter().collect::<Vec<_>>(),
            });
            let spec = json!({"containers": [{"name": "main", "image": "forged:1"}]});
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        };
        match forgery {
            Forgery::Orphan => self.create(&pod(None, 0)).await,
            Forgery::Pod(place, priority) => match set(place) {
                Some(set) => self.create(&pod(Some(set), priority)).await,
                None => Ok(()),
            },
            Forgery::Set(place) | Forgery::TerminatingSet(place) => {
                let Some(like) = set(place) else { return Ok(()) };
                let is_terminating = matches!(forgery, Forgery::TerminatingSet(_));
                let metadata = &like["metadata"];
                let forged = json!({
                    "apiVersion": like["apiVersion"], "kind": like["kind"],
                    "metadata": {
                        "name": metadata["name"], "namespace": HOSTILE,
                        "labels": metadata["labels"], "annotations": metadata["annotations"],
                        "finalizers": if is_terminating { json!(["example.com/stay"]) } else { json!([]) },
                        "ownerReferences": [owned_by(&deployment)],
                    },
                    "spec": like["spec"],
                });
                let path = collection(&forged);
                let forged = match self.call(post(&path), Some(&forged)).await {
                    // It was forged before, and may still be there.
                    Err(error) if code(&error) == Some(409) => return Ok(()),
                    answer => answer?,
                };
                self.create(&pod(Some(&forged), 0)).await?;
                if is_terminating {
                    let path = format!("{path}/{}", forged["metadata"]["name"].as_str().unwrap_or_default());
                    self.delete(&path, &json!({})).await?;
                }
                Ok(())
            }
        }
    }

    async fn select(&self, selector: PodSelector) -> Option<Value> {
        let status = self.deployment().await.and_then(|found| found.status).unwrap_or_default();
        let hash = status.rollout.map(|rollout| rollout.template_hash).unwrap_or_default();
        let held = status.hold.map(|hold| hold.pod).unwrap_or_default();
        let list = self.get(PODS).await.ok()?;
        let mut pods: Vec<Value> = list["items"].as_array()?.clone();
        let is_updated = |pod: &Value| pod["metadata"]["labels"][label::POD_TEMPLATE_HASH] == json!(hash);
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.retain(|pod| match selector {
            PodSelector::Any(_) => true,
            PodSelector::Updated(_) => is_updated(pod),
            PodSelector::Old(_) => !is_updated(pod),
            PodSelector::Held => pod["metadata"]["name"] == json!(held),
            PodSelector::Orphan(_) => pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty),
        });
        pods.sort_by_key(|pod| pod["metadata"]["name"].to_string());
        let place = match selector {
            PodSelector::Any(place)
            | PodSelector::Updated(place)
            | PodSelector::Old(place)
            | PodSelector::Orphan(place) => place,
            PodSelector::Held => 0,
        };
        let place = place.checked_rem(pods.len())?;
        Some(pods.swap_remove(place))
    }
}

fn post(path: &str) -> http::request::Builder {
    Request::post(path).header("content-type", "application/json")
}

/// A reference to this object as the controller.
fn owned_by(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
           "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true})
}

fn path_of(pod: &Value) -> String {
    format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default())
}

/// The path where objects of that kind are created.
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

/// Whether the status is of the current generation.
fn is_observed(deployment: &OrderedDeployment) -> bool {
    deployment.status.as_ref().and_then(|status| status.observed_generation) == deployment.metadata.generation
}

/// Whether the object is complete, as of the current generation.
pub(crate) fn is_complete(deployment: &OrderedDeployment) -> bool {
    is_observed(deployment)
        && deployment.status.as_ref().is_some_and(|status| is_true(status, condition::COMPLETE))
}

/// Whether the rollout is held, and no resume is requested.
fn is_held(deployment: &OrderedDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    is_observed(deployment) && status.hold.is_some() && status.resume_requested.is_none()
}
