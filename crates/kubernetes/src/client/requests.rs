//! All requests of the controller except its watches, each within the limits and with a timeout.
//!
//! This module neither retries nor decides: it returns an answer or a [`RequestError`].

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::api::{Api, DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{NamespaceResourceScope, Request};
use kube::{Client, Resource};
use ordereddeployment_api::LabelSelector;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::client::budgets::Budget;
use crate::client::error::RequestError;
use crate::client::http::{user_agent, watching, with_user_agent};
use crate::fair::Permit;
use crate::{ClientMetrics, Fence, Limiter};

/// The timeout of a request: longer than an API server works on a write (34 s), and so longer than a webhook
/// may take (10 s by default, 30 s at most). The API server still completes what is given up before.
const TIMEOUT: Duration = Duration::from_secs(35);
/// How many objects a page of a list has: it is held in memory, and a pod can have annotations of 256 KiB.
pub const PAGE: u32 = 100;
/// How many objects a page of a live list has. With a selector, the API server reads at least one such page
/// of the whole namespace for each page of the answer, and older ones read page by page until they find as
/// many objects that match: small pages make such a list slow. Without a selector, objects wait for the list.
const LIVE_PAGE: u32 = 500;

/// The path of the pods of a namespace.
fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// The controller's client of the API server.
pub struct Requests {
    /// Not behind the fence: a standby watches too.
    watching: Client,
    client: Client,
    /// Whether the API server knows only evictions of `policy/v1beta1` (before Kubernetes 1.22).
    beta_evictions: Arc<AtomicBool>,
    limiter: Limiter,
    /// The namespace whose turns its requests take. Empty: none.
    namespace: Arc<str>,
    /// The share of the limiter that one object may use at the same time.
    own: Arc<Semaphore>,
    metrics: Arc<ClientMetrics>,
    /// The end of the wait that an answer asked for (`Retry-After`).
    retry_after: Mutex<Option<Instant>>,
    /// The event that no request has answered yet.
    event: Mutex<Option<Instant>>,
}

/// An object to delete: name, UID and version are all preconditions.
#[derive(Clone, Copy, Debug)]
pub struct ObjectVersion<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its resourceVersion.
    pub version: &'a str,
}

/// An object in a namespace, as requests read it.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug
{
}

impl Requests {
    /// Every request except the watches' passes these fences.
    #[must_use]
    pub fn new(client: &Client, fences: &[&Fence], limiter: Limiter, metrics: &Arc<ClientMetrics>) -> Self {
        let watching = watching(&with_user_agent(client), metrics);
        let client = &fences.iter().fold(client.clone(), |client, fence| fence.guard(&client));
        Self {
            watching,
            client: with_user_agent(client),
            beta_evictions: Arc::default(),
            own: limiter.for_object(),
            limiter,
            namespace: "".into(),
            metrics: Arc::clone(metrics),
            retry_after: Mutex::default(),
            event: Mutex::default(),
        }
    }

    /// The same client for one reconciliation of an object of that namespace, with its own `Retry-After`: a
    /// webhook delays no other one. The first request ends its time since the event.
    #[must_use]
    pub fn for_object(&self, namespace: &str, event: Option<Instant>) -> Self {
        Self {
            watching: self.watching.clone(),
            client: self.client.clone(),
            beta_evictions: Arc::clone(&self.beta_evictions),
            own: self.limiter.for_object(),
            limiter: self.limiter.clone(),
            namespace: namespace.into(),
            metrics: Arc::clone(&self.metrics),
            retry_after: Mutex::default(),
            event: Mutex::new(event),
        }
    }

    /// The client of the watches.
    #[must_use]
    pub fn watching(&self) -> &Client {
        &self.watching
    }

