//! Deployments and ReplicaSets of `apps/v1`, as the controller of the other family reads them.
//!
//! Their specs have the same fields, so that one controller reads both. What the controller stores about the
//! rollout of a Deployment is in an annotation, since the status of a Deployment has no place for it.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{
    DeclaredPausePoint, OrderedDeployment, OrderedDeploymentStatus, OrderedReplicaSet, parse_pause_points,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A Deployment of `apps/v1`. It is only read: writes are patches of single fields.
#[derive(Clone, Debug)]
pub struct PlainDeployment(pub OrderedDeployment);

/// A ReplicaSet of `apps/v1`. It is only read.
#[derive(Clone, Debug)]
pub struct PlainSet {
    /// The set, without its status.
    pub object: OrderedReplicaSet,
    /// Its status, as the API server sends it.
    pub status: Value,
}

impl<'de> Deserialize<'de> for PlainDeployment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        // It has the same names for other contents.
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        let mut object: OrderedDeployment =
            serde_json::from_value(value).map_err(serde::de::Error::custom)?;
        let stored = annotation_of(&object.metadata, annotation::ROLLOUT_STATE);
        object.status = stored.and_then(|text| serde_json::from_str(text).ok());
        let points = declared_points(object.metadata.annotations.as_ref());
        object.spec.strategy.pause_points = points.and_then(Result::ok);
        Ok(Self(object))
    }
}

impl<'de> Deserialize<'de> for PlainSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let status = value.as_object_mut().and_then(|fields| fields.remove("status"));
        let object = serde_json::from_value(value).map_err(serde::de::Error::custom)?;
        Ok(Self { object, status: status.unwrap_or_else(|| json!({})) })
    }
}

fn annotation_of<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The value of the annotation [`annotation::ROLLOUT_STATE`] for this status, if there is one.
#[must_use]
pub fn rollout_state(status: &OrderedDeploymentStatus) -> Option<String> {
    let OrderedDeploymentStatus { hold, passed, rollout: Some(rollout), .. } = status else { return None };
    let mut stored = json!({"rollout": rollout});
    for (key, value) in [("hold", json!(hold)), ("passed", json!(passed))] {
        if !value.is_null() {
            stored[key] = value;
        }
    }
    Some(stored.to_string())
}

crate::served_as!(PlainDeployment, Deployment, 0.metadata);
crate::served_as!(PlainSet, ReplicaSet, object.metadata);

/// The declared pause points of a Deployment's annotation, if it has one, and why they cannot be used.
#[must_use]
pub fn declared_points(
    annotations: Option<&BTreeMap<String, String>>,
) -> Option<Result<Vec<DeclaredPausePoint>, String>> {
    annotations?.get(annotation::PAUSE_POINTS).map(|text| parse_pause_points(text))
}
