//! An embedded Kubernetes API server with nodes, a scheduler and kubelets, in memory.

pub mod builtin;
pub mod patch;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod table;
