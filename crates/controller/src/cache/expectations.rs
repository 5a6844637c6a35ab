//! What is known beyond the watch: own writes and live reads, until the watch shows them.
//!
//! Each entry is about one UID, and versions are compared within one object only. An entry goes as soon as the watch has
//! caught up with it, and it is not believed for ever: past [`BOUND`] a live read must say what is true. Pure: it does no
//! reading itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::cache::entry::Entry;
use crate::cache::index::Index;

/// How long an entry is believed while the watch does not confirm it.
pub(crate) const BOUND: SignedDuration = SignedDuration::from_secs(30);

/// What is known of one pod or set by an answer of the API server.
#[derive(Debug)]
pub(crate) enum Fact<E> {
    /// It is like this.
    Is(E),
    /// Its deletion was accepted.
    Terminating(Arc<E>),
    /// It does not exist any more.
    Gone(Arc<str>),
    /// At this version it was not controlled by the object, or by one of its sets.
    NotOurs(Arc<str>, u64),
}

impl<E: Entry> Fact<E> {
    pub(crate) fn uid(&self) -> &Arc<str> {
        match self {
            Self::Is(entry) => entry.uid(),
            Self::Terminating(entry) => entry.uid(),
            Self::Gone(uid) | Self::NotOurs(uid, _) => uid,
        }
    }

    /// Of a read of the object with that UID: its version, and its entry where it is ours; `None` where it is gone.
    pub(crate) fn read(uid: &Arc<str>, found: Option<(u64, Option<E>)>) -> Self {
        match found {
            Some((_, Some(entry))) => Self::Is(entry),
            Some((version, None)) => Self::NotOurs(Arc::clone(uid), version),
            None => Self::Gone(Arc::clone(uid)),
        }
    }
}

#[derive(Debug)]
enum Known<E> {
    /// It is there, at least at this version.
    Present(Arc<E>),
    /// Its deletion was accepted; that is never taken back.
    Terminating(Arc<E>),
    /// At this version it was not ours; at the largest it is gone, and a UID never comes back.
    NotOurs(u64),
}

/// Entries by UID.
#[derive(Debug)]
pub(crate) struct Expectations<E>(BTreeMap<Arc<str>, (Known<E>, Timestamp)>);

/// Since when entries are believed, by UID.
#[derive(Debug)]
pub(crate) struct Dates(BTreeMap<Arc<str>, Timestamp>);

/// What was known of each object when a live read began: the least version at which the read can show it, and the same where it
/// shows it terminating. Whatever is older proves that the API server went back in time, as etcd does that is restored from a
/// backup.
#[derive(Debug)]
pub(crate) struct MinVersions {
    began: Timestamp,
    least: BTreeMap<Arc<str>, (u64, u64)>,
}

impl MinVersions {
    /// Whether a live read that began then cannot show this, unless the API server went back in time.
    pub(crate) fn is_older<E: Entry>(&self, entry: &E, index: &Index<E>) -> bool {
        let (alive, terminating) = self.least.get(entry.uid()).copied().unwrap_or_default();
        let least = if entry.is_terminating() { terminating } else { alive };
        let gone = index.tombstone_before(entry.uid(), self.began);
        entry.version() < least || gone.is_some_and(|gone| entry.version() <= gone)
    }
}

impl<E> Default for Expectations<E> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<E: Entry> Expectations<E> {
    /// The object was seen like this.
    pub(crate) fn present(&mut self, entry: E, now: Timestamp) {
        match self.0.get(entry.uid()) {
            Some((Known::NotOurs(at), _)) if *at >= entry.version() => return,
            Some((Known::Terminating(_), _)) if !entry.is_terminating() => return,
            Some((Known::Present(old), _)) if old.version() > entry.version() => return,
            _ => {}
        }
        self.0.insert(Arc::clone(entry.uid()), (Known::Present(Arc::new(entry)), now));
    }

    /// The object was read live like this, and what was known of it is void: the API server went back in time.
    pub(crate) fn rewind(&mut self, entry: E, now: Timestamp) {
        self.0.insert(Arc::clone(entry.uid()), (Known::Present(Arc::new(entry)), now));
    }

    /// What a live read that begins now can show at the least, where this is what is known and merged.
    pub(crate) fn min_versions(&self, merged: &[Arc<E>], now: Timestamp) -> MinVersions {
        let mut least: BTreeMap<Arc<str>, (u64, u64)> = merged
            .iter()
            .map(|entry| (Arc::clone(entry.uid()), (entry.version(), entry.version())))
            .collect();
        for (uid, (known, _)) in &self.0 {
            let version = known.version();
            let later = version.saturating_add(1);
            let (alive, terminating) = match known {
                Known::Present(_) => (version, version),
                Known::Terminating(_) => (later, version),
                Known::NotOurs(_) => (later, later),
            };
            let floor = least.entry(Arc::clone(uid)).or_default();
            *floor = (floor.0.max(alive), floor.1.max(terminating));
        }
        MinVersions { began: now, least }
    }

    /// Its deletion was accepted.
    pub(crate) fn terminating(&mut self, entry: &E, now: Timestamp) {
        let known = Known::Terminating(Arc::new(entry.terminating()));
        self.0.insert(Arc::clone(entry.uid()), (known, now));
    }

