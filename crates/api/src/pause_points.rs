//! Declared pause points: pause points in the spec, for every rollout.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{LabelSelector, Round, parse_pause_duration, resolve, rules, schema};

/// A pause point of every rollout. It has exactly one of `afterUpdated`, `beforePriority`, `beforeNodes` and
/// `betweenNodeGroups`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::POINT_KIND.rule(),
    validation = rules::POINT_NODES_EMPTY.rule(),
    validation = rules::POINT_DURATION.rule(),
)]
pub struct DeclaredPausePoint {
    /// The name of the pause point, unique in this list. A resume names it: `<name>@<revision>`.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Pause when so many updated pods are available: a number, or a percentage of `replicas` rounded up, and
    /// at most `replicas` - 1. Until the point is passed, no more updated pods exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::after_updated")]
    pub after_updated: Option<IntOrString>,
    /// Pause before the first pod whose delete priority is this number or lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_priority: Option<i32>,
    /// Pause before the first pod on a node with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_nodes: Option<LabelSelector>,
    /// The key of a node label, such as `topology.kubernetes.io/zone`. Among pods of the same delete
    /// priority, a rollout replaces the pods of one value of the label after those of another, in the order
    /// of the values and pods without the label last. It pauses before the first pod of each value, except
    /// the value where it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 317),
        regex(pattern = "^([-a-zA-Z0-9.]+/)?[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$")
    )]
    pub between_node_groups: Option<String>,
    /// How long the rollout is paused, as a Go duration (`10m`) of at most 20 characters. Without it, until
    /// the rollout is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = "^([0-9]{1,6}([.][0-9]*)?(ns|us|ms|s|m|h))+$"))]
    pub duration: Option<String>,
}

impl DeclaredPausePoint {
    /// How many updated pods `afterUpdated` lets exist with so many replicas: at most `replicas` - 1, so that
    /// old pods are left. One replica is updated beside an old one, if there is a surge. `None` if it is
    /// another kind of point.
    #[must_use]
    pub fn limit(&self, replicas: i32, surge: i64) -> Option<i64> {
        let most = if replicas == 1 { surge.min(1) } else { i64::from(replicas) - 1 };
        let number = resolve(self.after_updated.as_ref()?, replicas, Round::Up)?;
        Some(number.min(most).max(0))
    }

    /// How long the rollout is paused; `None`: until it is resumed.
    #[must_use]
    pub fn pause_duration(&self) -> Option<Duration> {
        self.duration.as_deref().and_then(parse_pause_duration)
    }

    /// How many kinds of points it is; a valid one is 1.
    pub(crate) fn kinds(&self) -> usize {
        let kinds = [
            self.after_updated.is_some(),
            self.before_priority.is_some(),
            self.before_nodes.is_some(),
            self.between_node_groups.is_some(),
        ];
        kinds.into_iter().filter(|is_given| *is_given).count()
    }
}

/// `pausePoints`: each name once.
pub(crate) fn list(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<DeclaredPausePoint>();
    json_schema!({
        "description": "Where every rollout pauses, besides the pods with an annotation.",
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": item,
    })
}
