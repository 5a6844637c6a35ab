//! Reads a Deployment, the OrderedDeployment of its name, and their dependents: the input for the next step.

use anyhow::{Result, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::LabelSelector;
use ordereddeployment_api::names::{GROUP, VERSION, annotation};
use ordereddeployment_wire::NamespacedUid;
use serde_json::Value;

use crate::client::explain::explain;
use crate::commands::convert::To;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    ReplicaSet,
    OrderedDeployment,
    OrderedReplicaSet,
    Pod,
    Autoscaler,
}

impl Kind {
    fn parts(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "v1", "Deployment", "deployments"),
            Self::ReplicaSet => ("apps", "v1", "ReplicaSet", "replicasets"),
            Self::OrderedDeployment => (GROUP, VERSION, "OrderedDeployment", "ordereddeployments"),
            Self::OrderedReplicaSet => (GROUP, VERSION, "OrderedReplicaSet", "orderedreplicasets"),
            Self::Pod => ("", "v1", "Pod", "pods"),
            // Every server has this version, and all versions have the same scaleTargetRef.
            Self::Autoscaler => ("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
        }
    }

    /// The plural, as in `deployments/web`.
    pub(crate) fn plural(self) -> &'static str {
        self.parts().3
    }

    pub(crate) fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.parts();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    pub(crate) fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) name: String,
    pub(crate) deployment: Option<DynamicObject>,
    /// ReplicaSets that match the selector, with any owner.
    pub(crate) replica_sets: Vec<DynamicObject>,
    pub(crate) ordered: Option<DynamicObject>,
    /// OrderedReplicaSets that match the selector, with any owner.
    pub(crate) sets: Vec<DynamicObject>,
    pub(crate) pods: Vec<DynamicObject>,
    pub(crate) autoscalers: Vec<DynamicObject>,
    pub(crate) no_autoscalers: Option<String>,
    /// The template for the new object; `None` is the live one of the Deployment.
    pub(crate) template: Option<Value>,
}

impl Objects {
    pub(crate) async fn read(client: &Client, namespace: &str, name: &str) -> Result<Self> {
        let one = async |kind: Kind| {
            let found = kind.api(client, namespace).get_opt(name).await;
            found.map_err(|error| explain(error, &format!("cannot read {}/{name}", kind.plural())))
        };
        let (deployment, ordered) = (one(Kind::Deployment).await?, one(Kind::OrderedDeployment).await?);
        let known = ordered.iter().chain(&deployment).next();
        let selector = known.map(selector).unwrap_or_default();
        let list = async |kind: Kind, selector: &str| {
            let found = kind.api(client, namespace).list(&ListParams::default().labels(selector)).await;
            found
                .map(|found| found.items)
                .map_err(|error| explain(error, &format!("cannot list {}", kind.plural())))
        };
        if known.is_none() {
            return Ok(Self { name: name.to_owned(), ..Self::default() });
        }
        let (autoscalers, no_autoscalers) =
            match Kind::Autoscaler.api(client, namespace).list(&ListParams::default()).await {
                Ok(found) => (found.items, None),
                // The server has no autoscaling API.
                Err(kube::Error::Api(status)) if status.code == 404 => (Vec::new(), None),
                // A note has reported missing permissions.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    (Vec::new(), Some(status.message.clone()))
                }
                // Other errors are temporary. Continuing would leave an autoscaler without a target.
                Err(error) => return Err(explain(error, "cannot list horizontalpodautoscalers")),
            };
        Ok(Self {
            name: name.to_owned(),
            deployment,
            ordered,
            replica_sets: list(Kind::ReplicaSet, &selector).await?,
            sets: list(Kind::OrderedReplicaSet, &selector).await?,
            pods: list(Kind::Pod, &selector).await?,
            autoscalers,
            no_autoscalers,
            template: None,
        })
    }

    pub(crate) fn replica_set(&self, name: &str) -> Option<&DynamicObject> {
        self.replica_sets.iter().find(|set| set.name_any() == name)
    }

    pub(crate) fn set(&self, name: &str) -> Option<&DynamicObject> {
        self.sets.iter().find(|set| set.name_any() == name)
    }

    pub(crate) fn pods_of(&self, owner: &DynamicObject) -> impl Iterator<Item = &DynamicObject> {
        self.pods.iter().filter(move |pod| is_controlled_by(pod, owner))
    }

    /// The autoscalers of the workload as that kind, without those that have a controller: it would revert
    /// changes.
    pub(crate) fn autoscalers_of(&self, kind: To) -> impl Iterator<Item = &DynamicObject> {
        let free = self.autoscalers.iter().filter(|one| controller(one).is_none());
        free.filter(move |one| scales(one, "scaleTargetRef", kind, &self.name))
    }
}