    /// It is gone.
    pub(crate) fn gone(&mut self, uid: &Arc<str>, now: Timestamp) {
        self.away(uid, u64::MAX, now);
    }

    /// At that version it was somebody else's, or nobody's.
    pub(crate) fn away(&mut self, uid: &Arc<str>, version: u64, now: Timestamp) {
        if self.0.get(uid).is_none_or(|(known, _)| known.version() <= version) {
            self.0.insert(Arc::clone(uid), (Known::NotOurs(version), now));
        }
    }

    /// Takes in what an answer of the API server has shown.
    pub(crate) fn record(&mut self, fact: Fact<E>, now: Timestamp) {
        match fact {
            Fact::Is(entry) => self.present(entry, now),
            Fact::Terminating(entry) => self.terminating(&entry, now),
            Fact::Gone(uid) => self.gone(&uid, now),
            Fact::NotOurs(uid, version) => self.away(&uid, version, now),
        }
    }

    /// Whether something is known of it beyond the watch.
    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// How long ago each deletion was accepted that the watch shows by now, and did not when it was last [settled](Self::observe).
    pub(crate) fn lags(&self, index: &Index<E>, now: Timestamp) -> Vec<SignedDuration> {
        let own = self.0.iter().filter(|(_, (known, _))| matches!(known, Known::Terminating(_)));
        own.filter(|(uid, (known, _))| known.is_observed(uid, index))
            .map(|(_, (_, since))| now.duration_since(*since))
            .collect()
    }

    /// Drops what the watch has caught up with, and what is not believed any more. Whether something is not: then a live read
    /// is due. It has to know what to look for: what only this knows stays until then, and what the watch shows otherwise is
    /// looked for as the watch shows it.
    pub(crate) fn observe(&mut self, index: &Index<E>, now: Timestamp) -> bool {
        let mut expired = false;
        self.0.retain(|uid, (known, since)| {
            if known.is_observed(uid, index) {
                return false;
            }
            if !is_old(*since, now) {
                return true;
            }
            expired = true;
            !matches!(known, Known::NotOurs(_)) && index.get(uid).is_none()
        });
        expired
    }

    /// Since when each entry is believed: by that a live read tells in the end what it has found.
    pub(crate) fn dates(&self) -> Dates {
        Dates(self.0.iter().map(|(uid, (_, since))| (Arc::clone(uid), *since)).collect())
    }

    /// A live read has ended that began at these dates. What it has found is believed from now on, however long it took.
    /// What only this knew, was old when it began, and was not found is dropped; what the watch shows otherwise was not looked
    /// for.
    pub(crate) fn confirm(&mut self, before: &Dates, began: Timestamp, index: &Index<E>, now: Timestamp) {
        self.0.retain(|uid, (known, since)| {
            if before.0.get(uid) == Some(since) {
                return !is_old(*since, began)
                    || matches!(known, Known::NotOurs(_))
                    || index.get(uid).is_some();
            }
            *since = now;
            true
        });
    }

    /// When the first entry stops being believed.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        let since = self.0.values().map(|(_, since)| *since).min()?;
        since.checked_add(BOUND).ok()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether it is believed no more. What lies ahead of the clock was known before the clock was set back: how long ago cannot
/// be told.
fn is_old(since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since) > BOUND || since > now
}

impl<E: Entry> Known<E> {
    /// At which version it was known so.
    fn version(&self) -> u64 {
        match self {
            Self::Present(entry) | Self::Terminating(entry) => entry.version(),
            Self::NotOurs(at) => *at,
        }
    }

    fn is_observed(&self, uid: &str, index: &Index<E>) -> bool {
        let shows = |shown: &Arc<E>| match self {
            Self::Terminating(_) => shown.is_terminating(),
            Self::Present(_) | Self::NotOurs(_) => shown.version() >= self.version(),
        };
        // What was given away before, and came back since, is not away by that.
        index.get(uid).is_some_and(shows)
            || index.tombstone(uid).is_some_and(|version| version >= self.version())
    }
}

/// What these owners control: the watch's view, and over it what is known better.
pub(crate) fn merge<'a, E: Entry>(
    owners: impl IntoIterator<Item = &'a Arc<str>>,
    index: &Index<E>,
    expectations: &Expectations<E>,
) -> Vec<Arc<E>> {
    let owners: BTreeSet<&Arc<str>> = owners.into_iter().collect();
    let shown = owners.iter().flat_map(|owner| index.of_owner(owner));
    let mut merged: BTreeMap<Arc<str>, Arc<E>> =
        shown.map(|entry| (Arc::clone(entry.uid()), Arc::clone(entry))).collect();
    for (uid, (known, _)) in &expectations.0 {
        if known.is_observed(uid, index) {
            continue;
        }
        match known {
            Known::Present(entry) | Known::Terminating(entry) => {
                merged.insert(Arc::clone(uid), Arc::clone(entry));
            }
            Known::NotOurs(_) => {
                merged.remove(uid);
            }
        }
    }
    // By the later view one of them may have another owner.
    merged.into_values().filter(|entry| owners.contains(entry.owner())).collect()
}

#[cfg(test)]
#[path = "expectations/tests.rs"]
mod tests;
