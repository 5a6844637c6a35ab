//! Objects, versions and the history that watches read.
//!
//! One counter numbers all changes, as etcd's revision does. The store checks nothing: rules live in `server`.
//! It never notifies about a change before the change is readable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::object;

/// Group and plural: all served versions of a resource share their objects.
pub(crate) type Resource = (String, String);
/// Namespace (empty for cluster-scoped resources) and name.
pub(crate) type Key = (String, String);

/// One committed change, for whoever judges what happened: unlike a watch's history it is never compacted.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The version it made.
    pub version: u64,
    /// When.
    pub at: Timestamp,
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Its plural, `pods`.
    pub plural: String,
    /// The object after the change; for a deletion its last state, at the version of the deletion.
    pub object: Arc<Value>,
    /// The object before the change; none for a creation.
    pub previous: Option<Arc<Value>>,
    /// Whether the object is gone with it.
    pub deleted: bool,
    /// The place in the log of requests of the one that made it; none for what the server does by itself.
    pub request: Option<usize>,
}

/// All commits so far, and what the next one is made by.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) commits: Vec<Commit>,
    pub(crate) at: Timestamp,
    pub(crate) request: Option<usize>,
}

/// One change as watches read it.
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) at: Instant,
    /// The object after the change; for a deletion its last state, at the version of the deletion.
    pub(crate) object: Arc<Value>,
    /// The object before the change; none for a creation.
    pub(crate) previous: Option<Arc<Value>>,
    pub(crate) deleted: bool,
}

#[derive(Default)]
pub(crate) struct Collection {
    pub(crate) objects: BTreeMap<Key, Arc<Value>>,
    pub(crate) history: VecDeque<Arc<Event>>,
    /// Version of the newest event that history has forgotten.
    pub(crate) forgotten: u64,
    /// How late watchers see an event.
    pub(crate) delay: Duration,
    pub(crate) changed: Arc<Notify>,
}

/// All objects as they were, with their versions.
pub struct Backup {
    version: u64,
    objects: BTreeMap<Resource, BTreeMap<Key, Arc<Value>>>,
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Backup").field("version", &self.version).finish_non_exhaustive()
    }
}

pub(crate) struct Store {
    /// How often a backup was restored: watches from before it end.
    pub(crate) restored: u64,
    pub(crate) version: u64,
    collections: BTreeMap<Resource, Collection>,
    limit: usize,
    /// Kept where somebody asked for it.
    pub(crate) journal: Option<Journal>,
    /// Woken by every change that may empty a namespace, or a definition that is being deleted.
    pub(crate) emptied: Arc<Notify>,
}

impl Store {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            restored: 0,
            version: 1,
            collections: BTreeMap::new(),
            limit: limit.max(1),
            journal: None,
            emptied: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn collection(&mut self, resource: &Resource) -> &mut Collection {
        self.collections.entry(resource.clone()).or_default()
    }

    pub(crate) fn collections(&self) -> impl Iterator<Item = (&Resource, &Collection)> {
        self.collections.iter()
    }

    pub(crate) fn get(&self, resource: &Resource, key: &Key) -> Option<&Arc<Value>> {
        self.collections.get(resource).and_then(|collection| collection.objects.get(key))
    }

    /// Creates or replaces an object and returns it at its new version.
    pub(crate) fn put(&mut self, resource: &Resource, key: &Key, mut value: Value) -> Arc<Value> {
        self.version += 1;
        object::set_meta(&mut value, "resourceVersion", self.version.to_string().into());
        let value = Arc::new(value);
        let previous = self.collection(resource).objects.insert(key.clone(), Arc::clone(&value));
        let newly_terminating =
            object::terminating(&value) && previous.as_ref().is_none_or(|old| *old != value);
        self.record(resource, Arc::clone(&value), previous, false);
        if newly_terminating {
            self.emptied.notify_one();
        }
        value
    }

    /// Removes an object and returns its last state at the version of the deletion.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &Key, last: &Value) -> Option<Arc<Value>> {
        let previous = self.collection(resource).objects.remove(key)?;
        self.version += 1;
        let mut value = last.clone();
        object::set_meta(&mut value, "resourceVersion", self.version.to_string().into());
        let value = Arc::new(value);
        self.record(resource, Arc::clone(&value), Some(previous), true);
        self.emptied.notify_one();
        Some(value)
    }

    fn record(
        &mut self,
        resource: &Resource,
        object: Arc<Value>,
        previous: Option<Arc<Value>>,
        deleted: bool,
    ) {
        let (version, limit) = (self.version, self.limit);
        if let Some(journal) = &mut self.journal {
            journal.commits.push(Commit {
                version,
                at: journal.at,
                group: resource.0.clone(),
                plural: resource.1.clone(),
                object: Arc::clone(&object),
                previous: previous.clone(),
                deleted,
                request: journal.request,
            });
        }
        let collection = self.collection(resource);
        collection.history.push_back(Arc::new(Event {
            version,
            at: Instant::now(),
            object,
            previous,
            deleted,
        }));
        while collection.history.len() > limit {
            collection.forget_oldest();
        }
        collection.changed.notify_waiters();
    }

    /// All objects as they are.
    pub(crate) fn backup(&self) -> Backup {
        let objects = self.collections.iter();
        let objects = objects.map(|(resource, collection)| (resource.clone(), collection.objects.clone()));
        Backup { version: self.version, objects: objects.collect() }
    }

    /// Everything is as it was, and versions are counted from there.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        self.compact();
        self.version = backup.version;
        self.restored += 1;
        for (resource, collection) in &mut self.collections {
            collection.objects = backup.objects.get(resource).cloned().unwrap_or_default();
            collection.forgotten = backup.version;
            collection.changed.notify_waiters();
        }
    }

    /// Forgets all history: what compaction does. Watches resumed from before it expire.
    pub(crate) fn compact(&mut self) {
        for collection in self.collections.values_mut() {
            while !collection.history.is_empty() {
                collection.forget_oldest();
            }
            collection.changed.notify_waiters();
        }
    }

    /// The objects as they were at `version`; none where history does not reach back that far.
    pub(crate) fn at_version(&self, resource: &Resource, version: u64) -> Option<BTreeMap<Key, Arc<Value>>> {
        let Some(collection) = self.collections.get(resource) else { return Some(BTreeMap::new()) };
        if version < collection.forgotten {
            return None;
        }
        let mut objects = collection.objects.clone();
        let mut touched = BTreeSet::new();
        // Forward from the wanted version: the first change of an object after it tells what it was before.
        for event in collection.since(version) {
            let key = (object::namespace(&event.object).to_owned(), object::name(&event.object).to_owned());
            if touched.insert(key.clone()) {
                match &event.previous {
                    Some(previous) => objects.insert(key, Arc::clone(previous)),
                    None => objects.remove(&key),
                };
            }
        }
        Some(objects)
    }
}

impl Collection {
    fn forget_oldest(&mut self) {
        if let Some(event) = self.history.pop_front() {
            self.forgotten = event.version;
        }
    }

    /// The remembered events after `version`.
    pub(crate) fn since(&self, version: u64) -> impl Iterator<Item = &Arc<Event>> {
        let start = self.history.partition_point(|event| event.version <= version);
        self.history.range(start..)
    }
}
