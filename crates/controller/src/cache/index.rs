//! The cache of the watches: pods and sets by their controller.
//!
//! Synchronous: events are applied one by one under a lock, and readers take the same lock. It does no I/O
//! and makes no decisions. An object that a relist does not show is gone, and its owner is reconciled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube_runtime::watcher::Event;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::label::POD_TEMPLATE_HASH;
use ordereddeployment_kubernetes::Named;
use ordereddeployment_wire::{Family, NamespacedUid, in_namespace};

use crate::cache::entry::{Entry, PodEntry, SetEntry, version_of};
use crate::objects::single_set;

/// How long a tombstone is kept: longer than an expectation waits for the watch, after a slow live read.
const TOMBSTONE_LIFETIME: SignedDuration = SignedDuration::from_secs(600);

/// How many more deployments than twice those with sets may be marked.
const ADOPTERS: usize = 1024;

/// An object that a watch shows, as an [`Index`] reads it.
#[derive(Debug)]
pub(crate) struct Seen<E> {
    pub(crate) key: NamespacedUid,
    pub(crate) version: u64,
    /// `None`: none of our objects controls it.
    pub(crate) entry: Option<E>,
}

impl<E> Seen<E> {
    pub(crate) fn of<K: ResourceExt>(object: K, entry: impl FnOnce(K) -> Option<E>) -> Self {
        let (key, version) = (NamespacedUid::of(object.meta()), version_of(&object));
        Self { key, version, entry: entry(object) }
    }
}

/// Objects of one kind, by their key and by that of their controller.
#[derive(Debug)]
pub(crate) struct Index<E> {
    entries: BTreeMap<NamespacedUid, Arc<E>>,
    by_owner: BTreeMap<NamespacedUid, BTreeMap<NamespacedUid, Arc<E>>>,
    /// Tombstones: the version at which the watch showed that an object was deleted or released, and how many
    /// there had been before; recent ones only.
    tombstones: BTreeMap<NamespacedUid, (u64, u64)>,
    /// When each was added, and how many there had been before.
    tombstone_times: VecDeque<(Timestamp, u64, NamespacedUid)>,
    listing: Option<Listing<E>>,
    /// How many lists were completed. After one, the watch shows nothing older than the list.
    pub(crate) lists: u64,
    /// How many tombstones there have been.
    pub(crate) gone: u64,
    /// Objects that the watch showed for the first time since [`Self::take_added`], by owner.
    added: BTreeMap<NamespacedUid, BTreeSet<NamespacedUid>>,
}

/// A list that is not complete yet.
#[derive(Debug)]
struct Listing<E> {
    /// The version of each listed object, and its entry if it is ours.
    listed: BTreeMap<NamespacedUid, (u64, Option<Arc<E>>)>,
    /// The first listed entry of each owner.
    first: BTreeMap<NamespacedUid, Arc<E>>,
}

impl<E> Default for Index<E> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            tombstone_times: VecDeque::new(),
            listing: None,
            lists: 0,
            gone: 0,
            added: BTreeMap::new(),
        }
    }
}

impl<E: Entry> Index<E> {
    /// Applies an event. Returns the owners of the objects that changed.
    pub(crate) fn apply(&mut self, event: Event<Seen<E>>, now: Timestamp) -> BTreeSet<NamespacedUid> {
        match event {
            Event::Init => {
                self.listing = Some(Listing { listed: BTreeMap::new(), first: BTreeMap::new() });
            }
            Event::InitApply(Seen { key, version, entry }) => {
                let Some(listing) = &mut self.listing else { return BTreeSet::new() };
                let known = self.entries.get(&key);
                let is_known = known.is_some();
                let entry = entry.map(|mut entry| {
                    if let Some(other) = known.or_else(|| listing.first.get(entry.owner())) {
                        entry.share(other);
                    }
                    let entry = Arc::new(entry);
                    listing.first.entry(entry.owner().clone()).or_insert_with(|| Arc::clone(&entry));
                    entry
                });
                // An object that is not ours is kept only if it was ours before.
                if entry.is_some() || is_known {
                    listing.listed.insert(key, (version, entry));
                }
            }
            Event::InitDone => return self.swap(now),
            Event::Apply(Seen { key, version, entry }) => {
                let (removed, was_added) = self.remove(&key);
                let mut owners: BTreeSet<_> = removed.iter().map(|old| old.owner().clone()).collect();
                match entry {
                    Some(mut entry) => {
                        let other = removed.as_ref().or_else(|| self.of_owner(entry.owner()).next());
                        if let Some(other) = other {
                            entry.share(other);
                        }
                        let owner = entry.owner().clone();
                        if removed.is_none() || was_added {
                            self.added.entry(owner.clone()).or_default().insert(key);
                        }
                        owners.insert(owner);
                        self.insert(Arc::new(entry));
                    }
                    None => self.leaves(key, removed.is_some(), version, now),
                }
                return owners;
            }
            Event::Delete(Seen { key, .. }) => {
                let (removed, _) = self.remove(&key);
                self.leaves(key, removed.is_some(), u64::MAX, now);
                return removed.iter().map(|old| old.owner().clone()).collect();
            }
        }
        BTreeSet::new()
    }

