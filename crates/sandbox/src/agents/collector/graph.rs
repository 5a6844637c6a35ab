//! The graph of owners and dependents as the watches tell of it. It may lag behind the server; it never asks it.

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

/// How many absent owners are remembered.
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

    /// Whether it is being deleted, and that finalizer is there.
    fn waits_for(&self, finalizer: &str) -> bool {
        self.terminating && self.has(finalizer)
    }

    /// Whether it waits for its dependents to be deleted.
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

/// An object as a reference names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Coordinates {
    version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: Uid,
}

impl Coordinates {
    /// What an owner reference means in an object of that namespace.
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

/// All objects known, and who owns whom.
#[derive(Default)]
pub(super) struct Graph {
    resources: Resources,
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Owners that are known to be gone.
    absent: BTreeSet<Coordinates>,
    /// Lists under way, by resource.
    lists: BTreeMap<Kind, BTreeSet<Uid>>,
    /// Resources that were listed to the end once.
    listed: BTreeSet<Kind>,
}

type Wanted = Vec<(Task, Uid)>;

impl Graph {
    /// Whether all that is watched was listed once.
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

    /// What it knows of a resource that is not there any more is of no use.
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
            // An owner that waits may have waited for this one alone.
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

    /// Whether the owner is known, and is what the reference says.
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

    /// The object is gone.
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
