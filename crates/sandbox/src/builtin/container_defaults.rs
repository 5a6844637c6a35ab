//! Defaults of pod specs, for pods and for pod templates.

use serde_json::{Value, json};

use super::{
    fields::{entry, fill, items, text},
    stored::store_pod_spec,
};

/// Sets the defaults that the API server sets.
pub(super) fn fill_pod_spec(spec: &mut Value) {
    store_pod_spec(spec);
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
    for key in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, key) {
            fill_container(container);
            for port in items(container, "ports").filter(|_| on_host) {
                let number = port["containerPort"].clone();
                fill(port, "hostPort", number);
            }
        }
    }
    items(spec, "volumes").for_each(fill_volume);
}

fn fill_container(container: &mut Value) {
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
    }
    for env in items(container, "env") {
        if env["valueFrom"]["fieldRef"].is_object() {
            fill(entry(entry(env, "valueFrom"), "fieldRef"), "apiVersion", "v1");
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

fn fill_volume(volume: &mut Value) {
    let sources =
        volume.as_object().map_or(0, |map| map.iter().filter(|(k, v)| *k != "name" && !v.is_null()).count());
    if sources == 0 {
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

/// Whether the default pull policy is `Always`: the tag is `latest` or absent, and the image has no digest.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_tag_determines_the_pull_policy() {
        for (image, wanted) in [
            ("web", true),
            ("web:latest", true),
            ("web:1", false),
            ("host:5000/web", true),
            ("host:5000/web:1", false),
            ("web@sha256:0", false),
        ] {
            assert_eq!(is_latest(image), wanted, "{image}");
        }
    }
}
