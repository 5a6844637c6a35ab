//! What all reconciliations of one controller share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kube::ResourceExt;
use kube_runtime::reflector::store::Writer;
use kube_runtime::reflector::{self, ObjectRef, Store};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_kubernetes::{
    Clock, Decoded, EventRecorder, LiveLister, LiveLists, Named, Names, live_lists,
};
use ordereddeployment_planner::{Decision, Snapshot};
use ordereddeployment_wire::{Family, NamespacedUid, NodeView, PodView};
use parking_lot::{Mutex, MutexGuard};

use crate::Metrics;
use crate::cache::index::Cache;
use crate::node_rules::NodeRules;
use crate::objects::{Objects, SetObject, as_deployment, single_set};
use crate::reconcile::reports::Reports;
use crate::reconcile::state::ObjectState;

/// How many own writes of an object are remembered: several can be on their way.
const OWN_WRITES: usize = 8;

/// The own writes of one object.
#[derive(Default)]
struct OwnWrites {
    /// The versions of the last ones, the newest at the end.
    versions: VecDeque<String>,
    /// The versions that the watch has shown since a write without a response. One can be that of the write.
    shown: Option<Vec<String>>,
}

/// A write whose response has not arrived.
pub(crate) struct OwnWrite<'c> {
    ctx: &'c Context,
    key: NamespacedUid,
}

impl OwnWrite<'_> {
    /// Ends the write with its response, if it was accepted. Returns whether the watch has shown another
    /// version meanwhile, for which no reconciliation was requested.
    pub(crate) fn end(self, stored: Option<&OrderedDeployment>) -> bool {
        let mut written = self.ctx.written.lock();
        let own = written.entry(self.key.clone()).or_default();
        if let Some(version) = stored.and_then(ResourceExt::resource_version) {
            if own.versions.len() == OWN_WRITES {
                own.versions.pop_front();
            }
            own.versions.push_back(version);
        }
        let shown = own.shown.take().unwrap_or_default();
        shown.iter().any(|version| !own.versions.contains(version))
    }
}

impl Drop for OwnWrite<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.ctx.written.lock().get_mut(&self.key) {
            own.shown = None;
        }
    }
}

/// What reads the live lists. It must run beside the reconciliations.
pub(crate) struct LiveListers {
    sets: LiveLister<Decoded<SetObject>>,
    pods: LiveLister<PodView>,
}

impl LiveListers {
    pub(crate) async fn run(self, objects: &Objects) {
        futures::join!(self.sets.run(objects), self.pods.run(objects));
    }
}

pub(crate) type Writers = (Writer<OrderedDeployment>, Writer<NodeView>);

/// Receives decisions as they are made, before any write: for audits that compare the requests to the API
/// server with what was known at that time. Every object in a [`Snapshot`] carries its resourceVersion. The
/// function must not block.
pub type DecisionLog = Option<Arc<dyn Fn(&Snapshot, &Decision) + Send + Sync>>;

/// What all reconciliations of one controller share.
pub(crate) struct Context {
    /// The kinds of the reconciled objects.
    pub(crate) family: Family,
    /// Whether the controller creates, resizes, adopts and deletes the sets, and reports the deployment. For
    /// a plain Deployment the Deployment controller does. Messages about its pods begin with the words of the
    /// ReplicaSet controller, which tools search for.
    pub(crate) owns_sets: bool,
    pub(crate) requests: Arc<Objects>,
    pub(crate) live_sets: LiveLists<Decoded<SetObject>>,
    pub(crate) live_pods: LiveLists<PodView>,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: EventRecorder,
    pub(crate) decision_log: DecisionLog,
    /// The node rules of plain Deployments.
    pub(crate) node_rules: NodeRules,
    /// The statuses of plain ReplicaSets.
    pub(crate) reports: Reports,
    /// Whether the API server stores `terminatingReplicas` of a ReplicaSet, as far as known.
    pub(crate) stores_terminating: AtomicBool,
    /// The objects as their watch shows them.
    store: Store<OrderedDeployment>,
    /// The nodes. They change only the order of the next decision: no deployment is reconciled for them.
    pub(crate) nodes: Store<NodeView>,
    cache: Mutex<Cache>,
    states: Mutex<BTreeMap<NamespacedUid, Arc<tokio::sync::Mutex<ObjectState>>>>,
    /// The own writes of each object.
    written: Mutex<BTreeMap<NamespacedUid, OwnWrites>>,
}

