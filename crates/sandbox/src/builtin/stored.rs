//! Pod specs as the API server stores them. The server decodes them into its types and encodes these: quantities get
//! their canonical form, and empty values (an empty string, false, zero, an empty list) are omitted.
//!
//! User data remains unchanged: labels, annotations, selectors.

use serde_json::Value;

use super::{fields::items, quantity::canonical};

/// Fields with user data.
const USERS: [&str; 4] = ["nodeSelector", "matchLabels", "labels", "annotations"];
/// Fields with quantities.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];
/// Strings that are omitted if empty.
const TEXTS: [&str; 24] = [
    "value",
    "subPath",
    "subPathExpr",
    "workingDir",
    "image",
    "serviceAccountName",
    "serviceAccount",
    "nodeName",
    "hostname",
    "subdomain",
    "priorityClassName",
    "schedulerName",
    "dnsPolicy",
    "restartPolicy",
    "imagePullPolicy",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "protocol",
    "hostIP",
    "medium",
    "effect",
    "path",
    "host",
    "scheme",
];
/// Booleans that are omitted if false. In a CSI volume, `readOnly: false` differs from an absent field.
const SWITCHES: [&str; 7] = ["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"];
/// Numbers that are omitted if zero.
const NUMBERS: [&str; 6] = [
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "hostPort",
];
/// Lists that are written even if empty.
const LISTS: [&str; 3] = ["containers", "nodeSelectorTerms", "sources"];

/// Brings the spec into this form. Runs before the defaults are set.
pub(super) fn store_pod_spec(spec: &mut Value) {
    store("spec", spec);
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, key) {
            for env in items(container, "env") {
                let source = env.pointer_mut("/valueFrom/resourceFieldRef").and_then(Value::as_object_mut);
                if let Some(source) = source {
                    source.entry("divisor").or_insert_with(|| "0".into());
                }
            }
        }
    }
}

fn store(parent: &str, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                if AMOUNTS.contains(&key.as_str()) {
                    inner.as_object_mut().into_iter().flatten().for_each(|(_, amount)| shorten(amount));
                } else if matches!(key.as_str(), "sizeLimit" | "divisor") {
                    shorten(inner);
                } else if !USERS.contains(&key.as_str()) {
                    store(key, inner);
                }
            }
            map.retain(|key, inner| !is_empty_value(parent, key, inner));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| store(parent, inner)),
        _ => {}
    }
}

fn is_empty_value(parent: &str, key: &str, value: &Value) -> bool {
    match value {
        // A name is optional only for ports.
        Value::String(text) => {
            text.is_empty() && (TEXTS.contains(&key) || (parent, key) == ("ports", "name"))
        }
        Value::Bool(false) => SWITCHES.contains(&key) && parent != "csi",
        Value::Number(number) => number.as_i64() == Some(0) && NUMBERS.contains(&key),
        Value::Array(list) => list.is_empty() && !LISTS.contains(&key),
        Value::Object(map) => map.is_empty() && (USERS.contains(&key) || AMOUNTS.contains(&key)),
        Value::Null => true,
        Value::Bool(true) => false,
    }
}

fn shorten(amount: &mut Value) {
    let text = match amount {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Some(short) = canonical(&text) {
        *amount = short.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::store_pod_spec;

    #[test]
    fn empty_values_are_omitted_and_quantities_are_canonical() {
        let mut spec = json!({
            "hostNetwork": false, "shareProcessNamespace": false, "nodeSelector": {"pool": ""}, "tolerations": [],
            "containers": [{
                "name": "web", "image": "web:1", "tty": false, "args": [""], "command": [],
                "ports": [{"name": "", "containerPort": 80}],
                "env": [{"name": "A", "value": ""},
                        {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
                "resources": {"limits": {"cpu": 0.5, "memory": "4096Mi"}, "requests": {}},
                "readinessProbe": {"initialDelaySeconds": 0, "httpGet": {"port": 80, "host": ""}},
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp", "readOnly": false}],
            }],
            "volumes": [{"name": "tmp", "emptyDir": {"medium": "", "sizeLimit": "1024Ki"}},
                        {"name": "disk", "csi": {"driver": "d", "readOnly": false}},
                        {"name": "secret", "secret": {"secretName": "s", "optional": false, "items": []}}],
        });
        store_pod_spec(&mut spec);
        assert_eq!(
            spec,
            json!({
                "shareProcessNamespace": false, "nodeSelector": {"pool": ""},
                "containers": [{
                    "name": "web", "image": "web:1", "args": [""], "ports": [{"containerPort": 80}],
                    "env": [{"name": "A"},
                            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}}],
                    "resources": {"limits": {"cpu": "500m", "memory": "4Gi"}},
                    "readinessProbe": {"httpGet": {"port": 80}},
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                }],
                "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}},
                            {"name": "disk", "csi": {"driver": "d", "readOnly": false}},
                            {"name": "secret", "secret": {"secretName": "s", "optional": false}}],
            })
        );
    }
}
