//! Deletes the content of terminating namespaces and the objects of terminating CustomResourceDefinitions.
//!
//! Like a controller, it runs concurrently with requests and deletes nothing else. The garbage collector
//! handles owners and finalizers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde_json::{Value, json};

use super::update::finished;
use super::{Server, State, crd, storage};
use crate::object;
use crate::resource::{Origin, ResourceInfo};
use crate::store::Key;

/// The delay after a change, so that one pass handles a burst of changes.
const PAUSE: Duration = Duration::from_millis(20);

type Place = (Arc<ResourceInfo>, Key);

/// Runs until the task ends.
pub(crate) async fn run(server: Arc<Server>) {
    let mut changes = server.state().store.changes.subscribe();
    while changes.changed().await.is_ok() {
        tokio::time::sleep(PAUSE).await;
        changes.mark_unchanged();
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
        let mut changed = false;
        for place in self.ending("", "Namespace") {
            let name = place.1.1.clone();
            let release = |namespace: &mut Value| object::put_at(namespace, ".spec.finalizers", json!([]));
            changed |= self.empty(place, |_, inner| inner.0 == name, release);
        }
        for (info, key) in self.ending("apiextensions.k8s.io", "CustomResourceDefinition") {
            let Some(definition) = self.store.get(&storage(&info), &key) else { continue };
            let (group, plural) = crd::names(definition);
            let is_instance = |inner: &ResourceInfo, _: &Key| {
                inner.origin == Origin::Crd && inner.group == group && inner.plural == plural
            };
            changed |= self.empty((info, key), is_instance, |definition| {
                let mut finalizers = object::finalizers(definition);
                finalizers.retain(|one| one != crd::CLEANUP);
                object::set_finalizers(definition, finalizers);
            });
        }
        changed
    }

    /// The terminating objects of a built-in kind.
    fn ending(&self, group: &str, kind: &str) -> Vec<Place> {
        let mut ending = self.inside(|info, _| info.is_builtin(group, kind));
        ending.retain(|(info, key)| {
            self.store.get(&storage(info), key).is_some_and(|object| object::terminating(object))
        });
        ending
    }

    /// Every stored object that is inside, once, in one of its served versions.
    fn inside(&self, is_inside: impl Fn(&ResourceInfo, &Key) -> bool) -> Vec<Place> {
        let mut places = Vec::new();
        for (resource, collection) in self.store.collections() {
            let Some(info) = self.registry.iter().find(|info| storage(info) == *resource) else { continue };
            let keys = collection.objects.keys().filter(|key| is_inside(info, key));
            places.extend(keys.map(|key| (Arc::clone(info), key.clone())));
        }
        places
    }

    /// Deletes what is inside the object, and releases the object when nothing is left. Returns whether it
    /// changed an object.
    fn empty(
        &mut self,
        (info, key): Place,
        is_inside: impl Fn(&ResourceInfo, &Key) -> bool,
        release: impl FnOnce(&mut Value),
    ) -> bool {
        let (mut changed, mut left) = (false, false);
        for (inner, inner_key) in self.inside(is_inside) {
            let Some(object) = self.store.get(&storage(&inner), &inner_key).map(Arc::clone) else { continue };
            if !object::terminating(&object) {
                let policy = Some("Background".to_owned());
                let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
                changed |= self.delete_one(&inner, &inner_key, &options).is_ok();
            }
            left |= self.store.get(&storage(&inner), &inner_key).is_some();
        }
        let stored = self.store.get(&storage(&info), &key).map(Arc::clone);
        let Some(last) = stored.filter(|_| !left) else { return changed };
        let mut freed = Value::clone(&last);
        release(&mut freed);
        if freed == *last {
            return changed;
        }
        if finished(&freed) {
            // Watches get the last stored state of the object.
            self.store.remove(&storage(&info), &key, &last);
            self.forget_crd(&info, &freed);
        } else {
            self.store.put(&storage(&info), &key, freed);
        }
        true
    }
}
