//! The validation rules that a schema cannot say, as CEL for the API server. [`crate::validate`] checks the
//! same rules in Rust, for servers older than CEL (Kubernetes 1.25), with the same messages; a test holds the
//! two together.

use kube::core::cel::Rule;

/// A rule as the server evaluates it, and what its violation says.
pub(crate) struct NamedRule {
    pub(crate) cel: &'static str,
    pub(crate) message: &'static str,
}

impl NamedRule {
    pub(crate) fn rule(&self) -> Rule {
        Rule::new(self.cel).message(self.message)
    }
}

pub(crate) const SELECTOR_IMMUTABLE: NamedRule = NamedRule {
    cel: "self == oldSelf",
    message: "selector is immutable: create a new object to select other pods",
};

pub(crate) const SELECTOR_EMPTY: NamedRule = NamedRule {
    cel: "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
          (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
    message: "selector must not be empty: it would select every pod of the namespace",
};

pub(crate) const REQUIREMENT_VALUES: NamedRule = NamedRule {
    cel: "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : \
          !has(self.values) || size(self.values) == 0",
    message: "values must be given for In and NotIn, and only for them",
};

pub(crate) const SELECTOR_MATCHES_LABELS: NamedRule = NamedRule {
    cel: "!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, \
          has(self.template.metadata) && has(self.template.metadata.labels) && \
          k in self.template.metadata.labels && \
          self.template.metadata.labels[k] == self.selector.matchLabels[k])",
    message: SELECTOR_MISMATCH,
};

pub(crate) const SELECTOR_MATCHES_EXPRESSIONS: NamedRule = NamedRule {
    cel: "!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, \
          has(self.template.metadata) && has(self.template.metadata.labels) && \
          e.key in self.template.metadata.labels ? \
          e.operator == 'Exists' || \
          (e.operator == 'In' && has(e.values) && self.template.metadata.labels[e.key] in e.values) || \
          (e.operator == 'NotIn' && !(has(e.values) && self.template.metadata.labels[e.key] in e.values)) : \
          e.operator in ['NotIn', 'DoesNotExist'])",
    message: SELECTOR_MISMATCH,
};

pub(crate) const SELECTOR_MISMATCH: &str = "selector does not match the labels of template.metadata";

pub(crate) const RESTART_POLICY: NamedRule = NamedRule {
    cel: "!has(self.template.spec.restartPolicy) || self.template.spec.restartPolicy == 'Always'",
    message: "template.spec.restartPolicy must be Always",
};

pub(crate) const ACTIVE_DEADLINE: NamedRule = NamedRule {
    cel: "!has(self.template.spec.activeDeadlineSeconds)",
    message: "template.spec.activeDeadlineSeconds must not be set: its pods would stop by themselves",
};

pub(crate) const PROGRESS_DEADLINE: NamedRule = NamedRule {
    cel: "self.progressDeadlineSeconds > self.minReadySeconds",
    message: "progressDeadlineSeconds must be greater than minReadySeconds",
};

pub(crate) const ROLLING_UPDATE_WITH_RECREATE: NamedRule = NamedRule {
    cel: "self.type == 'RollingUpdate' || !has(self.rollingUpdate)",
    message: "rollingUpdate must not be given when the strategy's type is Recreate",
};

pub(crate) const AFTER_UPDATED_WITH_RECREATE: NamedRule = NamedRule {
    cel: "self.type == 'RollingUpdate' || !has(self.pausePoints) || !self.pausePoints.exists(p, \
          has(p.afterUpdated))",
    message: "afterUpdated must not be given when the strategy's type is Recreate: it creates updated pods \
              last",
};

pub(crate) const ONE_NODE_GROUP_POINT: NamedRule = NamedRule {
    cel: "!has(self.pausePoints) || self.pausePoints.filter(p, has(p.betweenNodeGroups)).size() <= 1",
    message: "at most one pause point may have betweenNodeGroups",
};

pub(crate) const POINT_KIND: NamedRule = NamedRule {
    cel: "(has(self.afterUpdated) ? 1 : 0) + (has(self.beforePriority) ? 1 : 0) + \
          (has(self.beforeNodes) ? 1 : 0) + (has(self.betweenNodeGroups) ? 1 : 0) == 1",
    message: "a pause point has exactly one of afterUpdated, beforePriority, beforeNodes and \
              betweenNodeGroups",
};

pub(crate) const POINT_NODES_EMPTY: NamedRule = NamedRule {
    cel: "!has(self.beforeNodes) || \
          (has(self.beforeNodes.matchLabels) && size(self.beforeNodes.matchLabels) > 0) || \
          (has(self.beforeNodes.matchExpressions) && size(self.beforeNodes.matchExpressions) > 0)",
    message: "beforeNodes must not be empty: it would select every node",
};

// The schema's `pattern` and `maxLength` keep out what overflows `duration()`, which is another error.
pub(crate) const POINT_DURATION: NamedRule = NamedRule {
    cel: "!has(self.duration) || \
          (duration(self.duration) > duration('0s') && duration(self.duration) <= duration('876000h'))",
    message: "duration must be longer than 0s and at most 876000h",
};

// Not in CEL. A server reckons with 3 MB for each value that is an integer or a string. To convert 32 of them
// costs more than a rule may cost, and to collect them for `isSorted()` a hundred times as much.
pub(crate) const POINT_NUMBERS_DECREASE: &str =
    "the numbers of afterUpdated must not decrease from one pause point to the next";

pub(crate) const POINT_PERCENTAGES_DECREASE: &str =
    "the percentages of afterUpdated must not decrease from one pause point to the next";

/// In the schema: the list is a map by `name`.
pub(crate) const POINT_NAME_RESERVED: &str =
    "choose another name: more stands for the marks beyond those that a status keeps";
pub(crate) const POINT_NAME_TWICE: &str = "another pause point has the same name";

// The schema's `pattern` checks the strings. `string()` asks no type: evaluators outside the server know no
// `type()`.
pub(crate) const MAX_SURGE: NamedRule = NamedRule {
    cel: "string(self.maxSurge).matches('^[0-9]+%$') || \
          (string(self.maxSurge).matches('^[0-9]{1,10}$') && int(string(self.maxSurge)) <= 2147483647)",
    message: "maxSurge must be an integer from 0 to 2147483647 or a percentage such as 25%",
};

pub(crate) const MAX_UNAVAILABLE: NamedRule = NamedRule {
    cel: "string(self.maxUnavailable).matches('^0*(100|[0-9]?[0-9])%$') || \
          (string(self.maxUnavailable).matches('^[0-9]{1,10}$') && int(string(self.maxUnavailable)) <= \
          2147483647)",
    message: "maxUnavailable must be an integer from 0 to 2147483647 or a percentage from 0% to 100%",
};

pub(crate) const BOTH_ZERO: NamedRule = NamedRule {
    cel: "!(string(self.maxSurge).matches('^0+%?$') && string(self.maxUnavailable).matches('^0+%?$'))",
    message: "maxSurge and maxUnavailable must not both be 0: no pod could ever be replaced",
};

pub(crate) const NODE_RULE_GRANT: NamedRule = NamedRule {
    cel: "has(self.priority) != has(self.deletionCost)",
    message: "a node rule gives either priority or deletionCost",
};

pub(crate) const NODE_RULE_EMPTY: NamedRule = NamedRule {
    cel: "(has(self.nodeSelector) && (\
          (has(self.nodeSelector.matchLabels) && size(self.nodeSelector.matchLabels) > 0) || \
          (has(self.nodeSelector.matchExpressions) && size(self.nodeSelector.matchExpressions) > 0))) || \
          has(self.unschedulable) || has(self.unassigned) || \
          (has(self.taintKeys) && size(self.taintKeys) > 0)",
    message: "a node rule needs at least one of nodeSelector, unschedulable, taintKeys and unassigned",
};

pub(crate) const NODE_RULE_UNASSIGNED: NamedRule = NamedRule {
    cel: "!has(self.unassigned) || !self.unassigned || \
          (!has(self.nodeSelector) && !has(self.unschedulable) && !has(self.taintKeys))",
    message: "unassigned: true goes alone: a pod without a node has nothing for the other fields to match",
};
