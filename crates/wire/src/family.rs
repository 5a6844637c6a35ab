//! The two families of kinds whose pods a controller of this project creates and deletes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use ordereddeployment_api::names::GROUP;

use crate::NamespacedUid;

/// A family of kinds: a deployment, its sets, and their pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// OrderedDeployment and OrderedReplicaSet.
    #[default]
    Ordered,
    /// Deployment and ReplicaSet of `apps/v1`, in a cluster without the built-in ReplicaSet controller.
    Plain,
}

impl Family {
    /// The group and version of the kinds.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Ordered => "ordereddeployment.io/v1alpha1",
            Self::Plain => "apps/v1",
        }
    }

    fn group(self) -> &'static str {
        match self {
            Self::Ordered => GROUP,
            Self::Plain => "apps",
        }
    }

    /// The kind of the sets.
    #[must_use]
    pub fn set_kind(self) -> &'static str {
        match self {
            Self::Ordered => "OrderedReplicaSet",
            Self::Plain => "ReplicaSet",
        }
    }

    /// The kind of the deployments.
    #[must_use]
    pub fn deployment_kind(self) -> &'static str {
        match self {
            Self::Ordered => "OrderedDeployment",
            Self::Plain => "Deployment",
        }
    }

    /// The resource of the deployments.
    #[must_use]
    pub fn deployments(self) -> &'static str {
        match self {
            Self::Ordered => "ordereddeployments",
            Self::Plain => "deployments",
        }
    }

    /// The resource of the sets.
    #[must_use]
    pub fn sets(self) -> &'static str {
        match self {
            Self::Ordered => "orderedreplicasets",
            Self::Plain => "replicasets",
        }
    }

    /// The owner reference of the deployment that controls this set.
    #[must_use]
    pub fn deployment_of(self, set: &ObjectMeta) -> Option<&OwnerReference> {
        self.controller(set, self.deployment_kind())
    }

    /// The owner reference of the set that controls this pod.
    #[must_use]
    pub fn set_of(self, pod: &ObjectMeta) -> Option<&OwnerReference> {
        self.controller(pod, self.set_kind())
    }

    /// The key of the deployment that controls this set.
    #[must_use]
    pub fn deployment_key(self, set: &ObjectMeta) -> Option<NamespacedUid> {
        Some(NamespacedUid::of_owner(set, self.deployment_of(set)?))
    }

    /// The key of the set that controls this pod.
    #[must_use]
    pub fn set_key(self, pod: &ObjectMeta) -> Option<NamespacedUid> {
        Some(NamespacedUid::of_owner(pod, self.set_of(pod)?))
    }

    fn controller<'m>(self, object: &'m ObjectMeta, kind: &str) -> Option<&'m OwnerReference> {
        let mut owners = object.owner_references.iter().flatten();
        owners.find(|owner| {
            let group = owner.api_version.split_once('/').map(|(group, _)| group);
            owner.controller == Some(true) && owner.kind == kind && group == Some(self.group())
        })
    }
}
