//! A stand-in until the real module lands.
#![allow(missing_docs, clippy::all, clippy::pedantic, reason = "replaced whole, soon")]
use crate::resource::ResourceInfo as R;
use serde_json::{Value, json};
pub fn version() -> Value {
    json!({})
}
pub fn aggregated(_: &[R], _: bool) -> Value {
    json!({})
}
pub fn api_versions() -> Value {
    json!({})
}
pub fn api_groups(_: &[R]) -> Value {
    json!({})
}
pub fn api_group(_: &[R], _: &str) -> Option<Value> {
    None
}
pub fn api_resources(_: &[R], _: &str, _: &str) -> Option<Value> {
    None
}
