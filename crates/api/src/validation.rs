//! The rules of [`crate::rules`] in Rust, for servers that evaluate no CEL. The messages are the same. Two
//! rules are only here: their price in CEL is too high.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{
    DeclaredPausePoint, LabelSelector, LabelSelectorOperator, NodePriority, OrderedDeploymentSpec,
    RollingUpdate, Strategy, StrategyType, amount::percent, parse_pause_duration, rules,
};

/// How many pause points a spec may declare.
const MOST_POINTS: usize = 32;
/// The name that no declared point may have.
const MORE: &str = "more";

/// The bounds of a pause point's duration in the schema: the text, and the digits before a unit or a point.
const DURATION_LENGTH: usize = 20;
const DURATION_DIGITS: usize = 6;

/// A field that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, such as `spec.selector`.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Violation {
    /// Whether it is about the declared pause points. They stop a rollout, and nothing else.
    #[must_use]
    pub fn is_of_points(&self) -> bool {
        self.field.starts_with(POINTS)
    }
}

/// Where a spec declares pause points.
const POINTS: &str = "spec.strategy.pausePoints";

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
    found.check(template.restarts_always, "spec", rules::RESTART_POLICY.message);
    found.check(!template.has_deadline, "spec", rules::ACTIVE_DEADLINE.message);
    found.check(template.has_containers, "spec.template.spec.containers", "must have at least one container");
    let is_later = spec.progress_deadline_seconds > spec.min_ready_seconds;
    found.check(is_later, "spec", rules::PROGRESS_DEADLINE.message);
    let rolling_update = spec.strategy.rolling_update.as_ref();
    let fits = spec.strategy.type_ == StrategyType::RollingUpdate || rolling_update.is_none();
    found.check(fits, "spec.strategy", rules::ROLLING_UPDATE_WITH_RECREATE.message);
    if let Some(bounds) = rolling_update {
        bounds_of(&mut found, bounds);
    }
    pause_points(&mut found, POINTS, &spec.strategy);
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
        let field = format!("{field}.matchExpressions[{index}]");
        found.check(has_values == wants_values, &field, rules::REQUIREMENT_VALUES.message);
    }
}

fn bounds_of(found: &mut Found, bounds: &RollingUpdate) {
    let field = "spec.strategy.rollingUpdate";
    let is_amount = |value: &IntOrString, most: i32| match value {
        IntOrString::Int(number) => *number >= 0,
        IntOrString::String(text) => percent(text).is_some_and(|percent| percent <= most),
    };
    let (surge, unavailable) = (&bounds.max_surge, &bounds.max_unavailable);
    found.check(is_amount(surge, i32::MAX), field, rules::MAX_SURGE.message);
    found.check(is_amount(unavailable, 100), field, rules::MAX_UNAVAILABLE.message);
    let are_zero = [surge, unavailable].iter().all(|value| match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => percent(text) == Some(0),
    });
    found.check(!are_zero, field, rules::BOTH_ZERO.message);
}

/// Parses the pause points that an annotation of a plain Deployment declares: a list as in
/// `spec.strategy.pausePoints`, in JSON.
///
/// `afterUpdated` is refused: the Deployment controller decides how many updated pods exist.
///
/// # Errors
/// One line that says what is wrong, and what to do.
pub fn parse_pause_points(text: &str) -> Result<Vec<DeclaredPausePoint>, String> {
    let points: Vec<DeclaredPausePoint> =
        serde_json::from_str(text).map_err(|error| format!("give a JSON list of pause points: {error}"))?;
    if let Some(point) = points.iter().find(|point| point.after_updated.is_some()) {
        return Err(format!(
            "{}: a Deployment cannot pause by afterUpdated, since its controller decides how many updated \
             pods exist",
            point.name
        ));
    }
    let mut found = Found(Vec::new());
    let strategy = Strategy { pause_points: Some(points), ..Strategy::default() };
    pause_points(&mut found, "pausePoints", &strategy);
    match found.0.first() {
        Some(violation) => Err(violation.to_string()),
        None => Ok(strategy.pause_points.unwrap_or_default()),
    }
}

