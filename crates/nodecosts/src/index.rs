//! The cache of the watches: Deployments, ReplicaSets, pods, nodes, and the rules. Synchronous; it does no
//! I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use kube_runtime::watcher;
use ordereddeployment_api::names::annotation;
use ordereddeployment_sorter::{self as sorter, NodeFacts, Nodes};
use ordereddeployment_wire::{Family, NamespacedUid, NodeView, PodView, in_namespace};

use crate::config::Config;
use crate::decision::{Change, Costs, decide};

/// A pod, with what its cost depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The version that was seen: a write requires it.
    pub version: String,
    set: Option<NamespacedUid>,
    node: Option<Arc<str>>,
    costs: Costs,
    /// Whether the pod runs or will run: ReplicaSets do not choose among finished and terminating pods.
    active: bool,
}

impl Pod {
    fn of(view: &PodView) -> Self {
        let annotation = |key: &str| view.annotations().get(key).cloned();
        let ended = view.has_ended();
        Self {
            name: view.name_any(),
            version: view.resource_version().unwrap_or_default(),
            set: Family::Plain.set_key(&view.metadata),
            node: view.node().map(Arc::from),
            costs: Costs {
                cost: annotation(annotation::POD_DELETION_COST),
                written: annotation(annotation::NODE_COST),
            },
            active: !ended && view.metadata.deletion_timestamp.is_none(),
        }
    }
}

/// The pods to check after an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// None.
    Nothing,
    /// This pod.
    Pod(NamespacedUid),
    /// All pods of this namespace.
    Namespace(Arc<str>),
    /// All pods.
    Everything,
    /// No pods: the rules of that ConfigMap are malformed, with this message, and the previous rules stay in
    /// force.
    Malformed(Box<ObjectReference>, String),
}

/// An event of a watch.
#[derive(Debug)]
pub enum WatchEvent {
    /// Of the ConfigMap with the rules.
    Config(watcher::Event<ConfigMap>),
    /// Of a Deployment.
    Deployment(watcher::Event<PartialObjectMeta<Deployment>>),
    /// Of a ReplicaSet.
    Set(watcher::Event<PartialObjectMeta<ReplicaSet>>),
    /// Of a pod.
    Pod(watcher::Event<PodView>),
    /// Of a node.
    Node(watcher::Event<NodeView>),
}

impl WatchEvent {
    /// The bit of the watch whose first list this event completes; 0 for other events.
    #[must_use]
    pub fn synced(&self) -> u8 {
        let (bit, done) = match self {
            Self::Config(event) => (0, matches!(event, watcher::Event::InitDone)),
            Self::Deployment(event) => (1, matches!(event, watcher::Event::InitDone)),
            Self::Set(event) => (2, matches!(event, watcher::Event::InitDone)),
            Self::Pod(event) => (3, matches!(event, watcher::Event::InitDone)),
            Self::Node(event) => (4, matches!(event, watcher::Event::InitDone)),
        };
        u8::from(done) << bit
    }
}

/// All bits of [`WatchEvent::synced`].
pub const ALL_SYNCED: u8 = 0b1_1111;

/// The objects of a table that an event changes.
enum Affected<K> {
    One(K),
    All,
}

/// Objects of one kind by key.
#[derive(Debug)]
struct Table<K, T> {
    all: BTreeMap<K, T>,
    listing: Option<BTreeMap<K, T>>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listing: None }
    }
}

impl<K: Ord + Clone, T: PartialEq> Table<K, T> {
    /// Applies an event. Returns the object that changed.
    fn apply<O>(
        &mut self,
        event: watcher::Event<O>,
        key: impl Fn(&O) -> K,
        of: impl Fn(&O) -> T,
    ) -> Option<Affected<K>> {
        match event {
            watcher::Event::Init => self.listing = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                self.listing.get_or_insert_default().insert(key(&object), of(&object));
            }
            watcher::Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                if listed != self.all {
                    self.all = listed;
                    return Some(Affected::All);
                }
            }
            watcher::Event::Apply(object) => {
                let (key, new) = (key(&object), of(&object));
                if self.all.get(&key) != Some(&new) {
                    self.all.insert(key.clone(), new);
                    return Some(Affected::One(key));
                }
            }
            watcher::Event::Delete(object) => {
                let key = key(&object);
                return self.all.remove(&key).map(|_| Affected::One(key));
            }
        }
        None
    }
}

