//! Field selectors: `a=b`, `a==b`, `a!=b`, joined by commas, over the few selectable fields of a resource.

use serde_json::Value;

use crate::object;
use crate::resource::{Origin, ResourceInfo};

/// A parsed field selector; the empty one matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl Fields {
    /// Parses the query parameter `fieldSelector`.
    pub fn parse(info: &ResourceInfo, text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (field, value) = part
                .split_once('=')
                .ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))?;
            let (field, equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
            let (field, value) = (field.trim(), value.strip_prefix('=').unwrap_or(value).trim());
            if !is_supported(info, field) {
                return Err(format!("field label not supported: {field}"));
            }
            terms.push(Term { field: field.to_owned(), value: value.to_owned(), equal });
        }
        Ok(Self(terms))
    }

    /// Whether the fields of the object match.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| (read(object, &term.field) == term.value) == term.equal)
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
    use crate::resource::builtins;

    fn parse(kind: &str, text: &str) -> Result<Fields, String> {
        Fields::parse(&builtins().into_iter().find(|info| info.kind == kind).unwrap(), text)
    }

    #[test]
    fn fields_of_pods_nodes_and_events_can_be_selected() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"}});
        let node = json!({"metadata": {"name": "n1"}, "spec": {}});
        let event = json!({"involvedObject": {"name": "a", "kind": "Pod"}, "type": "Warning"});
        for (kind, object, text, wanted) in [
            ("Pod", &pod, "", true),
            ("Pod", &pod, "metadata.name=a,metadata.namespace==n", true),
            ("Pod", &pod, "spec.nodeName=n1,status.phase!=Failed", true),
            ("Pod", &pod, "spec.nodeName=", false),
            ("Pod", &pod, "status.phase!=Running", false),
            ("Node", &node, "spec.unschedulable=false", true),
            ("Event", &event, "involvedObject.name=a,involvedObject.kind=Pod,type=Warning", true),
        ] {
            assert_eq!(parse(kind, text).unwrap().matches(object), wanted, "{text}");
        }
        for (kind, text, refusal) in [
            ("Pod", "spec.foo=1", "field label not supported: spec.foo"),
            ("Node", "metadata.namespace=a", "field label not supported: metadata.namespace"),
            ("Pod", "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ] {
            assert_eq!(parse(kind, text).unwrap_err(), refusal);
        }
    }
}
