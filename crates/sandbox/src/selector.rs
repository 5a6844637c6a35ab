//! Label and field selectors, as in the query of a list or a watch.
//!
//! There are no indexes; a selector only decides whether one object matches.

mod fields;
mod labels;

pub use fields::Fields;
pub use labels::Labels;

use serde_json::Value;

/// A label selector in the form of the query.
pub(crate) fn selector_text(selector: &Value) -> String {
    let mut parts = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for rule in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = rule
            .get("values")
            .and_then(Value::as_array)
            .map(|values| values.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let key = text("key");
        parts.push(match text("operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}
