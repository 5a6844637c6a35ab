//! Aggregated cluster roles: their rules are those of the roles that their selectors match.
//!
//! Source: `pkg/controller/clusterroleaggregation`.

use serde_json::Value;

use crate::object;
use crate::selector::{Labels, selector_text};

/// The rules of an aggregated cluster role, from all cluster roles in the order of their names; `None` if the role is
/// not aggregated, or a selector is invalid.
pub(crate) fn aggregated(role: &Value, all: &[&Value]) -> Option<Vec<Value>> {
    let selectors = role["aggregationRule"].as_object()?.get("clusterRoleSelectors");
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors.and_then(Value::as_array).into_iter().flatten() {
        let labels = Labels::parse(&selector_text(selector)).ok()?;
        let others = all.iter().filter(|other| object::name(other) != object::name(role));
        for other in others.filter(|other| labels.matches(other)) {
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    Some(rules)
}
