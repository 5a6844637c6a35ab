//! Pods and sets: what the watches have shown, overlaid by the controller's own writes and live reads.

pub(crate) mod entry;
pub(crate) mod expectations;
pub(crate) mod index;