    fn api<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The object of that name, or `None` only if the API server says that it does not exist.
    pub async fn get<K>(&self, namespace: Option<&str>, name: &str) -> Result<Option<K>, RequestError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let request = Request::new(K::url_path(&(), namespace)).get(name, &GetParams::default());
        match self.request(request.map_err(kube::Error::BuildRequest)?).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.says_gone(name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the objects that exist now, those that match if there is a selector, and passes on each of them.
    /// Returns the version of the list. A list without a resourceVersion contains every write before it: it
    /// is read from etcd, since Kubernetes 1.31 from a watch cache that has caught up (KEP-2340).
    pub async fn list<K: Namespaced>(
        &self,
        namespace: &str,
        selector: Option<&LabelSelector>,
        mut each: impl FnMut(K),
    ) -> Result<u64, RequestError> {
        let api: Api<K> = self.api(namespace);
        let mut params = match selector {
            Some(selector) => ListParams::default().labels(&selector.to_selector_string()),
            None => ListParams::default(),
        };
        params.limit = Some(LIVE_PAGE);
        let mut first_version = None;
        // The list is in flight until its last page: no page waits behind requests of other objects.
        let _in_flight = self.wait().await;
        loop {
            let page = self.answer(api.list(&params)).await?;
            let listed = page.metadata.resource_version.and_then(|version| version.parse().ok());
            let version = *first_version.get_or_insert(listed.unwrap_or(0));
            page.items.into_iter().for_each(&mut each);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(version),
            }
            self.limiter.wait_for_next(&self.namespace).await;
        }
    }

    /// Creates an object. With `dry_run` the API server only validates it.
    pub async fn create<K: Namespaced>(
        &self,
        namespace: &str,
        object: &impl Serialize,
        dry_run: bool,
    ) -> Result<K, RequestError> {
        object_in(self.create_at(&K::url_path(&(), Some(namespace)), object, dry_run).await?)
    }

    /// Creates an object of the resource with this path, and returns what the API server answers.
    pub async fn create_at<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &impl Serialize,
        dry_run: bool,
    ) -> Result<T, RequestError> {
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let params = PostParams { dry_run, field_manager: None };
        self.request(Request::new(path).create(&params, body).map_err(kube::Error::BuildRequest)?).await
    }

    /// Sends this request.
    pub async fn request<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<T, RequestError> {
        self.send(self.client.request(request)).await
    }

    /// Merges a patch into an object.
    pub async fn patch<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        let api = self.api::<K>(namespace);
        object_in(self.send(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await?)
    }

    /// Merges a patch into the status of an object.
    pub async fn patch_status<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        let api = self.api::<K>(namespace);
        object_in(self.send(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await?)
    }

    /// Deletes an object, if it still has this UID and version; its dependents in the background.
    pub async fn delete<K: Namespaced>(&self, object: &ObjectVersion<'_>) -> Result<(), RequestError> {
        let path = K::url_path(&(), Some(object.namespace));
        self.delete_at(&path, object, DeleteParams::background(), None).await.map(drop)
    }

    /// Deletes a pod, if it still has this UID and version. Returns whether it is gone at once.
    pub async fn delete_pod(
        &self,
        object: &ObjectVersion<'_>,
        purpose: &'static str,
    ) -> Result<bool, RequestError> {
        let path = pods(object.namespace);
        let answer = self.delete_at(&path, object, DeleteParams::default(), Some(purpose)).await?;
        Ok(answer.get("kind").is_some_and(|kind| kind == "Status"))
    }

    async fn delete_at(
        &self,
        path: &str,
        object: &ObjectVersion<'_>,
        params: DeleteParams,
        purpose: Option<&'static str>,
    ) -> Result<Value, RequestError> {
        let params = DeleteParams { preconditions: Some(object.preconditions()), ..params };
        let request = Request::new(path).delete(object.name, &params).map_err(kube::Error::BuildRequest)?;
        self.request(for_purpose(request, purpose)).await
    }

    /// Evicts a pod, if it still has this UID and version.
    ///
    /// Built by hand: the options belong under `deleteOptions`, where API servers read preconditions.
    pub async fn evict_pod(
        &self,
        object: &ObjectVersion<'_>,
        purpose: &'static str,
    ) -> Result<(), RequestError> {
        let is_unknown = |answer: &Result<(), RequestError>| {
            matches!(answer,
            Err(RequestError::Answered(status)) if knows_no_eviction(status, object.name))
        };
        let beta = self.beta_evictions.load(Ordering::Relaxed);
        let (usual, other) =
            if beta { ("policy/v1beta1", "policy/v1") } else { ("policy/v1", "policy/v1beta1") };
        let first = self.evict_by(usual, object, purpose).await;
        if !is_unknown(&first) {
            return first;
        }
        let second = self.evict_by(other, object, purpose).await;
        // If neither version is known, the answer does not come from the API server, or it is wrong.
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
        purpose: &'static str,
    ) -> Result<(), RequestError> {
        let eviction = json!({
            "apiVersion": api_version,
            "kind": "Eviction",
            "metadata": {"name": object.name, "namespace": object.namespace},
            "deleteOptions": {"preconditions": {"uid": object.uid, "resourceVersion": object.version}},
        });
        let body = serde_json::to_vec(&eviction).map_err(kube::Error::SerdeError)?;
        let request = Request::new(pods(object.namespace)).create_subresource(
            "eviction",
            object.name,
            &PostParams::default(),
            body,
        );
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.request::<Value>(for_purpose(request, Some(purpose))).await.map(drop)
    }

    /// The disruption budgets of a namespace, and whether they are of `policy/v1beta1`.
    pub async fn budgets(&self, namespace: &str) -> Result<(Vec<Budget>, bool), RequestError> {
        match self.budgets_of("policy/v1", namespace).await {
            // Kubernetes before 1.21.
            Err(error) if error.is_not_found() => {
                Ok((self.budgets_of("policy/v1beta1", namespace).await?, true))
            }
            other => Ok((other?, false)),
        }
    }

    async fn budgets_of(&self, api_version: &str, namespace: &str) -> Result<Vec<Budget>, RequestError> {
        #[derive(Debug, serde::Deserialize)]
        struct Budgets {
            items: Vec<Budget>,
        }
        let url = format!("/apis/{api_version}/namespaces/{namespace}/poddisruptionbudgets");
        let params = ListParams::default().limit(PAGE);
        let request = Request::new(url).list(&params).map_err(kube::Error::BuildRequest)?;
        Ok(self.request::<Budgets>(request).await?.items)
    }

    /// Sends a request within the limits. The wait for the limits does not count toward the timeout.
    async fn send<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        let _in_flight = self.wait().await;
        self.answer(call).await
    }

    /// Waits for the limits. A request counts as in flight until both permits are dropped.
    async fn wait(&self) -> (Option<SemaphorePermit<'_>>, Option<Permit>) {
        let asked = Instant::now();
        // The semaphore is never closed.
        let own = self.own.acquire().await.ok();
        let all = self.limiter.wait(&self.namespace).await;
        self.metrics.limiter_wait.observe(asked.elapsed().as_secs_f64());
        (own, all)
    }

    /// Sends a request that is within the limits.
    async fn answer<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        if let Some(event) = self.event.lock().take() {
            self.metrics.event_to_request.observe(event.elapsed().as_secs_f64());
        }
        let answer = tokio::time::timeout(TIMEOUT, call).await;
        let answer =
            answer.map_or(Err(RequestError::TimedOut(TIMEOUT)), |answer| answer.map_err(RequestError::from));
        answer.inspect_err(|error| self.heed(error))
    }

    /// Records the wait that an answer asks for.
    pub fn heed(&self, error: &RequestError) {
        if let Some(wait) = error.retry_after() {
            let mut asked = self.retry_after.lock();
            *asked = (*asked).max(Some(Instant::now() + wait));
        }
    }

    /// The latest end of a wait that an answer to these requests asked for.
    pub fn retry_after(&self) -> Option<Instant> {
        *self.retry_after.lock()
    }
}

