//! What the cache keeps of one pod or one set.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_planner::{self as planner, MalformedAnnotation, Pod, PodView, Set, owner_of};

/// An object that somebody of ours controls.
pub(crate) trait Entry {
    /// Its UID.
    fn uid(&self) -> &Arc<str>;
    /// The UID of what controls it.
    fn owner(&self) -> &Arc<str>;
    /// Its resourceVersion as a number: larger is later, within this one object only.
    fn version(&self) -> u64;
    /// Whether it has a deletionTimestamp.
    fn is_terminating(&self) -> bool;
    /// The same with a deletionTimestamp.
    fn terminating(&self) -> Self;
}

/// A pod of one of our sets.
#[derive(Clone, Debug)]
pub(crate) struct PodEntry {
    pub(crate) pod: Pod,
    pub(crate) malformed: Vec<MalformedAnnotation>,
    /// For whether its set's selector still matches it.
    pub(crate) labels: BTreeMap<String, String>,
    version: u64,
}

impl PodEntry {
    /// `None`: it has no set of ours as its controller.
    pub(crate) fn of(view: &PodView) -> Option<Self> {
        view.set_uid()?;
        let pod = view.pod();
        let labels = view.labels().clone();
        Some(Self { version: number(&pod.resource_version), pod, malformed: view.malformed(), labels })
    }
}

impl Entry for PodEntry {
    fn uid(&self) -> &Arc<str> {
        &self.pod.facts.uid
    }

    fn owner(&self) -> &Arc<str> {
        &self.pod.set
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_terminating(&self) -> bool {
        self.pod.terminating
    }

    fn terminating(&self) -> Self {
        let mut entry = self.clone();
        entry.pod.terminating = true;
        entry
    }
}

/// A set of one of our deployments.
#[derive(Clone, Debug)]
pub(crate) struct SetEntry {
    /// As it came, for its template with the hash and its status.
    pub(crate) object: OrderedReplicaSet,
    pub(crate) set: Set,
    /// The name of its deployment.
    pub(crate) deployment: String,
    owner: Arc<str>,
    version: u64,
}

impl SetEntry {
    /// `None`: it has no deployment of ours as its controller.
    pub(crate) fn of(mut object: OrderedReplicaSet) -> Option<Self> {
        object.metadata.managed_fields = None;
        let owner = owner_of(&object)?;
        Some(Self {
            set: planner::set(&object),
            deployment: owner.name.clone(),
            owner: owner.uid.as_str().into(),
            version: version_of(&object),
            object,
        })
    }

    pub(crate) fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }
}

impl Entry for SetEntry {
    fn uid(&self) -> &Arc<str> {
        &self.set.uid
    }

    fn owner(&self) -> &Arc<str> {
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
}

/// The resourceVersion of an object as a number.
pub(crate) fn version_of(object: &impl ResourceExt) -> u64 {
    number(&object.resource_version().unwrap_or_default())
}

/// A resourceVersion as a number. Kubernetes promises that it is one; 0 for what breaks the promise.
pub(crate) fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}
