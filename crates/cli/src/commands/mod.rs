//! The commands, one a module.

pub(crate) mod crd;
pub(crate) mod demo;
pub(crate) mod get;
pub(crate) mod order;
pub(crate) mod resume;
pub(crate) mod sandbox;
