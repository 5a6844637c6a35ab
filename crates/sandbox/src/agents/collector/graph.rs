//! The graph of owners and dependents. It is built from watches only, so it may lag behind the API server.
//! Its changes add objects to the queues; workers take them from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube_runtime::watcher::Event;

use super::monitors::{Kind, MonitorMessage, Resource, Resources};
use super::queue::{Queue, Task, Uid};

pub(super) const ORPHAN: &str = "orphan";
pub(super) const FOREGROUND: &str = "foregroundDeletion";

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
}

/// All known objects, their owner references, and what is to do.
#[derive(Default)]
pub(super) struct Graph {
    orphan: Queue,
    delete: Queue,
    resources: Resources,
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Owners that are gone.
    absent: BTreeSet<Uid>,
    /// Lists in progress, by resource.
    lists: BTreeMap<Kind, BTreeSet<Uid>>,
    /// Resources with at least one complete list.
    listed: BTreeSet<Kind>,
}

pub(super) fn lock(graph: &Mutex<Graph>) -> MutexGuard<'_, Graph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graph {
    pub(super) fn queue(&mut self, task: Task) -> &mut Queue {
        match task {
            Task::Orphan => &mut self.orphan,
            Task::Delete => &mut self.delete,
        }
    }

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

    pub(super) fn is_absent(&self, owner: &str) -> bool {
        self.absent.contains(owner)
    }

    pub(super) fn apply(&mut self, message: MonitorMessage) {
        match message {
            MonitorMessage::Resources(resources) => self.set_resources(resources),
            MonitorMessage::Event(resource, event) => self.apply_event(&resource, *event),
        }
    }

    /// Sets the resources of the server and drops the objects of resources that are no longer monitored.
    fn set_resources(&mut self, resources: Resources) {
        let is_watched = |kind: &Kind| resources.get(kind).is_some_and(|resource| resource.monitored);
        self.listed.retain(is_watched);
        self.lists.retain(|kind, _| is_watched(kind));
        let gone = self.uids(|node| !is_watched(&node.resource.kind()));
        self.resources = resources;
        self.remove_all(&gone);
    }

    fn uids(&self, which: impl Fn(&Node) -> bool) -> Vec<Uid> {
        self.nodes.values().filter(|node| which(node)).map(|node| node.uid.clone()).collect()
    }

    fn apply_event(&mut self, resource: &Arc<Resource>, event: Event<PartialObjectMeta<DynamicObject>>) {
        let kind = resource.kind();
        match event {
            Event::Apply(object) => self.insert(Node::of(resource, object.metadata)),
            Event::Delete(object) => self.remove(object.metadata.uid.as_deref().unwrap_or_default()),
            Event::Init => {
                self.lists.insert(kind, BTreeSet::new());
            }
            Event::InitApply(object) => {
                let node = Node::of(resource, object.metadata);
                self.lists.entry(kind).or_default().insert(node.uid.clone());
                self.insert(node);
            }
            Event::InitDone => {
                let found = self.lists.remove(&kind).unwrap_or_default();
                let gone = self.uids(|node| node.resource.kind() == kind && !found.contains(&node.uid));
                self.listed.insert(kind);
                self.remove_all(&gone);
            }
        }
    }

    fn remove_all(&mut self, uids: &[Uid]) {
        for uid in uids {
            self.remove(uid);
        }
    }

    fn insert(&mut self, node: Node) {
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
                self.delete.add(owner.uid.clone());
            }
        }
        for owner in node.owners.iter().filter(|owner| before.iter().all(|one| one.uid != owner.uid)) {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
            if !self.is_as_named(owner, &node.namespace) {
                self.delete.add(node.uid.clone());
            }
        }
        let starts = |finalizer| {
            node.waits_for(finalizer) && !old.as_ref().is_some_and(|old| old.waits_for(finalizer))
        };
        if starts(ORPHAN) {
            self.orphan.add(node.uid.clone());
        } else if starts(FOREGROUND) {
            let dependents = self.dependents.get(&node.uid).into_iter().flatten();
            dependents.chain([&node.uid]).for_each(|uid| self.delete.add(uid.clone()));
        }
        self.nodes.insert(node.uid.clone(), node);
    }

    /// Whether the owner is known and matches the reference.
    fn is_as_named(&self, owner: &OwnerReference, namespace: &str) -> bool {
        self.nodes.get(&owner.uid).is_some_and(|known| {
            let (version, kind) = known.resource.kind();
            (known.namespace.is_empty() || known.namespace == namespace)
                && (version, kind, &known.name)
                    == (owner.api_version.clone(), owner.kind.clone(), &owner.name)
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
    pub(super) fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else { return };
        if let Some(dependents) = self.dependents.get(uid) {
            for dependent in dependents {
                self.delete.add(dependent.clone());
            }
            self.absent.insert(uid.to_owned());
        }
        for owner in &node.owners {
            self.leave(&owner.uid, uid);
            if self.nodes.get(&owner.uid).is_some_and(Node::waits) {
                self.delete.add(owner.uid.clone());
            }
        }
    }
}
