//! The watches: they update the cache and queue the deployments to reconcile. They decide nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::Api;
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use kube_runtime::reflector::store::Writer;
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::watcher::{self, watcher};
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_kubernetes::{
    Decoded, Health, Named, Namespaced, PAGE, Queue, Watched, decoded, decoded_or_known, patient, reporting,
    watch_of,
};
use ordereddeployment_wire::{Family, NamespacedUid, NodeView, PlainDeployment, PlainSet, PodView};

use crate::cache::entry::{PodEntry, SetEntry, is_adoptable, is_orphan};
use crate::cache::index::Seen;
use crate::objects::{SetObject, single_set};
use crate::reconcile::context::{Context, Writers};
use crate::runtime::handover::{Handover, IN_NAMESPACE};

/// All watches of the controller `nodecosts`.
pub(crate) const NODE_COSTS: Watched =
    Watched { controller: "nodecosts", resource: "nodecosts", optional: false };

/// The watches of the controller of this family: of deployments, sets, pods and, for node rules, nodes.
pub(crate) fn watched(family: Family) -> [Watched; 4] {
    let watched = |resource, optional| Watched { controller: family.deployments(), resource, optional };
    [
        watched(family.deployments(), false),
        watched(family.sets(), false),
        watched("pods", false),
        watched("nodes", true),
    ]
}

/// What every watch needs.
#[derive(Clone)]
pub(crate) struct Watches {
    pub(crate) ctx: Arc<Context>,
    pub(crate) namespace: Option<String>,
    pub(crate) health: Health,
    pub(crate) queue: Queue,
    pub(crate) handover: Arc<Handover>,
}

impl Watches {
    /// Runs all watches; never ends.
    pub(crate) async fn run(&self, (writer, nodes): Writers) {
        let store = writer.as_reader();
        futures::join!(self.deployments(writer), self.sets(store), self.pods(), self.nodes(nodes));
    }

    async fn deployments(&self, mut writer: Writer<OrderedDeployment>) {
        let store = writer.as_reader();
        let mut apply = |event: Option<watcher::Event<OrderedDeployment>>| {
            let Some(mut event) = event else { return };
            let mut is_reported_only = false;
            if let watcher::Event::Apply(object) | watcher::Event::InitApply(object) = &mut event
                && let Some(known) = store.get(&ObjectRef::from_obj(object))
            {
                object.spec.template.share_equal(&known.spec.template);
                is_reported_only = self.ctx.family == Family::Plain && has_same_content(&known, object);
            }
            writer.apply_watcher_event(&event);
            // The Deployment controller reports the status of a Deployment for each of its pods.
            if !is_reported_only {
                self.apply_deployment(&event, &store);
            }
        };
        let [what, ..] = watched(self.ctx.family);
        match self.ctx.family {
            Family::Ordered => self.follow(|| self.watched(), what, |event| apply(decoded(event))).await,
            Family::Plain => {
                let plain = |event| {
                    apply(decoded(event).map(|event| mapped(event, |PlainDeployment(object)| object)));
                };
                self.follow(|| self.watched(), what, plain).await;
            }
        }
    }

