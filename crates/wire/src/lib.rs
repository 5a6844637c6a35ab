//! Kubernetes objects as they come from an API server, narrowed to what decisions read, and as they are sent to one.
//!
//! Annotations are parsed here, once. This crate does no I/O, reads no clock and holds no randomness, and it decides nothing.

mod objects;
mod view;

pub use objects::{new_pod, new_set, owner_of};
pub use view::{ConditionView, MalformedAnnotation, NodeView, PodView, set};
