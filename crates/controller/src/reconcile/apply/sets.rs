//! Creates, changes and deletes sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::names::label::POD_TEMPLATE_HASH;
use ordereddeployment_kubernetes::{ObjectVersion, RequestError};
use ordereddeployment_planner::{FailureKind, SetChange};
use ordereddeployment_wire::{Family, new_set};
use serde_json::{Map, Value, json};

use super::creates::altered;
use crate::cache::entry::{Entry, SetEntry};
use crate::cache::expectations::Fact;
use crate::objects::SetObject;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::record::{Effect, WriteFailure};
use crate::reconcile::state::live::LiveReadReason;

impl Reconciler<'_> {
    pub(super) async fn change_set(&self, change: &SetChange) -> Vec<Effect> {
        let uid = match change {
            SetChange::Create { name, hash, revision, replicas } => {
                return self.create_set(name, hash, *revision, *replicas).await;
            }
            SetChange::Update { uid, .. } | SetChange::Equal { uid, .. } | SetChange::Delete { uid } => uid,
        };
        let Some(entry) = self.observation.set(uid) else { return vec![Effect::DecideAgain] };
        match change {
            SetChange::Update { replicas, revision, min_ready_seconds, served, .. } => {
                let cause = revision.is_some().then(|| self.change_cause()).flatten();
                let number = |number: &Option<i64>| json!(number.map(|number| number.to_string()));
                let annotations = without_nulls([
                    (annotation::REVISION, number(revision)),
                    (annotation::SERVED, number(served)),
                    (annotation::CHANGE_CAUSE, json!(cause)),
                ]);
                let spec = [("replicas", json!(replicas)), ("minReadySeconds", json!(min_ready_seconds))];
                let version = &entry.object.metadata.resource_version;
                let mut metadata = json!({"resourceVersion": version});
                if !annotations.is_empty() {
                    metadata["annotations"] = annotations.into();
                }
                let patch = json!({"metadata": metadata, "spec": without_nulls(spec)});
                self.update_set(entry, &patch, |_| None).await
            }
            SetChange::Equal { equal_templates, .. } => self.remember_equal(entry, equal_templates).await,
            SetChange::Create { .. } | SetChange::Delete { .. } => self.delete_set(entry).await,
        }
    }

    async fn create_set(&self, name: &str, hash: &str, revision: i64, replicas: i32) -> Vec<Effect> {
        let set = new_set(&self.state.deployment, name, hash, revision, replicas);
        let mut effects = Vec::new();
        if self.state.writes.altered_creates.contains_key(self.key.uid()) {
            match self.requests.create_whole(&self.namespace, &set, true).await {
                Ok(tried) if self.change_of_set(&set, &tried).is_none() => {
                    effects.push(Effect::Unaltered(Arc::clone(self.key.uid())));
                }
                Ok(_) => return vec![self.still_altered(self.key.uid())],
                // The set is ours after all, or another object has the name.
                Err(error) if error.is_already_there() => return self.meet_set(name, &error).await,
                Err(error) => return vec![set_failed(FailureKind::Create, "create", "trying", name, &error)],
            }
        }
        match self.requests.create_whole(&self.namespace, &set, false).await {
            Ok(created) => {
                effects.push(Effect::SetCreated);
                if let Some(change) = self.change_of_set(&set, &created) {
                    effects.extend(altered(self.key.uid(), &format!("Set {name}"), &change));
                    return effects;
                }
                if self.ctx.cache().has_orphan_of(&created) {
                    // Orphans of a deleted set with the same template: they are adopted first.
                    effects.push(Effect::LiveReadDue(LiveReadReason::Orphan));
                }
                effects.extend(shown(created));
            }
            Err(error) if error.is_already_there() => effects.extend(self.meet_set(name, &error).await),
            Err(error) => {
                effects.push(set_failed(FailureKind::Create, "create", "creating", name, &error));
            }
        }
        effects
    }

    /// The change that prevents a created set from belonging to the object, or from having its template.
    fn change_of_set(&self, sent: &OrderedReplicaSet, came: &OrderedReplicaSet) -> Option<String> {
        if Family::Ordered.deployment_key(&came.metadata).as_ref() != Some(&self.key) {
            return Some("without its owner reference".to_owned());
        }
        let selector = &self.state.deployment.spec.selector;
        if !selector.matches(came.labels()) {
            let selector = selector.to_selector_string();
            return Some(format!("without the labels that its deployment selects ({selector})"));
        }
        change_of_spec(sent, came)
    }

    /// A set of that name exists: ours, which the watch does not show yet, or another one.
    async fn meet_set(&self, name: &str, error: &RequestError) -> Vec<Effect> {
        let met = match self.requests.set(&self.namespace, name).await {
            Ok(met) => met,
            Err(error) => return vec![set_failed(FailureKind::Create, "create", "reading", name, &error)],
        };
        let Some(met) = met else {
            // It may just have been deleted. The second time, that is not the reason.
            let stop = if self.taken > 0 {
                set_failed(FailureKind::Create, "create", "creating", name, error)
            } else {
                Effect::DecideAgain
            };
            return vec![Effect::NameTaken, stop];
        };
        let is_same = met.spec.template.without_hash().same_as(&self.state.deployment.spec.template);
        let is_ending = met.metadata.deletion_timestamp.is_some();
        let is_ours = SetEntry::of(met.clone()).is_some_and(|entry| *entry.owner() == self.key);
        if !is_ours || !is_same {
            return vec![Effect::SetNameTaken(name.to_owned()), Effect::DecideAgain];
        }
        // A terminating set must be gone first.
        shown(met).into_iter().chain(is_ending.then_some(Effect::DecideAgain)).collect()
    }

    /// Patches a set. `unkept_besides` names what the answer lacks besides the fields that were sent.
    async fn update_set(
        &self,
        entry: &SetEntry,
        patch: &Value,
        unkept_besides: impl FnOnce(&SetEntry) -> Option<String>,
    ) -> Vec<Effect> {
        let name = &entry.set.name;
        match self.requests.patch_whole(&self.namespace, name, patch).await {
            Ok(updated) => {
                let lacks = unkept(patch, &updated)
                    .or_else(|| SetEntry::of(updated.clone()).and_then(|entry| unkept_besides(&entry)));
                let failure = lacks.map(|field| not_kept(name, &field));
                shown(updated).into_iter().chain(failure).collect()
            }
            Err(error) if (error.is_conflict() || error.is_not_found()) && self.may_conflict() => {
                Effect::conflict()
            }
            Err(error) => vec![set_failed(FailureKind::Create, "update", "changing", name, &error)],
        }
    }

    /// Stores the hashes of the templates that equal the set's own.
    async fn remember_equal(&self, entry: &SetEntry, equal_templates: &[String]) -> Vec<Effect> {
        let patch = json!({"metadata": {
            "resourceVersion": entry.object.metadata.resource_version,
            "annotations": {annotation::EQUAL_TEMPLATES: equal_templates.join(",")},
        }});
        self.update_set(entry, &patch, |stored| {
            (stored.set.equal_templates != equal_templates)
                .then(|| format!("the annotation {}", annotation::EQUAL_TEMPLATES))
        })
        .await
    }

    async fn delete_set(&self, entry: &Arc<SetEntry>) -> Vec<Effect> {
        let version = entry.object.metadata.resource_version.clone().unwrap_or_default();
        let name = &entry.set.name;
        let object = ObjectVersion { namespace: &self.namespace, name, uid: entry.uid(), version: &version };
        match self.requests.delete::<OrderedReplicaSet>(&object).await {
            Ok(()) => vec![Effect::Set(Fact::Terminating(Arc::clone(entry)))],
            Err(error) if error.says_gone(name) => vec![Effect::Set(Fact::Gone(entry.key().clone()))],
            Err(error) if error.is_conflict() && self.may_conflict() => Effect::conflict(),
            Err(error) => vec![set_failed(FailureKind::Delete, "delete", "deleting", name, &error)],
        }
    }

    fn change_cause(&self) -> Option<String> {
        self.state.deployment.metadata.annotations.as_ref()?.get(annotation::CHANGE_CAUSE).cloned()
    }
}

