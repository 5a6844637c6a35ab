//! Adopts orphans that match and releases objects that no longer match, as a Deployment does.
//!
//! Adoption happens only in a live read, and only after a read of the owner that is later than the list with
//! the orphan: the garbage collector also makes orphans, of the dependents of a terminating owner. Each write
//! carries UID and resourceVersion; after a failed write everything is read again soon. The controller never
//! adopts an object of another controller or a terminating one.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedReplicaSet, validate};
use ordereddeployment_kubernetes::RequestError;
use ordereddeployment_planner::is_handed_back;
use ordereddeployment_wire::PodView;
use serde_json::{Value, json};

use crate::cache::entry::{Entry, PodEntry, SetEntry, is_adoptable, is_orphan, version_of};
use crate::cache::expectations::Fact;
use crate::error::Error;
use crate::reconcile::live::set_fact;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::Unclaimed;

/// The result of one adoption or release.
#[derive(Debug)]
pub(crate) struct Claim<T> {
    verb: &'static str,
    kind: &'static str,
    name: String,
    /// The UID of the set that adopts or releases a pod.
    set: Option<Arc<str>>,
    outcome: Result<T, Failed>,
}

#[derive(Debug)]
enum Failed {
    Refused(RequestError),
    /// The object came back without its owner reference.
    Altered,
}

