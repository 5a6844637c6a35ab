//! Kubernetes objects as an API server sends them, narrowed to what decisions read, and those that are sent.
//!
//! Annotations are parsed here, once. This crate does no I/O, reads no clock, and makes no decisions.

mod family;
mod objects;
mod owner;
mod plain;
mod resource;
mod view;

pub use family::Family;
pub use objects::{new_pod, new_set, strict_create};
pub use owner::{NamespacedUid, in_namespace};
pub use plain::{PlainDeployment, PlainSet, declared_points, rollout_state};
pub use view::{MalformedAnnotation, NodeView, PodView, plain_set, set, unknown_annotations};
