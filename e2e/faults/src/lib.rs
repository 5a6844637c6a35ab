//! A campaign of faults: the controller runs on the sandbox, under simulated time, while faults are injected.
//!
//! A [`Case`] is plain data: a cluster, user actions and faults. [`run`] plays it on a new sandbox and
//! returns a [`Log`] of what the server received. [`check`] checks the log against the promises.
//! Equal cases give equal logs, so a case can be kept as a file and played again. Nothing here decides for
//! the controller.
#![allow(clippy::must_use_candidate, reason = "only the program and the tests of this crate call it")]

mod campaign;
mod case;
mod injector;
mod instance;
mod log;
mod oracles;
mod random_faults;
mod run;
mod scenarios;
mod shrink;
mod user;

pub use campaign::{CaseId, case_ids, interleaved};
pub use case::{Case, Outcome};
pub use log::{Log, RunEventKind, instance};
pub use oracles::{Violation, check, names};
pub use run::run;
pub use scenarios::{ALL, Scenario};
pub use shrink::shrink;