impl Reconciler<'_> {
    /// Whether the deployment may adopt this set if its selector matches. ReplicaSets are its controller's.
    pub(crate) fn may_adopt(&self, metadata: &ObjectMeta) -> bool {
        self.ctx.owns_sets && is_orphan(metadata) && self.claims()
    }

    /// Whether the deployment adopts at all: not while it is handed back, and not with an invalid spec.
    fn claims(&self) -> bool {
        let deployment = &self.state.deployment;
        !self.ctx.owns_sets || (!is_handed_back(deployment) && validate(&deployment.spec).is_empty())
    }

    /// Adopts a set. It was listed by the deployment's selector, before the deployment was read.
    pub(crate) async fn adopt_set(&self, set: &OrderedReplicaSet) -> Option<Claim<SetEntry>> {
        if !self.may_adopt(&set.metadata) {
            return None;
        }
        let owner = self.state.deployment.controller_owner_ref(&())?;
        let patch = owners_patch(&set.metadata, &with(&set.metadata, owner));
        let name = set.name_any();
        let adopted = self.requests.patch_whole::<OrderedReplicaSet>(&self.namespace, &name, &patch).await;
        let is_ours = |entry: &SetEntry| *entry.owner() == self.key;
        let outcome = match adopted {
            Ok(set) => SetEntry::of(set).filter(is_ours).ok_or(Failed::Altered),
            Err(error) => Err(Failed::Refused(error)),
        };
        Some(Claim { verb: "adopt", kind: "set", name, set: None, outcome })
    }

    /// The set that adopts an orphaned pod: the one whose selector, which includes the hash, matches it.
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

    /// Adopts a pod for a set. It was listed before the set was read.
    pub(crate) async fn adopt_pod(&self, pod: &PodView, set: &SetEntry) -> Option<Claim<PodEntry>> {
        let owner = set.owner_reference()?;
        let patch = owners_patch(&pod.metadata, &with(&pod.metadata, owner));
        let name = pod.name_any();
        let adopted = self.requests.patch::<PodView>(&self.namespace, &name, &patch).await;
        let is_ours = |entry: &PodEntry| entry.owner() == set.key();
        let outcome = match adopted {
            Ok(pod) => PodEntry::of(self.ctx.family, &pod).filter(is_ours).ok_or(Failed::Altered),
            Err(error) => Err(Failed::Refused(error)),
        };
        Some(Claim { verb: "adopt", kind: "pod", name, set: Some(Arc::clone(set.uid())), outcome })
    }

    /// Releases objects that no longer match, except those whose release was refused in this reconciliation:
    /// a retry a moment later is refused too. Returns whether answers were recorded, which took time.
    pub(crate) async fn release(&mut self) -> Result<bool, Error> {
        Ok(self.release_sets().await? | self.release_pods().await?)
    }

    /// Releases sets whose own labels no longer match the deployment's selector. Their pods stay with them.
    async fn release_sets(&mut self) -> Result<bool, Error> {
        if !self.ctx.owns_sets || !validate(&self.state.deployment.spec).is_empty() {
            // The Deployment controller releases ReplicaSets. An invalid spec changes nothing.
            return Ok(false);
        }
        let mut has_learned = false;
        let selector = self.state.deployment.spec.selector.clone();
        let matches = |entry: &&Arc<SetEntry>| selector.matches(entry.object.labels());
        let sets = self.observation.sets.iter().filter(|entry| !entry.is_terminating() && !matches(entry));
        for entry in sets.cloned().collect::<Vec<_>>() {
            let name = &entry.set.name;
            if self.state.claims.unreleased.contains_key(&format!("set/{name}")) {
                continue;
            }
            let found = match self.read_set(&entry).await? {
                Some(found) if !selector.matches(found.labels()) && !is_ending(&found.metadata) => found,
                // The set is deleted, terminating, or matches again.
                other => {
                    self.record_set(set_fact(&entry, other));
                    has_learned = true;
                    continue;
                }
            };
            let patch = owners_patch(&found.metadata, &without(&found.metadata, self.key.uid()));
            let released =
                self.requests.patch_whole::<OrderedReplicaSet>(&self.namespace, name, &patch).await;
            has_learned |= !matches!(released, Err(RequestError::NotLeading));
            let outcome = released.map_err(Failed::Refused);
            let claim = Claim { verb: "release", kind: "set", name: name.clone(), set: None, outcome };
            if let Some(set) = self.record_claim(Some(claim)) {
                self.record_set(Fact::NotOurs(entry.key().clone(), version_of(&set)));
            }
        }
        Ok(has_learned)
    }

    /// Releases pods whose labels no longer match their set: a user took them out.
    async fn release_pods(&mut self) -> Result<bool, Error> {
        let mut has_learned = false;
        for entry in self.observation.pods.clone() {
            let set = self.observation.set_that_owns(&entry).filter(|set| !set.is_terminating());
            let Some(set) = set
                .filter(|set| !entry.is_terminating() && !set.object.spec.selector.matches(&entry.labels))
                .cloned()
            else {
                continue;
            };
            let name = &entry.pod.name;
            if self.state.claims.unreleased.contains_key(&format!("pod/{name}")) {
                continue;
            }
            let matches = |pod: &PodView| set.object.spec.selector.matches(pod.labels());
            let found = match self.read_pod(&entry).await? {
                Some(found) if !matches(&found) && !is_ending(&found.metadata) => found,
                // The pod is deleted, terminating, or matches again.
                other => {
                    self.record_pod(self.pod_fact(&entry, other));
                    has_learned = true;
                    continue;
                }
            };
            let patch = owners_patch(&found.metadata, &without(&found.metadata, set.uid()));
            let released = self.requests.patch::<PodView>(&self.namespace, name, &patch).await;
            has_learned |= !matches!(released, Err(RequestError::NotLeading));
            let outcome = released.map_err(Failed::Refused);
            let of = Some(Arc::clone(set.uid()));
            let claim = Claim { verb: "release", kind: "pod", name: name.clone(), set: of, outcome };
            if let Some(pod) = self.record_claim(Some(claim)) {
                self.record_pod(Fact::NotOurs(entry.key().clone(), version_of(&pod)));
            }
        }
        Ok(has_learned)
    }

    /// Records the result of an adoption or release. An object that another client changed meanwhile is read
    /// again at once, the first time in a reconciliation; after other failures nothing changes.
    pub(crate) fn record_claim<T>(&mut self, claim: Option<Claim<T>>) -> Option<T> {
        let Claim { verb, kind, name, set, outcome } = claim?;
        let message = match outcome {
            Ok(object) => {
                tracing::info!("{verb} {kind} {name}: done");
                return Some(object);
            }
            Err(Failed::Refused(error)) => {
                if (error.is_conflict() || error.is_not_found()) && !self.has_raced {
                    (self.has_raced, self.raced) = (true, true);
                    return None;
                }
                if matches!(error, RequestError::NotLeading) {
                    return None;
                }
                self.ctx.metrics.write_failed(verb);
                format!("Cannot {verb} {kind} {name}: {error}")
            }
            Err(Failed::Altered) => {
                tracing::info!("{verb} {kind} {name}: done");
                format!(
                    "Cannot adopt {kind} {name}: it came back without its owner reference, as if a webhook \
                     took it away"
                )
            }
        };
        self.warn(reason::FAILED_CLAIM, message.clone());
        let failed = if verb == "adopt" {
            &mut self.state.claims.unadopted
        } else {
            &mut self.state.claims.unreleased
        };
        failed.insert(format!("{kind}/{name}"), Unclaimed { set, message });
        None
    }
}

fn is_ending(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// The object's owner references, with this controller added.
fn with(metadata: &ObjectMeta, owner: OwnerReference) -> Vec<OwnerReference> {
    let others = metadata.owner_references.iter().flatten().filter(|other| other.uid != owner.uid);
    let mut owners: Vec<_> = others.cloned().collect();
    owners.push(OwnerReference { block_owner_deletion: Some(true), ..owner });
    owners
}

/// The object's owner references without that one.
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
