//! Creates, changes and deletes sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::names::label::POD_TEMPLATE_HASH;
use ordereddeployment_planner::{FailureKind, SetChange};
use ordereddeployment_wire::{new_set, owner_of};
use serde_json::{Map, Value, json};

use super::Interrupt;
use crate::cache::entry::{Entry, SetEntry};
use crate::client::error::RequestError;
use crate::client::requests::ObjectVersion;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::LiveReadReason;

/// How many writes of sets may meet a conflict in one pass before the next one counts as failed.
const CONFLICTS: usize = 5;

impl Reconciler<'_> {
    pub(super) async fn change_set(&mut self, change: &SetChange) -> Result<(), Interrupt> {
        match change {
            SetChange::Create { name, hash, revision, replicas } => {
                self.create_set(name, hash, *revision, *replicas).await
            }
            SetChange::Update { uid, replicas, revision, min_ready_seconds } => {
                let entry = self.set_by_uid(uid)?;
                let cause = revision.is_some().then(|| self.change_cause()).flatten();
                let patch = set_patch(&entry, *replicas, *revision, *min_ready_seconds, cause);
                self.update_set(&entry, &patch).await
            }
            SetChange::Equal { uid, equal_templates } => {
                let entry = self.set_by_uid(uid)?;
                self.remember_equal(&entry, equal_templates).await
            }
            SetChange::Delete { uid } => {
                let entry = self.set_by_uid(uid)?;
                self.delete_set(&entry).await
            }
        }
    }

    async fn create_set(
        &mut self,
        name: &str,
        hash: &str,
        revision: i64,
        replicas: i32,
    ) -> Result<(), Interrupt> {
        self.check_object_exists(1).await?;
        let set = new_set(&self.state.deployment, name, hash, revision, replicas);
        let uid = Arc::clone(&self.uid);
        if self.state.altered_creates.contains_key(&uid) {
            match self.requests.create_set(&self.namespace, &set, true).await {
                Ok(tried) if self.change_of_set(&set, &tried).is_none() => {
                    _ = self.state.altered_creates.remove(&uid);
                }
                Ok(_) => return Err(self.still_altered(&uid)),
                // It came to be ours after all, or the name is another's.
                Err(error) if error.is_already_there() => return self.meet_set(name, &error).await,
                Err(error) => {
                    return Err(self.set_failed(FailureKind::Create, "create", "trying", name, &error));
                }
            }
        }
        match self.requests.create_set(&self.namespace, &set, false).await {
            Ok(created) => {
                self.state.created += 1;
                if let Some(change) = self.change_of_set(&set, &created) {
                    return Err(self.altered(&uid, &format!("Set {name}"), &change));
                }
                if self.ctx.cache().has_orphan_of(&created) {
                    // Left by a set of the same template that was deleted: they come before fresh ones.
                    self.state.live_read = Some(LiveReadReason::Orphan);
                }
                self.saw_set(created);
                Ok(())
            }
            Err(error) if error.is_already_there() => self.meet_set(name, &error).await,
            Err(error) => Err(self.set_failed(FailureKind::Create, "create", "creating", name, &error)),
        }
    }

    /// What keeps a set that was created from being the object's own, and of its template.
    fn change_of_set(&self, sent: &OrderedReplicaSet, came: &OrderedReplicaSet) -> Option<String> {
        if owner_of(came).is_none_or(|owner| owner.uid != *self.uid) {
            return Some("without its owner reference".to_owned());
        }
        let selector = &self.state.deployment.spec.selector;
        if !selector.matches(came.labels()) {
            let selector = selector.to_selector_string();
            return Some(format!("without the labels that its deployment selects ({selector})"));
        }
        change_of_spec(sent, came)
    }

    /// A set of that name is there already: ours of the same template, which the watch has not shown yet, or not.
    async fn meet_set(&mut self, name: &str, error: &RequestError) -> Result<(), Interrupt> {
        let met = match self.requests.set(&self.namespace, name).await {
            Ok(met) => met,
            Err(error) => {
                return Err(self.set_failed(FailureKind::Create, "create", "reading", name, &error));
            }
        };
        let Some(met) = met else {
            // It may just have gone. The second time that is not the reason.
            self.taken += 1;
            return Err(if self.taken > 1 {
                self.set_failed(FailureKind::Create, "create", "creating", name, error)
            } else {
                Interrupt::DecideAgain
            });
        };
        let is_same = met.spec.template.without_hash().same_as(&self.state.deployment.spec.template);
        let is_ending = met.metadata.deletion_timestamp.is_some();
        let is_ours = SetEntry::of(met.clone()).is_some_and(|entry| *entry.owner() == self.uid);
        if is_ours && is_same {
            self.saw_set(met);
            // One that is being deleted must be gone first.
            return if is_ending { Err(Interrupt::DecideAgain) } else { Ok(()) };
        }
        // The planner then counts a collision of hashes and names the set anew.
        self.state.taken_names.insert(name.to_owned());
        Err(Interrupt::DecideAgain)
    }

    async fn update_set(&mut self, entry: &SetEntry, patch: &Value) -> Result<(), Interrupt> {
        let name = &entry.set.name;
        match self.requests.patch(&self.namespace, name, patch).await {
            Ok(updated) => {
                let unkept = unkept(patch, &updated);
                self.saw_set(updated);
                unkept.map_or(Ok(()), |field| Err(self.not_kept(name, &field)))
            }
            Err(error) if (error.is_conflict() || error.is_not_found()) && self.may_conflict() => {
                self.state.live_read = Some(LiveReadReason::Conflict);
                Err(Interrupt::DecideAgain)
            }
            Err(error) => Err(self.set_failed(FailureKind::Create, "update", "changing", name, &error)),
        }
    }

    /// Stores the templates that are equal to the set's.
    async fn remember_equal(
        &mut self,
        entry: &SetEntry,
        equal_templates: &[String],
    ) -> Result<(), Interrupt> {
        let patch = json!({"metadata": {
            "resourceVersion": entry.object.metadata.resource_version,
            "annotations": {annotation::EQUAL_TEMPLATES: equal_templates.join(",")},
        }});
        self.update_set(entry, &patch).await?;
        let stored = self.set_by_uid(entry.uid())?;
        if stored.set.equal_templates == equal_templates {
            return Ok(());
        }
        Err(self.not_kept(&entry.set.name, &format!("the annotation {}", annotation::EQUAL_TEMPLATES)))
    }

    /// Ends the act where a set was changed, and came back without that: to ask for it again at once would not help.
    fn not_kept(&mut self, name: &str, field: &str) -> Interrupt {
        let message = format!(
            "set {name} came back without {field} as it was sent, as if a mutating webhook had changed it"
        );
        self.ctx.metrics.write_failed("update");
        self.halts(format!("Error changing sets: {message}"), message)
    }

    async fn delete_set(&mut self, entry: &SetEntry) -> Result<(), Interrupt> {
        let version = entry.object.metadata.resource_version.clone().unwrap_or_default();
        let name = &entry.set.name;
        let object = ObjectVersion { namespace: &self.namespace, name, uid: entry.uid(), version: &version };
        match self.requests.delete_set(&object).await {
            Ok(()) => {
                self.state.sets.terminating(entry, self.ctx.clock.now());
                Ok(())
            }
            Err(error) if error.says_gone(name) => {
                self.state.sets.gone(entry.uid(), self.ctx.clock.now());
                Ok(())
            }
            Err(error) if error.is_conflict() && self.may_conflict() => {
                self.state.live_read = Some(LiveReadReason::Conflict);
                Err(Interrupt::DecideAgain)
            }
            Err(error) => Err(self.set_failed(FailureKind::Delete, "delete", "deleting", name, &error)),
        }
    }

    /// Whether a conflict may be somebody's write in between, which a live read shows: in one pass so many are not.
    pub(crate) fn may_conflict(&mut self) -> bool {
        self.conflicts += 1;
        self.conflicts <= CONFLICTS
    }

    fn set_failed(
        &mut self,
        what: FailureKind,
        verb: &str,
        doing: &str,
        name: &str,
        error: &RequestError,
    ) -> Interrupt {
        self.failed(what, verb, &format!("{doing} set {name}"), error, error.to_string())
    }

    pub(crate) fn saw_set(&mut self, set: OrderedReplicaSet) {
        if let Some(mut entry) = SetEntry::of(set) {
            if let Ok(known) = self.set_by_uid(entry.uid()) {
                entry.share(&known);
            }
            self.state.sets.present(entry, self.ctx.clock.now());
        }
    }

    fn set_by_uid(&self, uid: &str) -> Result<Arc<SetEntry>, Interrupt> {
        self.sets().into_iter().find(|entry| **entry.uid() == *uid).ok_or(Interrupt::DecideAgain)
    }

    fn change_cause(&self) -> Option<String> {
        self.state.deployment.metadata.annotations.as_ref()?.get(annotation::CHANGE_CAUSE).cloned()
    }
}