/// Whether that field of the autoscaler refers to the object. The default kind of KEDA is Deployment.
pub(crate) fn scales(scaler: &DynamicObject, field: &str, kind: To, name: &str) -> bool {
    let of = |key: &str| scaler.data.pointer(&format!("/spec/{field}/{key}"));
    of("name") == Some(&name.into()) && of("kind").map_or(kind == To::Deployment, |of| of == kind.is().1)
}

fn selector(object: &DynamicObject) -> String {
    let selector = object.data.pointer("/spec/selector").cloned().unwrap_or_default();
    serde_json::from_value::<LabelSelector>(selector).unwrap_or_default().to_selector_string()
}

pub(crate) fn number(object: &DynamicObject, path: &str) -> i64 {
    object.data.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

pub(crate) fn is_paused(object: &DynamicObject) -> bool {
    object.data.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or(false)
}

pub(crate) fn controller(object: &DynamicObject) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

pub(crate) fn is_controlled_by(object: &DynamicObject, owner: &DynamicObject) -> bool {
    let found = controller(object).map(|found| NamespacedUid::of_owner(&object.metadata, found));
    found == Some(NamespacedUid::of(&owner.metadata))
}

pub(crate) fn is_terminating(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

pub(crate) fn is_finished(pod: &DynamicObject) -> bool {
    let phase = pod.data.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether its controller has observed the current generation.
pub(crate) fn is_observed(object: &DynamicObject) -> bool {
    number(object, "/status/observedGeneration") == object.metadata.generation.unwrap_or(0)
}

/// An error if a finalizer blocks its deletion. Those of the garbage collector do not.
pub(crate) fn refuse_finalizers(object: &DynamicObject) -> Result<()> {
    let own = ["orphan", "foregroundDeletion"];
    match object.finalizers().iter().find(|finalizer| !own.contains(&finalizer.as_str())) {
        Some(first) => bail!(
            "{} has the finalizer {first}, which would block its deletion\nhint: remove the finalizer, or \
             the controller that sets it",
            object.name_any()
        ),
        None => Ok(()),
    }
}

pub(crate) fn annotation_of<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.annotations().get(key).map(String::as_str)
}

/// Whether the OrderedDeployment is adopting and has not started its first rollout.
pub(crate) fn is_adopting(ordered: &DynamicObject) -> bool {
    annotation_of(ordered, annotation::ADOPTING).is_some() && !has_started(ordered)
}

pub(crate) fn has_started(ordered: &DynamicObject) -> bool {
    ordered.data.pointer("/status/rollout").is_some_and(|rollout| !rollout.is_null())
}

/// Whether `Progressing` has that reason and a message with that text, for the current generation.
pub(crate) fn reports(ordered: &DynamicObject, reason: &str, part: &str) -> bool {
    is_observed(ordered)
        && conditions(ordered).any(|condition| {
            condition["type"] == "Progressing"
                && condition["reason"] == reason
                && condition["message"].as_str().unwrap_or_default().contains(part)
        })
}

pub(crate) fn conditions(object: &DynamicObject) -> impl Iterator<Item = &Value> {
    object.data.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}
