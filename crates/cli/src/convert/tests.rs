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
         "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "generation": 3, "creationTimestamp": "2030-01-01T00:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": "3"}},
         "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}], "unheardOf": 1}}},
         "status": {"replicas": 1}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "uid": "kept"}}]}"#;
    insta::assert_snapshot!(both(got, To::Ordereddeployment));
}

#[test]
fn fields_that_a_deployment_does_not_have_are_removed_with_a_note() {
    let ordered = convert(CHART, To::Ordereddeployment).unwrap().text.replacen(
        "spec:\n  selector",
        "spec:\n  podDeletion: Evict\n  deletionOrder: {unavailablePods: InOrder}\n  selector",
        1,
    );
    let back = convert(&ordered, To::Deployment).unwrap();
    assert!(!back.text.contains("deletionOrder") && !back.text.contains("podDeletion"), "{}", back.text);
    assert_eq!(back.notes[0], "web: removed deletionOrder and podDeletion, which a Deployment does not have");
}

#[test]
fn defaults_of_the_crd_are_removed_from_a_deployment() {
    let with = |fields: &str| {
        let ordered = convert(CHART, To::Ordereddeployment).unwrap().text;
        let ordered = ordered.replacen("spec:\n  selector", &format!("spec:\n{fields}  selector"), 1);
        let back = convert(&ordered, To::Deployment).unwrap();
        (super::parse(super::split(&back.text)[0]).unwrap()["spec"].clone(), back.notes[0].clone())
    };
    let (spec, _) = with("  podDeletion: Delete\n  podReplacementPolicy: TerminationStarted\n");
    assert_eq!(spec, super::parse(super::split(CHART)[0]).unwrap()["spec"]);
    let (spec, note) = with("  podReplacementPolicy: TerminationComplete\n");
    assert_eq!(spec["podReplacementPolicy"], "TerminationComplete");
    assert_eq!(
        note,
        "web: podReplacementPolicy is kept, but older Kubernetes versions do not have this field"
    );
}

#[test]
fn a_manifest_that_cannot_be_converted_is_an_error_with_the_reason() {
    let template = convert("kind: {{ .Values.kind }\n", To::Ordereddeployment).unwrap_err().to_string();
    assert!(template.contains("document 1:") && template.contains("helm template"), "{template}");
    let empty = CHART.replace("selector: {matchLabels: {app: web}}", "selector: {}");
    let refused = convert(&empty, To::Ordereddeployment).unwrap_err().to_string();
    assert!(refused.contains("Deployment web:") && refused.contains("hint:"), "{refused}");
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
