//! The subset of protobuf that kubectl requires. `kubectl create` and evictions send objects in protobuf, and kubectl
//! accepts the `OpenAPI` v2 document only in protobuf.
//!
//! The server never returns objects in protobuf; every client that sends protobuf also accepts JSON.

mod document;
mod kinds;
mod objects;
mod wire;

pub(crate) use document::document;
pub(crate) use objects::decode;

/// Media type of objects.
pub(crate) const OBJECTS: &str = "application/vnd.kubernetes.protobuf";
/// Media type of the `OpenAPI` v2 document. Clients request it with an `@` in place of the second dot, but cannot parse
/// that in a response.
pub(crate) const DOCUMENT: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
