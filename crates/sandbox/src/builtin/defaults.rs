//! Pod specs as the API server stores them, for pods and for pod templates. The server decodes them into its
//! types and encodes these: quantities get their canonical form, empty values (an empty string, false, zero,
//! an empty list) are omitted, and absent values get their defaults.
//!
//! User data remains unchanged: labels, annotations, selectors.

use serde_json::{Value, json};

use super::quantity::canonical;
use crate::object::{entry, fill, items, text};

/// Fields with user data.
const USERS: [&str; 4] = ["nodeSelector", "matchLabels", "labels", "annotations"];
/// Fields with quantities.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];
/// Strings that are written even if empty: those that a type requires, and the items of lists of strings.
const TEXTS: [&str; 8] =
    ["name", "key", "mountPath", "secretName", "driver", "type", "topologyKey", "operator"];
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

/// Brings the spec into its stored form, and sets the defaults that the API server sets.
pub(super) fn fill_pod_spec(spec: &mut Value) {
    store("spec", spec);
    fill(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "securityContext", json!({}));
    // The deprecated field has the same value as its successor.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        spec["serviceAccountName"] = json!(account);
        spec["serviceAccount"] = json!(account);
    }
    let on_host = spec["hostNetwork"] == true;
    for key in ["containers", "initContainers"] {
        for container in items(spec, key) {
            fill_container(container, on_host);
        }
    }
    for volume in items(spec, "volumes") {
        if volume.as_object().is_some_and(|map| map.len() == 1) {
            fill(volume, "emptyDir", json!({}));
        }
        for source in ["configMap", "secret", "projected", "downwardAPI"] {
            if volume.get(source).is_some_and(Value::is_object) {
                fill(entry(volume, source), "defaultMode", 0o644);
            }
        }
        if volume.get("hostPath").is_some_and(Value::is_object) {
            fill(entry(volume, "hostPath"), "type", "");
        }
    }
}

fn fill_container(container: &mut Value, on_host: bool) {
    if !container.is_object() {
        return;
    }
    fill(container, "resources", json!({}));
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    let policy = if is_latest(text(container, "image")) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    for port in items(container, "ports") {
        fill(port, "protocol", "TCP");
        if on_host {
            let number = port["containerPort"].clone();
            fill(port, "hostPort", number);
        }
    }
    for source in items(container, "env").filter_map(|env| env.get_mut("valueFrom")) {
        if source["fieldRef"].is_object() {
            fill(entry(source, "fieldRef"), "apiVersion", "v1");
        }
        if source["resourceFieldRef"].is_object() {
            fill(entry(source, "resourceFieldRef"), "divisor", "0");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container.get(probe).is_some_and(Value::is_object) {
            fill_probe(entry(container, probe));
        }
    }
}

fn fill_probe(probe: &mut Value) {
    for (key, default) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill(probe, key, default);
    }
    if probe["httpGet"].is_object() {
        fill(entry(probe, "httpGet"), "path", "/");
        fill(entry(probe, "httpGet"), "scheme", "HTTP");
    }
}

/// Whether the default pull policy is `Always`: the tag is `latest` or absent, and the image has no digest.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
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
            text.is_empty() && (!TEXTS.contains(&key) || (parent, key) == ("ports", "name"))
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