/// A set as an answer shows it, if it is ours.
fn shown(set: impl Into<SetObject>) -> Option<Effect> {
    SetEntry::of(set).map(|entry| Effect::Set(Fact::Is(Arc::new(entry))))
}

fn set_failed(
    kind: FailureKind,
    verb: &'static str,
    doing: &str,
    name: &str,
    error: &RequestError,
) -> Effect {
    let doing = format!("{doing} set {name}");
    Effect::Failed(WriteFailure::of(kind, verb, &doing, error, error.to_string()))
}

/// The answer to a patch of a set does not contain the change: an immediate retry would not help.
fn not_kept(name: &str, field: &str) -> Effect {
    let message = format!(
        "set {name} came back without {field} as it was sent, as if a mutating webhook had changed it"
    );
    let event = format!("Error changing sets: {message}");
    Effect::Failed(WriteFailure::unusable(Some("update"), event, message))
}

/// The field of a set's spec that came back changed. Different spellings of a template do not count.
fn change_of_spec(sent: &OrderedReplicaSet, came: &OrderedReplicaSet) -> Option<String> {
    let (one, other) = (&sent.spec, &came.spec);
    if !one.template.without_hash().same_as(&other.template.without_hash()) {
        return Some("with another template".to_owned());
    }
    let hash = |labels: &BTreeMap<String, String>| labels.get(POD_TEMPLATE_HASH).cloned();
    if hash(&one.template.labels()) != hash(&other.template.labels())
        || hash(sent.labels()) != hash(came.labels())
    {
        return Some(format!("with another {POD_TEMPLATE_HASH}"));
    }
    let (one, other) = (one.selector.to_selector_string(), other.selector.to_selector_string());
    (one != other).then(|| format!("with the selector {other} instead of {one}"))
}

/// The field that was sent and came back changed.
fn unkept(patch: &Value, set: &OrderedReplicaSet) -> Option<String> {
    let stored = |key: &str| set.annotations().get(key).map(|value| json!(value));
    let asked = |key: &str| &patch["metadata"]["annotations"][key];
    let fields = [
        ("spec.replicas", &patch["spec"]["replicas"], Some(json!(set.spec.replicas))),
        ("spec.minReadySeconds", &patch["spec"]["minReadySeconds"], Some(json!(set.spec.min_ready_seconds))),
        (annotation::REVISION, asked(annotation::REVISION), stored(annotation::REVISION)),
        (annotation::SERVED, asked(annotation::SERVED), stored(annotation::SERVED)),
    ];
    let mut unkept =
        fields.into_iter().filter(|(_, sent, came)| !sent.is_null() && came.as_ref() != Some(sent));
    unkept.next().map(|(field, sent, _)| format!("{field} ({sent})"))
}

/// An object of these fields. A null would remove a field.
fn without_nulls<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    fields.map(|(key, value)| (key.to_owned(), value)).collect()
}
