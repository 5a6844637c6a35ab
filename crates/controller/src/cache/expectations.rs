//! Expectations: writes of the controller and live reads, until the watch shows them.
//!
//! Each entry belongs to one UID, and versions are compared within one object only. An entry is dropped as
//! soon as the watch shows its version or a later one. It is valid for [`BOUND`]; then a live read must
//! confirm it. That an object is gone stays known until the watch shows it, or lists again: a watch that was
//! silent shows old versions of it. Pure: this module does no reads itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_wire::NamespacedUid;

use crate::cache::entry::Entry;
use crate::cache::index::Index;

/// How long an entry is valid without a confirmation by the watch.
pub(crate) const BOUND: SignedDuration = SignedDuration::from_secs(30);

/// What an answer of the API server shows of a pod or a set.
#[derive(Debug)]
pub(crate) enum Fact<E> {
    /// The object exists, in this version.
    Is(Arc<E>),
    /// The API server accepted its deletion.
    Terminating(Arc<E>),
    /// The object does not exist any more.
    Gone(NamespacedUid),
    /// At this version its controller was neither the object nor one of its sets.
    NotOurs(NamespacedUid, u64),
}

impl<E: Entry> Fact<E> {
    pub(crate) fn key(&self) -> &NamespacedUid {
        match self {
            Self::Is(entry) | Self::Terminating(entry) => entry.key(),
            Self::Gone(key) | Self::NotOurs(key, _) => key,
        }
    }

    /// The result of a live read of that UID: the version, and the entry if it is ours.
    pub(crate) fn read(key: &NamespacedUid, found: Option<(u64, Option<E>)>) -> Self {
        match found {
            Some((_, Some(entry))) => Self::Is(Arc::new(entry)),
            Some((version, None)) => Self::NotOurs(key.clone(), version),
            None => Self::Gone(key.clone()),
        }
    }
}

#[derive(Debug)]
enum Known<E> {
    /// The object exists, at this version or a later one.
    Present(Arc<E>),
    /// The API server accepted its deletion; a deletion is never taken back.
    Terminating(Arc<E>),
    /// At this version it was not ours. The largest version means deleted: a UID is never reused.
    NotOurs(u64),
}

/// Entries by UID, each with the time since when it is valid.
#[derive(Debug)]
pub(crate) struct Expectations<E> {
    known: BTreeMap<NamespacedUid, (Known<E>, Timestamp)>,
    /// How many lists the watch had completed when it was last observed.
    lists: u64,
}

/// The time since when each entry is valid, by UID.
pub(crate) type Dates = BTreeMap<NamespacedUid, Timestamp>;

/// What was known of each object when a live read began: the least version that the read can return, for a
/// pod or set that does not terminate and for one that does. An older version proves that the API server went
/// back in time, as when etcd is restored from a backup.
#[derive(Debug)]
pub(crate) struct MinVersions {
    /// How many tombstones there were.
    gone: u64,
    least: BTreeMap<NamespacedUid, (u64, u64)>,
}

impl MinVersions {
    /// Whether a live read cannot return this entry, unless the API server went back in time.
    pub(crate) fn is_older<E: Entry>(&self, entry: &E, index: &Index<E>) -> bool {
        let (alive, terminating) = self.least.get(entry.key()).copied().unwrap_or_default();
        let least = if entry.is_terminating() { terminating } else { alive };
        let gone = index.tombstone_among(entry.key(), self.gone);
        entry.version() < least || gone.is_some_and(|gone| entry.version() <= gone)
    }
}

impl<E> Default for Expectations<E> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), lists: 0 }
    }
}

impl<E: Entry> Expectations<E> {
    /// Records that the object exists in this version.
    pub(crate) fn present(&mut self, entry: impl Into<Arc<E>>, now: Timestamp) {
        let entry = entry.into();
        match self.known.get(entry.key()) {
            Some((Known::NotOurs(at), _)) if *at >= entry.version() => return,
            Some((Known::Terminating(_), _)) if !entry.is_terminating() => return,
            Some((Known::Present(old), _)) if old.version() > entry.version() => return,
            _ => {}
        }
        self.known.insert(entry.key().clone(), (Known::Present(entry), now));
    }