    pub(crate) fn get(&self, key: &NamespacedUid) -> Option<&Arc<E>> {
        self.entries.get(key)
    }

    /// The objects that this owner controls, ordered by their keys.
    pub(crate) fn of_owner(&self, owner: &NamespacedUid) -> impl Iterator<Item = &Arc<E>> {
        self.by_owner.get(owner).into_iter().flat_map(BTreeMap::values)
    }

    /// The objects of this owner that the watch showed for the first time since the last call.
    pub(crate) fn take_added(&mut self, owner: &NamespacedUid) -> Vec<Arc<E>> {
        let added = self.added.remove(owner).unwrap_or_default();
        added.iter().filter_map(|key| self.get(key)).filter(|entry| entry.owner() == owner).cloned().collect()
    }

    /// The version of the tombstone, if it is one of the first so many.
    pub(crate) fn tombstone_among(&self, key: &NamespacedUid, first: u64) -> Option<u64> {
        self.tombstones.get(key).filter(|(_, before)| *before < first).map(|(version, _)| *version)
    }

    /// Replaces a cached entry with a live read of an older version, and drops the tombstone.
    pub(crate) fn rewind(&mut self, entry: E, now: Timestamp) {
        self.tombstones.remove(entry.key());
        if self.entries.contains_key(entry.key()) {
            let (key, version) = (entry.key().clone(), entry.version());
            self.apply(Event::Apply(Seen { key, version, entry: Some(entry) }), now);
        }
    }

    /// The version at which the watch showed that this object is gone; the largest number for a deletion.
    pub(crate) fn tombstone(&self, key: &NamespacedUid) -> Option<u64> {
        self.tombstones.get(key).map(|(version, _)| *version)
    }

    fn swap(&mut self, now: Timestamp) -> BTreeSet<NamespacedUid> {
        self.lists += 1;
        let listed = self.listing.take().map(|listing| listing.listed).unwrap_or_default();
        let mut owners = BTreeSet::new();
        let known = std::mem::take(&mut self.entries);
        for (key, old) in &known {
            match listed.get(key) {
                Some((version, Some(_))) if *version == old.version() => {}
                Some((_, Some(new))) => owners.extend([old.owner().clone(), new.owner().clone()]),
                given_away_or_gone => {
                    owners.insert(old.owner().clone());
                    let version = given_away_or_gone.map_or(u64::MAX, |(version, _)| *version);
                    self.add_tombstone(key.clone(), version, now);
                }
            }
        }
        self.by_owner.clear();
        // After a list, a live read is due anyway.
        self.added.clear();
        for (key, (_, entry)) in listed {
            let Some(entry) = entry else { continue };
            if !known.contains_key(&key) {
                owners.insert(entry.owner().clone());
            }
            self.insert(entry);
        }
        owners
    }

    fn insert(&mut self, entry: Arc<E>) {
        self.tombstones.remove(entry.key());
        let of_owner = self.by_owner.entry(entry.owner().clone()).or_default();
        of_owner.insert(entry.key().clone(), Arc::clone(&entry));
        self.entries.insert(entry.key().clone(), entry);
    }

    /// Removes the entry. Returns it, and whether it was added since [`Self::take_added`].
    fn remove(&mut self, key: &NamespacedUid) -> (Option<Arc<E>>, bool) {
        let Some(entry) = self.entries.remove(key) else { return (None, false) };
        // A standby takes no additions: without this they would grow with every pod that it ever saw.
        let was_added = self.added.get_mut(entry.owner()).is_some_and(|added| added.remove(key));
        if let Some(of_owner) = self.by_owner.get_mut(entry.owner()) {
            of_owner.remove(key);
            if of_owner.is_empty() {
                self.by_owner.remove(entry.owner());
                self.added.remove(entry.owner());
            }
        }
        (Some(entry), was_added)
    }

