//! Fields of an object that are lost when it is created.

use ordereddeployment_planner::dropped_fields;
use serde_json::Value;

/// The paths of the fields that were sent and did not come back: the API server does not know them, their feature gate is off, or
/// a webhook removes them. Whole items of lists do not count.
pub(crate) fn lost_fields(sent: &Value, came: &Value, path: &str) -> Vec<String> {
    let dropped = dropped_fields(sent, came, path).into_iter().map(|(path, _)| path);
    dropped.filter(|path| !path.ends_with(']')).collect()
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