/// The cached objects of all watches.
#[derive(Debug, Default)]
pub struct Index {
    /// The rules in force; `None` before any were ever read: then nothing is written and nothing taken back.
    config: Option<Config>,
    config_listed: bool,
    malformed: bool,
    /// Their labels.
    deployments: Table<NamespacedUid, BTreeMap<String, String>>,
    /// Their Deployments.
    sets: Table<NamespacedUid, Option<NamespacedUid>>,
    pods: Table<NamespacedUid, Pod>,
    nodes: Table<String, NodeFacts>,
    known_nodes: Nodes,
}

impl Index {
    /// Applies an event.
    pub fn apply(&mut self, event: WatchEvent) -> Changed {
        let all_or_namespace = |affected: Option<Affected<NamespacedUid>>| match affected {
            None => Changed::Nothing,
            Some(Affected::One(object)) => Changed::Namespace(Arc::clone(object.namespace())),
            Some(Affected::All) => Changed::Everything,
        };
        match event {
            WatchEvent::Config(event) => self.apply_config(event),
            WatchEvent::Pod(event) => match self.pods.apply(event, key, Pod::of) {
                None => Changed::Nothing,
                Some(Affected::One(pod)) => Changed::Pod(pod),
                Some(Affected::All) => Changed::Everything,
            },
            WatchEvent::Deployment(event) => {
                all_or_namespace(self.deployments.apply(event, key, |object| object.labels().clone()))
            }
            WatchEvent::Set(event) => {
                let deployment =
                    |set: &PartialObjectMeta<ReplicaSet>| Family::Plain.deployment_key(&set.metadata);
                all_or_namespace(self.sets.apply(event, key, deployment))
            }
            WatchEvent::Node(event) => {
                if self.nodes.apply(event, ResourceExt::name_any, NodeView::facts).is_none() {
                    return Changed::Nothing;
                }
                let known = self.nodes.all.iter();
                self.known_nodes =
                    known.map(|(name, facts)| (name.as_str().into(), Some(facts.clone()))).collect();
                // A node can have pods of any namespace.
                Changed::Everything
            }
        }
    }

    fn apply_config(&mut self, event: watcher::Event<ConfigMap>) -> Changed {
        match event {
            watcher::Event::Init => self.config_listed = false,
            watcher::Event::InitApply(map) | watcher::Event::Apply(map) => {
                self.config_listed = true;
                let config = Config::parse(map.data.as_ref().unwrap_or(&BTreeMap::new()));
                self.malformed = config.is_err();
                return match config {
                    Ok(config) => {
                        self.config = Some(config);
                        Changed::Everything
                    }
                    Err(error) => Changed::Malformed(Box::new(map.object_ref(&())), error),
                };
            }
            watcher::Event::InitDone if self.config_listed => {}
            // The ConfigMap does not exist: there are no rules.
            watcher::Event::InitDone | watcher::Event::Delete(_) => {
                self.config = Some(Config::default());
                self.malformed = false;
                return Changed::Everything;
            }
        }
        Changed::Nothing
    }

    /// Whether the rules in the ConfigMap are malformed, so that the previous ones are in force.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.malformed
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &NamespacedUid> {
        self.pods.all.keys()
    }

    /// The pods of this namespace.
    pub fn pods_in<'i>(&'i self, namespace: &'i Arc<str>) -> impl Iterator<Item = &'i NamespacedUid> {
        in_namespace(&self.pods.all, namespace).map(|(pod, _)| pod)
    }

    /// The change to write to that pod.
    #[must_use]
    pub fn change(&self, pod: &NamespacedUid) -> Option<(Pod, Change)> {
        let config = self.config.as_ref()?;
        let pod = self.pods.all.get(pod).filter(|pod| pod.active)?;
        let change = decide(&pod.costs, self.wanted(config, pod))?;
        Some((pod.clone(), change))
    }

    fn wanted(&self, config: &Config, pod: &Pod) -> Option<i32> {
        let set = self.sets.all.get(pod.set.as_ref()?)?;
        let deployment = set.as_ref()?;
        let labels = self.deployments.all.get(deployment)?;
        let rules = config.rules(deployment.namespace(), labels)?;
        // The configuration has no delete priorities.
        sorter::matching_rule(pod.node.as_ref(), rules, &self.known_nodes)?.deletion_cost
    }
}

fn key(object: &impl ResourceExt) -> NamespacedUid {
    NamespacedUid::of(object.meta())
}
