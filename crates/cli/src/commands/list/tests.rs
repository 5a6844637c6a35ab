use super::{Waiting, reason, table};
use crate::terminal::style::Style;
use crate::testing::{PLAIN, Pod, at_revision, condition, deployment, paused_before, pod, pod_json};
use crate::view::tree::Drawing;

#[test]
fn each_object_has_a_line_with_its_state() {
    let paused = paused_before(&pod("web:1", "cccccccc", "n2"));
    let mut all = Vec::new();
    for (name, namespace, status) in
        [("web", "shop", paused), ("api", "shop", at_revision(1)), ("web", "a", serde_json::json!({}))]
    {
        let mut web = deployment(&status);
        web.metadata.name = Some(name.to_owned());
        web.metadata.namespace = Some(namespace.to_owned());
        web.metadata.creation_timestamp =
            Some(serde_json::from_value("2030-01-01T10:00:00Z".into()).unwrap());
        all.push(web);
    }
    let now = "2030-01-01T12:00:00Z".parse().unwrap();
    let drawn = |namespaces, wide, unicode, width| {
        let style = Style { color: false, unicode };
        table(&all, &Waiting::new(), now, namespaces, Drawing { style, width, wide, ..PLAIN })
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
fn a_failure_and_a_pending_pod_have_a_reason() {
    let mut pending = pod_json(&Pod { node: None, ..pod("web:2", "gggggggg", "n1") });
    pending["metadata"]["labels"]["pod-template-hash"] = "7f6d9b8c4d".into();
    pending["status"] = serde_json::json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Too many pods.",
    }]});
    let pending: crate::view::pod::ObservedPod = serde_json::from_value(pending).unwrap();
    let waiting: Waiting = reason(&pending).into_iter().collect();
    let time = "2030-01-01T12:00:00Z";
    let mut failed = at_revision(2);
    failed["conditions"] =
        serde_json::json!([condition("Stalled", "True", "TemplateRefused", "The API server refuses pods")]);
    let all = [at_revision(2), failed].map(|status| deployment(&status));
    let text = table(&all, &waiting, time.parse().unwrap(), false, PLAIN);
    assert!(
        text.contains("↻ Rolling (Unschedulable: 0/3 nodes are available: 3 Too many pods.)\n"),
        "{text}"
    );
    assert!(text.contains("✖ Failed: The API server refuses pods\n"), "{text}");
    let drawing = Drawing { width: Some(60), ..PLAIN };
    let narrow = table(&all, &waiting, time.parse().unwrap(), false, drawing);
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}
