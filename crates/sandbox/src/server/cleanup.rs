//! Deletes the content of terminating namespaces and the objects of terminating CustomResourceDefinitions.
//!
//! Like a controller, it runs concurrently with requests and deletes nothing else. The garbage collector handles owners
//! and finalizers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;

use super::delete::Options;
use super::update::finished;
use super::{Server, State, crd, storage};
use crate::object;
use crate::resource::{Origin, ResourceInfo};
use crate::store::Key;

/// The delay after a change, so that one pass handles a burst of changes.
const PAUSE: Duration = Duration::from_millis(20);

type Place = (Arc<ResourceInfo>, Key);

/// Runs until the server is dropped.
pub(crate) async fn run(server: Weak<Server>) {
    loop {
        let Some(emptied) = server.upgrade().map(|server| Arc::clone(&server.state().store.emptied)) else {
            return;
        };
        emptied.notified().await;
        tokio::time::sleep(PAUSE).await;
        let Some(server) = server.upgrade() else { return };
        let now = server.clock.now();
        let mut state = server.state();
        if let Some(journal) = &mut state.store.journal {
            journal.at = now;
        }
        // A pass may enable the next one. The number of finalizers limits the number of passes.
        while state.clean_up() {}
    }
}

impl State {
    /// Runs one pass. Returns whether it changed an object.
    fn clean_up(&mut self) -> bool {
        let namespaces = self.ending("", "Namespace");
        let mut definitions = self.ending("apiextensions.k8s.io", "CustomResourceDefinition");
        definitions.retain(|(info, key)| {
            let definition = self.store.get(&storage(info), key);
            definition.is_some_and(|one| object::finalizers(one).iter().any(|one| one == crd::CLEANUP))
        });
        if namespaces.is_empty() && definitions.is_empty() {
            return false;
        }
        let places = self.places();
        let mut changed = false;
        for place in namespaces {
            changed |= self.empty_namespace(&place, &places);
        }
        for place in definitions {
            changed |= self.empty_definition(&place, &places);
        }
        changed
    }

    /// The terminating objects of a built-in kind.
    fn ending(&self, group: &str, kind: &str) -> Vec<Place> {
        let Some(info) = self.registry.iter().find(|info| info.is_builtin(group, kind)) else {
            return Vec::new();
        };
        let collection = self.store.collections().find(|(resource, _)| **resource == storage(info));
        let objects = collection.into_iter().flat_map(|(_, collection)| &collection.objects);
        let ending = objects.filter(|(_, object)| object::terminating(object));
        ending.map(|(key, _)| (Arc::clone(info), key.clone())).collect()
    }

    /// Every stored object, once, in one of its served versions.
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

    /// Removes one finalizer. Removes the object if it was the last one.
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
            // Watches get the last stored state of the object.
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
