mod fuzz;

use super::{To, convert};

const CHART: &str = "\
# The web server.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web  # kept
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.28
        args: |
          kind: Deployment
---
apiVersion: v1
kind: Service   # untouched
metadata: {name: web}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: other}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: other}
  maxReplicas: 3
";

fn both(text: &str, to: To) -> String {
    let converted = convert(text, to).unwrap();
    format!("{}# notes:\n{}", converted.text, converted.notes.join("\n"))
}

#[test]
fn a_deployment_keeps_its_text_and_autoscalers_are_changed() {
    insta::assert_snapshot!(both(CHART, To::Ordereddeployment));
}

#[test]
fn converting_back_restores_the_manifest() {
    let there = convert(CHART, To::Ordereddeployment).unwrap().text;
    let back = convert(&there, To::Deployment).unwrap().text;
    let documents = |text: &str| -> Vec<serde_json::Value> {
        super::split(text).into_iter().map(|document| super::parse(document).unwrap()).collect()
    };
    assert_eq!(documents(&back), documents(CHART));
    assert!(back.contains("# The web server.") && back.contains("# kept"), "{back}");
}

#[test]
fn fields_set_by_the_server_are_removed_also_in_lists() {
    let got = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "apps/v1", "kind": "Deployment",
         "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "generation": 3,
        "creationTimestamp": "2030-01-01T00:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": "3"}},
         "spec": {"selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}], "unheardOf": 1}}},
         "status": {"replicas": 1}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "uid": "kept"}}]}"#;
    insta::assert_snapshot!(both(got, To::Ordereddeployment));
}

#[test]
fn fields_that_a_deployment_does_not_have_are_removed_with_a_note_unless_it_behaves_so() {
    for (fields, removed) in [
        (
            "podDeletion: Evict, deletionOrder: {unavailablePods: InOrder}",
            Some("deletionOrder and podDeletion"),
        ),
        ("podDeletion: Delete, podReplacementPolicy: TerminationStarted", None),
        ("progressDeadlineAction: Continue", None),
        ("podReplacementPolicy: TerminationComplete", Some("podReplacementPolicy")),
        ("strategy: {pausePoints: [{name: a, afterUpdated: 1}]}", Some("strategy.pausePoints")),
    ] {
        let ordered = |fields: &str| {
            format!(
                "{{apiVersion: ordereddeployment.io/v1alpha1, kind: OrderedDeployment, \
                 metadata: {{name: web}}, spec: {{replicas: 3, {fields}}}}}"
            )
        };
        let back = convert(&ordered(fields), To::Deployment).unwrap();
        let mut spec = super::parse(&back.text).unwrap()["spec"].take();
        spec.as_object_mut().unwrap().remove("strategy");
        assert_eq!(spec, serde_json::json!({"replicas": 3}), "{fields}");
        let note = removed.map(|what| format!("web: removed {what}, which a Deployment does not have"));
        assert_eq!(back.notes, note.into_iter().collect::<Vec<_>>(), "{fields}");
    }
}

#[test]
fn a_manifest_that_cannot_be_converted_is_an_error_with_the_reason() {
    let template = convert("kind: {{ .Values.kind }\n", To::Ordereddeployment).unwrap_err().to_string();
    assert!(template.contains("document 1:") && template.contains("helm template"), "{template}");
    let old =
        convert(&CHART.replace("apps/v1\nkind", "extensions/v1beta1\nkind"), To::Ordereddeployment).unwrap();
    assert_eq!(old.notes.len(), 2, "{:?}", old.notes);
    assert!(convert("", To::Deployment).unwrap().text.is_empty());
}

#[test]
fn numbers_are_parsed_as_in_kubectl() {
    let text = "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: web}\n\
                spec: {template: {spec: {volumes: [{secret: {defaultMode: 0440}}]}}}\n";
    let template = super::template_of(text, "web").unwrap();
    assert_eq!(template["spec"]["volumes"][0]["secret"]["defaultMode"], 0o440);
    let error = super::template_of(text, "other").unwrap_err().to_string();
    assert!(error.contains("no Deployment other"), "{error}");
}

fn rollout(strategy: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: web}}\nspec:\n  replicas: 8\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template: {{metadata: {{labels: {{app: web}}}}, \
         spec: {{containers: [{{name: web, image: 'nginx:1.28'}}]}}}}\n  strategy: {strategy}\n"
    )
}

#[test]
fn the_pauses_of_a_rollout_become_pause_points() {
    let canary =
        "{canary: {maxSurge: 1, maxUnavailable: 0, canaryService: c, trafficRouting: {nginx: {}}, steps: [
        {setWeight: 5}, {pause: {duration: 10m}},
        {setWeight: 10}, {setWeight: 25}, {pause: {}}, {pause: {duration: 600}}, {analysis: {templates: []}},
        {setWeight: 40}, {pause: {duration: '30'}}, {setCanaryScale: {weight: 50}},
        {setWeight: 60}, {pause: null}, {setWeight: 80}, {setWeight: 100}, {pause: {}}]}}
  progressDeadlineAbort: true
  analysis: {successfulRunHistoryLimit: 3}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}
  maxReplicas: 9";
    insta::assert_snapshot!(both(&rollout(canary), To::Ordereddeployment));
}

#[test]
fn pauses_that_hold_nothing_and_other_strategies_have_a_note() {
    let notes = |strategy: &str| {
        let converted = convert(&rollout(strategy), To::Ordereddeployment).unwrap();
        assert!(!converted.text.contains("pausePoints"), "{}", converted.text);
        converted.notes.join("\n")
    };
    let first = notes("{canary: {steps: [{pause: {}}, {setWeight: 0}, {pause: {}}, {setWeight: 50}]}}");
    let last = notes("{canary: {steps: [{setWeight: 100}, {pause: {duration: 1h}}]}}");
    let others = notes("{blueGreen: {activeService: a}}");
    insta::assert_snapshot!([first, last, others].join("\n\n"));
    assert_eq!(notes("{canary: {}}"), "");
    let fewer =
        "{canary: {steps: [{setWeight: 50}, {pause: {duration: soon}}, {setWeight: 20}, {pause: {}}]}}";
    let converted = convert(&rollout(fewer), To::Ordereddeployment).unwrap();
    assert_eq!(
        converted.notes,
        [
            "web: step 2 (pause) pauses until it is resumed: \"soon\" is not a duration",
            "web: step 4 (pause) is not converted: its weight 20 is less than 50 before",
        ]
    );
    let points = &super::parse(&converted.text).unwrap()["spec"]["strategy"]["pausePoints"];
    assert_eq!(*points, serde_json::json!([{"name": "weight-50", "afterUpdated": "50%"}]));
}

#[test]
fn a_rollout_with_the_template_of_another_object_is_not_converted() {
    let text =
        rollout("{canary: {}}") + "  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n";
    let converted = convert(&text, To::Ordereddeployment).unwrap();
    assert_eq!(converted.text, text);
    assert!(converted.notes[0].contains("workloadRef"), "{:?}", converted.notes);
}
