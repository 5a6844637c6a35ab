//! Validation of pod specs, for pods and for pod templates: the names and images of their containers, and
//! their restart policy.

use serde_json::Value;

use super::fields::{list, text};
use crate::names;
use crate::schema::Cause;

/// Adds the errors in a pod template.
pub(super) fn check_template(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in template["metadata"]["labels"].as_object().into_iter().flatten() {
        let wrong = names::label_key(key).map(|detail| (key.as_str(), detail));
        let value = value.as_str().unwrap_or_default();
        let wrong = wrong.or_else(|| Some((value, names::label_value(value)?)));
        causes.extend(
            wrong.map(|(word, detail)| Cause::invalid(&format!("{path}.labels"), &word.into(), &detail)),
        );
    }
    check_pod_spec(&template["spec"], &format!("{path}.spec"), causes);
}

/// Adds the errors in a pod spec; `path` is the path of the spec.
pub(super) fn check_pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if list(spec, "containers").is_empty() {
        causes.push(Cause::required(&format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    // In the order of the API server. Names are unique across both lists.
    for key in ["containers", "initContainers"] {
        for (i, container) in list(spec, key).iter().enumerate() {
            let path = format!("{path}.{key}[{i}]");
            let (name, field) = (text(container, "name"), format!("{path}.name"));
            if name.is_empty() {
                causes.push(Cause::required(&field, ""));
            } else if let Some(detail) = names::label(name) {
                causes.push(Cause::invalid(&field, &name.into(), &detail));
            } else if seen.contains(&name) {
                causes.push(Cause::duplicate(&field, &name.into()));
            }
            seen.push(name);
            if text(container, "image").is_empty() {
                causes.push(Cause::required(&format!("{path}.image"), ""));
            }
        }
    }
    let (policy, supported) = (&spec["restartPolicy"], ["Always", "OnFailure", "Never"]);
    if !supported.contains(&policy.as_str().unwrap_or_default()) {
        causes.push(Cause::not_supported(&format!("{path}.restartPolicy"), policy, &supported));
    }
}
