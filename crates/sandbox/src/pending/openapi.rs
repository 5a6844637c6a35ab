//! A stand-in until the real module lands.
#![allow(missing_docs, clippy::all, clippy::pedantic, reason = "replaced whole, soon")]
use crate::resource::ResourceInfo as R;
use serde_json::{Value, json};
pub fn v2(_: &[R]) -> Value {
    json!({})
}
pub fn v3_index(_: &[R]) -> Value {
    json!({})
}
pub fn v3(_: &[R], _: &str, _: &str) -> Option<Value> {
    None
}
