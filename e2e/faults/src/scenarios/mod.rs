//! Scenarios: what users do with an OrderedDeployment, each as a case without faults.
//!
//! Without faults, a scenario reaches its outcome. It undoes its disruptions, unless the outcome depends on them
//! ([`Outcome`](crate::case::Outcome)).

mod aborts;
mod builder;
mod changes;
mod cluster;
mod declared;
mod deletions;
mod holds;
mod ownership;
mod resumes;
mod rollouts;
mod short;
mod templates;

use std::sync::LazyLock;

use rand::rngs::StdRng;

use builder::{Draw, ScenarioBuilder};
pub(crate) use builder::{SPELLINGS, deployment, hash, spelled, template, without_spelling};

use crate::case::Case;

/// What the tables of scenarios use.
mod prelude {
    pub(super) use ordereddeployment_api::names::{annotation, condition, label, reason};
    pub(super) use serde_json::{Value, json};

    pub(super) use super::Scenario;
    pub(super) use super::builder::{
        Draw, SPELLINGS, ScenarioBuilder, annotate, bounded, delete, deployment, four, hash, image, line,
        node, prioritise, respell, scale, set, template, until_gone, web,
    };
    pub(super) use crate::case::PodSelector::{self, Any, Held, Old, Orphan, Updated};
    pub(super) use crate::case::ResumeRequest::{All, AtPod, Current, Previous, Raw};
    pub(super) use crate::case::UserAction::{
        self, Abort, Create, Delete, DeleteNode, DeletePod, FailPod, ForceDeletePod, Forge, NoAction, Patch,
        PatchPod, PatchSpec, RemoveFinalizers, ReplacePod, Resume, Retry, SetReady, StartNode, StopNode,
    };
    pub(super) use crate::case::{Forgery, Millis, Outcome};
    pub(super) use crate::user::DEPLOYMENT;
}

/// A scenario: its name, and its steps. It draws its parameters from random numbers.
pub struct Scenario(&'static str, fn(&mut Draw<'_>) -> ScenarioBuilder);

impl Scenario {
    /// The case with the parameters that these random numbers give; those of seed 1 give the default parameters.
    #[must_use]
    pub fn case(&self, rng: &mut StdRng) -> Case {
        (self.1)(&mut Draw::from(rng)).build(self.0)
    }
}

/// Rollouts and deletions for [`CaseId::Deletion`](crate::campaign::CaseId::Deletion).
pub(crate) use deletions::{DELETIONS, ROLLOUTS};

/// Every scenario.
pub static ALL: LazyLock<Vec<&'static Scenario>> = LazyLock::new(|| {
    let tables = [
        short::ALL,
        rollouts::ALL,
        holds::ALL,
        resumes::ALL,
        declared::ALL,
        aborts::ALL,
        changes::ALL,
        templates::ALL,
        ownership::ALL,
        cluster::ALL,
    ];
    tables.into_iter().flatten().collect()
});
