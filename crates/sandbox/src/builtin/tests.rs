use serde_json::{Value, json};

use super::*;
use crate::resource::builtins;

fn info(group: &str, kind: &str) -> ResourceInfo {
    builtins().into_iter().find(|i| i.kind == kind && i.group == group).unwrap()
}

fn pod(more: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "d"},
        "spec": {"containers": [{"name": "a", "image": "web:1"}]}});
    json_patch::merge(&mut pod, more);
    pod
}

fn errors(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut object = object.clone();
    prepare(&info(group, kind), &mut object, old).iter().map(Cause::line).collect()
}

#[test]
fn a_pod_gets_the_defaults_of_the_api_server() {
    let mut object = pod(&json!({"spec": {"containers": [{"name": "a", "image": "web",
        "ports": [{"containerPort": 80}], "readinessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"cpu": "1"}}}], "volumes": [{"name": "v"}]}}));
    assert!(prepare(&info("", "Pod"), &mut object, None).is_empty());
    let spec = &object["spec"];
    for (key, wanted) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("enableServiceLinks", json!(true)),
        ("securityContext", json!({})),
        ("serviceAccountName", json!("default")),
        ("volumes", json!([{"name": "v", "emptyDir": {}}])),
        (
            "tolerations",
            json!([
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ]),
        ),
    ] {
        assert_eq!(spec[key], wanted, "{key}");
    }
    let container = &spec["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    assert_eq!(container["readinessProbe"]["periodSeconds"], 10);
    assert_eq!(container["resources"]["requests"]["cpu"], "1");
    assert_eq!(object["status"]["qosClass"], "Burstable");
}

#[test]
fn defaults_once_given_stay() {
    let mut object = pod(&json!({}));
    assert!(prepare(&info("", "Pod"), &mut object, None).is_empty());
    let mut again = object.clone();
    assert_eq!(prepare(&info("", "Pod"), &mut again, Some(&object)), []);
    assert_eq!(again, object);
}

#[test]
fn invalid_pods_have_the_messages_of_the_api_server() {
    let container = |more: Value| {
        let mut container = json!({"name": "a", "image": "web:1"});
        json_patch::merge(&mut container, &more);
        json!({"spec": {"containers": [container]}})
    };
    for (change, wanted) in [
        (json!({"spec": {"containers": []}}), "spec.containers: Required value"),
        (container(json!({"name": ""})), "spec.containers[0].name: Required value"),
        (
            container(json!({"name": "A"})),
            "spec.containers[0].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of",
        ),
        (container(json!({"image": ""})), "spec.containers[0].image: Required value"),
        (
            json!({"spec": {"containers": [{"name": "a", "image": "b"}, {"name": "a", "image": "b"}]}}),
            "spec.containers[1].name: Duplicate value: \"a\"",
        ),
        (
            json!({"spec": {"restartPolicy": "Sometimes"}}),
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            container(json!({"ports": [{"containerPort": 70000}]})),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1500m",
        ),
        (
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            container(json!({"env": [{"name": "a=b"}]})),
            "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name",
        ),
        (
            json!({"spec": {"activeDeadlineSeconds": 0}}),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ),
        (
            container(json!({"livenessProbe": {}})),
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
        ),
        (
            container(json!({"ports": [{"containerPort": 1, "name": "a--b"}]})),
            "spec.containers[0].ports[0].name: Invalid value: \"a--b\": must not contain consecutive hyphens",
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "secret": {}}]}}),
            "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type",
        ),
    ] {
        let found = errors("", "Pod", &pod(&change), None);
        assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?} is not {wanted}");
    }
}

