//! The migration of pods between a Deployment and an OrderedDeployment: during it no pod is created or
//! deleted, since a controller that sees only half of the pods would replace the other half.
//!
//! The planner does not move pods: the garbage collector and the command line do, and the controller adopts
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{annotation, reason};

use crate::{FailureKind, Read, Snapshot, Source};

/// How often the controller checks whether the sources are gone: no event shows it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whether the pods are being handed back to a Deployment: then the controller adopts none.
#[must_use]
pub fn is_handed_back(deployment: &OrderedDeployment) -> bool {
    deployment.annotations().contains_key(annotation::HANDING_BACK)
}

/// The migration sources in the annotation; `Err` is the part of the annotation that names none. They count
/// only until the first rollout of the object has begun: after that the migration is over, and the annotation
/// is a remnant.
pub fn sources(deployment: &OrderedDeployment) -> Result<BTreeSet<Source>, String> {
    if deployment.status.as_ref().is_some_and(|status| status.rollout.is_some()) {
        return Ok(BTreeSet::new());
    }
    let Some(value) = deployment.annotations().get(annotation::ADOPTING) else { return Ok(BTreeSet::new()) };
    value.split(',').map(|text| source(text.trim()).ok_or_else(|| text.to_owned())).collect()
}

/// What to do during a migration.
#[derive(Debug)]
pub(crate) enum Migration {
    /// Wait: the reason and message of the conditions, and the requeue interval.
    Wait(&'static str, String, Option<Duration>),
    /// Read this first.
    Read(Read),
}

/// The next step of a migration; `None` if there is none.
pub(crate) fn step(snapshot: &Snapshot) -> Option<Migration> {
    let deployment = &*snapshot.deployment;
    if let Some(step) = deployment.annotations().get(annotation::HANDING_BACK) {
        let message = format!(
            "The pods are being handed back to a Deployment; the controller changes nothing ({step})"
        );
        return Some(Migration::Wait(reason::HANDING_BACK, message, None));
    }
    let wait = |message: String| Some(Migration::Wait(reason::ADOPTING, message, Some(LOOK_AGAIN)));
    let named = match sources(deployment) {
        Ok(named) if named.is_empty() => return None,
        Ok(named) => named,
        Err(text) => {
            let key = annotation::ADOPTING;
            return wait(format!("{text:?} in the annotation {key} names no Deployment and no ReplicaSet"));
        }
    };
    if named.iter().any(|source| !snapshot.sources.contains_key(source)) {
        return Some(Migration::Read(Read::Sources(named)));
    }
    let there = |source: &&Source| snapshot.sources.get(*source).is_some_and(|there| *there);
    let there: Vec<String> = named.iter().filter(there).map(ToString::to_string).collect();
    if !there.is_empty() {
        return wait(format!("Waiting for the deletion of {}", there.join(", ")));
    }
    if !snapshot.live {
        return Some(Migration::Read(Read::Live));
    }
    if let Some(failure) = snapshot.failure.as_ref().filter(|failure| failure.what == FailureKind::Claim) {
        return wait(format!("Waiting for the adoption of all pods: {}", failure.message));
    }
    None
}

fn source(text: &str) -> Option<Source> {
    match text.split_once('/')? {
        (_, "") => None,
        ("deployments", name) => Some(Source::Deployment(name.to_owned())),
        ("replicasets", name) => Some(Source::ReplicaSet(name.to_owned())),
        _ => None,
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deployment(name) => write!(formatter, "deployments/{name}"),
            Self::ReplicaSet(name) => write!(formatter, "replicasets/{name}"),
        }
    }
}
