//! Scenarios: what users do with an OrderedDeployment, each as a case without faults.
//!
//! Without faults, a scenario reaches its outcome. It undoes its disruptions, unless the outcome depends on
//! them ([`Outcome`](crate::case::Outcome)).

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

pub use builder::Scenario;
pub(crate) use builder::{
    SPELLINGS, annotate, delete, deployment, disowned, hash, image, labelled, node, respell, scale, set,
    stay, without_spelling,
};

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
