//! A campaign of faults: the controller runs on the sandbox, under simulated time, while faults are injected.
//!
//! A [`Case`] is plain data: a cluster, user actions and faults. [`run`] plays it on a new sandbox and
//! returns a [`Log`] of what the server received. [`oracles::check`] checks the log against the promises.
//! Equal cases give equal logs, so a case can be kept as a file and played again. Nothing here decides for
//! the controller.

pub mod campaign;
pub mod case;
mod injector;
mod instance;
pub mod log;
pub mod oracles;
mod random_faults;
mod run;
pub mod scenarios;
pub mod shrink;
mod user;

pub use case::Case;
pub use log::Log;
pub use run::run;
