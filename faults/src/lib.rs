//! A campaign of faults: the real controller on the sandbox, under simulated time, while what can go wrong does.
//!
//! A [`Case`] is plain data: a cluster, what people do there, and faults. [`run`] plays it on a fresh sandbox and answers
//! with a [`Log`] of what the server saw, which [`judge`](judge::judge) holds against the promises. Equal cases give equal
//! logs: whatever a campaign finds can be kept as a file and played again. Nothing here decides for the controller.

pub mod campaign;
pub mod case;
mod chaos;
mod instance;
pub mod judge;
pub mod log;
mod people;
mod run;
pub mod scenarios;
pub mod shrink;
mod trouble;

pub use case::Case;
pub use log::Log;
pub use run::run;
