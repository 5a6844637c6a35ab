//! Every request the controller makes besides its watches, each within the limits and with a timeout.
//!
//! Nothing is repeated here and nothing is decided: an answer or a [`RequestError`] goes back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, Resource};
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_planner::{Purpose, Source};
use ordereddeployment_wire::{NodeView, PodView};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::client::budgets::Budget;
use crate::client::decode::FromResponse;
use crate::client::error::RequestError;
use crate::client::http::{watching, with_user_agent};
use crate::{Fence, Limiter, Metrics};

/// How long one request may take: longer than an API server works on a write (34 s), and so longer than a webhook may take
/// (10 s by default, 30 s at most). Whoever gives up sooner gives up what would have been done a moment later.
const TIMEOUT: Duration = Duration::from_secs(35);
/// How many objects one page of a list has: a pod has annotations of 256 KiB at most, and a page lies in memory whole.
pub(crate) const PAGE: u32 = 100;

/// The API server, as this controller speaks to it.
pub(crate) struct Requests {
    /// Past the fence: a standby watches too.
    watching: Client,
    client: Client,
    rollout: Client,
    scale: Client,
    /// Whether the server turned out to know evictions by `policy/v1beta1` only (before Kubernetes 1.22).
    beta_evictions: Arc<AtomicBool>,
    /// The same of budgets (before Kubernetes 1.21).
    beta_budgets: Arc<AtomicBool>,
    limiter: Limiter,
    /// What of the limiter's one object may have under way.
    own: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    /// Until when an answer asked to wait (`Retry-After`).
    retry_after: Mutex<Option<Instant>>,
}

/// A pod to delete: name, UID and version are all preconditions.
#[derive(Clone, Debug)]
pub(crate) struct ObjectVersion<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a str,
}

impl Requests {
    /// With a fence, every request but the watches' is held back while this process does not lead.
    pub(crate) fn new(
        client: &Client,
        fence: Option<&Fence>,
        limiter: Limiter,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let watching = watching(&with_user_agent(client, None), metrics);
        let guarded = fence.map(|fence| fence.guard(client));
        let client = guarded.as_ref().unwrap_or(client);
        Self {
            watching,
            client: with_user_agent(client, None),
            rollout: with_user_agent(client, Some(Purpose::Rollout)),
            scale: with_user_agent(client, Some(Purpose::Scale)),
            beta_evictions: Arc::default(),
            beta_budgets: Arc::default(),
            own: limiter.for_object(),
            limiter,
            metrics: Arc::clone(metrics),
            retry_after: Mutex::default(),
        }
    }

    /// The same for one pass, which remembers by itself what its answers ask for: whoever answers for one object, as a webhook
    /// does, stops no other.
    pub(crate) fn for_object(&self) -> Self {
        Self {
            watching: self.watching.clone(),
            client: self.client.clone(),
            rollout: self.rollout.clone(),
            scale: self.scale.clone(),
            beta_evictions: Arc::clone(&self.beta_evictions),
            beta_budgets: Arc::clone(&self.beta_budgets),
            own: self.limiter.for_object(),
            limiter: self.limiter.clone(),
            metrics: Arc::clone(&self.metrics),
            retry_after: Mutex::default(),
        }
    }

