use serde_json::{Value, json};

use super::*;

fn schema(spec: &Value) -> CrdSchema {
    CrdSchema::compile(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn lines(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(Cause::line).collect()
}

fn errors(node: &Value, value: &Value) -> String {
    let schema = schema(&json!({"type": "object", "properties": {"x": node}}));
    lines(&schema.validate(&json!({"spec": {"x": value}}), None)).join("; ")
}

#[test]
fn invalid_values_have_the_messages_of_the_api_server() {
    let array = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}});
    for (node, value, wanted) in [
        (
            json!({"type": "integer"}),
            json!("a"),
            r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer", "minimum": 0}),
            json!(-1),
            "spec.x: Invalid value: -1: spec.x in body should be greater than or equal to 0",
        ),
        (
            json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
            json!(1),
            "spec.x: Invalid value: 1: spec.x in body should be less than 1",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#,
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A"),
            r#"spec.x: Invalid value: "A": spec.x in body should match '^[a-z]+$'"#,
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            r#"spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "maxLength": 1}),
            json!("ab"),
            "spec.x: Too long: may not be more than 1 bytes",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"spec.x: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("now"),
            r#"spec.x: Invalid value: "now": spec.x in body must be of type date-time: "now""#,
        ),
        (array.clone(), json!([]), "spec.x: Invalid value: 0: spec.x in body should have at least 1 items"),
        (array, json!(["a", "b", "c"]), "spec.x: Too many: 3: must have at most 2 items"),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "a"]),
            r#"spec.x[1]: Duplicate value: "a""#,
        ),
        (
            json!({"type": "object", "required": ["y"], "properties": {"y": {"type": "string"}}}),
            json!({}),
            "spec.x.y: Required value",
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!(true),
            "spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer,string: \"boolean\"; \
             <nil>: Invalid value: \"\": \"spec.x\" must validate at least one schema (anyOf); \
             spec.x: Invalid value: \"boolean\": spec.x in body must be of type integer: \"boolean\"",
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 1}]}),
            json!(3),
            "<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). Found none valid; \
             spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5",
        ),
        (
            json!({"type": "integer", "not": {"minimum": 5}}),
            json!(7),
            r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            r#"spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer""#,
        ),
    ] {
        assert_eq!(errors(&node, &value), wanted, "{node}");
    }
}

#[test]
fn valid_values_pass() {
    for (node, value) in [
        (json!({"type": "integer", "nullable": true}), Value::Null),
        (json!({"type": "integer", "format": "int32"}), json!(2_147_483_647)),
        (json!({"type": "number"}), json!(1)),
        (json!({"x-kubernetes-int-or-string": true}), json!("25%")),
        (json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}), json!(7)),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({"a": {"b": 1}})),
    ] {
        assert_eq!(errors(&node, &value), "", "{node}");
    }
}

#[test]
fn pruning_drops_unknown_fields_and_returns_their_paths() {
    let schema = schema(&json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"strict": {"type": "object"}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"extra": {"type": "string"}}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }}));
    let mut object = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "junk": 1, "spec": {
        "known": "k", "unknown": 1, "list": [{"a": "1", "b": "2"}], "map": {"any": "key"},
        "raw": {"anything": {"goes": 1}, "strict": {"gone": 1}},
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}}});
    let gone = schema.prune(&mut object);
    assert_eq!(gone, ["junk", "spec.list[0].b", "spec.pod.spec", "spec.raw.strict.gone", "spec.unknown"]);
    assert_eq!(
        object,
        json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": {
            "known": "k", "list": [{"a": "1"}], "map": {"any": "key"},
            "raw": {"anything": {"goes": 1}, "strict": {}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}}})
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
fn rules_read_old_and_new_values_and_report_messages() {
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
    assert_eq!(
        lines(&schema.validate(&at(11, "no"), None)),
        ["spec.replicas: Forbidden: too many: 11", "spec: Invalid value: failed rule: self.selector != 'no'"]
    );
    assert_eq!(
        lines(&schema.validate(&at(1, "b"), Some(&at(1, "a")))),
        [r#"spec.selector: Invalid value: "b": field is immutable"#]
    );
}

#[test]
fn rules_are_not_evaluated_on_values_of_wrong_types() {
    let schema =
        schema(&json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 0"}]}));
    let found = lines(&schema.validate(&json!({"spec": {}}), None));
    assert_eq!(found[0], "spec.a: Required value");
    assert!(found[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"));
    assert_eq!(found.len(), 2);
}

#[test]
fn unchanged_invalid_values_are_valid_in_an_update() {
    let schema = schema(&json!({"type": "object", "properties": {
        "bad": {"type": "integer", "minimum": 5}, "other": {"type": "integer"}}}));
    let old = json!({"spec": {"bad": 1, "other": 1}});
    assert_eq!(lines(&schema.validate(&json!({"spec": {"bad": 1, "other": 2}}), Some(&old))), [""; 0]);
    assert_eq!(schema.validate(&json!({"spec": {"bad": 2, "other": 1}}), Some(&old)).len(), 1);
}

#[test]
fn items_of_a_map_list_correlate_by_key_for_transition_rules() {
    let schema = schema(&json!({"type": "object", "properties": {"ports": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"},
            "port": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}}}}}));
    let old = json!({"spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 9}]}});
    let swapped = json!({"spec": {"ports": [{"name": "b", "port": 9}, {"name": "a", "port": 1}]}});
    assert_eq!(lines(&schema.validate(&swapped, Some(&old))), [""; 0]);
    let lower = json!({"spec": {"ports": [{"name": "b", "port": 8}, {"name": "a", "port": 1}]}});
    assert_eq!(
        lines(&schema.validate(&lower, Some(&old))),
        ["spec.ports[0].port: Invalid value: 8: failed rule: self >= oldSelf"]
    );
    let twice = json!({"spec": {"ports": [{"name": "b"}, {"name": "b"}]}});
    assert_eq!(lines(&schema.validate(&twice, None))[0], r#"spec.ports[1]: Duplicate value: {"name":"b"}"#);
}

#[test]
fn schemas_that_are_not_structural_are_rejected() {
    for (schema, wanted) in [
        (json!({}), "type: Required value: must not be empty at the root"),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            "properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "properties[a].items: Required value: must be specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
            "properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "anyOf": [{"type": "integer"}]}}}),
            "properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            "properties[a].default: Invalid value: \"string\"",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {
                "labels": {"type": "object"}}}}}),
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName",
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "self. =="}]}),
            "x-kubernetes-validations[0].rule: Invalid value: \"self. ==\": compilation failed",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "properties[a].pattern: Invalid value: \"(\": must be a valid regular expression",
        ),
    ] {
        let causes = lines(&CrdSchema::compile(&schema).unwrap_err());
        assert!(causes[0].starts_with(wanted), "{causes:?} for {schema}");
    }
}