fn pause_points(found: &mut Found, field: &str, strategy: &Strategy) {
    found.check(strategy.points().count() <= MOST_POINTS, field, "must have at most 32 items");
    let counts = |point: &DeclaredPausePoint| point.after_updated.is_some();
    let fits = strategy.type_ == StrategyType::RollingUpdate || !strategy.points().any(counts);
    found.check(fits, field, rules::AFTER_UPDATED_WITH_RECREATE.message);
    let groups = strategy.points().filter(|point| point.between_node_groups.is_some());
    found.check(groups.count() <= 1, field, rules::ONE_NODE_GROUP_POINT.message);
    let (mut names, mut number, mut share) = (BTreeSet::new(), i32::MIN, i32::MIN);
    for (index, point) in strategy.points().enumerate() {
        let field = format!("{field}[{index}]");
        found.check(names.insert(point.name.as_str()), &field, rules::POINT_NAME_TWICE);
        found.check(point.name != MORE, &format!("{field}.name"), rules::POINT_NAME_RESERVED);
        pause_point(found, &field, point);
        match &point.after_updated {
            Some(IntOrString::Int(next)) => {
                let before = std::mem::replace(&mut number, *next);
                found.check(*next >= before, &field, rules::POINT_NUMBERS_DECREASE);
            }
            Some(IntOrString::String(text)) => {
                let next = percent(text).unwrap_or(i32::MAX);
                let before = std::mem::replace(&mut share, next);
                found.check(next >= before, &field, rules::POINT_PERCENTAGES_DECREASE);
            }
            None => {}
        }
    }
}

fn pause_point(found: &mut Found, field: &str, point: &DeclaredPausePoint) {
    found.check(is_dns_label(&point.name), &format!("{field}.name"), "must be a DNS label, such as canary");
    found.check(point.kinds() == 1, field, rules::POINT_KIND.message);
    let counts = match &point.after_updated {
        Some(IntOrString::Int(number)) => *number > 0,
        Some(IntOrString::String(text)) => percent(text).is_some_and(|percent| (1..=100).contains(&percent)),
        None => true,
    };
    let message = "must be an integer greater than 0 or a percentage from 1% to 100%";
    found.check(counts, &format!("{field}.afterUpdated"), message);
    if let Some(nodes) = &point.before_nodes {
        selector(found, &format!("{field}.beforeNodes"), nodes);
        found.check(!nodes.is_empty(), field, rules::POINT_NODES_EMPTY.message);
    }
    let label = point.between_node_groups.as_deref();
    let message = "must be the key of a label, such as topology.kubernetes.io/zone";
    found.check(label.is_none_or(is_label_key), &format!("{field}.betweenNodeGroups"), message);
    if let Some(duration) = point.duration.as_deref() {
        let message = "must be a duration such as 10m, of at most 20 characters and with at most 6 digits \
                       before a unit";
        let is_bounded = is_bounded_duration(duration);
        found.check(is_bounded, &format!("{field}.duration"), message);
        let lasts = parse_pause_duration(duration).is_some();
        found.check(lasts || !is_bounded, field, rules::POINT_DURATION.message);
    }
}

/// Whether the schema admits the text: numbers with units that no server fails to add up.
fn is_bounded_duration(text: &str) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(is_digit);
        let digits = rest.len() - after.len();
        let after = after.strip_prefix('.').map_or(after, |fraction| fraction.trim_start_matches(is_digit));
        let Some(next) = ["ns", "us", "ms", "s", "m", "h"].iter().find_map(|unit| after.strip_prefix(unit))
        else {
            return false;
        };
        if !(1..=DURATION_DIGITS).contains(&digits) {
            return false;
        }
        rest = next;
    }
    (1..=DURATION_LENGTH).contains(&text.len())
}

fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let in_prefix = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    key.len() <= 317
        && prefix.is_none_or(|prefix| !prefix.is_empty() && prefix.bytes().all(in_prefix))
        && name.bytes().all(in_name)
        && is_edge(name.as_bytes().first())
        && is_edge(name.as_bytes().last())
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
    let has_one = rule.priority.is_some() != rule.deletion_cost.is_some();
    found.check(has_one, field, rules::NODE_RULE_GRANT.message);
    let selects = rule.node_selector.as_ref().is_some_and(|selector| !selector.is_empty());
    let taints = rule.taint_keys.as_ref().is_some_and(|keys| !keys.is_empty());
    let matches = selects || taints || rule.unschedulable.is_some() || rule.unassigned.is_some();
    found.check(matches, field, rules::NODE_RULE_EMPTY.message);
    let of_a_node = rule.node_selector.is_some() || rule.unschedulable.is_some() || rule.taint_keys.is_some();
    found.check(rule.unassigned != Some(true) || !of_a_node, field, rules::NODE_RULE_UNASSIGNED.message);
}