    /// Adds a tombstone for an object that is deleted or no longer ours. One that never was gets none.
    fn leaves(&mut self, key: NamespacedUid, was_ours: bool, version: u64, now: Timestamp) {
        if was_ours || self.tombstones.contains_key(&key) {
            self.add_tombstone(key, version, now);
        }
    }

    fn add_tombstone(&mut self, key: NamespacedUid, version: u64, now: Timestamp) {
        while self
            .tombstone_times
            .front()
            .is_some_and(|(since, ..)| now.duration_since(*since) > TOMBSTONE_LIFETIME)
        {
            if let Some((_, before, old)) = self.tombstone_times.pop_front()
                && self.tombstones.get(&old).is_some_and(|(_, last)| *last == before)
            {
                self.tombstones.remove(&old);
            }
        }
        self.tombstone_times.push_back((now, self.gone, key.clone()));
        self.tombstones.insert(key, (version, self.gone));
        self.gone += 1;
    }
}

/// The cache of all watched objects except the deployments themselves.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    family: Family,
    /// The ReplicaSets without a Deployment, by the name under which they are reconciled.
    pub(crate) singles: BTreeMap<Named, NamespacedUid>,
    pub(crate) pods: Index<PodEntry>,
    pub(crate) sets: Index<SetEntry>,
    /// Deployments whose selector matches an orphan: a live read adopts it.
    adopters: BTreeSet<NamespacedUid>,
    /// The labels of orphaned pods: a set that appears later may select them. For OrderedReplicaSets only
    /// pods with a hash: the selector of each of them requires it.
    orphans: BTreeMap<NamespacedUid, BTreeMap<String, String>>,
    /// How many lists were completed, of deployments, sets and pods. Events between two lists can be missed.
    pub(crate) lists: u64,
}

impl Cache {
    pub(crate) fn of(family: Family) -> Self {
        Self { family, ..Self::default() }
    }

    /// The ReplicaSet without a Deployment that is reconciled under this name.
    pub(crate) fn single(&self, named: &Named) -> Option<&Arc<SetEntry>> {
        self.sets.get(self.singles.get(named)?)
    }

    /// Applies an event of a pod. Returns the deployments to reconcile.
    pub(crate) fn apply_pod(&mut self, event: Event<Seen<PodEntry>>, now: Timestamp) -> BTreeSet<Named> {
        self.lists += u64::from(matches!(event, Event::InitDone));
        match &event {
            Event::Init => self.orphans.clear(),
            Event::Apply(Seen { key, .. }) | Event::Delete(Seen { key, .. }) => _ = self.orphans.remove(key),
            Event::InitApply(_) | Event::InitDone => {}
        }
        let sets = self.pods.apply(event, now);
        sets.iter().filter_map(|key| self.sets.get(key)).map(|set| deployment_of(set)).collect()
    }

    /// Applies an event of a set. Returns the deployments to reconcile.
    pub(crate) fn apply_set(&mut self, event: Event<Seen<SetEntry>>, now: Timestamp) -> BTreeSet<Named> {
        self.lists += u64::from(matches!(event, Event::InitDone));
        let changed = match &event {
            Event::Apply(Seen { key, .. }) | Event::Delete(Seen { key, .. }) => Some(key.clone()),
            Event::Init | Event::InitApply(_) | Event::InitDone => None,
        };
        let is_in_list = matches!(event, Event::Init | Event::InitApply(_));
        // The name of the deployment of a deleted set is known only before the event is applied.
        let known: Vec<_> = match &changed {
            Some(key) => self.sets.get(key).into_iter().collect(),
            None if is_in_list => Vec::new(),
            None => self.sets.entries.values().collect(),
        };
        let mut names: BTreeMap<NamespacedUid, Named> =
            known.into_iter().map(|set| (set.owner().clone(), deployment_of(set))).collect();
        if let Event::Apply(Seen { key, entry: Some(set), .. }) = &event {
            // Pods that were orphaned before the watch showed this set.
            let has_orphan = !set.is_terminating() && self.has_orphan_of(&set.object);
            // Pods that were created for the former owner: the new one reads them live.
            let is_moved = self.sets.get(key).is_some_and(|known| known.owner() != set.owner());
            if has_orphan || is_moved {
                self.let_adopt(set.owner().clone());
            }
        }
        let owners = self.sets.apply(event, now);
        if !is_in_list {
            self.record_singles(changed.as_ref(), &names);
        }
        for owner in &owners {
            if let Some(set) = self.sets.of_owner(owner).next() {
                names.insert(owner.clone(), deployment_of(set));
            }
        }
        names.into_iter().filter(|(owner, _)| owners.contains(owner)).map(|(_, name)| name).collect()
    }

