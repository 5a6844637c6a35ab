//! Label selectors, with the bounds that a server needs to price the rules that read them.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{rules, schema};

/// Selects objects by their labels; both parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::match_labels")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Further requirements, all of which must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::REQUIREMENT_VALUES.rule())]
pub struct LabelSelectorRequirement {
    /// The label's key.
    #[schemars(length(max = 317))]
    pub key: String,
    /// How the label relates to the values.
    pub operator: LabelSelectorOperator,
    /// The values, for In and NotIn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_values")]
    pub values: Option<Vec<String>>,
}

/// How a label relates to the values of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelSelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether it has no requirement at all, and so would select everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && self.match_expressions.as_ref().is_none_or(Vec::is_empty)
    }

    /// Whether `labels` meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the labels that `label` finds by their keys meet every requirement.
    pub(crate) fn matches_by<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let mut equal = self.match_labels.iter().flatten();
        equal.all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().flatten().all(|requirement| requirement.matches_by(&label))
    }

    /// The selector as one string, as `kubectl -l` and the scale subresource take it.
    #[must_use]
    pub fn to_selector_string(&self) -> String {
        let equal = self.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let others = self.match_expressions.iter().flatten().map(|requirement| {
            let values =
                requirement.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(",");
            let key = &requirement.key;
            match requirement.operator {
                LabelSelectorOperator::In => format!("{key} in ({values})"),
                LabelSelectorOperator::NotIn => format!("{key} notin ({values})"),
                LabelSelectorOperator::Exists => key.clone(),
                LabelSelectorOperator::DoesNotExist => format!("!{key}"),
            }
        });
        equal.chain(others).collect::<Vec<_>>().join(",")
    }

    /// Whether it has every requirement of the other one, and so selects nothing that the other one does not.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let own = |key: &str| self.match_labels.as_ref()?.get(key);
        let mut labels = other.match_labels.iter().flatten();
        let mut expressions = other.match_expressions.iter().flatten();
        labels.all(|(key, value)| own(key) == Some(value))
            && expressions.all(|wanted| self.match_expressions.iter().flatten().any(|own| own == wanted))
    }

    /// The same selector with one more required label.
    #[must_use]
    pub fn with_label(&self, key: &str, value: &str) -> Self {
        let mut selector = self.clone();
        selector.match_labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        selector
    }
}

impl LabelSelectorRequirement {
    fn matches_by<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let value = label(&self.key);
        let listed = |value: &str| self.values.iter().flatten().any(|candidate| candidate == value);
        match self.operator {
            LabelSelectorOperator::In => value.is_some_and(listed),
            LabelSelectorOperator::NotIn => !value.is_some_and(listed),
            LabelSelectorOperator::Exists => value.is_some(),
            LabelSelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}