#[test]
fn only_images_deadlines_and_added_tolerations_of_a_pod_can_change() {
    let mut old = pod(&json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}));
    assert!(prepare(&info("", "Pod"), &mut old, None).is_empty());
    let changed = |patch: Value| {
        let mut new = old.clone();
        json_patch::merge(&mut new, &patch);
        errors("", "Pod", &new, Some(&old))
    };
    let mut containers = old["spec"]["containers"].clone();
    containers[0]["image"] = json!("web:2");
    assert_eq!(changed(json!({"spec": {"containers": containers}})), [""; 0]);
    assert_eq!(changed(json!({"spec": {"activeDeadlineSeconds": 5}})), [""; 0]);
    assert_eq!(changed(json!({"metadata": {"labels": {"a": "b"}}})), [""; 0]);
    let mut more = old["spec"]["tolerations"].clone();
    more.as_array_mut().unwrap().push(json!({"key": "b", "operator": "Exists"}));
    assert_eq!(changed(json!({"spec": {"tolerations": more}})), [""; 0]);
    assert_eq!(
        changed(json!({"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}})),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    let mut limited = old.clone();
    limited["spec"]["activeDeadlineSeconds"] = json!(5);
    let mut longer = old.clone();
    longer["spec"]["activeDeadlineSeconds"] = json!(6);
    assert_eq!(
        errors("", "Pod", &longer, Some(&limited)),
        ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value 5"]
    );
    let refused = changed(json!({"spec": {"nodeName": "n1"}}));
    assert!(refused[0].starts_with("spec: Forbidden: pod updates may not change fields other than"));
    let none = changed(json!({"spec": {"containers": []}}));
    assert!(
        none.contains(&"spec.containers: Forbidden: pod updates may not add or remove containers".to_owned())
    );
}

#[test]
fn invalid_deployments_have_the_messages_of_the_api_server() {
    let deployment = |more: Value| {
        let mut object = json!({"metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "a", "image": "web:1"}]}}}});
        json_patch::merge(&mut object, &more);
        object
    };
    let good = deployment(json!({}));
    assert_eq!(errors("apps", "Deployment", &good, None), [""; 0]);
    for (change, wanted) in [
        (
            json!({"spec": {"strategy": {"type": "Foo"}}}),
            "spec.strategy: Unsupported value: {\"type\":\"Foo\"}: supported values: \"Recreate\", \"RollingUpdate\"",
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}}}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ),
        (
            json!({"spec": {"template": {"metadata": {"labels": {"app": "y"}}}}}),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ),
        (
            json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {}}}}),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            json!({"spec": {"progressDeadlineSeconds": 5, "minReadySeconds": 5}}),
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
        ),
        (
            json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
    ] {
        assert_eq!(errors("apps", "Deployment", &deployment(change), None), [wanted]);
    }
    let moved = deployment(json!({"spec": {"selector": {"matchLabels": {"app": "x", "b": "c"}},
        "template": {"metadata": {"labels": {"b": "c"}}}}}));
    let found = errors("apps", "Deployment", &moved, Some(&good));
    assert!(found[0].ends_with("field is immutable"), "{found:?}");
}

#[test]
fn a_value_of_the_wrong_type_is_a_bad_request() {
    let wrong = pod(&json!({"spec": {"terminationGracePeriodSeconds": "soon"}}));
    let message = decode(&info("", "Pod"), &mut wrong.clone()).unwrap_err();
    assert!(message.starts_with("Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal"));
    let wrong =
        pod(&json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "much"}}}]}}));
    assert!(decode(&info("", "Pod"), &mut wrong.clone()).unwrap_err().contains("quantities must match"));
    assert!(decode(&info("", "Pod"), &mut pod(&json!({}))).is_ok());
}

#[test]
fn unknown_fields_of_builtins_are_dropped_and_reported() {
    let mut object =
        pod(&json!({"junk": 1, "spec": {"containers": [{"name": "a", "imag": "x", "image": null}],
        "priority": 3}}));
    let unknown = decode(&info("", "Pod"), &mut object).unwrap();
    assert_eq!(unknown, ["junk", "spec.containers[0].imag"]);
    assert_eq!(object["spec"], json!({"containers": [{"name": "a"}], "priority": 3}));
}

#[test]
fn small_kinds_are_validated() {
    let long = "x".repeat(1025);
    let event = |note: &str| {
        json!({"metadata": {"name": "e", "namespace": "d"}, "regarding": {"namespace": "d"}, "note": note,
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "a.b/c", "reportingInstance": "i",
            "action": "Do", "reason": "Because", "type": "Normal"})
    };
    assert_eq!(errors("events.k8s.io", "Event", &event("hi"), None), [""; 0]);
    for (group, kind, object, wanted) in [
        (
            "events.k8s.io",
            "Event",
            event(&long),
            "message: Invalid value: \"\": can have at most 1024 characters",
        ),
        (
            "",
            "Event",
            json!({"metadata": {"namespace": "d"}, "involvedObject": {"namespace": "e"}}),
            "involvedObject.namespace: Invalid value: \"e\": does not match event.namespace",
        ),
        (
            "",
            "Namespace",
            json!({"metadata": {"name": "a.b"}}),
            "metadata.name: Invalid value: \"a.b\": a lowercase",
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
            "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        ("", "Service", json!({"spec": {}}), "spec.ports: Required value"),
        (
            "",
            "ConfigMap",
            json!({"data": {"a b": ""}}),
            "data[a b]: Invalid value: \"a b\": a valid config key",
        ),
    ] {
        let found = errors(group, kind, &object, None);
        assert!(found.len() == 1 && found[0].starts_with(wanted), "{found:?} is not {wanted}");
    }
    let mut secret = json!({"stringData": {"k": "hi"}});
    assert!(prepare(&info("", "Secret"), &mut secret, None).is_empty());
    assert_eq!(secret, json!({"type": "Opaque", "data": {"k": "aGk="}}));
}
