use serde_json::{Value, json};

use super::super::managers::{Managers, Operation};
use super::Kept;

#[test]
fn an_updater_owns_what_it_changes_and_takes_it_from_others() {
    let mut kept = Kept::new();
    kept.update("a", json!({"colour": "red", "size": 1}));
    assert_eq!(kept.fields("a", Operation::Update), json!({".": {}, "f:colour": {}, "f:size": {}}));
    kept.update("b", json!({"colour": "blue", "size": 1}));
    assert_eq!(kept.fields("a", Operation::Update), json!({".": {}, "f:size": {}}));
    assert_eq!(kept.fields("b", Operation::Update), json!({"f:colour": {}}));
}

#[test]
fn a_removed_field_has_no_owner() {
    let mut kept = Kept::new();
    kept.apply("a", json!({"colour": "red", "tags": ["x", "y"]}), false).unwrap();
    kept.update("b", json!({"tags": ["y"]}));
    assert_eq!(kept.fields("a", Operation::Apply), json!({"f:tags": {"v:\"y\"": {}}}));
    assert_eq!(kept.fields("b", Operation::Update), Value::Null);
}

#[test]
fn an_update_without_a_change_changes_no_manager() {
    let mut kept = Kept::new();
    kept.update("a", json!({"colour": "red"}));
    let before = kept.managers.clone();
    kept.update("b", json!({"colour": "red"}));
    assert_eq!(kept.managers, before);
}

#[test]
fn a_map_that_becomes_a_text_loses_the_owners_of_its_fields() {
    let mut kept = Kept::new();
    kept.update("a", json!({"free": {"x": {"y": 1}}}));
    kept.update("b", json!({"free": {"x": "text"}}));
    assert_eq!(kept.fields("a", Operation::Update), json!({".": {}, "f:free": {}}));
    assert_eq!(kept.fields("b", Operation::Update), json!({"f:free": {"f:x": {}}}));
    kept.update("c", json!({"free": {"x": {"y": 1}}}));
    assert_eq!(kept.fields("b", Operation::Update), Value::Null);
    assert_eq!(kept.fields("c", Operation::Update), json!({"f:free": {"f:x": {".": {}, "f:y": {}}}}));
}

#[test]
fn an_object_has_at_most_ten_updaters() {
    let mut kept = Kept::new();
    for index in 0..15 {
        let mut spec = if index == 0 { json!({"words": {}}) } else { kept.spec().clone() };
        spec["words"][format!("w{index}")] = "1".into();
        kept.update(&format!("m{index:02}"), spec);
    }
    assert_eq!(kept.managers.0.len(), 10);
    let ancient = kept.fields("ancient-changes", Operation::Update);
    assert_eq!(ancient["f:words"].as_object().unwrap().len(), 7, "six words and the map: {ancient}");
    assert_eq!(kept.fields("m14", Operation::Update), json!({"f:words": {"f:w14": {}}}));
}

#[test]
fn entries_are_sorted_by_operation_time_and_name_and_read_as_they_are_written() {
    let entry = |manager: &str, operation: &str, time: &str, subresource: &str| {
        let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
                               "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}});
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    };
    let entries = json!([
        entry("z", "Apply", "2030-01-02T00:00:00Z", ""),
        entry("b", "Update", "2030-01-01T00:00:00Z", ""),
        entry("c", "Update", "2030-01-01T00:00:00Z", "status"),
        entry("a", "Update", "2030-01-03T00:00:00Z", ""),
    ]);
    assert_eq!(Managers::decode(&entries).unwrap().encode(), entries);
}

#[test]
fn invalid_entries_are_no_managers() {
    for wrong in [
        json!({}),
        json!({"operation": "Apply", "fieldsType": "FieldsV1"}),
        json!({"operation": "Other", "apiVersion": "v1", "fieldsType": "FieldsV1"}),
        json!({"operation": "Apply", "apiVersion": "v1"}),
        json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": 1}}),
    ] {
        assert_eq!(Managers::decode(&json!([wrong])), None, "{wrong}");
    }
}
