//! The cache of the watches: Deployments, ReplicaSets, pods, nodes, and the rules. Synchronous; it does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use kube_runtime::watcher;
use ordereddeployment_api::names::annotation;
use ordereddeployment_sorter::{self as sorter, Context, Facts, Grant, NodeFacts, Nodes, Ranks};
use ordereddeployment_wire::{NodeView, PodView};

use crate::config::Config;
use crate::decision::{Change, Costs, decide};

/// A pod, with what its cost depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The version that was seen: a write requires it.
    pub version: String,
    /// The UID of its ReplicaSet.
    set: Option<String>,
    node: Option<Arc<str>>,
    costs: Costs,
    /// Whether the pod runs or will run: ReplicaSets do not choose among finished and terminating pods.
    active: bool,
}

impl Pod {
    fn of(view: &PodView) -> Self {
        let annotation = |key: &str| view.annotations().get(key).cloned();
        let ended = matches!(view.phase(), "Succeeded" | "Failed");
        Self {
            namespace: view.namespace().unwrap_or_default(),
            name: view.name_any(),
            version: view.resource_version().unwrap_or_default(),
            set: controller(view, "ReplicaSet"),
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
    /// The pod with this UID.
    Pod(String),
    /// All pods.
    Everything,
    /// No pods: the rules of that ConfigMap are malformed, with this message, and the previous rules stay in force.
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

/// Objects of one kind by key.
#[derive(Debug)]
struct Table<T> {
    all: BTreeMap<String, T>,
    listing: Option<BTreeMap<String, T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listing: None }
    }
}

impl<T: PartialEq> Table<T> {
    fn apply<K>(
        &mut self,
        event: watcher::Event<K>,
        key: impl Fn(&K) -> String,
        of: impl Fn(&K) -> T,
    ) -> Changed {
        match event {
            watcher::Event::Init => self.listing = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                self.listing.get_or_insert_default().insert(key(&object), of(&object));
            }
            watcher::Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                if listed != self.all {
                    self.all = listed;
                    return Changed::Everything;
                }
            }
            watcher::Event::Apply(object) => {
                let (key, new) = (key(&object), of(&object));
                if self.all.get(&key) != Some(&new) {
                    self.all.insert(key.clone(), new);
                    return Changed::Pod(key);
                }
            }
            watcher::Event::Delete(object) => {
                if self.all.remove(&key(&object)).is_some() {
                    return Changed::Pod(key(&object));
                }
            }
        }
        Changed::Nothing
    }
}

/// The cached objects of all watches.
#[derive(Debug, Default)]
pub struct Index {
    /// The rules in force; `None` before any were ever read: then nothing is written and nothing taken back.
    config: Option<Config>,
    config_listed: bool,
    malformed: bool,
    /// Namespace and labels by UID.
    deployments: Table<(String, BTreeMap<String, String>)>,
    /// The UID of its Deployment, by UID.
    sets: Table<Option<String>>,
    pods: Table<Pod>,
    nodes: Table<NodeFacts>,
    known_nodes: Nodes,
}

impl Index {
    /// Applies an event.
    pub fn apply(&mut self, event: WatchEvent) -> Changed {
        let uid = |uid: Option<String>| uid.unwrap_or_default();
        let changed = match event {
            WatchEvent::Config(event) => return self.apply_config(event),
            WatchEvent::Pod(event) => return self.pods.apply(event, |pod| uid(pod.uid()), Pod::of),
            WatchEvent::Deployment(event) => self.deployments.apply(
                event,
                |object| uid(object.uid()),
                |object| (object.namespace().unwrap_or_default(), object.labels().clone()),
            ),
            WatchEvent::Set(event) => {
                self.sets.apply(event, |set| uid(set.uid()), |set| controller(set, "Deployment"))
            }
            WatchEvent::Node(event) => {
                let changed = self.nodes.apply(event, ResourceExt::name_any, NodeView::facts);
                if changed != Changed::Nothing {
                    let known = self.nodes.all.iter();
                    self.known_nodes =
                        known.map(|(name, facts)| (name.as_str().into(), Some(facts.clone()))).collect();
                }
                changed
            }
        };
        // Each of these objects can affect any pod.
        if changed == Changed::Nothing { changed } else { Changed::Everything }
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

    /// The UIDs of all pods.
    #[must_use]
    pub fn pods(&self) -> BTreeSet<String> {
        self.pods.all.keys().cloned().collect()
    }

    /// The change to write to that pod.
    #[must_use]
    pub fn change(&self, uid: &str) -> Option<(Pod, Change)> {
        let config = self.config.as_ref()?;
        let pod = self.pods.all.get(uid).filter(|pod| pod.active)?;
        let change = decide(&pod.costs, self.wanted(config, pod))?;
        Some((pod.clone(), change))
    }

    fn wanted(&self, config: &Config, pod: &Pod) -> Option<i32> {
        let set = self.sets.all.get(pod.set.as_ref()?)?;
        let (namespace, labels) = self.deployments.all.get(set.as_ref()?)?;
        let rules = config.rules(namespace, labels)?;
        let ranks = Ranks::default();
        let ctx = Context { now: None, rules, nodes: &self.known_nodes, ranks: &ranks };
        let facts = Facts { node: pod.node.clone(), ..Facts::default() };
        match rules[sorter::matching_rule(&facts, &ctx)?].grant {
            Grant::Cost(cost) => Some(cost),
            // The configuration has no delete priorities.
            Grant::Priority(_) => None,
        }
    }
}

fn controller(object: &impl ResourceExt, kind: &str) -> Option<String> {
    let owners = object.owner_references().iter();
    let mut ours = owners.filter(|owner| {
        owner.controller == Some(true) && owner.kind == kind && owner.api_version.starts_with("apps/")
    });
    ours.next().map(|owner| owner.uid.clone())
}