    /// Records a live read and discards what was known: the API server went back in time.
    pub(crate) fn rewind(&mut self, entry: E, now: Timestamp) {
        self.known.insert(entry.key().clone(), (Known::Present(Arc::new(entry)), now));
    }

    /// The least versions that a live read that begins now can return. `merged` are the entries that are
    /// known now, and `gone` is the number of tombstones.
    pub(crate) fn min_versions(&self, merged: &[Arc<E>], gone: u64) -> MinVersions {
        let mut least: BTreeMap<NamespacedUid, (u64, u64)> =
            merged.iter().map(|entry| (entry.key().clone(), (entry.version(), entry.version()))).collect();
        for (key, (known, _)) in &self.known {
            let version = known.version();
            let later = version.saturating_add(1);
            let (alive, terminating) = match known {
                Known::Present(_) => (version, version),
                Known::Terminating(_) => (later, version),
                Known::NotOurs(_) => (later, later),
            };
            let floor = least.entry(key.clone()).or_default();
            *floor = (floor.0.max(alive), floor.1.max(terminating));
        }
        MinVersions { gone, least }
    }

    /// Records an accepted deletion.
    pub(crate) fn terminating(&mut self, entry: &E, now: Timestamp) {
        let known = Known::Terminating(Arc::new(entry.terminating()));
        self.known.insert(entry.key().clone(), (known, now));
    }

    /// Records that the object is gone.
    pub(crate) fn gone(&mut self, key: &NamespacedUid, now: Timestamp) {
        self.away(key, u64::MAX, now);
    }

    /// Records that at that version the object had another controller, or none.
    pub(crate) fn away(&mut self, key: &NamespacedUid, version: u64, now: Timestamp) {
        if self.known.get(key).is_none_or(|(known, _)| known.version() <= version) {
            self.known.insert(key.clone(), (Known::NotOurs(version), now));
        }
    }

    /// Records an answer of the API server.
    pub(crate) fn record(&mut self, fact: Fact<E>, now: Timestamp) {
        match fact {
            Fact::Is(entry) => self.present(entry, now),
            Fact::Terminating(entry) => self.terminating(&entry, now),
            Fact::Gone(key) => self.gone(&key, now),
            Fact::NotOurs(key, version) => self.away(&key, version, now),
        }
    }

    /// The UIDs of all expectations.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &NamespacedUid> {
        self.known.keys()
    }

    /// Whether there is an expectation for this UID.
    pub(crate) fn knows(&self, key: &NamespacedUid) -> bool {
        self.known.contains_key(key)
    }

    /// For each accepted deletion that the watch shows now and did not show at the last
    /// [`observe`](Self::observe): how long ago it was accepted.
    pub(crate) fn lags(&self, index: &Index<E>, now: Timestamp) -> Vec<SignedDuration> {
        let own = self.known.iter().filter(|(_, (known, _))| matches!(known, Known::Terminating(_)));
        own.filter(|(key, (known, _))| known.is_observed(key, index))
            .map(|(_, (_, since))| now.duration_since(*since))
            .collect()
    }

    /// Drops the entries that the watch confirms, and the expired ones that are not needed. Returns whether
    /// an entry expired: then a live read is due. An entry that only the expectations know stays until then,
    /// so that the live read looks for it. An object that the watch shows in another state is looked for in
    /// the state that the watch shows. An object that is gone, and that the watch does not show, needs no
    /// read: the entry stays until the watch lists again, since a watch that was silent continues where it
    /// was, and shows the object as it was, event by event.
    pub(crate) fn observe(&mut self, index: &Index<E>, now: Timestamp) -> bool {
        let mut expired = false;
        let has_listed = std::mem::replace(&mut self.lists, index.lists) != index.lists;
        self.known.retain(|key, (known, since)| {
            if known.is_observed(key, index) {
                return false;
            }
            if !is_old(*since, now) {
                return true;
            }
            let is_shown = index.get(key).is_some();
            if matches!(known, Known::NotOurs(_)) && !is_shown {
                return !has_listed;
            }
            expired = true;
            !is_shown
        });
        expired
    }

    /// The time of each entry. A live read compares them with [`confirm`](Self::confirm) when it ends.
    pub(crate) fn dates(&self) -> Dates {
        self.known.iter().map(|(key, (_, since))| (key.clone(), *since)).collect()
    }

    /// Ends a live read that began with these dates. What the read found is valid from now on, even if the
    /// read was slow. Entries that only the expectations know, that had expired when the read began and that
    /// the read did not find, are dropped. It does not look for those that the watch shows.
    pub(crate) fn confirm(&mut self, before: &Dates, began: Timestamp, index: &Index<E>, now: Timestamp) {
        self.known.retain(|key, (known, since)| {
            if before.get(key) == Some(since) {
                return !is_old(*since, began)
                    || matches!(known, Known::NotOurs(_))
                    || index.get(key).is_some();
            }
            *since = now;
            true
        });
    }

    /// When the first entry expires that a live read must confirm.
    pub(crate) fn expires(&self, index: &Index<E>) -> Option<Timestamp> {
        let read = self
            .known
            .iter()
            .filter(|(key, (known, _))| !matches!(known, Known::NotOurs(_)) || index.get(key).is_some());
        let since = read.map(|(_, (_, since))| *since).min()?;
        since.checked_add(BOUND).ok()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// Whether an entry has expired. A time in the future means that the clock was set back: the age is unknown.
fn is_old(since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since) > BOUND || since > now
}

