//! The commands, one module each.

pub(crate) mod abort;
pub(crate) mod adopt;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod dashboard;
pub(crate) mod demo;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod mark;
pub(crate) mod options;
pub(crate) mod order;
pub(crate) mod pause;
pub(crate) mod plan;
mod request;
pub(crate) mod restart;
pub(crate) mod resume;
pub(crate) mod sandbox;
mod screen;
pub(crate) mod set;
pub(crate) mod status;
mod template_change;
pub(crate) mod undo;
pub(crate) mod version;
