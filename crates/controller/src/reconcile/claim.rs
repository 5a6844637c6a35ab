//! Whose pods and sets are whose: adopts orphans that match, releases what matches no more, as a Deployment does.
//!
//! Adoption happens in a live read only, and only after the owner was read, later than the orphan: the garbage collector, too,
//! makes orphans, of what an owner has that is being deleted. Each write carries UID and version; after one that fails everything
//! is read again, before long. It never takes anything from another controller, and nothing that is being deleted.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedReplicaSet, validate};
use ordereddeployment_planner::is_handed_back;
use ordereddeployment_wire::PodView;
use serde_json::{Value, json};

use crate::Error;
use crate::cache::entry::{Entry, PodEntry, SetEntry, version_of};
use crate::client::error::RequestError;
use crate::reconcile::reconciler::Reconciler;

impl Reconciler<'_> {
    /// Whether the object may take this, where its selector matches.
    pub(crate) fn may_take(&self, metadata: &ObjectMeta) -> bool {
        is_orphan(metadata) && self.claims()
    }

    /// Whether the object takes anything: nothing is done for one that is handed back, nor for a spec that is invalid.
    fn claims(&self) -> bool {
        let deployment = &self.state.deployment;
        !is_handed_back(deployment) && validate(&deployment.spec).is_empty()
    }

    /// Takes a set that nobody controls. It was listed by the deployment's selector, before the deployment was read.
    pub(crate) async fn adopt_set(&mut self, set: &OrderedReplicaSet) -> Option<SetEntry> {
        if !self.may_take(&set.metadata) {
            return None;
        }
        let owner = self.state.deployment.controller_owner_ref(&())?;
        let patch = owners_patch(&set.metadata, &with(&set.metadata, owner));
        let name = set.name_any();
        let adopted = self.requests.patch::<OrderedReplicaSet>(&self.namespace, &name, &patch).await;
        let adopted = SetEntry::of(self.claimed("adopt", "set", &name, adopted)?);
        let adopted = adopted.filter(|entry| *entry.owner() == self.uid);
        self.kept("set", &name, adopted)
    }

    /// The set that is to take a pod, if nobody controls it: whose selector, with the hash, it matches.
    pub(crate) fn adopter_of<'s>(
        &self,
        pod: &PodView,
        sets: &'s [Arc<SetEntry>],
    ) -> Option<&'s Arc<SetEntry>> {
        if !is_adoptable(pod) || !self.claims() {
            return None;
        }
        sets.iter().find(|set| !set.is_terminating() && set.object.spec.selector.matches(pod.labels()))
    }

    /// Takes a pod for a set. It was listed before the set was read.
    pub(crate) async fn adopt_pod(&mut self, pod: &PodView, set: &SetEntry) -> Option<PodEntry> {
        let owner = set.object.controller_owner_ref(&())?;
        let patch = owners_patch(&pod.metadata, &with(&pod.metadata, owner));
        let name = pod.name_any();
        let adopted = self.requests.patch::<PodView>(&self.namespace, &name, &patch).await;
        let adopted = PodEntry::of(&self.claimed("adopt", "pod", &name, adopted)?);
        let adopted = adopted.filter(|entry| entry.owner() == set.uid());
        self.kept("pod", &name, adopted)
    }

    /// Says of what was adopted, and came back without its owner, that it could not be.
    fn kept<E>(&mut self, kind: &str, name: &str, adopted: Option<E>) -> Option<E> {
        if adopted.is_none() {
            let message = format!(
                "Cannot adopt {kind} {name}: it came back without its owner reference, as if a webhook took it away"
            );
            self.unclaimed("adopt", kind, name, message);
        }
        adopted
    }

    /// Lets go of what does not match any more, but for what was refused: what the API server refuses now, it refuses a moment
    /// later.
    pub(crate) async fn release(&mut self) -> Result<(), Error> {
        self.release_sets().await?;
        self.release_pods().await
    }

    /// Lets go of sets whose own labels do not match the deployment's selector any more. Their pods stay theirs.
    async fn release_sets(&mut self) -> Result<(), Error> {
        if !validate(&self.state.deployment.spec).is_empty() {
            // Nothing is done for a spec that is invalid.
            return Ok(());
        }
        let selector = self.state.deployment.spec.selector.clone();
        for entry in self.sets() {
            let name = &entry.set.name;
            if entry.is_terminating()
                || selector.matches(entry.object.labels())
                || self.state.unreleased.contains_key(&format!("set/{name}"))
            {
                continue;
            }
            let found = self.requests.set(&self.namespace, name).await.map_err(Error::ReadSet)?;
            let found = found.filter(|set| set.metadata.uid.as_deref() == Some(&**entry.uid()));
            let found = match found {
                Some(found) if !selector.matches(found.labels()) && !is_ending(&found.metadata) => found,
                // It is gone, or going, or matches again by now.
                other => {
                    let other = other.map(|found| (version_of(&found), SetEntry::of(found)));
                    self.state.sets.read(entry.uid(), other, self.ctx.clock.now());
                    continue;
                }
            };
            let patch = owners_patch(&found.metadata, &without(&found.metadata, &self.uid));
            let released = self.requests.patch::<OrderedReplicaSet>(&self.namespace, name, &patch).await;
            if let Some(set) = self.claimed("release", "set", name, released) {
                self.state.sets.away(entry.uid(), version_of(&set), self.ctx.clock.now());
            }
        }
        Ok(())
    }

    /// Lets go of pods whose labels match their set no more: somebody took them out, to look at them for instance.
    async fn release_pods(&mut self) -> Result<(), Error> {
        let sets = self.sets();
        for entry in self.pods(&sets) {
            let set = sets.iter().find(|set| set.uid() == entry.owner() && !set.is_terminating());
            let Some(set) =
                set.filter(|set| !entry.is_terminating() && !set.object.spec.selector.matches(&entry.labels))
            else {
                continue;
            };
            if self.state.unreleased.contains_key(&format!("pod/{}", entry.pod.name)) {
                continue;
            }
            let found = self.requests.pod(&self.namespace, &entry.pod.name).await.map_err(Error::ReadPod)?;
            let found = found.filter(|pod| pod.metadata.uid.as_deref() == Some(&**entry.uid()));
            let found = match found {
                Some(found)
                    if !set.object.spec.selector.matches(found.labels()) && !is_ending(&found.metadata) =>
                {
                    found
                }
                // It is gone, or going, or matches again by now.
                other => {
                    let other = other.map(|found| (version_of(&found), PodEntry::of(&found)));
                    self.state.pods.read(entry.uid(), other, self.ctx.clock.now());
                    continue;
                }
            };
            let patch = owners_patch(&found.metadata, &without(&found.metadata, set.uid()));
            let name = &entry.pod.name;
            let released = self.requests.patch::<PodView>(&self.namespace, name, &patch).await;
            if let Some(pod) = self.claimed("release", "pod", name, released) {
                self.state.pods.away(entry.uid(), version_of(&pod), self.ctx.clock.now());
            }
        }
        Ok(())
    }

    /// Tells how it went. What somebody changed meanwhile is read again at once, the first time in a pass; what fails otherwise
    /// keeps everything as it is until it is tried again.
    fn claimed<T>(
        &mut self,
        verb: &str,
        kind: &str,
        name: &str,
        outcome: Result<T, RequestError>,
    ) -> Option<T> {
        let error = match outcome {
            Ok(object) => {
                tracing::info!("{verb} {kind} {name}: done");
                return Some(object);
            }
            Err(error) => error,
        };
        if (error.is_conflict() || error.is_not_found()) && !self.has_raced {
            (self.has_raced, self.raced) = (true, true);
            return None;
        }
        self.ctx.metrics.write_failed(verb);
        self.unclaimed(verb, kind, name, format!("Cannot {verb} {kind} {name}: {error}"));
        None
    }

    fn unclaimed(&mut self, verb: &str, kind: &str, name: &str, message: String) {
        self.warn(reason::FAILED_CLAIM, message.clone());
        let failed = if verb == "adopt" { &mut self.state.unadopted } else { &mut self.state.unreleased };
        failed.insert(format!("{kind}/{name}"), message);
    }
}

/// Whether a set may take it, if it matches.
pub(crate) fn is_adoptable(pod: &PodView) -> bool {
    is_orphan(&pod.metadata) && !matches!(pod.phase(), "Succeeded" | "Failed")
}

pub(crate) fn is_orphan(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    metadata.deletion_timestamp.is_none() && !owners.any(|owner| owner.controller == Some(true))
}

fn is_ending(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// The owners it has, and a controller.
fn with(metadata: &ObjectMeta, owner: OwnerReference) -> Vec<OwnerReference> {
    let others = metadata.owner_references.iter().flatten().filter(|other| other.uid != owner.uid);
    let mut owners: Vec<_> = others.cloned().collect();
    owners.push(OwnerReference { block_owner_deletion: Some(true), ..owner });
    owners
}

/// The owners it has but that one.
fn without(metadata: &ObjectMeta, uid: &str) -> Vec<OwnerReference> {
    let owners = metadata.owner_references.iter().flatten();
    owners.filter(|owner| owner.uid != uid).cloned().collect()
}

fn owners_patch(metadata: &ObjectMeta, owners: &[OwnerReference]) -> Value {
    json!({"metadata": {
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
        "ownerReferences": owners,
    }})
}
