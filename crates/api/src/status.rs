//! The status of an `OrderedDeployment`. No field of it is required, else the status patch that resumes a rollout
//! would be refused on a fresh object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::names::HISTORY;
use crate::{limits, schema, time};

/// The observed state, and the state that survives a restart of the controller: the rollout, its hold, and the pause points
/// that it has passed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Tools that wait (kstatus) take an object without any status for one that is done.
#[schemars(extend("default" = {"observedGeneration": -1}))]
pub struct OrderedDeploymentStatus {
    /// The generation of the spec that this status is for. -1: no controller has observed the object yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods that are neither terminating nor finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of pods with the current template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Number of ready pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Number of available pods: those that have been ready for `minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Number of pods that are missing or not available yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Number of terminating pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Number of hash collisions of templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The selector in string form, for the scale subresource and the `HorizontalPodAutoscaler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::SELECTOR))]
    pub selector: Option<String>,
    /// The conditions of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Option<Vec<Condition>>,
    /// The current rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// The pause point that the rollout is paused at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The pause point that the rollout cannot reach, since only unavailable pods at or behind it could be deleted. This ends
    /// without a resume, once the next pod can be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// The pause points that this rollout has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PASSED))]
    pub passed: Option<Vec<Passed>>,
    /// A request to resume the rollout, written by a client: the id of the hold, or of `blocked` while the condition `Stalled`
    /// has the reason `Blocked`, or `*@revision` for all pause points of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::ID))]
    pub resume_requested: Option<String>,
    /// The declared pause points that this rollout has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PASSED))]
    pub passed_points: Option<Vec<PassedPoint>>,
    /// A request to abort the rollout, written by a client: its revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_requested: Option<i64>,
    /// A request to start an aborted rollout again, written by a client: the aborted revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_requested: Option<i64>,
    /// The rollout was aborted: the pods are rolled back to an earlier revision, although the spec has the template of the aborted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<Aborted>,
    /// The sizes of the sets while `spec.paused` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// The last holds, resumes, aborts and retries, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = HISTORY))]
    pub history: Option<Vec<HistoryEntry>>,
}

/// A rollout to one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Its number. It increases with every change of the template, including an undo.
    pub revision: i64,
    /// The `pod-template-hash` of its template.
    #[schemars(length(max = limits::NAME))]
    pub template_hash: String,
    /// The number of replicas that its sets were last scaled for.
    pub replicas: i32,
    /// While the rollout is being scaled: the number of pods that each set had before, by `pod-template-hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = limits::SIZES))]
    pub scaled_from: Option<BTreeMap<String, i32>>,
    /// The last complete revision before this rollout. An abort rolls back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CompleteRevision>,
    /// The sizes of the sets when `replicas` became 0 while declared pause points were ahead. They are restored when `replicas`
    /// grows: scaling passes no pause point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Pause>,
    /// Whether the rollout has been complete once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completed: bool,
}

/// A revision that was complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteRevision {
    /// Its number.
    pub revision: i64,
    /// The `pod-template-hash` of its set.
    #[schemars(length(max = limits::NAME))]
    pub template_hash: String,
}

/// A rollout that was aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// The aborted revision.
    pub revision: i64,
    /// The revision that the pods are rolled back to.
    pub to: i64,
    /// The `pod-template-hash` of its set.
    #[schemars(length(max = limits::NAME))]
    pub template_hash: String,
    /// When it was aborted.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub at: Time,
    /// Why, as a message.
    #[schemars(length(max = limits::REASON))]
    pub reason: String,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// What happened.
    pub action: Action,
    /// The id of the hold, for a hold and a resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::ID))]
    pub id: Option<String>,
    /// The revision of the rollout.
    pub revision: i64,
    /// When it happened.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub at: Time,
    /// Why, as a message. It never names a person: the API server does not tell the controller who wrote a request.
    #[schemars(length(max = limits::REASON))]
    pub reason: String,
}

/// What an entry of the history records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    /// The rollout was paused at a pause point.
    Held,
    /// The rollout was resumed.
    Resumed,
    /// The rollout was aborted.
    Aborted,
    /// An aborted rollout was started again.
    Retried,
}

