//! A pod with the fields that the order uses and those that `kubectl get pods` prints.

use std::ops::Deref;

use ordereddeployment_wire::PodView;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedPod {
    view: PodView,
    pub(crate) detail: Detail,
}

/// Fields that are displayed and that the order does not use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Detail {
    pub(crate) ready: usize,
    pub(crate) containers: usize,
    pub(crate) restarts: i64,
    /// The reason why it does not run, such as `CrashLoopBackOff`, `Unschedulable`, `Evicted`.
    pub(crate) reason: Option<String>,
}

/// `1 pod`, `2 pods`.
pub(crate) fn pods_in_words(count: usize) -> String {
    format!("{count} pod{}", if count == 1 { "" } else { "s" })
}

impl Detail {
    fn of(pod: &Value) -> Self {
        let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let statuses = || list("/status/containerStatuses");
        let restarts = statuses().filter_map(|status| status["restartCount"].as_i64()).sum();
        Self {
            ready: statuses().filter(|status| status["ready"] == true).count(),
            containers: list("/spec/containers").count(),
            restarts,
            reason: reason(pod),
        }
    }
}

/// The reason that kubectl prints in the STATUS column instead of the phase.
fn reason(pod: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(reason) = text(&pod["status"]["reason"]) {
        return Some(reason);
    }
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let waiting = |status: &Value| {
        text(&status["state"]["waiting"]["reason"]).or_else(|| text(&status["state"]["terminated"]["reason"]))
    };
    let init = list("/status/initContainerStatuses").filter(|status| status["state"]["waiting"].is_object());
    let init = init.filter_map(waiting).find(|reason| reason != "PodInitializing");
    let main = list("/status/containerStatuses").find_map(waiting);
    let unassigned = list("/status/conditions")
        .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")
        .and_then(|condition| text(&condition["reason"]));
    init.map(|reason| format!("Init:{reason}")).or(main).or(unassigned)
}

impl Deref for ObservedPod {
    type Target = PodView;

    fn deref(&self) -> &PodView {
        &self.view
    }
}

impl<'de> Deserialize<'de> for ObservedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let detail = Detail::of(&value);
        Ok(Self { view: PodView::deserialize(value).map_err(D::Error::custom)?, detail })
    }
}

ordereddeployment_wire::served_as!(ObservedPod, PodView, view.metadata);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Detail;

    fn reason(status: &serde_json::Value) -> Option<String> {
        Detail::of(&json!({"status": status})).reason
    }

    #[test]
    fn the_reason_is_the_one_that_kubectl_shows() {
        let waiting = |reason: &str| json!([{"name": "a", "state": {"waiting": {"reason": reason}}}]);
        assert_eq!(reason(&json!({"phase": "Running"})), None);
        assert_eq!(
            reason(&json!({"containerStatuses": waiting("CrashLoopBackOff")})).as_deref(),
            Some("CrashLoopBackOff")
        );
        assert_eq!(
            reason(&json!({
                "initContainerStatuses": waiting("ImagePullBackOff"),
                "containerStatuses": waiting("PodInitializing"),
            }))
            .as_deref(),
            Some("Init:ImagePullBackOff")
        );
        assert_eq!(reason(&json!({"phase": "Failed", "reason": "Evicted"})).as_deref(), Some("Evicted"));
        let unassigned = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        assert_eq!(reason(&json!({"conditions": unassigned})).as_deref(), Some("Unschedulable"));
    }

    #[test]
    fn containers_and_restarts_are_counted() {
        let detail = Detail::of(&json!({
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2}, {"name": "b", "ready": false,
                "restartCount": 3},
            ]},
        }));
        assert_eq!((detail.ready, detail.containers, detail.restarts), (1, 2, 5));
    }
}
