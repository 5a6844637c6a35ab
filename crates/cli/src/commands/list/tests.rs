use super::table;
use crate::style::Style;
use crate::testing::{aborted, at_declared, at_revision, observed_state, paused_before, pod};

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
    let mut text = table(&all, true, true, now, (Style::default(), None));
    text.push('\n');
    text.push_str(&table(&all, false, false, now, (Style::default(), None)));
    text.push('\n');
    let unicode = Style { color: false, unicode: true };
    text.push_str(&table(&all, true, false, now, (unicode, Some(80))));
    text.push('\n');
    text.push_str(&table(&all, false, false, now, (unicode, Some(60))));
    insta::assert_snapshot!(text);
}

#[test]
fn declared_points_and_aborts_have_a_state() {
    let canary = at_declared("canary", &[pod("web:1", "cccccccc", "n2")]);
    let all =
        [canary, aborted()].map(|status| (*observed_state(4, "web:2", &status, &[]).deployment).clone());
    let now = "2030-01-01T12:00:00Z".parse().unwrap();
    let text = table(&all, false, false, now, (Style { color: false, unicode: true }, None));
    assert!(text.contains("‖ Paused at canary\n") && text.contains("✖ Aborted\n"), "{text}");
}