    /// The client of the watches.
    pub(crate) fn watching(&self) -> &Client {
        &self.watching
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) async fn deployment(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<OrderedDeployment>, RequestError> {
        self.get(namespace, name).await
    }

    pub(crate) async fn set(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<OrderedReplicaSet>, RequestError> {
        self.get(namespace, name).await
    }

    pub(crate) async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodView>, RequestError> {
        self.get(namespace, name).await
    }

    async fn get<K: FromResponse>(&self, namespace: &str, name: &str) -> Result<Option<K>, RequestError> {
        let answer = self.send(self.api::<K::Wire>(namespace).get(name)).await;
        unless_gone(answer, name)?.map(K::of).transpose()
    }

    pub(crate) async fn node(&self, name: &str) -> Result<Option<NodeView>, RequestError> {
        unless_gone(self.send(Api::all(self.client.clone()).get(name)).await, name)
    }

    /// Whether that one of Kubernetes' own is still there.
    pub(crate) async fn is_there(&self, namespace: &str, source: &Source) -> Result<bool, RequestError> {
        let (name, answer) = match source {
            Source::Deployment(name) => {
                (name, self.send(self.api::<Deployment>(namespace).get(name)).await.map(drop))
            }
            Source::ReplicaSet(name) => {
                (name, self.send(self.api::<ReplicaSet>(namespace).get(name)).await.map(drop))
            }
        };
        Ok(unless_gone(answer, name)?.is_some())
    }

    /// Everything that matches, as of now: without a resourceVersion the list is read from the store itself, not from a
    /// server's cache.
    pub(crate) async fn list<K: FromResponse>(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<K>, RequestError> {
        let api: Api<K::Wire> = self.api(namespace);
        let mut params = ListParams::default().labels(selector).limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.send(api.list(&params)).await?;
            for item in page.items {
                all.push(K::of(item)?);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(all),
            }
        }
    }

    /// Creates a pod from raw JSON, so that nothing of it is lost; `dry_run` only asks whether it could be.
    pub(crate) async fn create_pod(
        &self,
        namespace: &str,
        pod: &Value,
        dry_run: bool,
    ) -> Result<PodView, RequestError> {
        self.create(namespace, pod, dry_run).await
    }

    pub(crate) async fn create_set(
        &self,
        namespace: &str,
        set: &OrderedReplicaSet,
        dry_run: bool,
    ) -> Result<OrderedReplicaSet, RequestError> {
        self.create(namespace, set, dry_run).await
    }

    async fn create<K: FromResponse>(
        &self,
        namespace: &str,
        object: &impl Serialize,
        dry_run: bool,
    ) -> Result<K, RequestError> {
        let params = PostParams { dry_run, field_manager: None };
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request = Request::new(K::Wire::url_path(&(), Some(namespace))).create(&params, body);
        K::of(self.send(self.client.request(request.map_err(kube::Error::BuildRequest)?)).await?)
    }

    pub(crate) async fn patch<K: FromResponse>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        let api = self.api::<K::Wire>(namespace);
        K::of(self.send(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await?)
    }

    pub(crate) async fn patch_status<K: FromResponse>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        let api = self.api::<K::Wire>(namespace);
        K::of(self.send(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await?)
    }

    /// Deletes a set, if it still is this one at this version.
    pub(crate) async fn delete_set(&self, object: &ObjectVersion<'_>) -> Result<(), RequestError> {
        let url = OrderedReplicaSet::url_path(&(), Some(object.namespace));
        let params =
            DeleteParams { preconditions: Some(object.preconditions()), ..DeleteParams::background() };
        let request = Request::new(url).delete(object.name, &params).map_err(kube::Error::BuildRequest)?;
        self.send(self.client.request::<Value>(request)).await.map(drop)
    }

    /// Deletes a pod, if it still is this one at this version. Whether it is gone at once.
    pub(crate) async fn delete_pod(
        &self,
        object: &ObjectVersion<'_>,
        purpose: Purpose,
    ) -> Result<bool, RequestError> {
        let url = PodView::url_path(&(), Some(object.namespace));
        let params = DeleteParams { preconditions: Some(object.preconditions()), ..DeleteParams::default() };
        let request = Request::new(url).delete(object.name, &params).map_err(kube::Error::BuildRequest)?;
        let answer: Value = self.send(self.client_for(purpose).request(request)).await?;
        Ok(answer.get("kind").is_some_and(|kind| kind == "Status"))
    }

    /// Evicts a pod, if it still is this one at this version.
    ///
    /// Built by hand: the options belong under `deleteOptions`, which is where servers read preconditions.
    pub(crate) async fn evict_pod(
        &self,
        object: &ObjectVersion<'_>,
        purpose: Purpose,
    ) -> Result<(), RequestError> {
        let is_unknown = |answer: &Result<(), RequestError>| matches!(answer, Err(RequestError::Answered(status)) if knows_no_eviction(status, object.name));
        let beta = self.beta_evictions.load(Ordering::Relaxed);
        let (usual, other) =
            if beta { ("policy/v1beta1", "policy/v1") } else { ("policy/v1", "policy/v1beta1") };
        let first = self.evict_by(usual, object, purpose).await;
        if !is_unknown(&first) {
            return first;
        }
        let second = self.evict_by(other, object, purpose).await;
        // Where neither version is known, the answer is not the API server's, or it is wrong.
        if is_unknown(&second) {
            return first;
        }
        self.beta_evictions.store(!beta, Ordering::Relaxed);
        second
    }

    async fn evict_by(
        &self,
        api_version: &str,
        object: &ObjectVersion<'_>,
        purpose: Purpose,
    ) -> Result<(), RequestError> {
        let eviction = json!({
            "apiVersion": api_version,
            "kind": "Eviction",
            "metadata": {"name": object.name, "namespace": object.namespace},
            "deleteOptions": {"preconditions": {"uid": object.uid, "resourceVersion": object.version}},
        });
        let url = PodView::url_path(&(), Some(object.namespace));
        let body = serde_json::to_vec(&eviction).map_err(kube::Error::SerdeError)?;
        let request =
            Request::new(url).create_subresource("eviction", object.name, &PostParams::default(), body);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.send(self.client_for(purpose).request::<Value>(request)).await.map(drop)
    }

    /// The disruption budgets of a namespace, and whether they are of `policy/v1beta1`.
    pub(crate) async fn budgets(&self, namespace: &str) -> Result<(Vec<Budget>, bool), RequestError> {
        if !self.beta_budgets.load(Ordering::Relaxed) {
            match self.budgets_of("policy/v1", namespace).await {
                Err(error) if error.is_not_found() => {}
                other => return Ok((other?, false)),
            }
        }
        let budgets = self.budgets_of("policy/v1beta1", namespace).await?;
        self.beta_budgets.store(true, Ordering::Relaxed);
        Ok((budgets, true))
    }

    async fn budgets_of(&self, api_version: &str, namespace: &str) -> Result<Vec<Budget>, RequestError> {
        #[derive(Debug, serde::Deserialize)]
        struct Budgets {
            items: Vec<Budget>,
        }
        let url = format!("/apis/{api_version}/namespaces/{namespace}/poddisruptionbudgets");
        let params = ListParams::default().limit(PAGE);
        let request = Request::new(url).list(&params).map_err(kube::Error::BuildRequest)?;
        Ok(self.send(self.client.request::<Budgets>(request)).await?.items)
    }

    /// What the API server makes of a PodTemplate, none of which it stores.
    pub(crate) async fn dry_run_template(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, RequestError> {
        let url = format!("/api/v1/namespaces/{namespace}/podtemplates");
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let params = PostParams { dry_run: true, field_manager: None };
        let request = Request::new(url).create(&params, body).map_err(kube::Error::BuildRequest)?;
        self.send(self.client.request(request)).await
    }

    /// Creates or changes an event.
    pub(crate) async fn create_event<K: Serialize>(
        &self,
        url: &str,
        event: &K,
    ) -> Result<Value, RequestError> {
        let body = serde_json::to_vec(event).map_err(kube::Error::SerdeError)?;
        let request = Request::new(url).create(&PostParams::default(), body);
        self.send(self.client.request(request.map_err(kube::Error::BuildRequest)?)).await
    }

    pub(crate) async fn patch_event(
        &self,
        url: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, RequestError> {
        let request = Request::new(url).patch(name, &PatchParams::default(), &Patch::Merge(patch));
        self.send(self.client.request(request.map_err(kube::Error::BuildRequest)?)).await
    }

    /// One request within the limits. What it waits for them does not count as waiting for its answer.
    async fn send<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        let asked = Instant::now();
        // Neither semaphore is ever closed.
        let _own = self.own.acquire().await.ok();
        let _under_way = self.limiter.wait().await;
        self.metrics.limiter_wait.observe(asked.elapsed().as_secs_f64());
        let answer = tokio::time::timeout(TIMEOUT, call).await;
        let answer =
            answer.map_or(Err(RequestError::TimedOut(TIMEOUT)), |answer| answer.map_err(RequestError::from));
        if let Some(wait) = answer.as_ref().err().and_then(RequestError::retry_after) {
            let mut asked = self.retry_after.lock().unwrap_or_else(PoisonError::into_inner);
            *asked = (*asked).max(Some(Instant::now() + wait));
        }
        answer
    }

    /// Until when these calls were asked to wait, by any answer.
    pub(crate) fn retry_after(&self) -> Option<Instant> {
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client_for(&self, purpose: Purpose) -> &Client {
        match purpose {
            Purpose::Rollout => &self.rollout,
            Purpose::Scale => &self.scale,
        }
    }
}

impl ObjectVersion<'_> {
    fn preconditions(&self) -> Preconditions {
        Preconditions { uid: Some(self.uid.to_owned()), resource_version: Some(self.version.to_owned()) }
    }
}

/// What was found; nothing only where the answer says that this object is not there.
fn unless_gone<T>(answer: Result<T, RequestError>, name: &str) -> Result<Option<T>, RequestError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.says_gone(name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the answer means that evictions of that version do not exist, rather than that the pod does not.
fn knows_no_eviction(status: &kube::core::Status, pod: &str) -> bool {
    match status.code {
        404 => status.details.as_ref().is_none_or(|details| details.name != pod),
        400 | 415 => status.message.contains("Eviction") && status.message.contains("policy/v1"),
        _ => false,
    }
}
