use super::{Options, Waiting, reason, table};
use crate::terminal::style::Style;
use crate::testing::{aborted, at_declared, at_revision, condition, observed_state, paused_before, pod};

#[test]
fn each_object_has_a_line_with_its_state() {
    let paused = paused_before(&pod("web:1", "cccccccc", "n2"));
    let mut all = Vec::new();
    for (name, namespace, status) in
        [("web", "shop", paused), ("api", "shop", at_revision(1)), ("web", "a", serde_json::json!({}))]
    {
        let mut deployment = (*observed_state(4, "web:2", &status, &[]).deployment).clone();
        deployment.metadata.name = Some(name.to_owned());
        deployment.metadata.namespace = Some(namespace.to_owned());
        deployment.metadata.creation_timestamp =
            Some(serde_json::from_value("2030-01-01T10:00:00Z".into()).unwrap());
        all.push(deployment);
    }
    let now = "2030-01-01T12:00:00Z".parse().unwrap();
    let drawn = |namespaces, wide, unicode, width| {
        let style = Style { color: false, unicode };
        table(&all, &Waiting::new(), now, Options { namespaces, wide, style, width })
    };
    let text = [
        drawn(true, true, false, None),
        drawn(false, false, false, None),
        drawn(true, false, true, Some(80)),
        drawn(false, false, true, Some(60)),
    ]
    .join("\n");
    insta::assert_snapshot!(text);
}

#[test]
fn declared_points_and_aborts_have_a_state() {
    let canary = at_declared("canary", &[pod("web:1", "cccccccc", "n2")]);
    let all =
        [canary, aborted()].map(|status| (*observed_state(4, "web:2", &status, &[]).deployment).clone());
    let now = "2030-01-01T12:00:00Z".parse().unwrap();
    let text = table(
        &all,
        &Waiting::new(),
        now,
        Options { namespaces: false, wide: false, style: Style { color: false, unicode: true }, width: None },
    );
    assert!(text.contains("‖ Paused at canary\n") && text.contains("✖ Aborted\n"), "{text}");
}

#[test]
fn a_failure_and_a_pending_pod_have_a_reason() {
    let pending: crate::view::pod::ObservedPod = serde_json::from_value(serde_json::json!({
        "metadata": {
            "name": "web-7f6d9b8c4d-1", "namespace": "shop", "labels": {"pod-template-hash": "7f6d9b8c4d"},
            "ownerReferences": [{
                "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
                "controller": true,
                "name": "web-7f6d9b8c4d", "uid": "u",
            }],
        },
        "status": {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Too many pods.",
        }]},
    }))
    .unwrap();
    let waiting: Waiting = reason(&pending).into_iter().collect();
    let time = "2030-01-01T12:00:00Z";
    let mut failed = at_revision(2);
    failed["conditions"] =
        serde_json::json!([condition("Stalled", "True", "TemplateRefused", "The API server refuses pods")]);
    let all =
        [at_revision(2), failed].map(|status| (*observed_state(4, "web:2", &status, &[]).deployment).clone());
    let options =
        Options { namespaces: false, wide: false, style: Style { color: false, unicode: true }, width: None };
    let text = table(&all, &waiting, time.parse().unwrap(), options);
    assert!(
        text.contains("↻ Rolling (Unschedulable: 0/3 nodes are available: 3 Too many pods.)\n"),
        "{text}"
    );
    assert!(text.contains("✖ Failed: The API server refuses pods\n"), "{text}");
    let narrow = table(&all, &waiting, time.parse().unwrap(), Options { width: Some(60), ..options });
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}
