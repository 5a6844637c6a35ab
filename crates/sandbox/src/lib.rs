//! An embedded Kubernetes API server with nodes, a scheduler and kubelets, in memory.
//!
//! The sandbox serves HTTP: over TLS on loopback for kubectl, and over in-memory pipes for clients in the
//! same process. The pipes also work with tokio's paused clock. No controller and no custom resource is built
//! in: clients create the CustomResourceDefinitions.

pub mod agents;
mod audit;
mod builtin;
mod clock;
mod discovery;
mod http;
mod names;
mod object;
mod patch;
mod protobuf;
mod render;
mod request;
mod resource;
mod sandbox;
mod schema;
mod selector;
mod server;
mod status;
mod store;
mod table;
mod tls;

pub use agents::collector::Collector;
pub use agents::nodes::{NodeSpec, Taint};
pub use audit::{Fault, Record};
pub use clock::Clock;
pub use sandbox::{Config, Sandbox};
pub use store::{Backup, Commit};
pub use tls::Endpoint;
pub use tls::Error;
