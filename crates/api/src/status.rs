//! The status of an `OrderedDeployment`. No field of it is required, else the status patch that resumes a rollout
//! would be refused on a fresh object.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, time};

/// What was observed, and what must survive a restart of the controller: the rollout's identity, its hold and the
/// pause points passed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Tools that wait (kstatus) take an object without any status for one that is done.
#[schemars(extend("default" = {"observedGeneration": -1}))]
pub struct OrderedDeploymentStatus {
    /// The generation of the spec that this status speaks of; -1: of none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods that run or start: not terminating, not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Those of the current template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Those that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Those that have been ready for `minReadySeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Those still missing until all wanted pods are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Pods that terminate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// How many hash collisions of templates were met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// The selector as a string, for the scale subresource and the `HorizontalPodAutoscaler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What can be said of the object now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Option<Vec<Condition>>,
    /// The rollout that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// The pause point at which the rollout is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The pause point that only unavailable pods at or behind it keep the rollout from reaching, and since when. No hold:
    /// it ends by itself once the next pod may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// The pause points that this rollout has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Vec<Passed>>,
    /// Written by whoever wants the rollout to go on: the id of the hold (or, while the condition `Stalled` has the reason
    /// `Blocked`, of `blocked`), or `*@revision` for all points of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub resume_requested: Option<String>,
    /// The sizes of the sets while `spec.paused` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// A rollout: the way to one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Its number. It grows with every change of the template, an undo included.
    pub revision: i64,
    /// The `pod-template-hash` of its template.
    pub template_hash: String,
    /// The number of replicas that its sets were last scaled for.
    pub replicas: i32,
    /// While the running rollout is scaled to another number of replicas: the pods that each set had before, by
    /// `pod-template-hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_from: Option<BTreeMap<String, i32>>,
}

/// A pause point at which the rollout is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// What a resume names: `<pod>@<revision>`.
    pub id: String,
    /// The name of the pod.
    pub pod: String,
    /// Its UID.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether the rollout halts before or after this pod.
    pub point: PausePoint,
    /// The revision that the rollout leads to.
    pub revision: i64,
    /// Since when.
    #[serde(deserialize_with = "time::stored")]
    pub since: Time,
    /// Until when; absent: until somebody resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "time::stored_if_any")]
    pub until: Option<Time>,
    /// With point `After`: whether the pod is deleted already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<bool>,
    /// The number of replicas that `sizes` were stored for.
    pub replicas: i32,
    /// The wanted number of pods of each set, by its `pod-template-hash`.
    #[schemars(schema_with = "schema::sizes")]
    pub sizes: BTreeMap<String, i32>,
}

/// On which side of its pod a pause point lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PausePoint {
    /// The pod stays until the rollout is resumed.
    Before,
    /// The pod is deleted, none behind it.
    After,
}

/// A pause point that a rollout cannot reach: deleting the next pod leaves too few available pods, and the only unavailable
/// old pods are at or behind the point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// The id that a resume names to pass the point: `<pod>@<revision>`.
    pub id: String,
    /// Since when.
    #[serde(deserialize_with = "time::stored")]
    pub since: Time,
}

/// A pause point that was passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Passed {
    /// The UID of its pod, or `*` for all points of this rollout.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// When.
    #[serde(deserialize_with = "time::stored")]
    pub resumed_at: Time,
}

/// The sizes of the sets while `spec.paused` is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// The number of replicas that `sizes` were stored for.
    pub replicas: i32,
    /// The wanted number of pods of each set, by its `pod-template-hash`.
    #[schemars(schema_with = "schema::sizes")]
    pub sizes: BTreeMap<String, i32>,
}

/// One thing that can be said of the object, as in a Deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type, such as `Available`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word for programs.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// When `status` last changed.
    #[serde(deserialize_with = "time::stored")]
    pub last_transition_time: Time,
    /// When anything of it last changed, or, for `Progressing`, when progress was last seen.
    #[serde(deserialize_with = "time::stored")]
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
}

impl Hold {
    /// The id of a hold: what a resume must name.
    #[must_use]
    pub fn id(pod: &str, revision: i64) -> String {
        format!("{pod}@{revision}")
    }
}