impl Context {
    /// The context, what reads its live lists, and what its watches write to.
    pub(crate) fn new(
        requests: Arc<Objects>,
        clock: Clock,
        names: Names,
        metrics: Arc<Metrics>,
        events: EventRecorder,
        decision_log: DecisionLog,
    ) -> (Self, LiveListers, Writers) {
        let ((live_sets, sets), (live_pods, pods)) = (live_lists(), live_lists());
        let ((store, writer), (nodes, node_writer)) = (reflector::store(), reflector::store());
        let family = requests.family;
        let ctx = Self {
            family,
            owns_sets: family == Family::Ordered,
            requests,
            live_sets,
            live_pods,
            clock,
            names,
            metrics,
            events,
            decision_log,
            node_rules: NodeRules::default(),
            reports: Reports::default(),
            stores_terminating: AtomicBool::new(true),
            store,
            nodes,
            cache: Mutex::new(Cache::of(family)),
            states: Mutex::default(),
            written: Mutex::default(),
        };
        (ctx, LiveListers { sets, pods }, (writer, node_writer))
    }

    /// The object as its watch shows it, if it exists there.
    pub(crate) fn cached(&self, name: &str, key: &NamespacedUid) -> Option<Arc<OrderedDeployment>> {
        let shown = self.shown(&Named { namespace: key.namespace().to_string(), name: name.to_owned() })?;
        (NamespacedUid::of(&shown.metadata) == *key).then_some(shown)
    }

    /// The object with that name as its watch shows it.
    pub(crate) fn shown(&self, named: &Named) -> Option<Arc<OrderedDeployment>> {
        if self.family == Family::Plain && single_set(&named.name).is_some() {
            let cache = self.cache();
            let set = cache.single(named)?;
            return Some(Arc::new(as_deployment(&set.object, &set.set.template)));
        }
        self.store.get(&ObjectRef::new(&named.name).within(&named.namespace))
    }

    /// All objects that the watches show.
    pub(crate) fn all(&self) -> BTreeSet<Named> {
        let objects = self.store.state();
        let objects = objects.iter().map(|object| Named::of(&**object));
        objects.chain(self.cache().singles.keys().cloned()).collect()
    }

    /// Locks the cache. The lock is never held across an await.
    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock()
    }

    /// The state in memory of that object. An object with the same name and another UID is another object.
    pub(crate) fn state(&self, deployment: &Arc<OrderedDeployment>) -> Arc<tokio::sync::Mutex<ObjectState>> {
        let mut states = self.states.lock();
        let state = states
            .entry(NamespacedUid::of(&deployment.metadata))
            .or_insert_with(|| Arc::new(tokio::sync::Mutex::new(ObjectState::new(Arc::clone(deployment)))));
        Arc::clone(state)
    }

    /// Drops the state of all objects except those that are wanted.
    pub(crate) fn forget(&self, keep: impl Fn(&NamespacedUid) -> bool) {
        self.states.lock().retain(|key, _| keep(key));
        self.written.lock().retain(|key, _| keep(key));
        self.metrics.forget(keep);
    }

    /// Drops the state of this object.
    pub(crate) fn forget_one(&self, gone: &NamespacedUid) {
        let had = self.states.lock().remove(gone).is_some();
        self.written.lock().remove(gone);
        if had {
            self.metrics.forget(|key| key != gone);
        }
    }

    /// Drops the state of the object with that name: another controller may change it.
    pub(crate) fn forget_named(&self, named: &Named) {
        if let Some(object) = self.shown(named) {
            self.forget_one(&NamespacedUid::of(&object.metadata));
        }
    }

    /// Begins a write of the object, which the watch will show, perhaps before the response arrives.
    pub(crate) fn begin_write(&self, deployment: &OrderedDeployment) -> OwnWrite<'_> {
        let key = NamespacedUid::of(&deployment.metadata);
        self.written.lock().entry(key.clone()).or_default().shown = Some(Vec::new());
        OwnWrite { ctx: self, key }
    }

    /// Whether this version is an own write, which the state in memory already contains. While a write is not
    /// answered, this is not known: then [`OwnWrite::end`] tells it.
    pub(crate) fn is_own_write(&self, deployment: &OrderedDeployment) -> bool {
        let (key, version) = (NamespacedUid::of(&deployment.metadata), deployment.resource_version());
        let mut written = self.written.lock();
        let Some((own, version)) = written.get_mut(&key).zip(version) else { return false };
        if own.versions.contains(&version) {
            return true;
        }
        let Some(shown) = &mut own.shown else { return false };
        shown.push(version);
        true
    }
}
