//! What the cache keeps of a pod or a set.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use ordereddeployment_api::names::label::{self, POD_TEMPLATE_HASH};
use ordereddeployment_api::{OrderedReplicaSet, Template};
use ordereddeployment_planner::{Pod, Set};
use ordereddeployment_wire::{Family, MalformedAnnotation, NamespacedUid, PodView};
use serde_json::Value;

use crate::objects::{SINGLE, SetObject};

/// An object that one of our objects controls.
pub(crate) trait Entry {
    fn key(&self) -> &NamespacedUid;
    /// The controller of the object, in the same namespace.
    fn owner(&self) -> &NamespacedUid;
    /// The UID of the object.
    fn uid(&self) -> &Arc<str> {
        self.key().uid()
    }
    /// The resourceVersion as a number. It grows with each write; comparable within one object only.
    fn version(&self) -> u64;
    /// Whether it has a deletionTimestamp.
    fn is_terminating(&self) -> bool;
    /// A copy with a deletionTimestamp.
    fn terminating(&self) -> Self;
    /// Shares data with another entry instead of a second copy: of the same object, or owner.
    fn share(&mut self, other: &Self);
}

/// A pod of one of our sets.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) pod: Arc<Pod>,
    pub(crate) malformed: Vec<MalformedAnnotation>,
    /// To check whether the selector of its set still matches.
    pub(crate) labels: BTreeMap<String, String>,
    key: NamespacedUid,
    owner: NamespacedUid,
    version: u64,
}

impl PodEntry {
    /// `None` if no set of this family is its controller.
    pub(crate) fn of(family: Family, view: &PodView) -> Option<Self> {
        let owner = family.set_key(&view.metadata)?;
        let (mut pod, malformed) = view.read_in(family);
        let key = owner.sibling(Arc::clone(&pod.facts.uid));
        pod.set = Arc::clone(owner.uid());
        let labels = view.labels().clone();
        let version = number(&pod.resource_version);
        Some(Self { pod: Arc::new(pod), malformed, labels, key, owner, version })
    }
}

impl Entry for PodEntry {
    fn key(&self) -> &NamespacedUid {
        &self.key
    }

    fn owner(&self) -> &NamespacedUid {
        &self.owner
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_terminating(&self) -> bool {
        self.pod.terminating
    }

    fn terminating(&self) -> Self {
        let mut entry = self.clone();
        Arc::make_mut(&mut entry.pod).terminating = true;
        entry
    }

    fn share(&mut self, other: &Self) {
        self.key.share(&other.key);
        self.owner.share(&other.owner);
    }
}

/// A set of one of our deployments, or a ReplicaSet without a Deployment.
#[derive(Clone, Debug)]
pub(crate) struct SetEntry {
    /// The object as the API server sent it, without its template and annotations, which `set` has.
    pub(crate) object: OrderedReplicaSet,
    /// The status of a ReplicaSet of `apps/v1`.
    pub(crate) plain_status: Option<Arc<Value>>,
    pub(crate) set: Set,
    /// The `pod-template-hash` in its template.
    template_hash: Option<String>,
    /// The name of its deployment; see [`single_set`] for a ReplicaSet without one.
    pub(crate) deployment: String,
    key: NamespacedUid,
    owner: NamespacedUid,
    version: u64,
}

impl SetEntry {
    /// `None` if no deployment of its family controls it. A ReplicaSet without a Deployment is its own owner.
    pub(crate) fn of(set: impl Into<SetObject>) -> Option<Self> {
        let set = set.into();
        let family = set.family();
        let SetObject { mut object, plain_status } = set;
        object.metadata.managed_fields = None;
        let metadata = &object.metadata;
        let key = NamespacedUid::of(metadata);
        let owner = family.deployment_of(metadata);
        let owner = owner.map(|owner| (owner.name.clone(), key.sibling(owner.uid.as_str())));
        let single = || Some((format!("{SINGLE}{}", metadata.name.as_ref()?), key.clone()));
        let (deployment, owner) = match family {
            Family::Ordered => owner?,
            // The set by which the controller finds out whether the built-in one is alive is nobody's.
            Family::Plain if object.labels().contains_key(label::PROBE) => return None,
            Family::Plain => owner.or_else(single)?,
        };
        let set = match family {
            Family::Ordered => ordereddeployment_wire::set(&object),
            Family::Plain => ordereddeployment_wire::plain_set(&object),
        };
        let template_hash = object.spec.template.labels().remove(POD_TEMPLATE_HASH);
        object.spec.template = Template::default();
        object.metadata.annotations = None;
        let version = version_of(&object);
        Some(Self { object, plain_status, set, template_hash, deployment, key, owner, version })
    }

    /// The template from which its pods are created.
    pub(crate) fn template(&self) -> Template {
        match &self.template_hash {
            Some(hash) => self.set.template.with_hash(hash),
            None => self.set.template.clone(),
        }
    }

    /// The owner reference of its pods.
    pub(crate) fn owner_reference(&self) -> Option<OwnerReference> {
        let family = self.family();
        let owner = self.object.controller_owner_ref(&())?;
        Some(OwnerReference {
            api_version: family.api_version().to_owned(),
            kind: family.set_kind().to_owned(),
            ..owner
        })
    }

    pub(crate) fn family(&self) -> Family {
        if self.plain_status.is_some() { Family::Plain } else { Family::Ordered }
    }

    pub(crate) fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }
}

impl Entry for SetEntry {
    fn key(&self) -> &NamespacedUid {
        &self.key
    }

    fn owner(&self) -> &NamespacedUid {
        &self.owner
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_terminating(&self) -> bool {
        self.set.terminating
    }

    fn terminating(&self) -> Self {
        let mut entry = self.clone();
        entry.set.terminating = true;
        entry
    }

    fn share(&mut self, other: &Self) {
        self.key.share(&other.key);
        self.owner.share(&other.owner);
        self.set.template.share(&other.set.template);
    }
}

/// The resourceVersion of an object as a number.
pub(crate) fn version_of(object: &impl ResourceExt) -> u64 {
    number(&object.resource_version().unwrap_or_default())
}

/// A resourceVersion as a number. Kubernetes guarantees that it is one; anything else is 0.
pub(crate) fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}

/// Whether a set may adopt this pod if its selector matches.
pub(crate) fn is_adoptable(pod: &PodView) -> bool {
    is_orphan(&pod.metadata) && !pod.has_ended()
}

/// Whether the object exists without a controller.
pub(crate) fn is_orphan(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    metadata.deletion_timestamp.is_none() && !owners.any(|owner| owner.controller == Some(true))
}