    /// Updates the ReplicaSets without a Deployment after an event of this set, or after a list. `before`:
    /// the names under which the changed sets were reconciled.
    fn record_singles(&mut self, changed: Option<&NamespacedUid>, before: &BTreeMap<NamespacedUid, Named>) {
        if self.family == Family::Ordered {
            return;
        }
        for name in before.values() {
            self.singles.remove(name);
        }
        let singles = &mut self.singles;
        let mut add = |set: &SetEntry| {
            if single_set(&set.deployment).is_some() {
                singles.insert(deployment_of(set), set.key().clone());
            }
        };
        match changed {
            Some(key) => self.sets.get(key).into_iter().for_each(|set| add(set)),
            None => self.sets.entries.values().for_each(|set| add(set)),
        }
    }

    /// Records an orphaned pod with these labels; [`Self::apply_pod`] gets the same event.
    /// Returns the deployments that may adopt it.
    pub(crate) fn apply_orphan(
        &mut self,
        key: &NamespacedUid,
        labels: &BTreeMap<String, String>,
    ) -> BTreeSet<Named> {
        if labels.contains_key(POD_TEMPLATE_HASH) || self.family == Family::Plain {
            self.orphans.insert(key.clone(), labels.clone());
        }
        let matches = |set: &SetEntry| !set.is_terminating() && set.object.spec.selector.matches(labels);
        let sets: Vec<_> = in_namespace(&self.sets.entries, key.namespace())
            .map(|(_, set)| set)
            .filter(|set| matches(set))
            .cloned()
            .collect();
        for set in &sets {
            self.let_adopt(set.owner().clone());
        }
        sets.iter().map(|set| deployment_of(set)).collect()
    }

    /// Whether that set selects an orphaned pod.
    pub(crate) fn has_orphan_of(&self, set: &OrderedReplicaSet) -> bool {
        let namespace = NamespacedUid::of(&set.metadata);
        let mut orphans = in_namespace(&self.orphans, namespace.namespace());
        orphans.any(|(_, labels)| set.spec.selector.matches(labels))
    }

    /// Marks this deployment: its next reconciliation may adopt an orphan.
    pub(crate) fn let_adopt(&mut self, deployment: NamespacedUid) {
        self.adopters.insert(deployment);
        // Whoever creates sets chooses their owners, and nobody takes the mark of one that does not exist.
        if self.adopters.len() > 2 * self.sets.by_owner.len() + ADOPTERS {
            self.adopters.retain(|owner| self.sets.by_owner.contains_key(owner));
        }
    }

    /// Whether there is an orphan to adopt since the last call; removes the mark.
    pub(crate) fn may_adopt(&mut self, deployment: &NamespacedUid) -> bool {
        self.adopters.remove(deployment)
    }
}