/// A pause point that the rollout is paused at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The id that a resume names: `<pod>@<revision>`, or `<name>@<revision>` for a declared pause point.
    #[schemars(length(max = limits::ID))]
    pub id: String,
    /// The name of the pod. With a declared pause point: the pod that is deleted next.
    #[schemars(length(max = limits::NAME))]
    pub pod: String,
    /// Its UID.
    #[schemars(length(max = limits::NAME))]
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub node: Option<String>,
    /// Whether the rollout is paused before or after the deletion of this pod.
    pub point: PausePoint,
    /// The declared pause point; absent if the pause point is an annotation of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<HeldPoint>,
    /// The revision of the rollout.
    pub revision: i64,
    /// When it began.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub since: Time,
    /// When it ends. Without it, the rollout is paused until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "time::stored_if_any")]
    #[schemars(with = "Option<String>", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub until: Option<Time>,
    /// With the point `After`: whether the pod is already deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<bool>,
    /// The number of replicas that `sizes` were stored for.
    pub replicas: i32,
    /// The desired number of pods of each set, by `pod-template-hash`.
    #[schemars(schema_with = "schema::sizes")]
    pub sizes: BTreeMap<String, i32>,
}

/// A declared pause point that the rollout is paused at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldPoint {
    /// Its name.
    #[schemars(length(max = limits::NAME))]
    pub name: String,
    /// With `betweenNodeGroups`: the value of the node label. Absent for pods without the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub group: Option<String>,
    /// The number of updated pods, as it was declared when the hold began. It gives the sizes when `replicas` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::held_after_updated")]
    pub after_updated: Option<IntOrString>,
}

/// The side of its pod on which a pause point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PausePoint {
    /// The rollout is paused before the pod is deleted.
    Before,
    /// The rollout is paused after the pod is deleted.
    After,
}

/// A pause point that a rollout cannot reach: the deletion of the next pod would leave too few available pods, and the only
/// unavailable old pods are at or behind the pause point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// The id that a resume names to pass the pause point: `<pod>@<revision>`.
    #[schemars(length(max = limits::ID))]
    pub id: String,
    /// When it began.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub since: Time,
}

/// A pause point that the rollout has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Passed {
    /// The UID of its pod, or `*` for all points of this rollout.
    #[schemars(length(max = limits::NAME))]
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// When it was passed.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub resumed_at: Time,
}

/// A declared pause point that the rollout has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassedPoint {
    /// Its name.
    #[schemars(length(max = limits::NAME))]
    pub name: String,
    /// With `betweenNodeGroups`: the value of the node label whose pods may be deleted. Absent for pods without the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub group: Option<String>,
    /// When it was passed.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub resumed_at: Time,
}

/// The sizes of the sets while `spec.paused` is set, or while the rollout is suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// The number of replicas that `sizes` were stored for.
    pub replicas: i32,
    /// The desired number of pods of each set, by `pod-template-hash`.
    #[schemars(schema_with = "schema::sizes")]
    pub sizes: BTreeMap<String, i32>,
}

/// A condition, as of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type, such as `Available`.
    #[schemars(length(max = limits::TYPE))]
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// A machine-readable reason, in one word.
    #[schemars(length(max = limits::REASON))]
    pub reason: String,
    /// A human-readable message.
    #[schemars(length(max = limits::MESSAGE))]
    pub message: String,
    /// When `status` last changed.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub last_transition_time: Time,
    /// When the condition last changed. For `Progressing`: when progress was last observed.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub last_update_time: Time,
}

/// Whether a [`Condition`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It cannot be told.
    Unknown,
}

impl OrderedDeploymentStatus {
    /// The condition of that type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().flatten().find(|condition| condition.type_ == type_)
    }

    /// Whether the pause point of the pod with that UID was passed in this rollout.
    #[must_use]
    pub fn has_passed(&self, uid: &str) -> bool {
        let passed = self.passed.iter().flatten();
        passed
            .map(|passed| passed.pod_uid.as_str())
            .any(|passed| passed == uid || passed == crate::names::ALL_POINTS)
    }

    /// Whether all pause points of this rollout were passed at once.
    #[must_use]
    pub fn has_passed_all(&self) -> bool {
        self.passed.iter().flatten().any(|passed| passed.pod_uid == crate::names::ALL_POINTS)
    }

    /// Whether the declared pause point of that name was passed in this rollout; with `betweenNodeGroups`, for this group.
    #[must_use]
    pub fn has_passed_point(&self, name: &str, group: Option<&str>) -> bool {
        let mut passed = self.passed_points.iter().flatten();
        self.has_passed_all() || passed.any(|passed| passed.name == name && passed.group.as_deref() == group)
    }
}

impl HeldPoint {
    /// The first part of the id: its name, and the group of nodes if there is one.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.group {
            Some(group) => format!("{}.{group}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Hold {
    /// The id of a hold: what a resume must name. `point` is the name of the pod, or of the declared pause point.
    #[must_use]
    pub fn id(point: &str, revision: i64) -> String {
        format!("{point}@{revision}")
    }
}

/// A list of conditions, keyed by their type.
fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<Condition>();
    json_schema!({
        "description": "What can be said of the object now, for people and for `kubectl wait`.",
        "type": "array",
        "maxItems": limits::CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": item,
    })
}
