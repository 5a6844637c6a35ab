//! Schemas of the `OpenAPI` documents.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::{
    patch::ROWS,
    resource::{Origin, ResourceInfo},
};

/// The schemas of the built-in kinds by name. A test generates the file from k8s-openapi: the program would need its schema
/// feature, which takes long to compile.
static BUILTIN: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("builtin.json")).unwrap_or_default());

/// The schema of `metadata`.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// What a reference to a schema begins with, in that file and until `translate`.
const REFERENCE: &str = "#/$defs/";

/// The two versions of `OpenAPI`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a named schema.
    pub(super) fn reference(self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.prefix())})
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// Name of the schema of a resource.
pub(super) fn name(info: &ResourceInfo) -> String {
    if let Some(name) = builtin(info) {
        return name;
    }
    let mut parts: Vec<&str> = info.group.rsplit('.').collect();
    parts.extend([info.version.as_str(), info.kind.as_str()]);
    parts.join(".")
}

/// Name of the schema of a list of the resource.
pub(super) fn list_name(info: &ResourceInfo) -> String {
    format!("{}List", name(info))
}

/// All schemas that these resources need.
pub(super) fn schemas(infos: &[&ResourceInfo], dialect: Dialect) -> Value {
    let mut schemas = Map::new();
    put_with_references(&mut schemas, OBJECT_META);
    put_with_references(&mut schemas, LIST_META);
    for info in infos {
        let (own, list) = (name(info), list_name(info));
        if builtin(info).is_some() {
            put_with_references(&mut schemas, &own);
        } else {
            let schema = info.schema.as_ref().map_or_else(|| json!({"type": "object"}), |s| s.raw().clone());
            schemas.insert(own.clone(), schema);
        }
        put_gvk(&mut schemas, &own, info, &info.kind);
        schemas.insert(list.clone(), list_schema(&own, &info.list_kind));
        put_gvk(&mut schemas, &list, info, &info.list_kind);
    }
    put_merge_keys(&mut schemas);
    for (name, schema) in &mut schemas {
        if let Some(known) = scalar(name, dialect) {
            *schema = known;
        }
        translate(schema, dialect);
    }
    Value::Object(schemas)
}

/// The schema name of a built-in kind, as in the documents of kube-apiserver; `None` for others.
fn builtin(info: &ResourceInfo) -> Option<String> {
    if info.origin == Origin::Crd {
        return None;
    }
    let package = match info.group.as_str() {
        "" => "io.k8s.api.core",
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        group => &format!("io.k8s.api.{}", group.split('.').next().unwrap_or_default()),
    };
    let name = format!("{package}.{}.{}", info.version, info.kind);
    BUILTIN.contains_key(&name).then_some(name)
}

/// Adds a schema, and the schemas that it refers to.
fn put_with_references(schemas: &mut Map<String, Value>, name: &str) {
    if schemas.contains_key(name) {
        return;
    }
    let Some(schema) = BUILTIN.get(name) else { return };
    schemas.insert(name.to_owned(), schema.clone());
    put_referenced(schemas, schema);
}

fn put_referenced(schemas: &mut Map<String, Value>, schema: &Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields.get("$ref").and_then(Value::as_str) {
                put_with_references(schemas, name.trim_start_matches(REFERENCE));
            }
            fields.values().for_each(|field| put_referenced(schemas, field));
        }
        Value::Array(items) => items.iter().for_each(|item| put_referenced(schemas, item)),
        _ => {}
    }
}

fn put_gvk(schemas: &mut Map<String, Value>, name: &str, info: &ResourceInfo, kind: &str) {
    let Some(schema) = schemas.get_mut(name) else { return };
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": info.group, "version": info.version, "kind": kind}]);
    let meta = if kind == info.kind { OBJECT_META } else { LIST_META };
    for (field, said) in [
        ("apiVersion", json!({"type": "string", "description": "The versioned schema of this object."})),
        ("kind", json!({"type": "string", "description": "The kind of this object."})),
    ] {
        if schema["properties"].get(field).is_none() {
            schema["properties"][field] = said;
        }
    }
    // A CRD contains little about metadata; the API server completes it.
    schema["properties"]["metadata"] =
        json!({"$ref": format!("{REFERENCE}{meta}"), "description": "Standard object's metadata."});
}

fn list_schema(own: &str, kind: &str) -> Value {
    json!({"type": "object", "description": format!("{kind} is a list of objects."), "required": ["items"],
        "properties": {"items": {"type": "array", "items": {"$ref": format!("{REFERENCE}{own}")}}}})
}

fn put_merge_keys(schemas: &mut Map<String, Value>) {
    for row in ROWS {
        let suffix = format!(".{}", row.type_name);
        for (_, schema) in schemas.iter_mut().filter(|(name, _)| name.ends_with(&suffix)) {
            if let Some(Value::Object(field)) =
                schema.get_mut("properties").and_then(|p| p.get_mut(row.field))
            {
                field.insert("x-kubernetes-patch-strategy".to_owned(), json!(row.strategy));
                if let Some(key) = row.key {
                    field.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
                }
            }
        }
    }
}

/// Types that are one of several scalars; the two versions express them differently.
fn scalar(name: &str, dialect: Dialect) -> Option<Value> {
    let one_of = |kinds: [&str; 2]| json!([{"type": kinds[0]}, {"type": kinds[1]}]);
    match (name.rsplit('.').next()?, dialect) {
        ("IntOrString", Dialect::V2) => Some(json!({"type": "string", "format": "int-or-string",
            "description": "An integer or a string."})),
        ("IntOrString", Dialect::V3) => Some(json!({"format": "int-or-string",
            "description": "An integer or a string.", "oneOf": one_of(["integer", "string"])})),
        ("Quantity", Dialect::V2) => Some(json!({"type": "string",
            "description": "A fixed-point number such as 500m or 2Gi."})),
        ("Quantity", Dialect::V3) => Some(json!({
            "description": "A fixed-point number such as 500m or 2Gi.", "oneOf": one_of(["string", "number"])})),
        _ => None,
    }
}

/// Converts a generated schema to the version of the document.
fn translate(schema: &mut Value, dialect: Dialect) {
    let Some(map) = schema.as_object_mut() else { return };
    map.remove("$schema");
    if dialect == Dialect::V2 {
        // `OpenAPI` v2 has none of these; the API server omits them as well.
        for key in ["oneOf", "anyOf", "allOf", "not", "nullable"] {
            map.remove(key);
        }
    }
    if let Some(Value::String(reference)) = map.remove("$ref") {
        let target = dialect.reference(reference.trim_start_matches(REFERENCE));
        // `OpenAPI` v3 ignores the siblings of a reference, so the reference goes into `allOf`.
        if dialect == Dialect::V2 || map.is_empty() {
            map.extend(target.as_object().cloned().unwrap_or_default());
        } else {
            map.insert("allOf".to_owned(), json!([target]));
        }
        return;
    }
    // Only positions of schemas: a property may have the name `not` or `$ref`.
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for property in properties.values_mut() {
                    translate(property, dialect);
                }
            }
            ("items" | "additionalProperties" | "not", inner) => translate(inner, dialect),
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                for branch in branches {
                    translate(branch, dialect);
                }
            }
            _ => {}
        }
    }
}
