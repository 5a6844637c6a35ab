use serde_json::json;

use super::super::extract::fields;
use super::super::merge::merge;
use super::super::{Shape, check};
use super::{builtin, custom};

#[test]
fn the_fields_of_a_pod_are_those_that_kubernetes_lists() {
    let info = builtin("Pod");
    let pod = json!({
        "metadata": {"labels": {"app": "a"}, "finalizers": ["x/y"],
                     "ownerReferences": [{"uid": "u", "name": "o"}]},
        "spec": {"nodeSelector": {"pool": "a"}, "dnsPolicy": "Default",
            "containers": [{"name": "a", "image": "i", "resources": {}, "args": ["x"],
                "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "1"}],
                "securityContext": {"privileged": true}}],
            "tolerations": [{"key": "t"}], "topologySpreadConstraints": [{"topologyKey": "k", "whenUnsatisfiable": "w"}]},
    });
    assert_eq!(
        fields(&pod, &Shape::of(&info)).encode(),
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {"v:\"x/y\"": {}},
                           "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}},
            "f:spec": {"f:nodeSelector": {}, "f:dnsPolicy": {}, "f:tolerations": {},
                "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}, "f:resources": {},
                    "f:args": {}, "f:securityContext": {"f:privileged": {}},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    "f:env": {"k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}}}},
                "f:topologySpreadConstraints": {"k:{\"topologyKey\":\"k\",\"whenUnsatisfiable\":\"w\"}":
                    {".": {}, "f:topologyKey": {}, "f:whenUnsatisfiable": {}}}},
        })
    );
}

#[test]
fn the_fields_of_a_custom_object_follow_its_schema() {
    let info = custom();
    let object = json!({"spec": {"tags": ["a"], "plain": ["b"], "whole": {"k": "v"}, "words": {"w": "v"},
        "parts": [{"name": "p"}], "free": {"deep": {"list": [{"name": "x"}]}, "none": null}, "size": 0}});
    assert_eq!(
        fields(&object, &Shape::of(&info)).encode(),
        json!({"f:spec": {"f:tags": {"v:\"a\"": {}}, "f:plain": {}, "f:whole": {}, "f:words": {"f:w": {}},
            "f:parts": {"k:{\"name\":\"p\",\"port\":80}": {".": {}, "f:name": {}}},
            "f:free": {"f:deep": {".": {}, "f:list": {}}, "f:none": {}}, "f:size": {}}})
    );
}

#[test]
fn a_configuration_that_does_not_fit_its_type_is_refused() {
    let info = custom();
    let error = |spec| check(&json!({"spec": spec}), &Shape::of(&info)).unwrap_or_default();
    assert_eq!(error(json!({"size": 3, "free": {"any": [1]}})), "");
    assert_eq!(error(json!({"other": 1})), ".spec.other: field not declared in schema");
    assert_eq!(error(json!({"size": "3"})), ".spec.size: expected numeric (int or float), got \"3\"");
    assert_eq!(error(json!({"tags": ["a", "a"]})), ".spec.tags: duplicate entries for key [=\"a\"]");
    assert_eq!(
        error(json!({"parts": [{"name": "a"}, {"name": "a", "port": 80}]})),
        ".spec.parts: duplicate entries for key [name=\"a\",port=80]"
    );
    assert_eq!(
        error(json!({"words": [], "other": 1})),
        "errors:\n  .spec.other: field not declared in schema\n  .spec.words: expected map, got []"
    );
    let info = builtin("Pod");
    let pod = json!({"spec": {"containers": [{"image": "i"}]}});
    let omitted = check(&pod, &Shape::of(&info)).unwrap();
    assert!(omitted.contains("omits all key fields [\"name\"]"), "{omitted}");
}

#[test]
fn quantities_and_ports_may_be_numbers_or_texts() {
    let info = builtin("Pod");
    let pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"port": "web"}}, "readinessProbe": {"httpGet": {"port": 80}}}]}});
    assert_eq!(check(&pod, &Shape::of(&info)), None);
}

#[test]
fn a_default_in_the_schema_of_a_definition_has_any_type() {
    let info = builtin("CustomResourceDefinition");
    for default in [json!(5), json!("x"), json!({"a": 1}), json!([1]), json!(false)] {
        let schema = json!({"properties": {"x": {"default": default, "enum": [1, "a"]}}});
        let crd = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        assert_eq!(check(&crd, &Shape::of(&info)), None);
    }
}

#[test]
fn the_items_of_the_configuration_keep_its_order() {
    let info = custom();
    let shape = Shape::of(&info);
    let tags = |old: &[&str], new: &[&str]| {
        let merged = merge(&json!({"spec": {"tags": old}}), &json!({"spec": {"tags": new}}), &shape);
        merged["spec"]["tags"].clone()
    };
    assert_eq!(tags(&["b", "x", "a"], &["a", "b"]), json!(["x", "a", "b"]));
    assert_eq!(tags(&["a", "x", "b"], &["a", "n", "b"]), json!(["a", "x", "n", "b"]));
    assert_eq!(tags(&["x"], &["n"]), json!(["x", "n"]));
    assert_eq!(tags(&[], &["b", "a"]), json!(["b", "a"]));
    assert_eq!(tags(&["a", "b", "c"], &["c"]), json!(["a", "b", "c"]));
}

#[test]
fn an_item_that_the_object_has_twice_is_replaced() {
    let info = custom();
    let old =
        json!({"spec": {"parts": [{"name": "p", "note": "1"}, {"name": "p", "note": "2"}, {"name": "q"}]}});
    let new = json!({"spec": {"parts": [{"name": "p"}]}});
    let merged = merge(&old, &new, &Shape::of(&info));
    assert_eq!(merged, json!({"spec": {"parts": [{"name": "p"}, {"name": "q"}]}}));
}

#[test]
fn lists_merge_as_the_types_of_kubernetes_say() {
    let kind = |kind: &str, path: &[&str]| {
        let info = builtin(kind);
        let mut shape = Shape::of(&info);
        for name in path {
            shape = if *name == "[]" { shape.items() } else { shape.field(name).unwrap().shape };
        }
        format!("{:?}", shape.kind(&json!([])))
    };
    assert_eq!(kind("ServiceAccount", &["secrets"]), "Keyed([\"name\"])");
    assert_eq!(kind("Service", &["spec", "ports"]), "Keyed([\"port\", \"protocol\"])");
    assert_eq!(kind("Pod", &["metadata", "finalizers"]), "Set");
    assert_eq!(kind("Pod", &["status", "hostIPs"]), "Leaf");
    assert_eq!(kind("Pod", &["status", "podIPs"]), "Keyed([\"ip\"])");
    let mounts = ["spec", "template", "spec", "initContainers", "[]", "volumeMounts"];
    assert_eq!(kind("Deployment", &mounts), "Keyed([\"mountPath\"])");
}

#[test]
fn a_merge_replaces_values_and_keeps_the_rest() {
    let info = custom();
    let old = json!({"spec": {"colour": "red", "whole": {"a": "1"}, "plain": ["a"], "words": {"a": "1"},
        "parts": [{"name": "p", "port": 80, "note": "n"}]}});
    let new =
        json!({"spec": {"whole": {"b": "2"}, "plain": ["b"], "words": {"b": "2"}, "parts": [{"name": "p"}]}});
    assert_eq!(
        merge(&old, &new, &Shape::of(&info)),
        json!({"spec": {"colour": "red", "whole": {"b": "2"}, "plain": ["b"], "words": {"a": "1", "b": "2"},
            "parts": [{"name": "p", "port": 80, "note": "n"}]}})
    );
}
