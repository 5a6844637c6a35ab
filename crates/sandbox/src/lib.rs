//! An embedded Kubernetes API server with nodes, a scheduler and kubelets, in memory.
//!
//! It speaks HTTP: over TLS on loopback to kubectl, over in-memory pipes to clients in the same process, there also
//! under tokio's paused clock. It knows no controller and no custom resource by name: those come from the definitions
//! that are posted to it.

pub mod agents;
mod audit;
mod builtin;
mod clock;
mod discovery;
mod events;
mod fault;
mod http;
mod object;
mod openapi;
mod patch;
mod pipe;
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
pub use audit::Record;
pub use clock::Clock;
pub use fault::Fault;
pub use sandbox::{Config, Error, Sandbox};
pub use store::{Backup, Commit};
pub use tls::Endpoint;
