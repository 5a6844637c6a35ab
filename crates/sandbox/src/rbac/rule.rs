//! One rule of a role: what it allows, what it covers, and its short text.
//!
//! Source: `pkg/apis/rbac/v1/evaluation_helpers.go` and
//! `component-helpers/auth/rbac/validation/policy_comparator.go`.

use serde_json::{Map, Value};

use super::attributes::Attributes;

const ALL: &str = "*";

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) urls: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) verbs: Vec<String>,
}

/// The rules of a role or cluster role.
pub(crate) fn rules_of(role: &Value) -> Vec<Rule> {
    role["rules"].as_array().into_iter().flatten().map(Rule::of).collect()
}

impl Rule {
    pub(crate) fn of(rule: &Value) -> Self {
        let words = |key: &str| {
            let items = rule[key].as_array().into_iter().flatten();
            items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        Self {
            groups: words("apiGroups"),
            resources: words("resources"),
            urls: words("nonResourceURLs"),
            names: words("resourceNames"),
            verbs: words("verbs"),
        }
    }

    /// The rule in JSON, without its empty lists.
    pub(crate) fn to_value(&self) -> Value {
        let lists = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(filled.map(|(key, list)| (key.to_owned(), list.clone().into())).collect::<Map<_, _>>())
    }

    /// Whether the rule allows a request.
    pub(crate) fn allows(&self, request: &Attributes) -> bool {
        if !has_or_all(&self.verbs, &request.verb) {
            return false;
        }
        match &request.path {
            Some(path) => self.urls.iter().any(|url| url_covers(url, path)),
            None => {
                has_or_all(&self.groups, &request.group)
                    && self.allows_resource(request)
                    && (self.names.is_empty() || self.names.contains(&request.name))
            }
        }
    }

    fn allows_resource(&self, request: &Attributes) -> bool {
        let combined = request.combined();
        has_or_all(&self.resources, &combined)
            || !request.subresource.is_empty()
                && self
                    .resources
                    .iter()
                    .any(|resource| resource.strip_prefix("*/").is_some_and(|sub| sub == request.subresource))
    }

    /// Rules with one verb, one resource or URL, and at most one name each, that together allow the same.
    pub(crate) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        verbs: vec![verb.clone()],
                        ..Self::default()
                    };
                    let named =
                        self.names.iter().map(|name| Self { names: vec![name.clone()], ..part.clone() });
                    parts.extend(named);
                    if self.names.is_empty() {
                        parts.push(part);
                    }
                }
            }
        }
        for url in &self.urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                urls: vec![url.clone()],
                verbs: vec![verb.clone()],
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether everything that the part allows is allowed by this rule too.
    pub(crate) fn covers(&self, part: &Self) -> bool {
        let all = |own: &[String], other: &[String]| other.iter().all(|word| has_or_all(own, word));
        let resource = |path: &String| {
            has_or_all(&self.resources, path)
                || path.split_once('/').is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
        };
        let names = if part.names.is_empty() {
            self.names.is_empty()
        } else {
            self.names.is_empty() || part.names.iter().all(|name| self.names.contains(name))
        };
        all(&self.verbs, &part.verbs)
            && all(&self.groups, &part.groups)
            && part.resources.iter().all(resource)
            && names
            && part.urls.iter().all(|path| self.urls.iter().any(|url| url_covers(url, path)))
    }

    /// The text of the rule in messages: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    pub(crate) fn short(&self) -> String {
        let lists = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let texts: Vec<String> = filled.map(|(name, list)| format!("{name}:{}", quoted(list))).collect();
        format!("{{{}}}", texts.join(", "))
    }
}

/// A list of strings as Go prints it: `["a" "b"]`.
pub(super) fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", words.join(" "))
}

fn has_or_all(list: &[String], word: &str) -> bool {
    list.iter().any(|item| item == ALL || item == word)
}

/// Whether the URL of a rule, which may end in `*`, covers a path.
fn url_covers(url: &str, path: &str) -> bool {
    url == path || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
}
