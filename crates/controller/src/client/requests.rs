//! All requests of the controller except its watches, each within the limits and with a timeout.
//!
//! This module neither retries nor decides: it returns an answer or a [`RequestError`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, Resource};
use ordereddeployment_api::{LabelSelector, OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_planner::{Purpose, Source};
use ordereddeployment_wire::{Family, NodeView, PlainDeployment, PlainSet, PodView, strict_create};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::cache::entry::single_set;
use crate::client::budgets::Budget;
use crate::client::decode::{Decoded, FromResponse};
use crate::client::error::RequestError;
use crate::client::fields::lost_fields;
use crate::client::http::{watching, with_user_agent};
use crate::client::sets::{SetObject, as_deployment};
use crate::fair::Permit;
use crate::{Fence, Limiter, Metrics};

/// The timeout of a request: longer than an API server works on a write (34 s), and so longer than a webhook may take (10 s
/// by default, 30 s at most). A shorter timeout gives up writes that the API server still completes.
const TIMEOUT: Duration = Duration::from_secs(35);
/// How many objects a page of a list has: a pod has annotations of at most 256 KiB, and a whole page is held in memory.
pub(crate) const PAGE: u32 = 100;
/// How many objects a page of a live list has. With a selector, the API server reads at least one such page of the whole namespace for
/// each page of the answer, and older ones read page by page until they find as many objects that match: small pages make such a list
/// slow. Without a selector, objects wait for the list.
const LIVE_PAGE: u32 = 500;

/// The controller's client of the API server.
pub(crate) struct Requests {
    /// The kinds that its requests name.
    family: Family,
    /// Not behind the fence: a standby watches too.
    watching: Client,
    client: Client,
    rollout: Client,
    scale: Client,
    /// Whether the API server knows only evictions of `policy/v1beta1` (before Kubernetes 1.22).
    beta_evictions: Arc<AtomicBool>,
    limiter: Limiter,
    /// The namespace whose turns its requests take. Empty: none.
    namespace: Arc<str>,
    /// The share of the limiter that one object may use at the same time.
    own: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    /// The end of the wait that an answer asked for (`Retry-After`).
    retry_after: Mutex<Option<Instant>>,
    /// The event that no request has answered yet.
    event: Mutex<Option<Instant>>,
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
    /// Every request except the watches' passes these fences.
    pub(crate) fn new(
        family: Family,
        client: &Client,
        fences: &[&Fence],
        limiter: Limiter,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let watching = watching(&with_user_agent(client, None), metrics);
        let client = &fences.iter().fold(client.clone(), |client, fence| fence.guard(&client));
        Self {
            family,
            watching,
            client: with_user_agent(client, None),
            rollout: with_user_agent(client, Some(Purpose::Rollout)),
            scale: with_user_agent(client, Some(Purpose::Scale)),
            beta_evictions: Arc::default(),
            own: limiter.for_object(),
            limiter,
            namespace: "".into(),
            metrics: Arc::clone(metrics),
            retry_after: Mutex::default(),
            event: Mutex::default(),
        }
    }

    /// The same client for one reconciliation of an object of that namespace, which keeps its own `Retry-After`: a
    /// webhook that delays one object delays no other. The time from the event to the first request is measured.
    pub(crate) fn for_object(&self, namespace: &str, event: Option<Instant>) -> Self {
        Self {
            family: self.family,
            watching: self.watching.clone(),
            client: self.client.clone(),
            rollout: self.rollout.clone(),
            scale: self.scale.clone(),
            beta_evictions: Arc::clone(&self.beta_evictions),
            own: self.limiter.for_object(),
            limiter: self.limiter.clone(),
            namespace: namespace.into(),
            metrics: Arc::clone(&self.metrics),
            retry_after: Mutex::default(),
            event: Mutex::new(event),
        }
    }

    /// The kinds that its requests name.
    pub(crate) fn family(&self) -> Family {
        self.family
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

    /// The object that is reconciled under this name.
    pub(crate) async fn deployment(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<OrderedDeployment>, RequestError> {
        match (self.family, single_set(name)) {
            (Family::Ordered, _) => self.get(namespace, name).await,
            (Family::Plain, None) => {
                Ok(self.get::<PlainDeployment>(namespace, name).await?.map(|found| found.0))
            }
            (Family::Plain, Some(name)) => {
                let found = self.get::<PlainSet>(namespace, name).await?;
                Ok(found.map(|found| as_deployment(&found.object, &found.object.spec.template)))
            }
        }
    }

    pub(crate) async fn set(&self, namespace: &str, name: &str) -> Result<Option<SetObject>, RequestError> {
        Ok(match self.family {
            Family::Ordered => self.get::<OrderedReplicaSet>(namespace, name).await?.map(SetObject::from),
            Family::Plain => self.get::<PlainSet>(namespace, name).await?.map(SetObject::from),
        })
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

    /// Whether this migration source still exists.
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

    /// Reads the objects that exist now, those that match if there is a selector, and passes on each of them. Returns the version of
    /// the list. A list without a resourceVersion contains every write that was committed before it: it is read from etcd, since
    /// Kubernetes 1.31 from a watch cache that has caught up with etcd (KEP-2340).
    pub(crate) async fn list<K: FromResponse>(
        &self,
        namespace: &str,
        selector: Option<&LabelSelector>,
        mut each: impl FnMut(K),
    ) -> Result<u64, RequestError> {
        let api: Api<K::Wire> = self.api(namespace);
        let mut params = match selector {
            Some(selector) => ListParams::default().labels(&selector.to_selector_string()),
            None => ListParams::default(),
        };
        params.limit = Some(LIVE_PAGE);
        let mut first_version = None;
        // The list is in flight until its last page: under load each page would wait behind hundreds of requests of other objects.
        let _in_flight = self.wait().await;
        loop {
            let page = self.answer(api.list(&params)).await?;
            let listed = page.metadata.resource_version.and_then(|version| version.parse().ok());
            let version = *first_version.get_or_insert(listed.unwrap_or(0));
            for item in page.items {
                each(K::of(item)?);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(version),
            }
            self.limiter.wait_for_next(&self.namespace).await;
        }
    }

    /// The sets of this namespace, as [`Self::list`].
    pub(crate) async fn list_sets(
        &self,
        namespace: &str,
        selector: Option<&LabelSelector>,
        mut each: impl FnMut(Decoded<SetObject>),
    ) -> Result<u64, RequestError> {
        match self.family {
            Family::Ordered => {
                let each = |set: Decoded<OrderedReplicaSet>| each(set.map(SetObject::from));
                self.list(namespace, selector, each).await
            }
            Family::Plain => {
                let each = |set: Decoded<PlainSet>| each(set.map(SetObject::from));
                self.list(namespace, selector, each).await
            }
        }
    }

    /// Creates a pod from raw JSON, so that no field is lost. With `dry_run` the API server only validates it.
    pub(crate) async fn create_pod(
        &self,
        namespace: &str,
        pod: &Value,
        dry_run: bool,
    ) -> Result<PodView, RequestError> {
        self.create(namespace, pod, dry_run).await
    }

    /// The same for the first pod of a template: fields that the API server does not know are an error. Also returns the fields that
    /// the pod has lost on its way. API servers before 1.25 drop unknown fields without an error.
    pub(crate) async fn create_first_pod(
        &self,
        namespace: &str,
        pod: &Value,
        dry_run: bool,
    ) -> Result<(PodView, Vec<String>), RequestError> {
        let url = PodView::url_path(&(), Some(namespace));
        let request = strict_create(&url, pod, dry_run).map_err(kube::Error::HttpError)?;
        let stored: Value = self.send(self.client.request(request)).await?;
        let lost = lost_fields(&pod["spec"], &stored["spec"], "spec");
        Ok((serde_json::from_value(stored).map_err(kube::Error::SerdeError)?, lost))
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
        of(self.send(self.client.request(request.map_err(kube::Error::BuildRequest)?)).await?)
    }

    pub(crate) async fn patch<K: FromResponse>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        let api = self.api::<K::Wire>(namespace);
        of(self.send(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await?)
    }

    pub(crate) async fn patch_status<K: FromResponse>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        let api = self.api::<K::Wire>(namespace);
        of(self.send(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await?)
    }

    /// Patches the status of a set of this family.
    pub(crate) async fn patch_set_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<SetObject, RequestError> {
        Ok(match self.family {
            Family::Ordered => self.patch_status::<OrderedReplicaSet>(namespace, name, patch).await?.into(),
            Family::Plain => self.patch_status::<PlainSet>(namespace, name, patch).await?.into(),
        })
    }

    /// Deletes a set, if it still has this UID and version.
    pub(crate) async fn delete_set(&self, object: &ObjectVersion<'_>) -> Result<(), RequestError> {
        let url = OrderedReplicaSet::url_path(&(), Some(object.namespace));
        let params =
            DeleteParams { preconditions: Some(object.preconditions()), ..DeleteParams::background() };
        let request = Request::new(url).delete(object.name, &params).map_err(kube::Error::BuildRequest)?;
        self.send(self.client.request::<Value>(request)).await.map(drop)
    }

    /// Deletes a pod, if it still has this UID and version. Returns whether it is gone at once.
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

    /// Evicts a pod, if it still has this UID and version.
    ///
    /// Built by hand: the options belong under `deleteOptions`, where API servers read preconditions.
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
        Ok(self.send(self.client.request::<Budgets>(request)).await?.items)
    }

    /// The PodTemplate as the API server returns it from a dry run; it stores none.
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
        if let Some(event) = self.event.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.metrics.event_to_request.observe(event.elapsed().as_secs_f64());
        }
        let answer = tokio::time::timeout(TIMEOUT, call).await;
        let answer =
            answer.map_or(Err(RequestError::TimedOut(TIMEOUT)), |answer| answer.map_err(RequestError::from));
        answer.inspect_err(|error| self.heed(error))
    }

    /// Records the wait that an answer asks for.
    pub(crate) fn heed(&self, error: &RequestError) {
        if let Some(wait) = error.retry_after() {
            let mut asked = self.retry_after.lock().unwrap_or_else(PoisonError::into_inner);
            *asked = (*asked).max(Some(Instant::now() + wait));
        }
    }

    /// The latest end of a wait that an answer to these requests asked for.
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

/// The answer, or `None` only if the API server says that this object does not exist.
fn unless_gone<T>(answer: Result<T, RequestError>, name: &str) -> Result<Option<T>, RequestError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.says_gone(name) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the answer means that the API server does not know evictions of that version, rather than that the pod does not exist.
fn knows_no_eviction(status: &kube::core::Status, pod: &str) -> bool {
    match status.code {
        404 => status.details.as_ref().is_none_or(|details| details.name != pod),
        400 | 415 => status.message.contains("Eviction") && status.message.contains("policy/v1"),
        _ => false,
    }
}

/// The object of an answer. Something between can answer 200 with anything: then it is not known what happened.
fn of<K: FromResponse>(answer: K::Wire) -> Result<K, RequestError> {
    if answer.meta().name.is_none() {
        return Err(
            kube::Error::Service("the answer is not from an API server: it is no object".into()).into()
        );
    }
    K::of(answer)
}
