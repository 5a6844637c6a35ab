use serde_json::{Value, json};

use super::super::element::{Element, shown};
use super::super::set::FieldSet;

fn set(fields: Value) -> FieldSet {
    FieldSet::decode(&fields).unwrap()
}

#[test]
fn a_set_is_written_as_it_was_read() {
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}},
                   "f:tags": {"v:\"x\"": {}, "v:5": {}}, "f:list": {"i:0": {}}},
    });
    assert_eq!(set(fields.clone()).encode(), fields);
}

#[test]
fn keys_are_the_same_in_any_order_and_spacing() {
    let one = set(json!({"k:{\"port\": 80, \"name\": \"a\"}": {}}));
    assert_eq!(one.encode(), json!({"k:{\"name\":\"a\",\"port\":80}": {}}));
}

#[test]
fn unknown_steps_are_left_out_and_other_documents_are_refused() {
    assert!(set(json!({"x:name": {}, "name": {}, "k:[": {}, "v:{": {}, "i:a": {}})).is_empty());
    assert!(FieldSet::decode(&json!([])).is_none());
    assert!(FieldSet::decode(&json!({"f:a": "text"})).is_none());
}

#[test]
fn a_path_is_shown_as_in_messages() {
    let path = ["f:spec", "k:{\"containerPort\":80,\"protocol\":\"TCP\"}", "f:tags", "v:\"x\"", "i:3"];
    let path: Vec<Element> = path.iter().map(|step| Element::parse(step).unwrap()).collect();
    assert_eq!(shown(&path), ".spec[containerPort=80,protocol=\"TCP\"].tags[=\"x\"][3]");
}

#[test]
fn the_difference_keeps_fields_of_a_removed_parent_and_without_drops_them() {
    let all = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
    let parent = set(json!({"f:a": {}}));
    assert_eq!(all.difference(&parent).encode(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
    assert_eq!(all.without(&parent).encode(), json!({"f:c": {}}));
    assert_eq!(all.without(&set(json!({"f:a": {"f:b": {}}}))).encode(), json!({"f:a": {}, "f:c": {}}));
}

#[test]
fn sets_combine_path_by_path() {
    let one = set(json!({"f:a": {".": {}, "f:b": {}}}));
    let other = set(json!({"f:a": {"f:b": {}, "f:c": {}}}));
    assert_eq!(one.union(&other).encode(), json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}}));
    assert_eq!(one.intersection(&other).encode(), json!({"f:a": {"f:b": {}}}));
    assert!(one.intersection(&set(json!({"f:z": {}}))).is_empty());
}

#[test]
fn paths_of_one_level_come_before_those_below() {
    let paths = set(json!({"f:a": {"f:b": {}}, "f:z": {}})).paths();
    let shown: Vec<String> = paths.iter().map(|path| shown(path)).collect();
    assert_eq!(shown, [".z", ".a.b"]);
}