impl<E: Entry> Known<E> {
    /// The version of this state.
    fn version(&self) -> u64 {
        match self {
            Self::Present(entry) | Self::Terminating(entry) => entry.version(),
            Self::NotOurs(at) => *at,
        }
    }

    fn is_observed(&self, key: &NamespacedUid, index: &Index<E>) -> bool {
        let shows = |shown: &Arc<E>| match self {
            Self::Terminating(_) => shown.is_terminating(),
            Self::Present(_) | Self::NotOurs(_) => shown.version() >= self.version(),
        };
        // An object that was released before and adopted again is not gone because of the old tombstone.
        index.get(key).is_some_and(shows)
            || index.tombstone(key).is_some_and(|version| version >= self.version())
    }
}

/// The objects of these owners: the cache, overlaid by the expectations. Ordered by UID.
pub(crate) fn merge<'a, E: Entry>(
    owners: impl IntoIterator<Item = &'a NamespacedUid>,
    index: &Index<E>,
    expectations: &Expectations<E>,
) -> Vec<Arc<E>> {
    let owners: BTreeSet<&NamespacedUid> = owners.into_iter().collect();
    let shown = owners.iter().flat_map(|owner| index.of_owner(owner));
    let mut merged: Vec<Arc<E>> = shown.cloned().collect();
    // The objects of each owner are ordered already, and a stable sort merges them.
    merged.sort_by(|one, other| one.key().cmp(other.key()));
    let (mut added, mut removed) = (Vec::new(), BTreeSet::new());
    for (key, (known, _)) in &expectations.known {
        if known.is_observed(key, index) {
            continue;
        }
        let at = merged.binary_search_by(|entry| entry.key().cmp(key));
        // In its later version an object may have another owner.
        let entry = match known {
            Known::Present(entry) | Known::Terminating(entry) => Some(entry),
            Known::NotOurs(_) => None,
        };
        match (at, entry.filter(|entry| owners.contains(entry.owner()))) {
            (Ok(at), Some(entry)) => merged[at] = Arc::clone(entry),
            (Ok(at), None) => _ = removed.insert(at),
            (Err(_), Some(entry)) => added.push(Arc::clone(entry)),
            (Err(_), None) => {}
        }
    }
    if !removed.is_empty() {
        let mut place = 0..;
        merged.retain(|_| place.next().is_none_or(|place| !removed.contains(&place)));
    }
    if !added.is_empty() {
        merged.append(&mut added);
        merged.sort_by(|one, other| one.key().cmp(other.key()));
    }
    merged
}

#[cfg(test)]
#[path = "expectations/tests.rs"]
mod tests;
