//! Label and field selectors, as in the query of a list or a watch.
//!
//! There are no indexes; a selector only decides whether one object matches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Expression, Selector, SelectorExt};
use serde::Deserialize;
use serde_json::Value;

use crate::names;
use crate::object;
use crate::resource::{Origin, ResourceInfo};

/// The selector in a field of an object.
pub(crate) fn label_selector(field: &Value) -> Option<Selector> {
    LabelSelector::deserialize(field).ok()?.try_into().ok()
}

/// Whether the labels of the object match.
pub(crate) fn selects(selector: &Selector, object: &Value) -> bool {
    if selector.selects_all() {
        return true;
    }
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    selector.matches(&labels.collect())
}

/// Parses the query parameter `labelSelector`: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, joined
/// by commas.
pub(crate) fn parse_labels(text: &str) -> Result<Selector, String> {
    if text.trim().is_empty() {
        return Ok(Selector::default());
    }
    // A comma in parentheses separates values.
    let mut depth = 0_i32;
    let parts = text.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let parsed = parts
        .map(|part| parse_one(part.trim()).map_err(|error| format!("unable to parse requirement: {error}")));
    parsed.collect()
}

fn parse_one(text: &str) -> Result<Expression, String> {
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Expression::DoesNotExist(checked_key(key)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Expression::NotEqual(checked_key(key)?, checked_value(key, value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Expression::Equal(checked_key(key)?, checked_value(key, value)?));
    }
    let Some((key, set)) = text.split_once(char::is_whitespace) else {
        return Ok(Expression::Exists(checked_key(text)?));
    };
    let values = |set: &str| {
        let inside = set.trim().strip_prefix('(').and_then(|set| set.strip_suffix(')'));
        let inside = inside.ok_or_else(|| format!("found '{set}' expected: '(', values, ')'"))?;
        inside.split(',').map(|value| checked_value(key, value)).collect::<Result<_, _>>()
    };
    match set.trim() {
        set if set.starts_with("in") => Ok(Expression::In(checked_key(key)?, values(&set[2..])?)),
        set if set.starts_with("notin") => Ok(Expression::NotIn(checked_key(key)?, values(&set[5..])?)),
        other => Err(format!("found '{other}', expected: in, notin, =, ==, !=")),
    }
}

fn checked_key(key: &str) -> Result<String, String> {
    match names::label_key(key.trim()) {
        None => Ok(key.trim().to_owned()),
        Some(detail) => Err(format!("<nil>: Invalid value: \"{key}\": {detail}")),
    }
}

fn checked_value(key: &str, value: &str) -> Result<String, String> {
    match names::label_value(value.trim()) {
        None => Ok(value.trim().to_owned()),
        Some(detail) => Err(format!("values[0][{key}]: Invalid value: \"{value}\": {detail}")),
    }
}

/// A field selector, `a=b`, `a==b`, `a!=b`, joined by commas: each field, whether it is equal, and the value.
pub(crate) struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// Parses the query parameter `fieldSelector`.
    pub(crate) fn parse(info: &ResourceInfo, text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (field, value) = part
                .split_once('=')
                .ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))?;
            let (field, is_equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
            let (field, value) = (field.trim(), value.strip_prefix('=').unwrap_or(value).trim());
            if !is_supported(info, field) {
                return Err(format!("field label not supported: {field}"));
            }
            terms.push((field.to_owned(), is_equal, value.to_owned()));
        }
        Ok(Self(terms))
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(field, is_equal, value)| (read(object, field) == *value) == *is_equal)
    }
}

fn is_supported(info: &ResourceInfo, field: &str) -> bool {
    let of_kind: &[&str] = match (info.origin, info.kind.as_str()) {
        (Origin::Crd, _) => &[],
        (_, "Pod") => &["spec.nodeName", "spec.schedulerName", "status.phase", "status.podIP"],
        (_, "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "reason",
            "type",
        ],
        (_, "Node") => &["spec.unschedulable"],
        (_, "Namespace") => &["status.phase"],
        _ => &[],
    };
    field == "metadata.name" || field == "metadata.namespace" && info.namespaced || of_kind.contains(&field)
}

/// The field as text; an absent field as the API server prints its zero value.
fn read(object: &Value, field: &str) -> String {
    match object::at(object, field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None if field == "spec.unschedulable" => "false".to_owned(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::builtin;

    #[test]
    fn selectors_match_like_on_the_api_server() {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "2", "a.b/c": ""}}});
        for (text, wanted) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=2", true),
            ("app = web , tier = 2", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (api,web)", true),
            ("app in (api, db),tier", false),
            ("app notin (api)", true),
            ("other notin (api)", true),
            ("!tier", false),
            ("!other,app", true),
            ("a.b/c=", true),
        ] {
            assert_eq!(selects(&parse_labels(text).unwrap(), &pod), wanted, "{text}");
        }
        assert!(!selects(&parse_labels("app=web").unwrap(), &json!({"metadata": {}})));
        for text in ["=a", "a in web", "a b", "a=b,", "a in (b", "a=b c", "-a=b", "a=-b-", "!", "a>1"] {
            assert!(parse_labels(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_of_pods_nodes_and_events_can_be_selected() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"}});
        let node = json!({"metadata": {"name": "n1"}, "spec": {}});
        let event = json!({"involvedObject": {"name": "a", "kind": "Pod"}, "type": "Warning"});
        let refused = |field: &str| Err(format!("field label not supported: {field}"));
        for (kind, object, text, wanted) in [
            ("Pod", &pod, "", Ok(true)),
            ("Pod", &pod, "metadata.name=a,metadata.namespace==n", Ok(true)),
            ("Pod", &pod, "spec.nodeName=n1,status.phase!=Failed", Ok(true)),
            ("Pod", &pod, "spec.nodeName=", Ok(false)),
            ("Pod", &pod, "status.phase!=Running", Ok(false)),
            ("Node", &node, "spec.unschedulable=false", Ok(true)),
            ("Event", &event, "involvedObject.name=a,involvedObject.kind=Pod,type=Warning", Ok(true)),
            ("Pod", &pod, "spec.foo=1", refused("spec.foo")),
            ("Node", &node, "metadata.namespace=a", refused("metadata.namespace")),
            ("Pod", &pod, "no", Err("invalid selector: 'no'; can't understand 'no'".to_owned())),
        ] {
            let found = Fields::parse(&builtin(kind), text).map(|fields| fields.matches(object));
            assert_eq!(found, wanted, "{text}");
        }
    }
}
