//! Garbage collection: dependents of owners that are gone, propagation policies, contents of namespaces and of
//! deleted definitions.
//!
//! It runs beside the requests, as a controller does, and only ever deletes what a finalizer or an owner tells it to.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;

use super::delete::Options;
use super::update::finished;
use super::{Server, State, crd, storage};
use crate::object;
use crate::resource::{Origin, ResourceInfo};
use crate::store::Key;

/// How long after a change the collector looks: changes of one burst are taken together.
const PAUSE: Duration = Duration::from_millis(20);

type Place = (Arc<ResourceInfo>, Key);

/// Runs until the server is dropped.
pub(crate) async fn run(server: Weak<Server>) {
    loop {
        let Some(garbage) = server.upgrade().map(|server| Arc::clone(&server.state().store.garbage)) else {
            return;
        };
        garbage.notified().await;
        tokio::time::sleep(PAUSE).await;
        let Some(server) = server.upgrade() else { return };
        let now = server.clock.now();
        let mut state = server.state();
        if let Some(journal) = &mut state.store.journal {
            journal.at = now;
        }
        // Each pass may free what the next one collects; the number of passes is bounded by the depth of ownership.
        while state.collect() {}
    }
}

impl State {
    /// One pass; whether anything was changed.
    fn collect(&mut self) -> bool {
        let places = self.places();
        let mut dependents: BTreeMap<String, Vec<(usize, bool)>> = BTreeMap::new();
        let mut orphans = Vec::new();
        let mut marked = Vec::new();
        for (index, (info, key)) in places.iter().enumerate() {
            let Some(object) = self.store.get(&storage(info), key) else { continue };
            let owners = object::owners(object);
            for owner in owners {
                let blocks = owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true);
                dependents.entry(uid_of(owner).to_owned()).or_default().push((index, blocks));
            }
            if owners.iter().any(|owner| !self.store.exists(uid_of(owner))) && !object::terminating(object) {
                orphans.push(index);
            }
            if object::terminating(object) {
                marked.push(index);
            }
        }
        let mut changed = false;
        for index in marked {
            changed |= self.advance(&places, index, &dependents);
        }
        for index in orphans {
            changed |= self.attempt_to_delete(&places[index], &dependents);
        }
        changed
    }

    /// Every stored object, once, under one of its served versions.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (resource, collection) in self.store.collections() {
            let info = self
                .registry
                .iter()
                .find(|info| storage(info) == *resource && info.group == resource.0)
                .map(Arc::clone);
            if let Some(info) = info {
                places.extend(collection.objects.keys().map(|key| (Arc::clone(&info), key.clone())));
            }
        }
        places
    }

    /// Deletes an object that no owner keeps, or drops its references to those owners that do not.
    fn attempt_to_delete(
        &mut self,
        place: &Place,
        dependents: &BTreeMap<String, Vec<(usize, bool)>>,
    ) -> bool {
        let (info, key) = place;
        let Some(object) = self.store.get(&storage(info), key).map(Arc::clone) else { return false };
        if object::terminating(&object) {
            return false;
        }
        let owners = object::owners(&object);
        let kept: Vec<Value> = owners.iter().filter(|owner| self.keeps(uid_of(owner))).cloned().collect();
        if kept.len() == owners.len() {
            return false;
        }
        if !kept.is_empty() {
            let mut freed = Value::clone(&object);
            object::set_meta(&mut freed, "ownerReferences", kept.into());
            self.store.put(&storage(info), key, freed);
            return true;
        }
        let uid = object::uid(&object);
        let is_awaited = owners.iter().any(|owner| self.store.exists(uid_of(owner)));
        let options = if is_awaited && dependents.get(uid).is_some_and(|mine| !mine.is_empty()) {
            Options::foreground(uid)
        } else {
            // What its finalizers ask for stays as it is.
            Options::collected(uid)
        };
        self.delete_one(info, key, &options).is_ok()
    }

    /// Whether the owner keeps its dependents: it is there, and does not wait for their end.
    fn keeps(&self, uid: &str) -> bool {
        let waits = |owner: &Value| {
            object::terminating(owner)
                && object::finalizers(owner).iter().any(|one| one == "foregroundDeletion")
        };
        self.store.by_uid(uid).is_some_and(|owner| !waits(owner))
    }

    /// Does what the finalizers of an object that is being deleted ask for.
    fn advance(
        &mut self,
        places: &[Place],
        index: usize,
        dependents: &BTreeMap<String, Vec<(usize, bool)>>,
    ) -> bool {
        let (info, key) = &places[index];
        let Some(object) = self.store.get(&storage(info), key).map(Arc::clone) else { return false };
        let finalizers = object::finalizers(&object);
        let has = |name: &str| finalizers.iter().any(|one| one == name);
        let mine = dependents.get(object::uid(&object)).map(Vec::as_slice).unwrap_or_default();
        if has("orphan") {
            for (dependent, _) in mine {
                self.disown(&places[*dependent], object::uid(&object));
            }
            return self.release(&places[index], "orphan");
        }
        if has("foregroundDeletion") {
            return self.foreground(places, index, dependents, mine);
        }
        if info.is_builtin("", "Namespace") {
            return self.empty_namespace(&places[index], places);
        }
        if has(crd::CLEANUP) {
            return self.empty_definition(&places[index], places);
        }
        false
    }

    /// Those dependents that block the owner's deletion go first; the others when it is gone.
    fn foreground(
        &mut self,
        places: &[Place],
        index: usize,
        dependents: &BTreeMap<String, Vec<(usize, bool)>>,
        mine: &[(usize, bool)],
    ) -> bool {
        let (mut changed, mut blocked) = (false, false);
        for (dependent, _) in mine.iter().filter(|(_, blocks)| *blocks) {
            changed |= self.attempt_to_delete(&places[*dependent], dependents);
            let (info, key) = &places[*dependent];
            let (owner_info, owner_key) = &places[index];
            let owner =
                self.store.get(&storage(owner_info), owner_key).map(|owner| object::uid(owner).to_owned());
            let left = self.store.get(&storage(info), key);
            blocked |= left.is_some_and(|left| {
                object::owners(left).iter().any(|one| Some(uid_of(one)) == owner.as_deref())
            });
        }
        if blocked { changed } else { self.release(&places[index], "foregroundDeletion") }
    }

    fn disown(&mut self, (info, key): &Place, owner: &str) {
        let Some(object) = self.store.get(&storage(info), key).map(Arc::clone) else { return };
        let kept: Vec<Value> =
            object::owners(&object).iter().filter(|one| uid_of(one) != owner).cloned().collect();
        let mut freed = Value::clone(&object);
        object::set_meta(
            &mut freed,
            "ownerReferences",
            if kept.is_empty() { Value::Null } else { kept.into() },
        );
        self.store.put(&storage(info), key, freed);
    }

    /// Removes one finalizer, and the object when that was all it waited for.
    fn release(&mut self, (info, key): &Place, finalizer: &str) -> bool {
        let Some(object) = self.store.get(&storage(info), key).map(Arc::clone) else { return false };
        let mut freed = Value::clone(&object);
        let mut finalizers = object::finalizers(&freed);
        finalizers.retain(|one| one != finalizer);
        object::set_finalizers(&mut freed, finalizers);
        self.store_or_remove((info, key), freed);
        true
    }

    fn store_or_remove(&mut self, (info, key): (&Arc<ResourceInfo>, &Key), object: Value) {
        if finished(&object) {
            // Watches are told of the object as it was kept last.
            if let Some(last) = self.store.get(&storage(info), key).map(Arc::clone) {
                self.store.remove(&storage(info), key, &last);
            }
            self.after_removal(info, &object);
        } else {
            self.store.put(&storage(info), key, object);
        }
    }

    fn empty_namespace(&mut self, place: &Place, places: &[Place]) -> bool {
        let (info, key) = place;
        let (mut changed, mut left) = (false, false);
        for (inner, inner_key) in places.iter().filter(|(_, inner)| inner.0 == key.1) {
            let Some(object) = self.store.get(&storage(inner), inner_key).map(Arc::clone) else { continue };
            if !object::terminating(&object) {
                changed |=
                    self.delete_one(inner, inner_key, &Options::background(object::uid(&object))).is_ok();
            }
            left |= self.store.get(&storage(inner), inner_key).is_some();
        }
        if left {
            return changed;
        }
        let Some(object) = self.store.get(&storage(info), key).map(Arc::clone) else { return changed };
        if object.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return changed;
        }
        let mut freed = Value::clone(&object);
        object::put_at(&mut freed, ".spec.finalizers", Value::Array(Vec::new()));
        self.store_or_remove((info, key), freed);
        true
    }

    fn empty_definition(&mut self, place: &Place, places: &[Place]) -> bool {
        let (info, key) = place;
        let Some(object) = self.store.get(&storage(info), key).map(Arc::clone) else { return false };
        let (group, plural) = crd::names(&object);
        let (mut changed, mut left) = (false, false);
        let instances = places.iter().filter(|(inner, _)| {
            inner.origin == Origin::Crd && inner.group == group && inner.plural == plural
        });
        for (inner, inner_key) in instances {
            let Some(object) = self.store.get(&storage(inner), inner_key).map(Arc::clone) else { continue };
            if !object::terminating(&object) {
                changed |=
                    self.delete_one(inner, inner_key, &Options::background(object::uid(&object))).is_ok();
            }
            left |= self.store.get(&storage(inner), inner_key).is_some();
        }
        if left { changed } else { self.release(place, crd::CLEANUP) }
    }
}

fn uid_of(owner: &Value) -> &str {
    owner.get("uid").and_then(Value::as_str).unwrap_or_default()
}
