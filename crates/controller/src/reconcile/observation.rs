//! The sets and pods of one object, merged once a round: the cache, overlaid by the expectations.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_planner::make_hashes_unique;
use ordereddeployment_wire::NamespacedUid;

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::cache::expectations::{Fact, merge};
use crate::cache::index::Cache;
use crate::reconcile::state::ObjectState;

/// The sets and pods of one object, each ordered by UID: all of them are in the namespace of the object.
#[derive(Debug, Default)]
pub(crate) struct Observation {
    pub(crate) sets: Vec<Arc<SetEntry>>,
    pub(crate) pods: Vec<Arc<PodEntry>>,
}

impl Observation {
    pub(crate) fn of(key: &NamespacedUid, cache: &Cache, state: &ObjectState) -> Self {
        let mut sets = merge([key], &cache.sets, &state.sets);
        let hashes: BTreeSet<&str> = sets.iter().map(|entry| &*entry.set.hash).collect();
        if hashes.len() < sets.len() {
            make_hashes_unique(sets.iter_mut().map(|entry| &mut Arc::make_mut(entry).set));
        }
        let pods = merge(sets.iter().map(|set| set.key()), &cache.pods, &state.pods);
        Self { sets, pods }
    }

    pub(crate) fn set(&self, uid: &str) -> Option<&Arc<SetEntry>> {
        find(&self.sets, uid).ok().and_then(|at| self.sets.get(at))
    }

    /// The set of this pod, if it is one of the object's.
    pub(crate) fn set_that_owns(&self, pod: &PodEntry) -> Option<&Arc<SetEntry>> {
        self.set(pod.owner().uid()).filter(|set| set.key() == pod.owner())
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<PodEntry>> {
        find(&self.pods, uid).ok().and_then(|at| self.pods.get(at))
    }

    /// The set with that hash to which pods can be added.
    pub(crate) fn set_of(&self, hash: &str) -> Option<&Arc<SetEntry>> {
        self.sets.iter().find(|entry| entry.set.hash == hash && !entry.is_terminating())
    }

    /// Applies a write or a read of a set. Within one round the set keeps the hash that distinguishes it from
    /// the others. The pods of a set that is no longer the object's are removed with it.
    pub(crate) fn record_set(&mut self, fact: &Fact<SetEntry>, deployment: &NamespacedUid) {
        let moved = match fact {
            Fact::Is(entry) if entry.owner() != deployment => Some(Fact::Gone(entry.key().clone())),
            _ => None,
        };
        let fact = moved.as_ref().unwrap_or(fact);
        if let Fact::Gone(key) | Fact::NotOurs(key, _) = fact {
            self.pods.retain(|entry| entry.owner() != key);
        }
        let hash = self.set(fact.key().uid()).map(|known| known.set.hash.clone());
        if let (Some(entry), Some(hash)) = (put(&mut self.sets, fact), hash)
            && entry.set.hash != hash
        {
            Arc::make_mut(entry).set.hash = hash;
        }
    }

    /// Applies a write or a read of a pod.
    pub(crate) fn record_pod(&mut self, fact: &Fact<PodEntry>) {
        let moved = match fact {
            Fact::Is(entry) if self.set_that_owns(entry).is_none() => Some(Fact::Gone(entry.key().clone())),
            _ => None,
        };
        put(&mut self.pods, moved.as_ref().unwrap_or(fact));
    }
}

fn find<E: Entry>(entries: &[Arc<E>], uid: &str) -> Result<usize, usize> {
    entries.binary_search_by(|entry| (**entry.uid()).cmp(uid))
}

/// Updates the entry of the object. Returns the entry that now represents it, if any.
fn put<'e, E: Entry>(entries: &'e mut Vec<Arc<E>>, fact: &Fact<E>) -> Option<&'e mut Arc<E>> {
    let entry = match fact {
        Fact::Is(entry) => Arc::clone(entry),
        Fact::Terminating(entry) => Arc::new(entry.terminating()),
        Fact::Gone(key) | Fact::NotOurs(key, _) => {
            if let Ok(at) = find(entries, key.uid()) {
                entries.remove(at);
            }
            return None;
        }
    };
    let at = match find(entries, entry.uid()) {
        Ok(at) => {
            // An answer can be older than what is known, and a deletion is never taken back.
            let known = &entries[at];
            if entry.version() >= known.version() && (entry.is_terminating() || !known.is_terminating()) {
                entries[at] = entry;
            }
            at
        }
        Err(at) => {
            entries.insert(at, entry);
            at
        }
    };
    entries.get_mut(at)
}
