//! Cells that combine several fields: containers, images, selectors, ports, roles.

use serde_json::Value;

use super::fields::{at, list};

/// Names of the containers in a template.
pub(super) fn containers(object: &Value, template: &str, field: &str) -> String {
    let all = list(object, &format!("{template}.spec.containers")).iter();
    all.map(|c| at(c, field)).collect::<Vec<_>>().join(",")
}

/// Labels in one line.
pub(super) fn labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let parts: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// A label selector in one line.
pub(super) fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for expression in list(selector, "matchExpressions") {
        let values: Vec<&str> = list(expression, "values").iter().filter_map(Value::as_str).collect();
        let (key, values) = (at(expression, "key"), values.join(","));
        parts.push(match at(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// Ports of a service: `80/TCP,443:30443/TCP`.
pub(super) fn ports(service: &Value) -> String {
    let one = |port: &Value| {
        let protocol = if at(port, "protocol").is_empty() { "TCP" } else { at(port, "protocol") };
        match port["nodePort"].as_i64() {
            Some(node) if node != 0 => format!("{}:{node}/{protocol}", port["port"]),
            _ => format!("{}/{protocol}", port["port"]),
        }
    };
    list(service, "spec.ports").iter().map(one).collect::<Vec<_>>().join(",")
}

/// Status of a node: readiness and cordon.
pub(super) fn node_status(node: &Value) -> String {
    let ready = list(node, "status.conditions").iter().find(|c| at(c, "type") == "Ready");
    let mut status = match ready.map(|c| at(c, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == Value::Bool(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

/// Roles of a node, from its labels.
pub(super) fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role).filter(|r| !r.is_empty()),
            None => (key == "kubernetes.io/role").then(|| value.as_str()).flatten(),
        })
        .collect();
    roles.join(",")
}

/// The address of a node with this type.
pub(super) fn node_address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let all = list(node, "status.addresses").iter();
    all.filter(|a| at(a, "type") == kind).map(|a| at(a, "address")).next().unwrap_or_default()
}
