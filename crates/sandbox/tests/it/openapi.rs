//! The schemas of built-in kinds in `src/openapi/builtin.json` are those of k8s-openapi.

use std::path::Path;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use schemars::SchemaGenerator;

/// One definition a line, so that a change can be read.
fn generated() -> String {
    let mut generator = SchemaGenerator::default();
    generator.subschema_for::<ObjectMeta>();
    generator.subschema_for::<ListMeta>();
    generator.subschema_for::<core::Namespace>();
    generator.subschema_for::<core::Node>();
    generator.subschema_for::<core::Pod>();
    generator.subschema_for::<core::PodTemplate>();
    generator.subschema_for::<core::Event>();
    generator.subschema_for::<core::ConfigMap>();
    generator.subschema_for::<core::Secret>();
    generator.subschema_for::<core::ServiceAccount>();
    generator.subschema_for::<core::ResourceQuota>();
    generator.subschema_for::<core::Service>();
    generator.subschema_for::<Deployment>();
    generator.subschema_for::<ReplicaSet>();
    generator.subschema_for::<Event>();
    generator.subschema_for::<Lease>();
    generator.subschema_for::<PodDisruptionBudget>();
    generator.subschema_for::<CustomResourceDefinition>();
    let definitions = generator.take_definitions(true);
    let lines: Vec<String> = definitions
        .iter()
        .map(|(name, schema)| format!("{}: {schema}", serde_json::Value::from(name.as_str())))
        .collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

#[test]
fn the_schemas_of_built_in_kinds_are_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/openapi/builtin.json");
    let generated = generated();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &generated).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == generated, "{} is outdated: run the test with UPDATE_OPENAPI=1", file.display());
}