fn deployment_of(set: &SetEntry) -> Named {
    Named { namespace: set.namespace(), name: set.deployment.clone() }
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::{OrderedReplicaSet, Template};
    use serde_json::json;

    use super::{
        BTreeSet, Cache, Event, Index, Named, NamespacedUid, POD_TEMPLATE_HASH, PodEntry, Seen, SetEntry,
        TOMBSTONE_LIFETIME,
    };
    use crate::testing::{at, away, gone, key, listed, pod, pod_of, shown};

    fn owners(uids: &[&str]) -> BTreeSet<NamespacedUid> {
        uids.iter().map(|uid| key(uid)).collect()
    }

    #[test]
    fn a_relist_keeps_tombstones_of_deleted_and_released_pods_and_returns_their_owners() {
        let mut index = Index::default();
        for entry in [pod_of("s1", "a", 1), pod_of("s1", "b", 2), pod_of("s2", "c", 3)] {
            index.apply(shown(entry), at(0));
        }
        assert!(index.apply(Event::Init, at(1)).is_empty());
        index.apply(listed(pod_of("s1", "a", 1)), at(1));
        index.apply(Event::InitApply(Seen { key: key("c"), version: 7, entry: None }), at(1));
        assert_eq!(index.apply(Event::InitDone, at(1)), owners(&["s1", "s2"]));
        assert!(index.get(&key("a")).is_some() && index.get(&key("b")).is_none());
        assert_eq!((index.tombstone(&key("b")), index.tombstone(&key("c"))), (Some(u64::MAX), Some(7)));
        assert_eq!(index.of_owner(&key("s2")).count(), 0);
    }

    #[test]
    fn a_list_returns_the_owners_of_objects_that_are_seen_for_the_first_time() {
        let mut index = Index::default();
        index.apply(shown(pod_of("s1", "a", 1)), at(0));
        for expected in [owners(&["s2"]), owners(&[])] {
            index.apply(Event::Init, at(1));
            index.apply(listed(pod_of("s1", "a", 1)), at(1));
            index.apply(listed(pod_of("s2", "b", 2)), at(1));
            assert_eq!(index.apply(Event::InitDone, at(1)), expected);
        }
    }

    #[test]
    fn the_cache_serves_the_old_list_until_the_new_one_is_complete() {
        let mut index = Index::default();
        index.apply(shown(pod("a", 1)), at(0));
        index.apply(Event::Init, at(1));
        index.apply(listed(pod("b", 2)), at(1));
        assert!(index.get(&key("a")).is_some() && index.get(&key("b")).is_none());
    }

    #[test]
    fn a_pod_with_a_new_owner_returns_both_owners_and_a_released_pod_has_a_tombstone() {
        let mut index = Index::default();
        index.apply(shown(pod_of("s1", "a", 1)), at(0));
        assert_eq!(index.apply(shown(pod_of("s2", "a", 2)), at(0)), owners(&["s1", "s2"]));
        assert_eq!(index.apply(away("a", 3), at(0)), owners(&["s2"]));
        assert_eq!(index.tombstone(&key("a")), Some(3));
        index.apply(away("a", 4), at(0));
        assert_eq!(index.tombstone(&key("a")), Some(4));
        index.apply(shown(pod_of("s1", "a", 5)), at(0));
        assert_eq!(index.tombstone(&key("a")), None);
    }

    #[test]
    fn pods_that_change_their_owner_before_anybody_takes_them_are_not_kept() {
        let mut index = Index::default();
        for number in 0..100 {
            let uid = number.to_string();
            index.apply(shown(pod_of("none", &uid, 1)), at(0));
            index.apply(shown(pod_of("s1", &uid, 2)), at(0));
            if number < 99 {
                index.apply(gone(&uid), at(0));
            }
        }
        assert_eq!(index.added.values().map(BTreeSet::len).sum::<usize>(), 1);
        assert_eq!(index.take_added(&key("s1")).len(), 1);
    }

    #[test]
    fn deployments_that_do_not_exist_are_marked_in_bounds() {
        let mut cache = Cache::default();
        cache.apply_set(shown(set("s1", "web", 1)), at(0));
        cache.let_adopt(key("web-uid"));
        for number in 0..10 * super::ADOPTERS {
            cache.let_adopt(key(&number.to_string()));
        }
        assert!(cache.adopters.len() <= super::ADOPTERS + 2);
        assert!(cache.may_adopt(&key("web-uid")));
    }

    #[test]
    fn pods_of_other_controllers_get_no_tombstone() {
        let mut index = Index::<PodEntry>::default();
        assert_eq!(index.apply(away("x", 1), at(0)), owners(&[]));
        assert_eq!(index.apply(gone("x"), at(0)), owners(&[]));
        assert_eq!(index.tombstone(&key("x")), None);
    }

    #[test]
    fn tombstones_expire() {
        let mut index = Index::default();
        for (uid, second) in [("a", 0), ("b", 1), ("c", TOMBSTONE_LIFETIME.as_secs() + 2)] {
            index.apply(shown(pod(uid, 1)), at(second));
            index.apply(gone(uid), at(second));
        }
        assert_eq!((index.tombstone(&key("a")), index.tombstone(&key("b"))), (None, None));
        assert_eq!(index.tombstone(&key("c")), Some(u64::MAX));
    }

    fn set(uid: &str, deployment: &str, version: u64) -> SetEntry {
        let owner = json!({
            "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
            "name": deployment, "uid": format!("{deployment}-uid"), "controller": true,
        });
        let metadata = json!({
            "name": format!("{deployment}-{uid}"), "namespace": "shop", "uid": uid,
            "resourceVersion": version.to_string(), "ownerReferences": [owner],
        });
        let object = json!({"metadata": metadata, "spec": {"selector": {}, "template": {}}});
        SetEntry::of(serde_json::from_value::<OrderedReplicaSet>(object).unwrap()).unwrap()
    }

    /// A set with a template of 20 KB.
    fn revision(number: u64) -> SetEntry {
        let variable =
            |number: u32| json!({"name": format!("SETTING_{number}"), "value": number.to_string()});
        let variables: Vec<_> = (0..400).map(variable).collect();
        let template = json!({"spec": {"containers": [{"name": "web", "image": format!("web:{number}"),
            "env": variables}]}});
        let mut entry = set(&format!("s{number}"), "web", number);
        entry.set.template = Template::new(&template);
        entry
    }

    #[test]
    fn a_revision_is_stored_as_its_difference_from_the_first_one_seen() {
        let mut index = Index::default();
        index.apply(Event::Init, at(0));
        for number in 1..=3 {
            index.apply(listed(revision(number)), at(0));
        }
        index.apply(Event::InitDone, at(0));
        index.apply(shown(revision(4)), at(0));
        let bytes: Vec<usize> =
            index.of_owner(&key("web-uid")).map(|entry| entry.set.template.own_bytes()).collect();
        assert!(bytes[0] > 1000, "{bytes:?}");
        assert!(bytes[1..].iter().all(|bytes| *bytes < 256), "{bytes:?}");
        assert_eq!(index.get(&key("s3")).unwrap().set.template, revision(3).set.template);
    }

    #[test]
    fn an_orphan_marks_once_the_deployments_whose_set_selects_it_in_its_namespace() {
        let mut cache = Cache::default();
        let mut selects = set("s1", "web", 1);
        let wanted = std::collections::BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        selects.object.spec.selector.match_labels = Some(wanted.clone());
        cache.apply_set(shown(selects), at(0));
        assert!(cache.apply_orphan(&NamespacedUid::new("other", "p"), &wanted).is_empty());
        assert!(cache.apply_orphan(&key("p"), &[("app".to_owned(), "x".to_owned())].into()).is_empty());
        assert!(!cache.may_adopt(&key("web-uid")));
        let web = BTreeSet::from([Named { namespace: "shop".into(), name: "web".into() }]);
        assert_eq!(cache.apply_orphan(&key("p"), &wanted), web);
        assert!(cache.may_adopt(&key("web-uid")));
        assert!(!cache.may_adopt(&key("web-uid")));
    }

    #[test]
    fn a_set_with_another_owner_is_read_live_by_it() {
        let mut cache = Cache::default();
        for _ in 0..2 {
            cache.apply_set(shown(set("s1", "web", 1)), at(0));
        }
        assert!(!cache.may_adopt(&key("web-uid")));
        cache.apply_set(shown(set("s1", "api", 1)), at(0));
        assert!(cache.may_adopt(&key("api-uid")) && !cache.may_adopt(&key("web-uid")));
    }

    #[test]
    fn an_orphan_seen_before_its_set_is_offered_when_the_set_appears() {
        let mut cache = Cache::default();
        let wanted = std::collections::BTreeMap::from([(POD_TEMPLATE_HASH.to_owned(), "h".to_owned())]);
        cache.apply_orphan(&key("p"), &wanted);
        let mut see = |change: fn(&mut SetEntry)| {
            let mut selects = set("s1", "web", 1);
            selects.object.spec.selector.match_labels = Some(wanted.clone());
            change(&mut selects);
            cache.apply_set(shown(selects), at(0));
            cache.may_adopt(&key("web-uid"))
        };
        assert!(see(|_| ()));
        assert!(!see(|set| set.set.terminating = true));
        assert!(!see(|set| set.object.metadata.namespace = Some("other".to_owned())));
    }

    #[test]
    fn events_of_pods_and_sets_return_their_deployment_also_on_deletion() {
        let mut cache = Cache::default();
        let web = BTreeSet::from([Named { namespace: "shop".into(), name: "web".into() }]);
        assert!(cache.apply_pod(shown(pod_of("s1", "a", 1)), at(0)).is_empty());
        assert_eq!(cache.apply_set(shown(set("s1", "web", 1)), at(0)), web);
        assert_eq!(cache.apply_pod(shown(pod_of("s1", "a", 2)), at(0)), web);
        assert_eq!(cache.apply_pod(gone("a"), at(0)), web);
        cache.apply_set(Event::Init, at(0));
        assert_eq!(cache.apply_set(Event::InitDone, at(0)), web);
        assert_eq!(cache.lists, 1);
    }
}
