//! The status of an `OrderedDeployment`. No field of it is required, else the status patch that resumes a
//! rollout would be refused on a fresh object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::names::HISTORY;
use crate::{limits, not_empty, schema, time};

/// The observed state, and the state that survives a restart of the controller: the rollout, its hold, and
/// the pause points that it has passed.
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
    /// The pause point that the rollout cannot reach, since only unavailable pods at or behind it could be
    /// deleted. This ends without a resume, once the next pod can be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// The pause points that this rollout has passed, each once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::PASSED))]
    pub passed: Option<Vec<Passed>>,
    /// A request to resume the rollout, written by a client: the id of the hold, or of `blocked` while the
    /// condition `Stalled` has the reason `Blocked`, or `*@revision` for all pause points of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::ID))]
    pub resume_requested: Option<String>,
    /// A request to abort the rollout, written by a client: its revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort_requested: Option<i64>,
    /// A request to start an aborted rollout again, written by a client: the aborted revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_requested: Option<i64>,
    /// The rollout was aborted: the pods are rolled back to an earlier revision, although the spec has the
    /// template of the aborted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<Aborted>,
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
    /// The number of replicas whose sizes were last reached, also in `scaling`.
    #[serde(default)]
    pub replicas: i32,
    /// The pause points ahead, as they were first seen. Absent: none was looked for yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::POINTS))]
    pub points: Option<Vec<AheadPoint>>,
    /// With `betweenNodeGroups`: the group of nodes before which the rollout does not pause. Absent: none was
    /// looked for yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_groups: Option<NodeGroups>,
    /// The last revision that served before this rollout. An abort rolls back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CompleteRevision>,
    /// The number of replicas whose sizes were last reached, and the sizes of a scale-down under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// While `spec.paused` is set: how many updated pods there may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Share>,
    /// Of a plain Deployment that is held: the sizes of its old sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = limits::SIZES))]
    pub scaled_from: Option<BTreeMap<String, i32>>,
    /// Whether the rollout is over: no old pod was left, and no pause point ahead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completed: bool,
}

/// A pause point ahead of the rollout, as it was first seen.
///
/// A declared point with `afterUpdated` has only an id: its number is that of the spec. A place in the order
/// has a limit, a mark on a pod also a side. The limit outlives the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AheadPoint {
    /// The id that a resume names: `<pod>@<revision>`, or `<name>@<revision>` for a declared point.
    #[schemars(length(max = limits::ID))]
    pub id: String,
    /// How many updated pods there may be while it is ahead.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The side of the pod with the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<PausePoint>,
    /// How long the rollout is paused there, in seconds. Without it, until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
}

/// The group of nodes before which a rollout does not pause, because the first one since a revision served
/// begins there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeGroups {
    /// The key of the node label.
    #[schemars(length(max = limits::NAME))]
    pub label: String,
    /// Whether there is such a group.
    #[serde(default)]
    pub open: bool,
    /// Its value of the label. Absent for pods without the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::NAME))]
    pub group: Option<String>,
    /// How many old pods there are. Absent once the rollout deletes one, or there are fewer: then it stays
    /// this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<i32>,
}

/// A number of updated pods, of so many replicas. Of another number of replicas it is the same share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// The most updated pods.
    pub limit: i32,
    /// The number of replicas that it was counted for.
    pub replicas: i32,
}

/// The number of replicas whose sizes were last reached; while fewer are wanted, also the sizes to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The number of replicas whose sizes were last reached.
    pub reached: i32,
    /// The sizes to reach.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Sizes>,
}

/// The sizes of both parts of a rollout for a number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    /// The number of replicas.
    pub replicas: i32,
    /// The number of updated pods.
    pub updated: i32,
    /// The number of old pods.
    pub old: i32,
}

/// A revision that served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteRevision {
    /// Its number.
    pub revision: i64,
    /// The `pod-template-hash` of its set.
    #[schemars(length(max = limits::NAME))]
    pub template_hash: String,
    /// The number of replicas before the rollout.
    #[serde(default)]
    pub replicas: i32,
    /// `maxUnavailable` in pods, the largest during the rollout.
    #[serde(default)]
    pub max_unavailable: i32,
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
    /// Why, as a message. It never names a person: the API server does not tell the controller who wrote a
    /// request.
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
    #[serde(with = "not_empty")]
    #[schemars(with = "String", length(max = limits::NAME))]
    pub pod: String,
    /// Its UID.
    #[serde(rename = "podUID", with = "not_empty")]
    #[schemars(with = "String", length(max = limits::NAME))]
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
    /// While `replicas` is 0, when the time stands still: how many seconds of it have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed: Option<i64>,
    /// How many updated pods there may be; without it as many as the pause point allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i32>,
    /// The number of replicas when it began.
    #[serde(default)]
    pub replicas: i32,
    /// Of a plain Deployment: the numbers of pods of its old sets. Else empty.
    #[serde(default)]
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
}

/// The side of its pod on which a pause point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PausePoint {
    /// The rollout is paused before the pod is deleted.
    Before,
    /// The rollout is paused after the pod is deleted.
    After,
}

/// A pause point that a rollout cannot reach: the deletion of the next pod would leave too few available
/// pods, and the only unavailable old pods are at or behind the pause point.
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
    /// Its id, or `*` for all points of this rollout.
    #[serde(default)]
    #[schemars(length(max = limits::ID))]
    pub id: String,
    /// How it was passed.
    #[serde(default)]
    pub by: PassedBy,
    /// The UID of its pod; empty for a declared point.
    #[serde(default, rename = "podUID", with = "not_empty")]
    #[schemars(with = "String", length(max = limits::NAME))]
    pub pod_uid: String,
    /// When it was passed.
    #[serde(deserialize_with = "time::stored")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = limits::TIME))]
    pub resumed_at: Time,
}

/// How a pause point was passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PassedBy {
    /// A resume named it.
    #[default]
    Resume,
    /// Its time was over.
    Duration,
    /// The annotation, or the point of the spec, was removed.
    Removal,
    /// No old pod is behind the mark or the place. Once there is one, the rollout pauses there.
    NothingBehind,
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

    /// How the pause point of that id was passed in this rollout.
    #[must_use]
    pub fn passed_by(&self, id: &str) -> Option<PassedBy> {
        self.passed.iter().flatten().find(|passed| passed.id == id).map(|passed| passed.by)
    }

    /// Whether this rollout has passed the pause point of that name: of a pod, or `<name>.<group>` or
    /// `<name>` of a declared one. A point that was removed since and came back is another one.
    #[must_use]
    pub fn has_passed(&self, name: &str) -> bool {
        let last = self
            .passed
            .iter()
            .flatten()
            .rev()
            .find(|passed| passed.id.rsplit_once('@').is_some_and(|(of, _)| of == name));
        self.has_passed_all()
            || last.is_some_and(|passed| !matches!(passed.by, PassedBy::Removal | PassedBy::NothingBehind))
    }

    /// The pause points ahead that this rollout stores.
    pub fn points(&self) -> impl Iterator<Item = &AheadPoint> {
        self.rollout.iter().flat_map(|rollout| rollout.points.iter().flatten())
    }

    /// Whether all pause points of this rollout were passed at once.
    #[must_use]
    pub fn has_passed_all(&self) -> bool {
        self.passed_by(crate::names::ALL_POINTS).is_some()
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
    /// The name of the point: of a pod, or of a declared point with its group of nodes.
    #[must_use]
    pub fn label(&self) -> String {
        self.declared.as_ref().map_or_else(|| self.pod.clone(), HeldPoint::label)
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
