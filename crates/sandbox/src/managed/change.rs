//! What a write does to the managers of an object, and what an applied configuration does to the object.
//!
//! The rules are those of structured-merge-diff (`merge/update.go`) and of apimachinery's field manager. All versions
//! of a resource have the same fields here, so fields are never converted.

use std::sync::LazyLock;

use serde_json::Value;

use super::compare::compare;
use super::conflict::Conflict;
use super::extract::fields;
use super::last_applied;
use super::managers::{Entry, Manager, Managers, Operation};
use super::merge::merge;
use super::remove::remove;
use super::set::FieldSet;
use super::shape::Shape;

/// The manager of the fields that an object had before its fields were tracked.
const BEFORE: &str = "before-first-apply";

/// Fields that no manager owns, because the server sets them or they identify the object.
static UNTRACKED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// One write.
pub(crate) struct Change<'a> {
    /// The name of the manager.
    pub(crate) manager: &'a str,
    /// The version of the API of the request.
    pub(crate) version: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) shape: &'a Shape<'a>,
    /// The fields that the endpoint does not write.
    pub(crate) ignored: &'a FieldSet,
    pub(crate) now: &'a str,
}

/// The result of an applied configuration.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) object: Value,
    pub(crate) managers: Managers,
}

impl Change<'_> {
    fn id(&self, operation: Operation) -> Manager {
        Manager::new(self.manager, operation, self.version, self.subresource)
    }
}

/// The managers after a create, update or patch. The objects are without `metadata.managedFields`.
pub(crate) fn update(old: &Value, new: &Value, mut managers: Managers, change: &Change<'_>) -> Managers {
    let difference = compare(old, new, change.shape).without(change.ignored);
    let set = difference.set();
    managers.take(&set.union(&difference.removed), None);
    let own = set.difference(&UNTRACKED);
    if !own.is_empty() {
        let id = change.id(Operation::Update);
        let before = managers.0.get(&id).map(|entry| entry.fields.clone()).unwrap_or_default();
        managers.0.insert(id, entry(before.union(&own), change));
    }
    managers.cap();
    managers
}

/// Applies a configuration. Without `force`, changes of fields that others own are conflicts. An object that has no
/// managers gets one for all its fields first; `empty` is the object of that kind without any fields.
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    empty: &Value,
    managers: Managers,
    change: &Change<'_>,
    force: bool,
) -> Result<Outcome, Vec<Conflict>> {
    let managers = if managers.0.is_empty() {
        update(empty, live, managers, &Change { manager: BEFORE, ..*change })
    } else {
        managers
    };
    let outcome = match attempt(live, config, managers.clone(), change, force) {
        Err(conflicts) if change.manager == last_applied::MANAGER => {
            let allowed = last_applied::owned(live, change.shape);
            let left: Vec<Conflict> =
                conflicts.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect();
            if !left.is_empty() {
                return Err(left);
            }
            attempt(live, config, managers, change, true)
        }
        done => done,
    };
    let mut outcome = outcome?;
    if change.manager == last_applied::MANAGER {
        last_applied::renew(&mut outcome.object, config);
    }
    Ok(outcome)
}

fn attempt(
    live: &Value,
    config: &Value,
    mut managers: Managers,
    change: &Change<'_>,
    force: bool,
) -> Result<Outcome, Vec<Conflict>> {
    let id = change.id(Operation::Apply);
    let last = managers.0.get(&id).cloned();
    let time = last.as_ref().and_then(|last| last.time.clone());
    let set = fields(config, change.shape).without(change.ignored);
    managers.0.insert(id.clone(), Entry { time, ..entry(set, change) });
    let merged = merge(live, config, change.shape);
    let object = match last {
        Some(last) if !last.fields.is_empty() => prune(&merged, &last.fields, &managers, change.shape),
        _ => merged,
    };
    let difference = compare(live, &object, change.shape).without(change.ignored);
    let set = difference.set();
    let conflicts: Vec<Conflict> = managers
        .0
        .iter()
        .filter(|(manager, _)| **manager != id)
        .flat_map(|(manager, entry)| {
            let paths = entry.fields.intersection(&set).paths();
            paths.into_iter().map(|path| Conflict { manager: manager.clone(), path })
        })
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    managers.take(&set.union(&difference.removed), Some(&id));
    if let Some(own) = managers.0.get_mut(&id) {
        own.fields = own.fields.difference(&UNTRACKED);
        if object != *live {
            own.time = Some(change.now.to_owned());
        }
    }
    managers.0.retain(|_, entry| !entry.fields.is_empty());
    Ok(Outcome { object, managers })
}

/// Removes what the applier applied last and no longer applies, unless another manager owns it.
fn prune(merged: &Value, last: &FieldSet, managers: &Managers, shape: &Shape<'_>) -> Value {
    let with_parents = |set: &FieldSet| set.with_parents(&mut |path| shape.declares(path));
    let last = with_parents(last);
    let all = with_parents(&fields(merged, shape));
    let kept = with_parents(&fields(&remove(merged, &last, shape), shape));
    let owned = managers.0.values().fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
    let pruned = remove(merged, &all.difference(&kept.union(&with_parents(&owned))), shape);
    // What the removal of a parent would take along stays, if the applier never owned it.
    let kept = with_parents(&fields(&pruned, shape));
    remove(merged, &all.difference(&kept).intersection(&last), shape)
}

fn entry(fields: FieldSet, change: &Change<'_>) -> Entry {
    Entry { version: change.version.to_owned(), time: Some(change.now.to_owned()), fields }
}
