//! The sets and pods of one object, merged once a round: the cache, overlaid by the expectations.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_planner::make_hashes_unique;

use crate::cache::entry::{Entry, PodEntry, SetEntry};
use crate::cache::expectations::{Fact, merge};
use crate::cache::index::Cache;
use crate::reconcile::state::ObjectState;

/// The sets and pods of one object, each ordered by UID.
#[derive(Debug, Default)]
pub(crate) struct Observation {
    pub(crate) sets: Vec<Arc<SetEntry>>,
    pub(crate) pods: Vec<Arc<PodEntry>>,
}

impl Observation {
    pub(crate) fn of(uid: &Arc<str>, cache: &Cache, state: &ObjectState) -> Self {
        let mut sets = merge([uid], &cache.sets, &state.sets);
        let hashes: BTreeSet<&str> = sets.iter().map(|entry| &*entry.set.hash).collect();
        if hashes.len() < sets.len() {
            make_hashes_unique(sets.iter_mut().map(|entry| &mut Arc::make_mut(entry).set));
        }
        let pods = merge(sets.iter().map(|set| set.uid()), &cache.pods, &state.pods);
        Self { sets, pods }
    }

    pub(crate) fn set(&self, uid: &str) -> Option<&Arc<SetEntry>> {
        find(&self.sets, uid).ok().and_then(|at| self.sets.get(at))
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<PodEntry>> {
        find(&self.pods, uid).ok().and_then(|at| self.pods.get(at))
    }

    /// The set with that hash to which pods can be added.
    pub(crate) fn set_of(&self, hash: &str) -> Option<&Arc<SetEntry>> {
        self.sets.iter().find(|entry| entry.set.hash == hash && !entry.is_terminating())
    }

    /// Applies a write or a read of a set. Within one round the set keeps the hash that distinguishes it from the others.
    /// The pods of a set that is no longer the object's are removed with it.
    pub(crate) fn record_set(&mut self, fact: &Fact<SetEntry>, deployment: &str) {
        let moved = match fact {
            Fact::Is(entry) if **entry.owner() != *deployment => Some(Fact::Gone(Arc::clone(entry.uid()))),
            _ => None,
        };
        let fact = moved.as_ref().unwrap_or(fact);
        if let Fact::Gone(uid) | Fact::NotOurs(uid, _) = fact {
            self.pods.retain(|entry| entry.owner() != uid);
        }
        let hash = self.set(fact.uid()).map(|known| known.set.hash.clone());
        if let (Some(entry), Some(hash)) = (put(&mut self.sets, fact), hash)
            && entry.set.hash != hash
        {
            Arc::make_mut(entry).set.hash = hash;
        }
    }

    /// Applies a write or a read of a pod.
    pub(crate) fn record_pod(&mut self, fact: &Fact<PodEntry>) {
        let moved = match fact {
            Fact::Is(entry) if self.set(entry.owner()).is_none() => Some(Fact::Gone(Arc::clone(entry.uid()))),
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
        Fact::Gone(uid) | Fact::NotOurs(uid, _) => {
            if let Ok(at) = find(entries, uid) {
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
