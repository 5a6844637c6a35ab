//! The list of all OrderedDeployments. Pure functions: no server, no clock.

use jiff::Timestamp;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{condition, reason};
use serde::Serialize;

use super::tone::{Tone, UNICODE};
use crate::age::span;
use crate::overview::images;
use crate::phase::Phase;

/// One OrderedDeployment in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    namespace: String,
    name: String,
    mark: &'static str,
    tone: Tone,
    state: String,
    /// How long it is paused.
    paused: Option<String>,
    desired: i32,
    updated: i32,
    available: i32,
    images: Vec<String>,
}

impl Row {
    pub(super) fn of(deployment: &OrderedDeployment, now: Timestamp) -> Self {
        let phase = Phase::of(deployment);
        let status = deployment.status.clone().unwrap_or_default();
        let (mark, paint) = phase.mark(UNICODE);
        let since = match &phase {
            Phase::Held(hold) => Some(hold.since.0),
            Phase::Paused => {
                let progress = status.condition(condition::PROGRESSING);
                let paused = progress.filter(|progress| progress.reason == reason::DEPLOYMENT_PAUSED);
                paused.map(|paused| paused.last_transition_time.0)
            }
            _ => None,
        };
        Self {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
            mark,
            tone: paint.into(),
            state: phase.label(),
            paused: since.map(|since| span(since, now)),
            desired: deployment.spec.replicas,
            updated: status.updated_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            images: images(&deployment.spec.template.value()),
        }
    }

    /// The namespace and the name.
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// The rows of the list, by namespace and name.
    pub(super) fn all<'a>(
        deployments: impl IntoIterator<Item = &'a OrderedDeployment>,
        now: Timestamp,
    ) -> Vec<Self> {
        let mut rows: Vec<Self> = deployments.into_iter().map(|found| Self::of(found, now)).collect();
        rows.sort_by(|first, second| first.key().cmp(&second.key()));
        rows
    }
}
