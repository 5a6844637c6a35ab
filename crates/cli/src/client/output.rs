//! `-o`: objects as the API server returns them, for programs. Only `managedFields` is removed, as kubectl
//! does.

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use ordereddeployment_api::OrderedDeployment;
use serde_json::{Value, json};

use crate::client::explain::explain;

/// What `-o name` prints before the name of an OrderedDeployment.
pub(crate) const OBJECTS: &str = "ordereddeployment.ordereddeployment.io";

/// The output formats. The variants have no doc comments, because clap would print them in every help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    // All columns.
    Wide,
    // The objects, as the API server returns them.
    Json,
    Yaml,
    Name,
}

pub(crate) fn for_programs(output: Option<Output>) -> Option<Output> {
    output.filter(|output| *output != Output::Wide)
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// An untyped API, which keeps fields unknown to this program.
pub(crate) fn raw(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<OrderedDeployment>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Reads the object of that name, or all that a selector selects as a `List`.
pub(crate) async fn read(
    api: &Api<DynamicObject>,
    name: Option<&str>,
    selector: Option<&str>,
) -> Result<Value> {
    if let Some(name) = name {
        let found = api.get(name).await.map_err(|error| explain(error, &format!("cannot read {name}")))?;
        return object(found);
    }
    let found = api.list(&selected(selector)).await;
    let found = found.map_err(|error| explain(error, "cannot list the OrderedDeployments"))?;
    let items: Result<Vec<Value>> = found.items.into_iter().map(object).collect();
    Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items?}))
}

pub(crate) fn selected(selector: Option<&str>) -> ListParams {
    ListParams { label_selector: selector.map(str::to_owned), ..ListParams::default() }
}

/// An object with its kind, which items of lists lack, and without `managedFields`.
fn object(object: DynamicObject) -> Result<Value> {
    let resource = ApiResource::erase::<OrderedDeployment>(&());
    let mut value = serde_json::to_value(object)?;
    value["apiVersion"] = resource.api_version.into();
    value["kind"] = resource.kind.into();
    value.get_mut("metadata").and_then(Value::as_object_mut).map(|metadata| metadata.remove("managedFields"));
    Ok(value)
}

/// The text of an object or a list. Every line ends with a line break.
pub(crate) fn text(value: &Value, output: Output) -> Result<String> {
    let alone = std::slice::from_ref(value);
    let objects = value["items"].as_array().map_or(alone, Vec::as_slice);
    let names =
        objects.iter().map(|one| one.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default());
    data(value, output, (OBJECTS, names))
}

/// A value as JSON or YAML, or the names of its objects as `kubectl get -o name` prints them.
pub(crate) fn data<'a>(
    value: &Value,
    output: Output,
    (resource, names): (&str, impl IntoIterator<Item = &'a str>),
) -> Result<String> {
    match output {
        Output::Json => Ok(format!("{}\n", serde_json::to_string_pretty(value)?)),
        Output::Yaml => yaml(value),
        Output::Name | Output::Wide => {
            Ok(names.into_iter().flat_map(|name| [resource, "/", name, "\n"]).collect())
        }
    }
}

pub(crate) fn yaml(value: &Value) -> Result<String> {
    let text = serde_saphyr::to_string(value).map_err(|error| anyhow!("cannot write YAML: {error}"))?;
    Ok(if text.ends_with('\n') { text } else { format!("{text}\n") })
}
