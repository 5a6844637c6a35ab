//! The `OpenAPI` v2 document as `openapi.v2.Document`: the parts that kubectl reads.

use serde_json::{Map, Value};

use super::wire::Writer;

/// Encodes a JSON document.
pub(crate) fn document(json: &Value) -> Vec<u8> {
    let mut info = Writer::default();
    text(&mut info, 1, &json["info"]["title"]);
    text(&mut info, 2, &json["info"]["version"]);
    let mut paths = Writer::default();
    for (path, item) in json["paths"].as_object().into_iter().flatten() {
        paths.message(2, &named(path, &path_item(item)));
    }
    let mut definitions = Writer::default();
    for (name, definition) in json["definitions"].as_object().into_iter().flatten() {
        definitions.message(1, &named(name, &schema(definition)));
    }
    let mut document = Writer::default();
    text(&mut document, 1, &json["swagger"]);
    document.message(2, &info);
    document.message(8, &paths);
    document.message(9, &definitions);
    document.finish()
}

fn named(name: &str, value: &Writer) -> Writer {
    let mut pair = Writer::default();
    pair.bytes(1, name.as_bytes());
    pair.message(2, value);
    pair
}

fn text(writer: &mut Writer, field: u64, value: &Value) {
    if let Some(text) = value.as_str() {
        writer.bytes(field, text.as_bytes());
    }
}

fn texts(writer: &mut Writer, field: u64, value: &Value) {
    for item in value.as_array().into_iter().flatten() {
        text(writer, field, item);
    }
}

fn path_item(item: &Value) -> Writer {
    let mut writer = Writer::default();
    for (field, verb) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if item[verb].is_object() {
            writer.message(field, &operation(&item[verb]));
        }
    }
    writer
}

fn operation(operation: &Value) -> Writer {
    let mut writer = Writer::default();
    texts(&mut writer, 6, &operation["produces"]);
    texts(&mut writer, 7, &operation["consumes"]);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // Clients of this format do not read body and path parameters.
        if parameter["in"] == "query" {
            let mut query = Writer::default();
            text(&mut query, 2, &parameter["in"]);
            text(&mut query, 4, &parameter["name"]);
            text(&mut query, 6, &parameter["type"]);
            writer.message(8, &inside(1, &inside(2, &inside(3, &query))));
        }
    }
    extensions(&mut writer, 13, operation);
    writer
}

fn inside(field: u64, message: &Writer) -> Writer {
    let mut outer = Writer::default();
    outer.message(field, message);
    outer
}

fn schema(schema: &Value) -> Writer {
    let mut writer = Writer::default();
    text(&mut writer, 1, &schema["$ref"]);
    text(&mut writer, 2, &schema["format"]);
    text(&mut writer, 4, &schema["description"]);
    texts(&mut writer, 19, &schema["required"]);
    match &schema["additionalProperties"] {
        Value::Bool(any) => writer.message(21, &truth(2, *any)),
        Value::Null => {}
        inner => writer.message(21, &inside(1, &self::schema(inner))),
    }
    if let Some(kind) = schema["type"].as_str() {
        let mut kinds = Writer::default();
        kinds.bytes(1, kind.as_bytes());
        writer.message(22, &kinds);
    }
    if schema["items"].is_object() {
        writer.message(23, &inside(1, &self::schema(&schema["items"])));
    }
    if let Some(properties) = schema["properties"].as_object() {
        let mut all = Writer::default();
        for (name, property) in properties {
            all.message(1, &named(name, &self::schema(property)));
        }
        writer.message(25, &all);
    }
    extensions(&mut writer, 31, schema);
    writer
}

fn truth(field: u64, value: bool) -> Writer {
    let mut writer = Writer::default();
    writer.number(field, u64::from(value));
    writer
}

/// Extensions are YAML; JSON is valid YAML.
fn extensions(writer: &mut Writer, field: u64, of: &Value) {
    let none = Map::new();
    for (name, value) in of.as_object().unwrap_or(&none) {
        // Validation rules may be long, and clients of this format do not read them.
        if name.starts_with("x-") && name != "x-kubernetes-validations" {
            let mut any = Writer::default();
            any.bytes(2, value.to_string().as_bytes());
            writer.message(field, &named(name, &any));
        }
    }
}
