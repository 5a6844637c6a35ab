//! A plain Deployment, shown as an OrderedDeployment is.

use k8s_openapi::api::apps::v1::ReplicaSet;
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{Condition, ConditionStatus, OrderedDeployment, OrderedDeploymentStatus};
use ordereddeployment_wire::PlainDeployment;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A Deployment with its own numbers and conditions, and the pause points of its annotation.
#[derive(Clone, Debug)]
pub(crate) struct ShownDeployment(pub(crate) OrderedDeployment);

impl<'de> Deserialize<'de> for ShownDeployment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let status = value.get("status").cloned().unwrap_or_default();
        let PlainDeployment(object) = PlainDeployment::deserialize(value).map_err(D::Error::custom)?;
        Ok(Self(with_status(object, &status)))
    }
}

ordereddeployment_wire::served_as!(ShownDeployment, PlainDeployment, 0.metadata);

fn with_status(mut object: OrderedDeployment, status: &Value) -> OrderedDeployment {
    let stored = object.status.take().unwrap_or_default();
    let number = |key: &str| status.get(key).and_then(Value::as_i64);
    let count = |key: &str| number(key).and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
    let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    let mut conditions: Vec<Condition> =
        conditions.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect();
    // As `kubectl rollout status` decides it.
    let (replicas, updated, available) =
        (count("replicas"), count("updatedReplicas"), count("availableReplicas"));
    let is_complete = number("observedGeneration") >= object.metadata.generation
        && updated >= object.spec.replicas
        && replicas <= updated
        && available >= updated;
    if is_complete && let Some(progress) = conditions.first().cloned() {
        conditions.push(Condition {
            type_: condition::COMPLETE.to_owned(),
            status: ConditionStatus::True,
            reason: reason::ROLLOUT_COMPLETE.to_owned(),
            message: String::new(),
            ..progress
        });
    }
    object.status = Some(OrderedDeploymentStatus {
        observed_generation: number("observedGeneration"),
        replicas: Some(replicas),
        updated_replicas: Some(updated),
        available_replicas: Some(available),
        conditions: Some(conditions),
        // Whoever has cleared `spec.paused` has passed the point; the controller stores that next.
        hold: stored.hold.filter(|_| object.spec.paused),
        ..stored
    });
    object
}

/// The revision of the Deployment's newest ReplicaSet, as the Deployment controller numbers it.
pub(crate) fn revision(deployment: &OrderedDeployment) -> i64 {
    let annotations = deployment.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(annotation::DEPLOYMENT_REVISION)?.parse().ok()).unwrap_or(0)
}

/// Why the pods of plain Deployments may not be deleted in this order, as far as these probes show.
pub(crate) fn doubt_of(probes: &[ReplicaSet]) -> Option<&'static str> {
    let is_observed = |probe: &ReplicaSet| {
        let observed = probe.status.as_ref().and_then(|status| status.observed_generation);
        observed >= probe.metadata.generation
    };
    if probes.is_empty() {
        return Some(
            "no ordered-controller-manager that reconciles ReplicaSets was found: the built-in controller \
             ignores delete priorities and pause points (with --force it leaves no trace)",
        );
    }
    probes.iter().any(is_observed).then_some(
        "kube-controller-manager's replicaset controller is alive, so ordered-controller-manager stands \
         aside: delete priorities and pause points have no effect",
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use serde_json::{Value, json};

    use super::{ShownDeployment, doubt_of};
    use crate::view::phase::Phase;

    fn state(paused: bool, annotations: &Value, status: &Value) -> Phase {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "web", "generation": 2,
            "annotations": annotations},
            "spec": {
                "replicas": 3, "paused": paused, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web",
                "image": "web:1"}]}},
            },
            "status": status,
        });
        let ShownDeployment(object) = serde_json::from_value(object).unwrap();
        Phase::of(&object)
    }

    fn status(observed: i64, updated: i64, progressing: &str, reason: &str) -> Value {
        let at = "2030-01-01T12:00:00Z";
        json!({
            "observedGeneration": observed, "replicas": 3, "updatedReplicas": updated, "readyReplicas": 3,
            "availableReplicas": 3,
            "conditions": [{
                "type": "Progressing", "status": progressing, "reason": reason, "message": "why",
                "lastUpdateTime": at, "lastTransitionTime": at,
            }],
        })
    }

    #[test]
    fn the_state_is_that_of_kubectl_rollout_status_and_of_the_pause_point() {
        let none = json!({});
        let complete = status(2, 3, "True", "NewReplicaSetAvailable");
        assert_eq!(state(false, &none, &complete), Phase::Complete);
        assert_eq!(state(false, &none, &status(1, 3, "True", "NewReplicaSetAvailable")), Phase::Unobserved);
        let rolling = status(2, 1, "True", "ReplicaSetUpdated");
        assert_eq!(state(false, &none, &rolling), Phase::Rolling);
        assert_eq!(state(true, &none, &rolling), Phase::Paused);
        let failed = status(2, 1, "False", "ProgressDeadlineExceeded");
        assert_eq!(state(false, &none, &failed), Phase::DeadlineExceeded("why".to_owned()));
        let hold = json!({
            "id": "web-1@2", "pod": "web-1", "podUID": "u", "point": "Before", "revision": 2,
            "since": "2030-01-01T12:00:00Z",
            "replicas": 3, "sizes": {},
        });
        let rollout = json!({"revision": 2, "templateHash": "web-2", "replicas": 3});
        let stored = json!({"hold": hold, "rollout": rollout}).to_string();
        let stored = json!({"ordereddeployment.io/rollout-state": stored});
        assert!(matches!(state(true, &stored, &rolling), Phase::Held(_)));
        assert_eq!(state(false, &stored, &rolling), Phase::Rolling, "somebody has resumed it");
    }

    #[test]
    fn the_order_holds_only_while_the_probe_waits_to_be_observed() {
        let probe = |observed: i64| -> ReplicaSet {
            serde_json::from_value(json!({
                "metadata": {"name": "probe", "generation": 3}, "status": {"replicas": 0,
                "observedGeneration": observed},
            }))
            .unwrap()
        };
        assert!(doubt_of(&[]).unwrap().contains("was found"));
        assert_eq!(doubt_of(&[probe(2)]), None);
        assert!(doubt_of(&[probe(3)]).unwrap().contains("stands aside"));
    }
}
