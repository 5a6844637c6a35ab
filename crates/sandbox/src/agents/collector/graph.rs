//! The graph of owners and dependents. It is built from watches only, so it may lag behind the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube_runtime::watcher::Event;

use super::monitors::{Kind, Resource, Resources};
use super::queue::{Task, Uid};

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// The size of the cache of absent owners.
const MOST_ABSENT: usize = 500;

/// An object of the graph.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) resource: Arc<Resource>,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Uid,
    pub(super) version: String,
    pub(super) owners: Vec<OwnerReference>,
    pub(super) terminating: bool,
    pub(super) finalizers: Vec<String>,
}

impl Node {
    pub(super) fn of(resource: &Arc<Resource>, meta: ObjectMeta) -> Self {
        Self {
            resource: Arc::clone(resource),
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            version: meta.resource_version.unwrap_or_default(),
            owners: meta.owner_references.unwrap_or_default(),
            terminating: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
        }
    }

    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }

    /// Whether the object is being deleted and has this finalizer.
    fn waits_for(&self, finalizer: &str) -> bool {
        self.terminating && self.has(finalizer)
    }

    /// Whether the object waits for the deletion of its dependents.
    pub(super) fn waits(&self) -> bool {
        self.waits_for(FOREGROUND)
    }

    pub(super) fn is_blocking(&self, owner: &str) -> bool {
        self.owners.iter().any(|one| one.uid == owner && one.block_owner_deletion == Some(true))
    }

    fn coordinates(&self) -> Coordinates {
        let (version, kind) = self.resource.kind();
        Coordinates {
            version,
            kind,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

/// An object as an owner reference identifies it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Coordinates {
    version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: Uid,
}

impl Coordinates {
    /// What an owner reference refers to, for a dependent in this namespace.
    pub(super) fn of(owner: &OwnerReference, namespace: &str) -> Self {
        Self {
            version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }
}

/// All known objects and their owner references.
#[derive(Default)]
pub(super) struct Graph {
    resources: Resources,
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Owners that are known to be absent.
    absent: BTreeSet<Coordinates>,
    /// Lists in progress, by resource.
    lists: BTreeMap<Kind, BTreeSet<Uid>>,
    /// Resources with at least one complete list.
    listed: BTreeSet<Kind>,
}

type Wanted = Vec<(Task, Uid)>;

impl Graph {
    /// Whether every monitored resource was listed completely.
    pub(super) fn is_synced(&self) -> bool {
        let mut watched = self.resources.iter().filter(|(_, resource)| resource.monitored).peekable();
        watched.peek().is_some() && watched.all(|(kind, _)| self.listed.contains(kind))
    }

    pub(super) fn node(&self, uid: &str) -> Option<Node> {
        self.nodes.get(uid).cloned()
    }

    pub(super) fn resource(&self, kind: &Kind) -> Option<Arc<Resource>> {
        self.resources.get(kind).map(Arc::clone)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Node> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    pub(super) fn is_absent(&self, owner: &Coordinates) -> bool {
        self.absent.contains(owner)
    }

    pub(super) fn set_absent(&mut self, owner: Coordinates) {
        if self.absent.len() >= MOST_ABSENT {
            self.absent.clear();
        }
        self.absent.insert(owner);
    }

    /// Sets the resources of the server and drops the objects of resources that are no longer monitored.
    pub(super) fn set_resources(&mut self, resources: Resources) -> Wanted {
        self.resources = resources;
        let resources = &self.resources;
        let is_watched = |kind: &Kind| resources.get(kind).is_some_and(|resource| resource.monitored);
        self.listed.retain(&is_watched);
        self.lists.retain(|kind, _| is_watched(kind));
        let gone: Vec<Uid> = self
            .nodes
            .values()
            .filter(|node| !is_watched(&node.resource.kind()))
            .map(|node| node.uid.clone())
            .collect();
        gone.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    pub(super) fn apply(
        &mut self,
        resource: &Arc<Resource>,
        event: Event<PartialObjectMeta<DynamicObject>>,
    ) -> Wanted {
        let kind = resource.kind();
        match event {
            Event::Apply(object) => self.insert(Node::of(resource, object.metadata)),
            Event::Delete(object) => self.remove(object.metadata.uid.as_deref().unwrap_or_default()),
            Event::Init => {
                self.lists.insert(kind, BTreeSet::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                let node = Node::of(resource, object.metadata);
                self.lists.entry(kind).or_default().insert(node.uid.clone());
                self.insert(node)
            }
            Event::InitDone => {
                let found = self.lists.remove(&kind).unwrap_or_default();
                let known = self.nodes.values().filter(|node| node.resource.kind() == kind);
                let gone: Vec<Uid> =
                    known.map(|node| node.uid.clone()).filter(|uid| !found.contains(uid)).collect();
                self.listed.insert(kind);
                gone.iter().flat_map(|uid| self.remove(uid)).collect()
            }
        }
    }

    fn insert(&mut self, node: Node) -> Wanted {
        let mut wanted = Wanted::new();
        let old = self.nodes.get(&node.uid).cloned();
        let before = old.as_ref().map(|old| old.owners.as_slice()).unwrap_or_default();
        for owner in before {
            let now = node.owners.iter().find(|one| one.uid == owner.uid);
            let blocks = |owner: &OwnerReference| owner.block_owner_deletion == Some(true);
            if now.is_none() {
                self.leave(&owner.uid, &node.uid);
            }
            // This object may be the last dependent that the owner waits for.
            if blocks(owner) && !now.is_some_and(blocks) && self.nodes.contains_key(&owner.uid) {
                wanted.push((Task::Delete, owner.uid.clone()));
            }
        }
        for owner in node.owners.iter().filter(|owner| before.iter().all(|one| one.uid != owner.uid)) {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
            if !self.is_as_named(owner, &node.namespace) {
                wanted.push((Task::Delete, node.uid.clone()));
            }
        }
        let starts = |finalizer| {
            node.waits_for(finalizer) && !old.as_ref().is_some_and(|old| old.waits_for(finalizer))
        };
        if starts(ORPHAN) {
            wanted.push((Task::Orphan, node.uid.clone()));
        } else if starts(FOREGROUND) {
            let dependents = self.dependents.get(&node.uid).into_iter().flatten();
            wanted.extend(dependents.map(|uid| (Task::Delete, uid.clone())));
            wanted.push((Task::Delete, node.uid.clone()));
        }
        self.nodes.insert(node.uid.clone(), node);
        wanted
    }

    /// Whether the owner is known and matches the reference.
    fn is_as_named(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.nodes.get(&owner.uid).is_some_and(|known| {
            let reachable = known.namespace.is_empty() || known.namespace == namespace;
            reachable && known.coordinates() == Coordinates::of(owner, &known.namespace)
        })
    }

    fn leave(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, uid: &str) -> Wanted {
        let Some(node) = self.nodes.remove(uid) else { return Wanted::new() };
        let mut wanted = Wanted::new();
        if let Some(dependents) = self.dependents.get(uid) {
            wanted.extend(dependents.iter().map(|dependent| (Task::Delete, dependent.clone())));
            self.set_absent(node.coordinates());
        }
        for owner in &node.owners {
            self.leave(&owner.uid, uid);
            if self.nodes.get(&owner.uid).is_some_and(Node::waits) {
                wanted.push((Task::Delete, owner.uid.clone()));
            }
        }
        wanted
    }
}
