//! What of a pod template decides where pods run, or whether they start, and a plan does not predict.

use ordereddeployment_api::Template;
use serde_json::Value;

/// Fields by which a pod waits for something else than a node: devices, a controller that removes the gate,
/// or the rest of a group.
const IGNORED: [&str; 3] = ["resourceClaims", "schedulingGates", "schedulingGroup"];

/// A note that names them.
pub(super) fn note(template: &Template) -> Option<String> {
    let template = template.value();
    let spec = template.get("spec")?;
    let is_set = |field: &Value| match field {
        Value::Array(items) => !items.is_empty(),
        field => !field.is_null(),
    };
    let ignored = IGNORED.into_iter().filter(|name| spec.get(name).is_some_and(is_set)).map(str::to_owned);
    let tolerations = spec.get("tolerations").and_then(Value::as_array).into_iter().flatten();
    let operators = tolerations.filter_map(|toleration| toleration.get("operator")?.as_str());
    let compares = operators.filter(|operator| matches!(*operator, "Gt" | "Lt"));
    let compares = compares.map(|operator| format!("tolerations with {operator}"));
    let mut names: Vec<String> = ignored.chain(compares).collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "not predicted: {} of the template. The plan assumes that each new pod gets a node and starts",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::Template;
    use serde_json::json;

    use super::note;

    #[test]
    fn fields_that_pods_wait_for_are_named() {
        let of = |spec| note(&Template::new(&json!({"spec": spec})));
        assert_eq!(
            of(json!({"nodeSelector": {"a": "b"}, "resourceClaims": null, "schedulingGates": []})),
            None
        );
        let all = of(json!({
            "schedulingGates": [{"name": "quota"}], "resourceClaims": [{"name": "gpu"}],
            "tolerations": [{"key": "spot", "operator": "Exists"}, {"key": "sla", "operator": "Gt",
            "value": "9"}],
        }));
        let words = "not predicted: resourceClaims, schedulingGates, tolerations with Gt of the template";
        assert!(all.is_some_and(|all| all.starts_with(words)));
    }
}
