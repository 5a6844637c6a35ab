//! Objects, resource versions and the event history of watches.
//!
//! One counter numbers all changes, like the revision of etcd. The store validates nothing; `server` does. It
//! notifies watches only after a change is readable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::object;

/// Group and plural. All served versions of a resource share their objects.
pub(crate) type Resource = (String, String);
/// Namespace (empty for cluster-scoped resources) and name.
pub(crate) type Key = (String, String);

/// One committed change, for checks of a whole run. Unlike the history of watches, it is never compacted.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The resource version of the change.
    pub version: u64,
    /// The time of the change.
    pub at: Timestamp,
    /// Group of the resource; empty for the core group.
    pub group: String,
    /// Plural of the resource, such as `pods`.
    pub plural: String,
    /// The object after the change. For a deletion: its last state, at the version of the deletion.
    pub object: Arc<Value>,
    /// The object before the change; `None` for a creation.
    pub previous: Option<Arc<Value>>,
    /// Whether the change removed the object.
    pub deleted: bool,
    /// The index of the request in the request log; `None` for a change that the server makes by itself.
    pub request: Option<usize>,
}

/// All commits so far, and the origin of the next commit.
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
    /// The object after the change. For a deletion: its last state, at the version of the deletion.
    pub(crate) object: Arc<Value>,
    /// The object before the change; `None` for a creation.
    pub(crate) previous: Option<Arc<Value>>,
    pub(crate) deleted: bool,
}

#[derive(Default)]
pub(crate) struct Collection {
    pub(crate) objects: BTreeMap<Key, Arc<Value>>,
    pub(crate) history: VecDeque<Arc<Event>>,
    /// Version of the newest event that was compacted.
    pub(crate) forgotten: u64,
    /// How late watches show an event.
    pub(crate) delay: Duration,
    pub(crate) changed: Arc<Notify>,
}

/// All objects with their versions, at the time of the backup.
#[derive(Debug)]
pub struct Backup {
    version: u64,
    objects: BTreeMap<Resource, BTreeMap<Key, Arc<Value>>>,
}

pub(crate) struct Store {
    /// The number of restores. Watches that began before a restore end.
    pub(crate) restored: u64,
    pub(crate) version: u64,
    collections: BTreeMap<Resource, Collection>,
    limit: usize,
    /// Only present if the configuration asks for a journal.
    pub(crate) journal: Option<Journal>,
    /// Tells of each creation and removal, and of changes of owners, finalizers and deletion timestamps.
    pub(crate) changes: watch::Sender<()>,
}

/// What the garbage collector and the clean-up decide by.
fn links(object: &Value) -> [&Value; 3] {
    ["ownerReferences", "finalizers", "deletionTimestamp"].map(|key| &object["metadata"][key])
}

impl Store {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            restored: 0,
            version: 1,
            collections: BTreeMap::new(),
            limit: limit.max(1),
            journal: None,
            changes: watch::Sender::default(),
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
        self.record(resource, Arc::clone(&value), previous, false);
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
        if deleted || previous.as_deref().map(links) != Some(links(&object)) {
            self.changes.send_replace(());
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

    /// All objects in their current state.
    pub(crate) fn backup(&self) -> Backup {
        let objects = self.collections.iter();
        let objects = objects.map(|(resource, collection)| (resource.clone(), collection.objects.clone()));
        Backup { version: self.version, objects: objects.collect() }
    }

    /// Restores all objects. The version counter continues from the backup.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        self.compact(u64::MAX);
        self.version = backup.version;
        self.restored += 1;
        for (resource, collection) in &mut self.collections {
            collection.objects = backup.objects.get(resource).cloned().unwrap_or_default();
            collection.forgotten = backup.version;
            collection.changed.notify_waiters();
        }
        self.changes.send_replace(());
    }

    /// Drops the history up to a version, as a compaction of etcd does. Watches from an older version expire.
    pub(crate) fn compact(&mut self, until: u64) {
        for collection in self.collections.values_mut() {
            while collection.history.front().is_some_and(|event| event.version <= until) {
                collection.forget_oldest();
            }
            collection.changed.notify_waiters();
        }
    }

    /// The objects at `version`; `None` if the history does not go back that far.
    pub(crate) fn at_version(&self, resource: &Resource, version: u64) -> Option<BTreeMap<Key, Arc<Value>>> {
        let Some(collection) = self.collections.get(resource) else { return Some(BTreeMap::new()) };
        if version < collection.forgotten {
            return None;
        }
        let mut objects = collection.objects.clone();
        let mut touched = BTreeSet::new();
        // Read forward from that version: the first later event of an object has its previous state.
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

    /// The events in the history after `version`.
    pub(crate) fn since(&self, version: u64) -> impl Iterator<Item = &Arc<Event>> {
        let start = self.history.partition_point(|event| event.version <= version);
        self.history.range(start..)
    }
}
