//! An embedded Kubernetes API server with nodes, a scheduler and kubelets, in memory.

pub mod resource;
pub mod schema;
