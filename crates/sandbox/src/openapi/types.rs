//! Schemas of the `OpenAPI` documents.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        coordination::v1::Lease,
        core::v1::{
            ConfigMap, Event as CoreEvent, Namespace, Node, Pod, PodTemplate, ResourceQuota, Secret, Service,
            ServiceAccount,
        },
        events::v1::Event,
        policy::v1::PodDisruptionBudget,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta},
};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{
    patch::ROWS,
    resource::{Origin, ResourceInfo},
};

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
    if info.origin == Origin::Builtin
        && let Some((name, _)) = builtin(info)
    {
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
    let mut generator = SchemaGenerator::default();
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<ListMeta>();
    for (_, generate) in infos.iter().filter_map(|info| builtin(info)) {
        generate(&mut generator);
    }
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    for info in infos {
        let own = name(info);
        if builtin(info).is_none() {
            let schema = info.schema.as_ref().map_or_else(|| json!({"type": "object"}), |s| s.raw().clone());
            schemas.insert(own.clone(), schema);
        }
        put_gvk(&mut schemas, &own, info, &info.kind);
        schemas.insert(list_name(info), list_schema(&own, &info.list_kind));
        put_gvk(&mut schemas, &list_name(info), info, &info.list_kind);
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

type Generate = fn(&mut SchemaGenerator);

/// The schema name of a built-in kind, and the function that generates the schema.
fn builtin(info: &ResourceInfo) -> Option<(String, Generate)> {
    fn generate<T: JsonSchema>(generator: &mut SchemaGenerator) {
        generator.subschema_for::<T>();
    }
    fn take<T: JsonSchema>() -> (String, Generate) {
        (T::schema_name().into_owned(), generate::<T>)
    }
    if info.origin == Origin::Crd {
        return None;
    }
    Some(match (info.group.as_str(), info.kind.as_str()) {
        ("", "Namespace") => take::<Namespace>(),
        ("", "Node") => take::<Node>(),
        ("", "Pod") => take::<Pod>(),
        ("", "PodTemplate") => take::<PodTemplate>(),
        ("", "Event") => take::<CoreEvent>(),
        ("", "ConfigMap") => take::<ConfigMap>(),
        ("", "Secret") => take::<Secret>(),
        ("", "ServiceAccount") => take::<ServiceAccount>(),
        ("", "ResourceQuota") => take::<ResourceQuota>(),
        ("", "Service") => take::<Service>(),
        ("apps", "Deployment") => take::<Deployment>(),
        ("apps", "ReplicaSet") => take::<ReplicaSet>(),
        ("events.k8s.io", "Event") => take::<Event>(),
        ("coordination.k8s.io", "Lease") => take::<Lease>(),
        ("policy", "PodDisruptionBudget") => take::<PodDisruptionBudget>(),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => take::<CustomResourceDefinition>(),
        _ => return None,
    })
}

fn put_gvk(schemas: &mut Map<String, Value>, name: &str, info: &ResourceInfo, kind: &str) {
    let Some(schema) = schemas.get_mut(name) else { return };
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": info.group, "version": info.version, "kind": kind}]);
    let meta = if kind == info.kind { ObjectMeta::schema_name() } else { ListMeta::schema_name() };
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
        json!({"$ref": format!("#/$defs/{meta}"), "description": "Standard object's metadata."});
}

fn list_schema(own: &str, kind: &str) -> Value {
    json!({"type": "object", "description": format!("{kind} is a list of objects."), "required": ["items"],
        "properties": {"items": {"type": "array", "items": {"$ref": format!("#/$defs/{own}")}}}})
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
        let target = dialect.reference(reference.trim_start_matches("#/$defs/"));
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
