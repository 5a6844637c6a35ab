use serde_json::{Value, json};

use super::super::conflict::{causes, message};
use super::super::managers::{Managers, Operation};
use super::super::{Shape, set::FieldSet};
use super::{Kept, builtin, change};

#[test]
fn an_applier_owns_what_it_applies_and_what_it_drops_is_removed() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"colour": "red", "size": 1, "tags": ["x", "y"]}), false).unwrap();
    assert_eq!(
        kept.fields("a", Operation::Apply),
        json!({"f:colour": {}, "f:size": {}, "f:tags": {"v:\"x\"": {}, "v:\"y\"": {}}})
    );
    kept.apply("a", json!({"size": 1, "tags": ["y"]}), false).unwrap();
    assert_eq!(*kept.spec(), json!({"size": 1, "tags": ["y"]}));
    assert_eq!(kept.fields("a", Operation::Apply), json!({"f:size": {}, "f:tags": {"v:\"y\"": {}}}));
}

#[test]
fn a_dropped_field_stays_if_another_manager_owns_it_too() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"colour": "red", "parts": [{"name": "p", "note": "n"}]}), false).unwrap();
    kept.apply("b", json!({"colour": "red", "parts": [{"name": "p"}]}), false).unwrap();
    kept.apply("a", json!({"size": 1}), false).unwrap();
    assert_eq!(*kept.spec(), json!({"colour": "red", "size": 1, "parts": [{"name": "p"}]}));
}

#[test]
fn an_item_goes_with_its_last_owner_and_a_field_of_it_does_not_keep_it() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"parts": [{"name": "p"}, {"name": "q"}]}), false).unwrap();
    let mut spec = kept.spec().clone();
    spec["parts"][0]["note"] = "set by hand".into();
    spec["parts"].as_array_mut().unwrap().push(json!({"name": "r"}));
    kept.update("u", spec);
    kept.apply("a", json!({"size": 1}), false).unwrap();
    assert_eq!(*kept.spec(), json!({"size": 1, "parts": [{"name": "r"}]}));
    assert_eq!(
        kept.fields("u", Operation::Update),
        json!({"f:parts": {"k:{\"name\":\"r\",\"port\":80}": {".": {}, "f:name": {}}}})
    );
}

#[test]
fn another_value_for_a_field_of_another_manager_is_a_conflict() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"colour": "red"}), false).unwrap();
    let before = kept.object.clone();
    let conflicts = kept.apply("b", json!({"colour": "blue", "size": 1}), false).unwrap_err();
    assert_eq!(message(&conflicts), "Apply failed with 1 conflict: conflict with \"a\": .spec.colour");
    assert_eq!(
        causes(&conflicts),
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"a\"", "field": ".spec.colour"}])
    );
    assert_eq!(kept.object, before);
    // The same value is no conflict: both own it then.
    kept.apply("b", json!({"colour": "red"}), false).unwrap();
    assert_eq!(kept.fields("a", Operation::Apply), kept.fields("b", Operation::Apply));
}

#[test]
fn conflicts_are_listed_by_manager() {
    let mut kept = Kept::new();
    kept.apply("b", json!({"colour": "red"}), false).unwrap();
    kept.update("a", json!({"colour": "red", "size": 1, "words": {"w": "1"}}));
    let conflicts =
        kept.apply("c", json!({"colour": "blue", "size": 2, "words": {"w": "2"}}), false).unwrap_err();
    assert_eq!(
        message(&conflicts),
        "Apply failed with 3 conflicts: conflicts with \"a\" using example.com/v1:\n- .spec.size\n- .spec.words.w\n\
         conflicts with \"b\":\n- .spec.colour"
    );
}

#[test]
fn force_takes_the_field_from_its_owner() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"colour": "red", "size": 1}), false).unwrap();
    kept.apply("b", json!({"colour": "blue"}), true).unwrap();
    assert_eq!(*kept.spec(), json!({"colour": "blue", "size": 1}));
    assert_eq!(kept.fields("a", Operation::Apply), json!({"f:size": {}}));
    assert_eq!(kept.fields("b", Operation::Apply), json!({"f:colour": {}}));
    // The field is no longer a's, so it stays when a drops it.
    kept.apply("a", json!({"size": 1}), false).unwrap();
    assert_eq!(*kept.spec(), json!({"colour": "blue", "size": 1}));
}

#[test]
fn the_time_changes_only_with_the_object() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"size": 1}), false).unwrap();
    for entry in kept.managers.0.values_mut() {
        entry.time = Some("2020-01-01T00:00:00Z".to_owned());
    }
    kept.apply("a", json!({"size": 1}), false).unwrap();
    assert_eq!(kept.managers.encode()[0]["time"], "2020-01-01T00:00:00Z");
    kept.apply("a", json!({"size": 2}), false).unwrap();
    assert_eq!(kept.managers.encode()[0]["time"], "2030-01-01T00:00:00Z");
}

#[test]
fn the_fields_of_an_object_without_managers_belong_to_the_time_before() {
    let mut kept = Kept::new();
    kept.object = Kept::config(json!({"colour": "red"}));
    let conflicts = kept.apply("a", json!({"colour": "blue"}), false).unwrap_err();
    assert_eq!(
        message(&conflicts),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using example.com/v1: .spec.colour"
    );
    kept.apply("a", json!({"size": 1}), false).unwrap();
    assert_eq!(kept.fields("before-first-apply", Operation::Update), json!({".": {}, "f:colour": {}}));
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let mut kept = Kept::new();
    kept.update("kubectl-client-side-apply", json!({"colour": "red", "size": 1}));
    let applied = Kept::config(json!({"colour": "red"})).to_string();
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    kept.object["metadata"]["annotations"] = json!({key: applied});
    assert!(kept.apply("other", json!({"colour": "blue"}), false).is_err());
    let conflicts = kept.apply("kubectl", json!({"colour": "blue", "size": 2}), false).unwrap_err();
    assert_eq!(conflicts.len(), 1, "only the field that kubectl did not apply");
    kept.apply("kubectl", json!({"colour": "blue"}), false).unwrap();
    assert_eq!(kept.spec()["colour"], "blue");
    let renewed: Value =
        serde_json::from_str(kept.object["metadata"]["annotations"][key].as_str().unwrap()).unwrap();
    assert_eq!(renewed, Kept::config(json!({"colour": "blue"})));
}

#[test]
fn kubectl_does_not_take_over_what_another_manager_changed_since() {
    let mut kept = Kept::new();
    kept.update("kubectl-client-side-apply", json!({"colour": "red", "size": 1}));
    let applied = Kept::config(json!({"colour": "red", "size": 1})).to_string();
    kept.update("other", json!({"colour": "green", "size": 1}));
    kept.object["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    let conflicts = kept.apply("kubectl", json!({"colour": "blue", "size": 2}), false).unwrap_err();
    assert_eq!(
        message(&conflicts),
        "Apply failed with 1 conflict: conflict with \"other\" using example.com/v1: .spec.colour"
    );
}

#[test]
fn the_status_of_an_object_is_not_owned_through_the_object() {
    let info = builtin("Pod");
    let shape = Shape::of(&info);
    let ignored = FieldSet::of(&[&["status"]]);
    let change = change("a", &shape, &ignored);
    let config = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "status": {"phase": "Running"}});
    let done = super::apply(&json!({}), &config, &json!({}), Managers::default(), &change, false).unwrap();
    assert_eq!(done.managers.encode()[0]["fieldsV1"], json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
}
