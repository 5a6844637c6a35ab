//! Fields of an object that are lost when it is created.

use serde_json::Value;

/// The paths of the fields that were sent and did not come back: the API server does not know them, their feature gate is off, or
/// a webhook removes them. Empty values may be left out of any object.
pub(crate) fn lost_fields(sent: &Value, came: &Value, path: &str) -> Vec<String> {
    match (sent, came) {
        (Value::Object(sent), Value::Object(came)) => {
            let fields = sent.iter().filter(|(_, value)| !is_empty(value));
            let lost = fields.flat_map(|(key, value)| {
                let path = format!("{path}.{key}");
                came.get(key).map_or_else(|| vec![path.clone()], |came| lost_fields(value, came, &path))
            });
            lost.collect()
        }
        (Value::Array(sent), Value::Array(came)) => {
            let lost = sent.iter().enumerate().flat_map(|(index, item)| {
                let name = item.get("name");
                let same = match name {
                    Some(_) => came.iter().find(|other| other.get("name") == name),
                    None => came.get(index),
                };
                same.map_or_else(Vec::new, |other| lost_fields(item, other, &format!("{path}[{index}]")))
            });
            lost.collect()
        }
        _ => Vec::new(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lost_fields;

    #[test]
    fn fields_that_do_not_come_back_are_named() {
        let sent = json!({
            "hostNetwork": false, "priority": 0, "volumes": [],
            "containers": [{"name": "web", "image": "web:1", "livenesProbe": {"tcpSocket": {"port": 80}}, "args": ["a"]}],
            "tolerations": [{"key": "spot", "operater": "Exists"}],
        });
        let came = json!({
            "containers": [
                {"name": "sidecar", "image": "proxy:1"},
                {"name": "web", "image": "mirror/web:1", "imagePullPolicy": "Always", "args": ["b"]},
            ],
            "tolerations": [{"key": "spot"}],
        });
        let lost = lost_fields(&sent, &came, "spec");
        assert_eq!(lost, ["spec.containers[0].livenesProbe", "spec.tolerations[0].operater"]);
        assert_eq!(lost_fields(&came, &came, "spec"), Vec::<String>::new());
    }
}
