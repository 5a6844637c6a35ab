//! What there is of a Deployment and of the OrderedDeployment of its name: everything a step is decided by, read at once.

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::LabelSelector;
use ordereddeployment_api::names::annotation;
use serde_json::Value;

use crate::explain::explain;

/// The kinds that an adoption touches.
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
    /// As in `deployments/web`.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::ReplicaSet => "replicasets",
            Self::OrderedDeployment => "ordereddeployments",
            Self::OrderedReplicaSet => "orderedreplicasets",
            Self::Pod => "pods",
            Self::Autoscaler => "horizontalpodautoscalers",
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        let (group, version, kind) = match self {
            Self::Deployment => ("apps", "v1", "Deployment"),
            Self::ReplicaSet => ("apps", "v1", "ReplicaSet"),
            Self::OrderedDeployment => ("ordereddeployment.io", "v1alpha1", "OrderedDeployment"),
            Self::OrderedReplicaSet => ("ordereddeployment.io", "v1alpha1", "OrderedReplicaSet"),
            Self::Pod => ("", "v1", "Pod"),
            // The version that every server has; the target is the same in all of them.
            Self::Autoscaler => ("autoscaling", "v1", "HorizontalPodAutoscaler"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), self.plural())
    }

    pub(crate) fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) deployment: Option<DynamicObject>,
    /// Those that match the selector, whoever controls them.
    pub(crate) replica_sets: Vec<DynamicObject>,
    pub(crate) ordered: Option<DynamicObject>,
    /// OrderedReplicaSets that match the selector, whoever controls them.
    pub(crate) sets: Vec<DynamicObject>,
    /// Pods that match the selector.
    pub(crate) pods: Vec<DynamicObject>,
    /// Autoscalers of the namespace.
    pub(crate) autoscalers: Vec<DynamicObject>,
    /// Why they could not be read.
    pub(crate) no_autoscalers: Option<String>,
    /// The template for the new object, where it is not the Deployment's as it runs.
    pub(crate) template: Option<Value>,
}

impl Seen {
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
                // A server without autoscaling has none.
                Err(kube::Error::Api(status)) if status.code == 404 => (Vec::new(), None),
                // Whoever may not read them was told so before.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    (Vec::new(), Some(status.message.clone()))
                }
                // Anything else passes: to go on as if there were none would leave one behind that scales nothing.
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

    /// The pods that this object controls.
    pub(crate) fn pods_of(&self, owner: &DynamicObject) -> impl Iterator<Item = &DynamicObject> {
        let uid = owner.uid();
        self.pods.iter().filter(move |pod| controller(pod).map(|owner| &owner.uid) == uid.as_ref())
    }

    /// The autoscalers that scale the object of that kind and this name, without those that somebody would change back.
    pub(crate) fn autoscalers_of(&self, kind: &str) -> impl Iterator<Item = &DynamicObject> {
        self.autoscalers.iter().filter(|one| controller(one).is_none()).filter(move |one| {
            let target = |key: &str| one.data.pointer(&format!("/spec/scaleTargetRef/{key}"));
            target("kind") == Some(&kind.into()) && target("name") == Some(&self.name.as_str().into())
        })
    }
}

fn selector(object: &DynamicObject) -> String {
    let selector = object.data.pointer("/spec/selector").cloned().unwrap_or_default();
    serde_json::from_value::<LabelSelector>(selector).unwrap_or_default().to_selector_string()
}

/// A number at that path; 0 where there is none.
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
    controller(object).map(|found| &found.uid) == owner.metadata.uid.as_ref()
}

pub(crate) fn is_terminating(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

pub(crate) fn is_finished(pod: &DynamicObject) -> bool {
    let phase = pod.data.pointer("/status/phase").and_then(Value::as_str);
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether its controller has seen its present spec, and that it is being deleted, if it is.
pub(crate) fn is_observed(object: &DynamicObject) -> bool {
    number(object, "/status/observedGeneration") == object.metadata.generation.unwrap_or(0)
}

/// Finalizers of others: while there is one, a deletion does not end.
pub(crate) fn foreign_finalizers(object: &DynamicObject) -> Vec<&str> {
    let own = ["orphan", "foregroundDeletion"];
    object.finalizers().iter().map(String::as_str).filter(|finalizer| !own.contains(finalizer)).collect()
}

/// The value of an annotation.
pub(crate) fn annotation_of<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.annotations().get(key).map(String::as_str)
}

/// Whether the OrderedDeployment takes over from something, and has not begun.
pub(crate) fn is_taking_over(ordered: &DynamicObject) -> bool {
    annotation_of(ordered, annotation::ADOPTING).is_some() && !has_begun(ordered)
}

/// Whether its controller has begun its first rollout.
pub(crate) fn has_begun(ordered: &DynamicObject) -> bool {
    ordered.data.pointer("/status/rollout").is_some_and(|rollout| !rollout.is_null())
}

/// Whether the OrderedDeployment's controller says, of its present spec, that it does nothing, for that reason and with that
/// word in the message.
pub(crate) fn says(ordered: &DynamicObject, reason: &str, word: &str) -> bool {
    let conditions = ordered.data.pointer("/status/conditions").and_then(Value::as_array);
    let text = |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    is_observed(ordered)
        && conditions.into_iter().flatten().any(|condition| {
            text(condition, "type") == "Progressing"
                && text(condition, "reason") == reason
                && text(condition, "message").contains(word)
        })
}
