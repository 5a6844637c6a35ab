//! The rules of [`crate::rules`] in Rust, for servers that evaluate no CEL. The messages are the same.

use std::fmt;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::template::Validated;
use crate::{
    LabelSelector, LabelSelectorOperator, NodePriority, OrderedDeploymentSpec, RollingUpdate, StrategyType,
    amount::percent, rules,
};

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, such as `spec.selector`.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Checks a spec against every rule that needs no earlier version of it. Empty: it is valid.
#[must_use]
pub fn validate(spec: &OrderedDeploymentSpec) -> Vec<Violation> {
    let mut found = Found(Vec::new());
    for (field, value) in [
        ("spec.replicas", spec.replicas),
        ("spec.minReadySeconds", spec.min_ready_seconds),
        ("spec.revisionHistoryLimit", spec.revision_history_limit),
        ("spec.progressDeadlineSeconds", spec.progress_deadline_seconds),
    ] {
        found.check(value >= 0, field, "must be greater than or equal to 0");
    }
    selector(&mut found, "spec.selector", &spec.selector);
    found.check(!spec.selector.is_empty(), "spec.selector", rules::SELECTOR_EMPTY.message);
    let template = spec.template.validated();
    found.check(spec.selector.matches_by(|key| template.label(key)), "spec", rules::SELECTOR_MISMATCH);
    pod_template(&mut found, template);
    found.check(
        spec.progress_deadline_seconds > spec.min_ready_seconds,
        "spec",
        rules::PROGRESS_DEADLINE.message,
    );
    let rolling_update = spec.strategy.rolling_update.as_ref();
    found.check(
        spec.strategy.type_ == StrategyType::RollingUpdate || rolling_update.is_none(),
        "spec.strategy",
        rules::ROLLING_UPDATE_WITH_RECREATE.message,
    );
    if let Some(bounds) = rolling_update {
        bounds_of(&mut found, bounds);
    }
    let node_rules = spec.deletion_order.iter().filter_map(|order| order.node_priorities.as_ref()).flatten();
    for (index, rule) in node_rules.enumerate() {
        node_rule(&mut found, &format!("spec.deletionOrder.nodePriorities[{index}]"), rule);
    }
    found.0
}

/// The violations so far.
struct Found(Vec<Violation>);

impl Found {
    fn check(&mut self, holds: bool, field: &str, message: &str) {
        if !holds {
            self.0.push(Violation { field: field.to_owned(), message: message.to_owned() });
        }
    }
}

fn selector(found: &mut Found, field: &str, selector: &LabelSelector) {
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let has_values = requirement.values.as_ref().is_some_and(|values| !values.is_empty());
        let wants_values =
            matches!(requirement.operator, LabelSelectorOperator::In | LabelSelectorOperator::NotIn);
        found.check(
            has_values == wants_values,
            &format!("{field}.matchExpressions[{index}]"),
            rules::REQUIREMENT_VALUES.message,
        );
    }
}

fn pod_template(found: &mut Found, template: &Validated) {
    found.check(template.restarts_always, "spec", rules::RESTART_POLICY.message);
    found.check(!template.has_deadline, "spec", rules::ACTIVE_DEADLINE.message);
    found.check(template.has_containers, "spec.template.spec.containers", "must have at least one container");
}

fn bounds_of(found: &mut Found, bounds: &RollingUpdate) {
    let field = "spec.strategy.rollingUpdate";
    let surge = match &bounds.max_surge {
        IntOrString::Int(number) => *number >= 0,
        IntOrString::String(text) => percent(text).is_some(),
    };
    let unavailable = match &bounds.max_unavailable {
        IntOrString::Int(number) => *number >= 0,
        IntOrString::String(text) => percent(text).is_some_and(|percent| percent <= 100),
    };
    found.check(surge, field, rules::MAX_SURGE.message);
    found.check(unavailable, field, rules::MAX_UNAVAILABLE.message);
    found.check(
        !(is_zero(&bounds.max_surge) && is_zero(&bounds.max_unavailable)),
        field,
        rules::BOTH_ZERO.message,
    );
}

fn is_zero(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => percent(text) == Some(0),
    }
}

/// What is wrong with one node rule that stands at that field.
#[must_use]
pub fn validate_node_rule(field: &str, rule: &NodePriority) -> Vec<Violation> {
    let mut found = Found(Vec::new());
    node_rule(&mut found, field, rule);
    found.0
}

fn node_rule(found: &mut Found, field: &str, rule: &NodePriority) {
    if let Some(node_selector) = &rule.node_selector {
        selector(found, &format!("{field}.nodeSelector"), node_selector);
    }
    found.check(
        rule.priority.is_some() != rule.deletion_cost.is_some(),
        field,
        rules::NODE_RULE_GRANT.message,
    );
    let selects = rule.node_selector.as_ref().is_some_and(|selector| !selector.is_empty());
    let taints = rule.taint_keys.as_ref().is_some_and(|keys| !keys.is_empty());
    found.check(
        selects || taints || rule.unschedulable.is_some() || rule.unassigned.is_some(),
        field,
        rules::NODE_RULE_EMPTY.message,
    );
    let of_a_node = rule.node_selector.is_some() || rule.unschedulable.is_some() || rule.taint_keys.is_some();
    found.check(rule.unassigned != Some(true) || !of_a_node, field, rules::NODE_RULE_UNASSIGNED.message);
}
