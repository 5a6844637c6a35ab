//! Field selectors: `a=b`, `a==b`, `a!=b`, joined by commas, over the few selectable fields of a resource.

use serde_json::Value;

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

const POD: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];
const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingComponent",
    "reportingController",
    "source",
    "type",
];

impl Fields {
    /// Parses the query parameter `fieldSelector`.
    pub fn parse(info: &ResourceInfo, text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split(text) {
            let term = term(&part)
                .ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))?;
            if !supported(info, &term.field) {
                return Err(format!("field label not supported: {}", term.field));
            }
            terms.push(term);
        }
        Ok(Self(terms))
    }

    /// Whether the fields of the object match.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| (read(object, &term.field) == term.value) == term.equal)
    }
}

/// Splits at unescaped commas.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            // Keep the escape: the value is unescaped after the operator is found.
            '\\' => parts[last].extend([Some('\\'), chars.next()].into_iter().flatten()),
            ',' => parts.push(String::new()),
            c => parts[last].push(c),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn term(part: &str) -> Option<Term> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else {
        (true, rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?)
    };
    let mut plain = String::new();
    let mut chars = value.trim().chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Some(Term { field: field.trim().to_owned(), value: plain, equal })
}

fn supported(info: &ResourceInfo, field: &str) -> bool {
    if field == "metadata.name" || (field == "metadata.namespace" && info.namespaced) {
        return true;
    }
    if info.origin == Origin::Crd {
        return false;
    }
    let more: &[&str] = match info.kind.as_str() {
        "Pod" => POD,
        "Event" => EVENT,
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "Secret" => &["type"],
        "Service" => &["spec.clusterIP", "spec.type"],
        "ReplicaSet" => &["status.replicas"],
        _ => &[],
    };
    more.contains(&field)
}

/// The field as text; an absent field as the API server prints its zero value.
fn read(object: &Value, field: &str) -> String {
    let at = |path: &str| {
        let found = path.split('.').try_fold(object, |value, key| value.get(key));
        match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    };
    let first = |paths: &[&str]| paths.iter().map(|p| at(p)).find(|v| !v.is_empty()).unwrap_or_default();
    match field {
        "spec.unschedulable" | "spec.hostNetwork" => at(field).if_empty("false"),
        "status.replicas" => at(field).if_empty("0"),
        "source" => first(&["source.component", "reportingComponent", "deprecatedSource.component"]),
        "reportingComponent" | "reportingController" => first(&["reportingComponent", "reportingController"]),
        _ => {
            // The two event APIs serve the same objects with different field names.
            if let Some((head, tail)) = field.split_once('.')
                && (head == "involvedObject" || head == "regarding")
            {
                return first(&[&format!("involvedObject.{tail}"), &format!("regarding.{tail}")]);
            }
            at(field)
        }
    }
}

trait IfEmpty {
    fn if_empty(self, otherwise: &str) -> String;
}

impl IfEmpty for String {
    fn if_empty(self, otherwise: &str) -> String {
        if self.is_empty() { otherwise.to_owned() } else { self }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::builtins;

    fn info(kind: &str) -> ResourceInfo {
        builtins().into_iter().find(|i| i.kind == kind).unwrap()
    }

    #[test]
    fn fields_of_pods_nodes_and_events_can_be_selected() {
        let pod = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"}});
        let node = json!({"metadata": {"name": "n1"}, "spec": {}});
        let event = json!({"regarding": {"name": "a", "kind": "Pod"}, "type": "Warning",
            "deprecatedSource": {"component": "kubelet"}});
        for (kind, object, text, wanted) in [
            ("Pod", &pod, "", true),
            ("Pod", &pod, "metadata.name=a,metadata.namespace==n", true),
            ("Pod", &pod, "spec.nodeName=n1,status.phase!=Failed", true),
            ("Pod", &pod, "spec.nodeName=", false),
            ("Pod", &pod, "status.phase!=Running", false),
            ("Node", &node, "spec.unschedulable=false", true),
            ("Event", &event, "involvedObject.name=a,involvedObject.kind=Pod,type=Warning", true),
            ("Event", &event, "source=kubelet,regarding.name=a", true),
        ] {
            assert_eq!(Fields::parse(&info(kind), text).unwrap().matches(object), wanted, "{text}");
        }
    }

    #[test]
    fn unsupported_fields_have_the_message_of_the_api_server() {
        let refused = |kind: &str, text: &str| Fields::parse(&info(kind), text).unwrap_err();
        assert_eq!(refused("Pod", "spec.foo=1"), "field label not supported: spec.foo");
        assert_eq!(refused("Node", "metadata.namespace=a"), "field label not supported: metadata.namespace");
        assert_eq!(refused("Pod", "nonsense"), "invalid selector: 'nonsense'; can't understand 'nonsense'");
    }
}
