//! The objects that the controller reads and writes: sets of both families, and requests that differ.

use std::ops::Deref;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::Resource;
use ordereddeployment_api::{
    LabelSelector, OrderedDeployment, OrderedDeploymentSpec, OrderedReplicaSet, PodDeletion,
    PodReplacementPolicy, ProgressDeadlineAction, Strategy, Template,
};
use ordereddeployment_kubernetes::{Decoded, Lists, Namespaced, RequestError, Requests};
use ordereddeployment_planner::{Source, dropped_fields};
use ordereddeployment_wire::{Family, PlainDeployment, PlainSet, PodView, served_as, strict_create};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

/// The name under which a ReplicaSet without a Deployment is reconciled. No object's name has a slash.
pub(crate) const SINGLE: &str = "replicaset/";

/// The name of the ReplicaSet without a Deployment that is reconciled under this name.
pub(crate) fn single_set(name: &str) -> Option<&str> {
    name.strip_prefix(SINGLE)
}

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

// Only its metadata is used. Requests name the kind of the family.
served_as!(SetObject, OrderedReplicaSet, object.metadata);

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

/// Requests about the kinds of one family. The requests about other kinds are those of [`Requests`].
pub(crate) struct Objects {
    pub(crate) family: Family,
    requests: Requests,
}

impl Deref for Objects {
    type Target = Requests;

    fn deref(&self) -> &Requests {
        &self.requests
    }
}

impl Objects {
    pub(crate) fn new(family: Family, requests: Requests) -> Self {
        Self { family, requests }
    }

    /// The same for one reconciliation; see [`Requests::for_object`].
    pub(crate) fn for_object(&self, namespace: &str, event: Option<Instant>) -> Self {
        Self::new(self.family, self.requests.for_object(namespace, event))
    }

    /// The object that is reconciled under this name.
    pub(crate) async fn deployment(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<OrderedDeployment>, RequestError> {
        match (self.family, single_set(name)) {
            (Family::Ordered, _) => self.whole(namespace, name).await,
            (Family::Plain, None) => {
                Ok(self.whole::<PlainDeployment>(namespace, name).await?.map(|found| found.0))
            }
            (Family::Plain, Some(name)) => {
                let found = self.whole::<PlainSet>(namespace, name).await?;
                Ok(found.map(|found| as_deployment(&found.object, &found.object.spec.template)))
            }
        }
    }

    pub(crate) async fn set(&self, namespace: &str, name: &str) -> Result<Option<SetObject>, RequestError> {
        Ok(match self.family {
            Family::Ordered => self.whole::<OrderedReplicaSet>(namespace, name).await?.map(SetObject::from),
            Family::Plain => self.whole::<PlainSet>(namespace, name).await?.map(SetObject::from),
        })
    }

    /// An object that is decoded completely, if it exists.
    async fn whole<K: Namespaced>(&self, namespace: &str, name: &str) -> Result<Option<K>, RequestError> {
        self.get::<Decoded<K>>(Some(namespace), name).await?.map(Decoded::whole).transpose()
    }

    /// Creates an object that is decoded completely.
    pub(crate) async fn create_whole<K: Namespaced + Serialize>(
        &self,
        namespace: &str,
        object: &K,
        dry_run: bool,
    ) -> Result<K, RequestError> {
        self.create::<Decoded<K>>(namespace, object, dry_run).await?.whole()
    }

    /// Patches an object that is decoded completely.
    pub(crate) async fn patch_whole<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        self.patch::<Decoded<K>>(namespace, name, patch).await?.whole()
    }

    /// The same for its status.
    pub(crate) async fn patch_status_whole<K: Namespaced>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, RequestError> {
        self.patch_status::<Decoded<K>>(namespace, name, patch).await?.whole()
    }

    /// Whether this migration source still exists.
    pub(crate) async fn is_there(&self, namespace: &str, source: &Source) -> Result<bool, RequestError> {
        Ok(match source {
            Source::Deployment(name) => self.get::<Deployment>(Some(namespace), name).await?.is_some(),
            Source::ReplicaSet(name) => self.get::<ReplicaSet>(Some(namespace), name).await?.is_some(),
        })
    }

    /// Creates the first pod of a template: fields that the API server does not know are an error. Also
    /// returns the fields that the pod has lost on its way. API servers before 1.25 drop unknown ones.
    pub(crate) async fn create_first_pod(
        &self,
        namespace: &str,
        pod: &Value,
        dry_run: bool,
    ) -> Result<(PodView, Vec<String>), RequestError> {
        let path = PodView::url_path(&(), Some(namespace));
        let request = strict_create(&path, pod, dry_run).map_err(kube::Error::HttpError)?;
        let stored: Value = self.request(request).await?;
        let lost = lost_fields(&pod["spec"], &stored["spec"], "spec");
        Ok((serde_json::from_value(stored).map_err(kube::Error::SerdeError)?, lost))
    }

    /// Patches the status of a set.
    pub(crate) async fn patch_status_of_set(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<SetObject, RequestError> {
        Ok(match self.family {
            Family::Ordered => {
                self.patch_status_whole::<OrderedReplicaSet>(namespace, name, patch).await?.into()
            }
            Family::Plain => self.patch_status_whole::<PlainSet>(namespace, name, patch).await?.into(),
        })
    }
}

impl Lists<PodView> for Objects {
    async fn list(
        &self,
        namespace: &str,
        selector: Option<&LabelSelector>,
        each: impl FnMut(PodView) + Send,
    ) -> Result<u64, RequestError> {
        self.requests.for_object(namespace, None).list(namespace, selector, each).await
    }
}

impl Lists<Decoded<SetObject>> for Objects {
    async fn list(
        &self,
        namespace: &str,
        selector: Option<&LabelSelector>,
        mut each: impl FnMut(Decoded<SetObject>) + Send,
    ) -> Result<u64, RequestError> {
        let requests = self.requests.for_object(namespace, None);
        match self.family {
            Family::Ordered => {
                let each = |set: Decoded<OrderedReplicaSet>| each(set.map(SetObject::from));
                requests.list(namespace, selector, each).await
            }
            Family::Plain => {
                let each = |set: Decoded<PlainSet>| each(set.map(SetObject::from));
                requests.list(namespace, selector, each).await
            }
        }
    }
}

/// The paths of the fields that were sent and did not come back: the API server does not know them, their
/// feature gate is off, or a webhook removes them. Whole items of lists do not count.
fn lost_fields(sent: &Value, came: &Value, path: &str) -> Vec<String> {
    let dropped = dropped_fields(sent, came, path).into_iter().map(|(path, _)| path);
    dropped.filter(|path| !path.ends_with(']')).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lost_fields;

    #[test]
    fn fields_that_do_not_come_back_are_named() {
        let sent = json!({
            "hostNetwork": false, "priority": 0, "volumes": [],
            "containers": [{"name": "web", "image": "web:1", "livenesProbe": {"tcpSocket": {"port": 80}},
            "args": ["a"]}],
            "tolerations": [{"key": "spot", "operater": "Exists"}],
        });
        let came = json!({
            "containers": [
                {"name": "sidecar", "image": "proxy:1"},
                {"name": "web", "image": "mirror/web:1", "imagePullPolicy": "Always", "args": ["b"]},
            ],
            "tolerations": [{"key": "spot"}],
        });
        let lost = lost_fields(&sent, &came, "spec");
        assert_eq!(lost, ["spec.containers[0].livenesProbe", "spec.tolerations[0].operater"]);
        assert_eq!(lost_fields(&came, &came, "spec"), Vec::<String>::new());
    }
}