    fn apply_deployment(&self, event: &watcher::Event<OrderedDeployment>, store: &Store<OrderedDeployment>) {
        let key = |object: &OrderedDeployment| NamespacedUid::of(&object.metadata);
        match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => {}
            watcher::Event::Apply(object) => {
                // The reconciliation that wrote this version already knows it.
                if !self.ctx.is_own_write(object) {
                    self.enqueue([Named::of(object)]);
                }
            }
            watcher::Event::Delete(object) => {
                self.ctx.forget_one(&key(object));
                self.queue.forget(&Named::of(object));
            }
            watcher::Event::InitDone => {
                let objects = store.state();
                let keys: BTreeSet<NamespacedUid> = objects.iter().map(|object| key(object)).collect();
                {
                    let cache = self.ctx.cache();
                    let singles: BTreeSet<&NamespacedUid> = cache.singles.values().collect();
                    self.ctx.forget(|key| keys.contains(key) || singles.contains(key));
                }
                self.ctx.cache().lists += 1;
                self.enqueue(objects.iter().map(|object| Named::of(&**object)));
            }
        }
    }

    async fn sets(&self, deployments: Store<OrderedDeployment>) {
        let apply = |event: Option<watcher::Event<SetObject>>| {
            let Some(event) = event else { return };
            if let watcher::Event::Apply(set) | watcher::Event::InitApply(set) = &event
                && set.family() == Family::Ordered
                && is_orphan(&set.metadata)
            {
                self.offer(set, &deployments);
            }
            let changed = match &event {
                watcher::Event::Apply(set) | watcher::Event::Delete(set) => {
                    Some(NamespacedUid::of(&set.metadata))
                }
                _ => None,
            };
            let is_plain = self.ctx.family == Family::Plain;
            if is_plain {
                self.compare_status(&event);
            }
            let is_listed = matches!(event, watcher::Event::InitDone);
            let gone = changed.clone().filter(|_| matches!(event, watcher::Event::Delete(_)));
            let event = seen(event, SetEntry::of);
            let now = self.ctx.clock.now();
            let names = self.ctx.cache().apply_set(event, now);
            if is_plain {
                self.forget_reports(gone.as_ref(), is_listed);
            }
            if let Some(set) = changed.filter(|_| is_plain) {
                self.forget_former_single(&set);
            }
            self.enqueue(names);
        };
        let [_, what, ..] = watched(self.ctx.family);
        match self.ctx.family {
            Family::Ordered => {
                let ordered = |event: watcher::Event<Decoded<OrderedReplicaSet>>| {
                    apply(decoded_or_known(event).map(|event| mapped(event, SetObject::from)));
                };
                self.follow(|| self.watched(), what, ordered).await;
            }
            Family::Plain => {
                let plain = |event: watcher::Event<Decoded<PlainSet>>| {
                    apply(decoded_or_known(event).map(|event| mapped(event, SetObject::from)));
                };
                self.follow(|| self.watched(), what, plain).await;
            }
        }
    }

    /// Compares the status of a plain ReplicaSet with the one that the cache has, and with those that were
    /// sent. Call it before the cache gets the event.
    fn compare_status(&self, event: &watcher::Event<SetObject>) {
        let (watcher::Event::Apply(set) | watcher::Event::InitApply(set)) = event else { return };
        let key = NamespacedUid::of(&set.metadata);
        let known = self.ctx.cache().sets.get(&key).and_then(|known| known.plain_status.clone());
        if let Some((before, after)) = known.zip(set.plain_status.as_ref())
            && self.ctx.reports.shown(&key, &before, after)
            && self.handover.knows_who_reports()
        {
            self.ctx.metrics.foreign_statuses.inc();
            let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
            if self.handover.see_foreign_status(&namespace) {
                // Another controller may do anything there until everything is read live again.
                self.ctx.forget(|key| **key.namespace() != *namespace);
                let all = self.ctx.all();
                self.enqueue(all.into_iter().filter(|named| named.namespace == namespace));
                tracing::info!(namespace, set = name, %before, %after, "another client has written the \
                     status of a ReplicaSet");
                let object = ObjectReference {
                    api_version: Some(Family::Plain.api_version().to_owned()),
                    kind: Some(Family::Plain.set_kind().to_owned()),
                    namespace: Some(namespace),
                    name: Some(name),
                    uid: set.uid(),
                    ..ObjectReference::default()
                };
                self.ctx.events.warn_of_object(object, reason::STANDS_ASIDE, IN_NAMESPACE);
            }
        }
    }

    /// Forgets the reports of plain ReplicaSets that are gone. Call it after the cache got the event.
    fn forget_reports(&self, gone: Option<&NamespacedUid>, is_listed: bool) {
        if let Some(gone) = gone {
            self.ctx.reports.remove(gone);
        }
        if is_listed {
            let cache = self.ctx.cache();
            self.ctx.reports.forget(|set| cache.sets.tombstone(set).is_none());
        }
    }

    /// Drops the state of a ReplicaSet without a Deployment that is gone, or has a Deployment now.
    fn forget_former_single(&self, key: &NamespacedUid) {
        let is_single =
            self.ctx.cache().sets.get(key).is_some_and(|set| single_set(&set.deployment).is_some());
        if !is_single {
            self.ctx.forget_one(key);
        }
    }

    /// Marks the deployments whose selector matches this orphaned set, so that they adopt it.
    fn offer(&self, set: &OrderedReplicaSet, deployments: &Store<OrderedDeployment>) {
        let mut adopters = deployments.state();
        adopters.retain(|object| {
            object.namespace() == set.namespace() && object.spec.selector.matches(set.labels())
        });
        for object in &adopters {
            self.ctx.cache().let_adopt(NamespacedUid::of(&object.metadata));
        }
        self.enqueue(adopters.iter().map(|object| Named::of(&**object)));
    }

    async fn pods(&self) {
        let [_, _, what, _] = watched(self.ctx.family);
        let open = || self.watched::<PodView>();
        self.follow(open, what, |event| {
            let orphan = match &event {
                watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) if is_adoptable(pod) => {
                    Some((NamespacedUid::of(&pod.metadata), pod.labels().clone()))
                }
                _ => None,
            };
            let entry = |pod: PodView| PodEntry::of(self.ctx.family, &pod);
            let event = seen(event, entry);
            let now = self.ctx.clock.now();
            let mut names = self.ctx.cache().apply_pod(event, now);
            if let Some((key, labels)) = orphan {
                names.extend(self.ctx.cache().apply_orphan(&key, &labels));
            }
            self.enqueue(names);
        })
        .await;
    }

    async fn nodes(&self, mut writer: Writer<NodeView>) {
        let api: Api<NodeView> = Api::all(self.client());
        let [.., what] = watched(self.ctx.family);
        let open = || watcher(api.clone(), watcher::Config::default().page_size(PAGE));
        self.follow(open, what, |event| writer.apply_watcher_event(&event)).await;
    }

    fn watched<K: Namespaced + Send + 'static>(
        &self,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + use<K> {
        let api: Api<K> = scoped(&self.client(), self.namespace.as_deref());
        watcher(api, watcher::Config::default().page_size(PAGE))
    }

    async fn follow<K, S>(
        &self,
        open: impl Fn() -> S,
        what: Watched,
        mut apply: impl FnMut(watcher::Event<K>),
    ) where
        S: Stream<Item = watcher::Result<watcher::Event<K>>>,
    {
        let (resource, watch) = (what.resource, watch_of(what.resource));
        let mut stream = std::pin::pin!(patient(resource, open));
        while let Some(event) = stream.next().await {
            let event = match event {
                Ok(event) => event,
                Err(failure) => {
                    self.ctx.metrics.client.watch_failed(resource);
                    self.health.fails(&watch);
                    if is_forbidden(&failure) {
                        self.health.is_forbidden(what);
                    }
                    continue;
                }
            };
            let is_whole = matches!(event, watcher::Event::InitDone);
            // Objects of a list do not count as a success before the list is complete.
            if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                self.health.works(&watch);
            }
            apply(event);
            if is_whole {
                self.ctx.metrics.client.synced(resource, self.ctx.clock.now());
                self.health.synced(what);
            }
        }
    }

    fn enqueue(&self, deployments: impl IntoIterator<Item = Named>) {
        // A deleted deployment is also returned, when the objects that it owned are deleted; it is skipped.
        for deployment in deployments.into_iter().filter(|named| self.ctx.shown(named).is_some()) {
            self.queue.add(deployment);
        }
    }

    fn client(&self) -> Client {
        reporting(self.ctx.requests.watching(), &self.health)
    }
}

