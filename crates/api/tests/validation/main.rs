//! What the API server refuses by the CRDs, what `validate` refuses by the same rules in Rust, and that
//! nothing which either refuses is without a case.

mod cases;
mod constraints;
mod evaluation;
mod rules;
