//! The little protobuf that kubectl insists on: it sends the objects of `kubectl create` and evictions in it, and
//! takes the second `OpenAPI` document in nothing else.
//!
//! Never does: answer objects in protobuf; every client that sends it takes JSON back.

mod document;
mod kinds;
mod objects;
mod wire;

pub(crate) use document::document;
pub(crate) use objects::decode;

/// Media type of objects.
pub(crate) const OBJECTS: &str = "application/vnd.kubernetes.protobuf";
/// Media type of the second `OpenAPI` document. Clients ask for it with an `@` in place of the second dot, but cannot
/// parse that in an answer.
pub(crate) const DOCUMENT: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