/// The objects of that namespace, or of all.
pub(crate) fn scoped<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Whether the list or the watch is not permitted.
fn is_forbidden(failure: &watcher::Error) -> bool {
    match failure {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 403,
        _ => false,
    }
}

/// The event as the cache reads it. What is deleted needs no entry.
fn seen<K: ResourceExt, E>(
    event: watcher::Event<K>,
    entry: impl FnOnce(K) -> Option<E>,
) -> watcher::Event<Seen<E>> {
    match event {
        watcher::Event::Delete(object) => watcher::Event::Delete(Seen::of(object, |_| None)),
        other => mapped(other, |object| Seen::of(object, entry)),
    }
}

/// The same event about another type.
fn mapped<K, T>(event: watcher::Event<K>, into: impl FnOnce(K) -> T) -> watcher::Event<T> {
    match event {
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(into(object)),
        watcher::Event::Apply(object) => watcher::Event::Apply(into(object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(into(object)),
    }
}

/// Whether two versions of an object differ in their status only.
fn has_same_content(one: &OrderedDeployment, other: &OrderedDeployment) -> bool {
    let content = |object: &OrderedDeployment| {
        let metadata = object.metadata.clone();
        (
            metadata.uid,
            metadata.generation,
            metadata.labels,
            metadata.annotations,
            metadata.deletion_timestamp,
        )
    };
    content(one) == content(other)
}
