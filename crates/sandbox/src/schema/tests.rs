use serde_json::{Value, json};

use super::*;

fn schema(spec: &Value) -> CrdSchema {
    CrdSchema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn lines(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(Cause::line).collect()
}

#[test]
fn invalid_values_have_the_messages_of_the_api_server() {
    let array = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}});
    let word = json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"});
    let object = json!({"type": "object", "required": ["y"], "additionalProperties": {"type": "string"}});
    let either =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    let named = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}}});
    for (node, value, wanted) in [
        (
            &json!({"type": "integer"}),
            json!("a"),
            r#"Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            &json!({"type": "integer", "minimum": 0}),
            json!(-1),
            "Invalid value: -1: spec.x in body should be greater than or equal to 0",
        ),
        (
            &json!({"type": "number", "maximum": 1}),
            json!(1.5),
            "Invalid value: 1.5: spec.x in body should be less than or equal to 1",
        ),
        (
            &json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            r#"Invalid value: "integer": spec.x in body must be of type int32: "integer""#,
        ),
        (&word, json!("AA"), r#"Invalid value: "AA": spec.x in body should match '^[a-z]+$'"#),
        (&word, json!("a"), r#"Invalid value: "a": spec.x in body should be at least 2 chars long"#),
        (&word, json!("abcd"), "Too long: may not be more than 3 bytes"),
        (
            &json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            &json!({"type": "string", "format": "date-time"}),
            json!("now"),
            r#"Invalid value: "now": spec.x in body must be of type date-time: "now""#,
        ),
        (&array, json!([]), "Invalid value: 0: spec.x in body should have at least 1 items"),
        (&array, json!(["a", "b", "c"]), "Too many: 3: must have at most 2 items"),
        (&named, json!([{"name": "b"}, {"name": "b"}]), r#"[1]: Duplicate value: {"name":"b"}"#),
        (&object, json!({}), ".y: Required value"),
        (
            &object,
            json!({"y": 1}),
            r#".y: Invalid value: "integer": spec.x.y in body must be of type string: "integer""#,
        ),
        (
            &either,
            json!(true),
            r#"Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
        ),
    ] {
        let schema = schema(&json!({"type": "object", "properties": {"x": node}}));
        let found = lines(&schema.validate(&json!({"spec": {"x": value}}), None)).join("; ");
        let field = if wanted.starts_with(['.', '[']) { "spec.x" } else { "spec.x: " };
        assert_eq!(found, format!("{field}{wanted}"), "{node}");
    }
}

#[test]
fn valid_values_pass() {
    for (node, value) in [
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_647)),
        (json!({"type": "number"}), json!(1)),
        (json!({"x-kubernetes-int-or-string": true}), json!("25%")),
        (json!({"type": "string", "format": "date-time"}), json!("9999-12-31t23:59:59,5+99:99")),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({"a": {"b": 1}})),
    ] {
        let schema = schema(&json!({"type": "object", "properties": {"x": node}}));
        assert_eq!(lines(&schema.validate(&json!({"spec": {"x": value}}), None)), [""; 0], "{node}");
    }
}

#[test]
fn pruning_drops_unknown_fields_and_returns_their_paths() {
    let schema = schema(&json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"strict": {"type": "object"}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }}));
    let mut object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "junk": 1, "spec": {
        "known": "k", "unknown": 1, "list": [{"a": "1", "b": "2"}], "map": {"any": "key"},
        "raw": {"anything": {"goes": 1}, "strict": {"gone": 1}}}});
    let gone = schema.prune(&mut object);
    assert_eq!(gone, ["junk", "spec.list[0].b", "spec.raw.strict.gone", "spec.unknown"]);
    assert_eq!(
        object,
        json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": {
            "known": "k", "list": [{"a": "1"}], "map": {"any": "key"},
            "raw": {"anything": {"goes": 1}, "strict": {}}}})
    );
}

#[test]
fn defaults_replace_absent_fields_and_nulls_but_create_no_parents() {
    let schema = schema(&json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "default": 1},
        "strategy": {"type": "object", "default": {}, "properties": {
            "type": {"type": "string", "default": "RollingUpdate"}}},
        "absent": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
        "gone": {"type": "string"},
    }}));
    let mut object = json!({"spec": {"replicas": null, "gone": null}});
    schema.default(&mut object);
    assert_eq!(object, json!({"spec": {"replicas": 1, "strategy": {"type": "RollingUpdate"}}}));
}

#[test]
fn rules_read_old_and_new_values_unless_the_value_is_invalid_or_unchanged() {
    let schema = schema(&json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "field is immutable"}]},
    }, "x-kubernetes-validations": [
        {"rule": "self.replicas < 10", "messageExpression": "'too many: ' + string(self.replicas)",
         "fieldPath": ".replicas", "reason": "FieldValueForbidden"},
        {"rule": "self.selector != 'no'"},
    ]}));
    let at = |replicas: i64, selector: &str| json!({"spec": {"replicas": replicas, "selector": selector}});
    assert_eq!(lines(&schema.validate(&at(1, "a"), None)), [""; 0]);
    let broken =
        ["spec.replicas: Forbidden: too many: 11", "spec: Invalid value: failed rule: self.selector != 'no'"];
    assert_eq!(lines(&schema.validate(&at(11, "no"), None)), broken);
    assert_eq!(lines(&schema.validate(&at(11, "no"), Some(&at(11, "no")))), [""; 0]);
    assert_eq!(
        lines(&schema.validate(&at(1, "b"), Some(&at(1, "a")))),
        ["spec.selector: Invalid value: field is immutable"]
    );
    let found = lines(&schema.validate(&json!({"spec": {"replicas": "x", "selector": "no"}}), None));
    assert!(found[0].starts_with("spec.replicas: Invalid value: \"string\""), "{found:?}");
    assert!(found[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"));
    assert_eq!(found.len(), 2);
}
