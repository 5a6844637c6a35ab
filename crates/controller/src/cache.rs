//! What is known of pods and sets: what the watches have shown, and over it what this controller wrote or read live.

pub(crate) mod entry;
pub(crate) mod expectations;
pub(crate) mod index;
