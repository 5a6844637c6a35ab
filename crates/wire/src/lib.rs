//! Kubernetes objects as an API server sends them, narrowed to what decisions read, and the objects that are sent to one.
//!
//! Annotations are parsed here, once. This crate does no I/O, reads no clock, uses no randomness, and makes no decisions.

mod objects;
mod view;

pub use objects::{new_pod, new_set, owner_of};
pub use view::{ConditionView, MalformedAnnotation, NodeView, PodView, set, unknown_annotations};
