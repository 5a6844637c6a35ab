//! Built-in kinds: decoding, defaults, validation.

pub(crate) mod names;
