//! What all reconciliations of one controller share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use kube_runtime::reflector::{ObjectRef, Store};
use ordereddeployment_api::OrderedDeployment;

use crate::cache::index::Cache;
use crate::client::requests::Requests;
use crate::events::EventRecorder;
use crate::reconcile::state::ObjectState;
use crate::{Clock, DecisionLog, Metrics, Names};

/// What all reconciliations of one controller share.
pub(crate) struct Context {
    pub(crate) requests: Arc<Requests>,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: EventRecorder,
    pub(crate) decision_log: DecisionLog,
    /// The objects as their watch shows them.
    store: Store<OrderedDeployment>,
    cache: Mutex<Cache>,
    states: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<ObjectState>>>>,
    /// The version of each object that this controller wrote last.
    written: Mutex<BTreeMap<String, String>>,
}

impl Context {
    pub(crate) fn new(
        requests: Arc<Requests>,
        clock: Clock,
        names: Names,
        metrics: Arc<Metrics>,
        events: EventRecorder,
        decision_log: DecisionLog,
        store: Store<OrderedDeployment>,
    ) -> Self {
        Self {
            requests,
            clock,
            names,
            metrics,
            events,
            decision_log,
            store,
            cache: Mutex::default(),
            states: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// The object as its watch shows it, if it exists there.
    pub(crate) fn cached(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<OrderedDeployment>> {
        let shown = self.shown(&ObjectRef::new(name).within(namespace))?;
        (shown.metadata.uid.as_deref() == Some(uid)).then_some(shown)
    }

    /// The object with that name as its watch shows it.
    pub(crate) fn shown(&self, named: &ObjectRef<OrderedDeployment>) -> Option<Arc<OrderedDeployment>> {
        self.store.get(named)
    }

    /// Whether the watch shows an object with that name.
    pub(crate) fn is_known(&self, named: &ObjectRef<OrderedDeployment>) -> bool {
        self.shown(named).is_some()
    }

    /// Locks the cache. The lock is never held across an await.
    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state in memory of that object. An object with the same name and another UID is another object.
    pub(crate) fn state(&self, deployment: &Arc<OrderedDeployment>) -> Arc<tokio::sync::Mutex<ObjectState>> {
        let mut states = self.states();
        let state = states
            .entry(deployment.uid().unwrap_or_default())
            .or_insert_with(|| Arc::new(tokio::sync::Mutex::new(ObjectState::new(Arc::clone(deployment)))));
        Arc::clone(state)
    }

    /// Drops the state of all objects except those whose UID is wanted.
    pub(crate) fn forget(&self, keep: impl Fn(&str) -> bool) {
        self.states().retain(|uid, _| keep(uid));
        self.written().retain(|uid, _| keep(uid));
        self.metrics.forget(keep);
    }

    /// Remembers an own write, which the watch will show.
    pub(crate) fn wrote(&self, deployment: &OrderedDeployment) {
        let version = deployment.resource_version().unwrap_or_default();
        self.written().insert(deployment.uid().unwrap_or_default(), version);
    }

    /// Whether this version is an own write, which the state in memory already contains.
    pub(crate) fn is_own_write(&self, deployment: &OrderedDeployment) -> bool {
        let (uid, version) = (deployment.uid(), deployment.resource_version());
        version.is_some() && self.written().get(&uid.unwrap_or_default()) == version.as_ref()
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<String, Arc<tokio::sync::Mutex<ObjectState>>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