/// What of the spec of a set came back otherwise than it was sent. How a template is spelled does not count.
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

/// The field that was sent, and came back otherwise.
fn unkept(patch: &Value, set: &OrderedReplicaSet) -> Option<String> {
    let revision = set.annotations().get(annotation::REVISION).map(|revision| json!(revision));
    let fields = [
        ("spec.replicas", &patch["spec"]["replicas"], Some(json!(set.spec.replicas))),
        ("spec.minReadySeconds", &patch["spec"]["minReadySeconds"], Some(json!(set.spec.min_ready_seconds))),
        (annotation::REVISION, &patch["metadata"]["annotations"][annotation::REVISION], revision),
    ];
    let mut unkept =
        fields.into_iter().filter(|(_, sent, came)| !sent.is_null() && came.as_ref() != Some(sent));
    unkept.next().map(|(field, sent, _)| format!("{field} ({sent})"))
}

fn set_patch(
    entry: &SetEntry,
    replicas: Option<i32>,
    revision: Option<i64>,
    min_ready_seconds: Option<i32>,
    cause: Option<String>,
) -> Value {
    let mut annotations = Map::new();
    annotations
        .extend(revision.map(|revision| (annotation::REVISION.to_owned(), json!(revision.to_string()))));
    annotations.extend(cause.map(|cause| (annotation::CHANGE_CAUSE.to_owned(), json!(cause))));
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), json!(entry.object.metadata.resource_version));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    let mut spec = Map::new();
    spec.extend(replicas.map(|replicas| ("replicas".to_owned(), json!(replicas))));
    spec.extend(min_ready_seconds.map(|seconds| ("minReadySeconds".to_owned(), json!(seconds))));
    json!({"metadata": metadata, "spec": spec})
}