/// The request, whose User-Agent also names its purpose.
fn for_purpose(mut request: http::Request<Vec<u8>>, purpose: Option<&'static str>) -> http::Request<Vec<u8>> {
    let agent =
        purpose.and_then(|purpose| HeaderValue::from_str(&format!("{}/{purpose}", user_agent())).ok());
    if let Some(agent) = agent {
        request.headers_mut().insert(USER_AGENT, agent);
    }
    request
}

impl ObjectVersion<'_> {
    fn preconditions(&self) -> Preconditions {
        Preconditions { uid: Some(self.uid.to_owned()), resource_version: Some(self.version.to_owned()) }
    }
}

/// Whether the API server does not know evictions of that version, rather than the pod.
fn knows_no_eviction(status: &kube::core::Status, pod: &str) -> bool {
    match status.code {
        404 => status.details.as_ref().is_none_or(|details| details.name != pod),
        400 | 415 => status.message.contains("Eviction") && status.message.contains("policy/v1"),
        _ => false,
    }
}

/// The object of an answer. Something between can answer 200 with anything.
fn object_in<K: Resource>(answer: K) -> Result<K, RequestError> {
    if answer.meta().name.is_none() {
        return Err(
            kube::Error::Service("the answer is not from an API server: it is no object".into()).into()
        );
    }
    Ok(answer)
}
