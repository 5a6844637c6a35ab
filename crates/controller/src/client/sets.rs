//! Sets of both families, as the API server sends them.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::NamespaceResourceScope};
use ordereddeployment_api::{
    OrderedDeployment, OrderedDeploymentSpec, OrderedReplicaSet, PodDeletion, PodReplacementPolicy,
    ProgressDeadlineAction, Strategy, Template,
};
use ordereddeployment_wire::{Family, PlainSet};
use serde_json::Value;

/// A set of either family. Their specs have the same fields; their statuses do not.
#[derive(Clone, Debug)]
pub(crate) struct SetObject {
    pub(crate) object: OrderedReplicaSet,
    /// The status of a ReplicaSet of `apps/v1`.
    pub(crate) plain_status: Option<Arc<Value>>,
}

impl SetObject {
    pub(crate) fn family(&self) -> Family {
        if self.plain_status.is_some() { Family::Plain } else { Family::Ordered }
    }
}

impl From<OrderedReplicaSet> for SetObject {
    fn from(object: OrderedReplicaSet) -> Self {
        Self { object, plain_status: None }
    }
}

impl From<PlainSet> for SetObject {
    fn from(set: PlainSet) -> Self {
        Self { object: set.object, plain_status: Some(Arc::new(set.status)) }
    }
}

impl Deref for SetObject {
    type Target = OrderedReplicaSet;

    fn deref(&self) -> &OrderedReplicaSet {
        &self.object
    }
}

/// Only its metadata is used. Requests name the kind of the family.
impl Resource for SetObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        OrderedReplicaSet::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        OrderedReplicaSet::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        OrderedReplicaSet::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        OrderedReplicaSet::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.object.metadata
    }
}

/// A ReplicaSet without a Deployment, as its own deployment: nothing else owns it, and it has no rollout.
pub(crate) fn as_deployment(set: &OrderedReplicaSet, template: &Template) -> OrderedDeployment {
    let spec = OrderedDeploymentSpec {
        replicas: set.spec.replicas,
        selector: set.spec.selector.clone(),
        template: template.clone(),
        min_ready_seconds: set.spec.min_ready_seconds,
        strategy: Strategy::default(),
        revision_history_limit: 0,
        progress_deadline_seconds: i32::MAX,
        progress_deadline_action: ProgressDeadlineAction::Continue,
        paused: false,
        pod_replacement_policy: PodReplacementPolicy::TerminationStarted,
        pod_deletion: PodDeletion::Delete,
        deletion_order: None,
    };
    OrderedDeployment { metadata: set.metadata.clone(), spec, status: None }
}
