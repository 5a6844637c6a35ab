//! The object after a change: an applied manifest, new images, another number of replicas. Pure functions.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kube::ResourceExt;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentSpec, validate};
use serde_json::{Value, json};

use crate::client::quoted;
use crate::commands::convert::parse_all;
use crate::commands::set::replace_images;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KIND: &str = "OrderedDeployment";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SpecChange {
    pub(super) manifest: Option<Value>,
    pub(super) replicas: Option<i32>,
    pub(super) images: Vec<(String, String)>,
}

/// The OrderedDeployment of a manifest, in YAML or JSON.
pub(super) fn manifest(text: &str) -> Result<Value> {
    let documents = parse_all(text).context("invalid YAML")?;
    let kinds: Vec<&str> = documents.iter().filter_map(|object| object["kind"].as_str()).collect();
    let mut found = documents.iter().filter(|object| object["kind"] == KIND);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => bail!("the manifest has several OrderedDeployments: plan one at a time"),
        (None, _) if kinds.contains(&"Deployment") => bail!(
            "the manifest has a Deployment, but no OrderedDeployment\nhint: convert it with `kubectl ordered \
             convert -f FILE`"
        ),
        (None, _) => bail!("the manifest has no OrderedDeployment"),
    }
}

impl SpecChange {
    /// The namespace of the flag, otherwise that of the manifest. As in kubectl, they must not differ.
    pub(super) fn namespace(&self, requested: Option<String>) -> Result<Option<String>> {
        let manifest = self.manifest.as_ref();
        let named = match manifest.and_then(|manifest| manifest.pointer("/metadata/namespace")) {
            None | Some(Value::Null) => None,
            Some(Value::String(namespace)) => Some(namespace.clone()),
            Some(_) => bail!("metadata.namespace of the manifest is not a string"),
        };
        match (requested, named) {
            (Some(requested), Some(named)) if requested != named => {
                bail!(
                    "the manifest has namespace {named}, not {requested}\nhint: omit -n to use the namespace \
                     of the manifest"
                )
            }
            (requested, named) => Ok(requested.or(named)),
        }
    }

    /// The requested name, which must be that of the manifest.
    pub(super) fn name(&self, requested: Option<&str>) -> Result<String> {
        let manifest = self.manifest.as_ref();
        let named = manifest.and_then(|manifest| manifest.pointer("/metadata/name")).and_then(Value::as_str);
        match (requested, named) {
            (Some(requested), Some(named)) if requested != named => {
                bail!("the manifest has name {named}, not {requested}\nhint: the name is optional with -f")
            }
            (Some(name), _) | (None, Some(name)) => Ok(name.to_owned()),
            (None, None) => bail!("the manifest has no metadata.name"),
        }
    }

    pub(super) fn describe_creation(&self, name: &str, namespace: &str) -> Result<String> {
        let spec = self.manifest.as_ref().map(|manifest| manifest["spec"].clone()).unwrap_or_default();
        let spec: OrderedDeploymentSpec =
            serde_json::from_value(spec).context("the API server would reject this: spec")?;
        refuse_invalid(&spec)?;
        let count = self.replicas.unwrap_or(spec.replicas);
        Ok(format!(
            "{name} does not exist in {namespace}: `kubectl apply -f` would create it with {count} pods and \
             delete none"
        ))
    }

    /// The command for this change, if there is a single one.
    pub(super) fn command(&self, name: &str, file: Option<&Path>, flags: &str) -> Option<String> {
        match (file, self.replicas, self.images.as_slice()) {
            (Some(file), None, []) if file.as_os_str() != "-" => {
                Some(format!("kubectl apply -f {}{flags}", quoted(&file.display().to_string())))
            }
            (None, Some(count), []) => Some(format!("kubectl scale od {name} --replicas={count}{flags}")),
            (None, None, images @ [_, ..]) => {
                let images: Vec<String> =
                    images.iter().map(|(container, image)| quoted(&format!("{container}={image}"))).collect();
                Some(format!("kubectl ordered set image {name} {}{flags}", images.join(" ")))
            }
            _ => None,
        }
    }

    /// The object with the change. The generation is incremented if the spec differs.
    pub(super) fn apply(&self, current: &OrderedDeployment) -> Result<OrderedDeployment> {
        let mut spec = serde_json::to_value(&current.spec).context("cannot read the current spec")?;
        if let Some(manifest) = &self.manifest {
            let applied = current.annotations().get(LAST_APPLIED);
            let applied: Value = applied.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            if let Some(manifest) = manifest.get("spec") {
                merge(&applied["spec"], manifest, &mut spec);
            }
        }
        if let Some(replicas) = self.replicas {
            spec["replicas"] = json!(replicas);
        }
        replace_images(&mut spec["template"], &self.images, "the template")?;
        let mut deployment = current.clone();
        deployment.spec = serde_json::from_value(spec).context("the API server would reject this: spec")?;
        if deployment.spec.selector != current.spec.selector {
            bail!(
                "the API server would reject this: spec.selector is immutable\nhint: create an \
                 OrderedDeployment with another name for another selector"
            );
        }
        if deployment.spec != current.spec {
            deployment.metadata.generation = current.metadata.generation.map(|count| count + 1);
        }
        Ok(deployment)
    }
}

/// An error if the API server would reject the spec.
pub(super) fn refuse_invalid(spec: &OrderedDeploymentSpec) -> Result<()> {
    let violations = validate(spec);
    if violations.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
    bail!("the API server would reject this: {}", all.join("; "))
}

/// The three-way merge of `kubectl apply` for custom resources: fields of the manifest override current ones,
/// and fields that were applied before and are no longer in the manifest are removed. Lists are replaced.
fn merge(applied: &Value, manifest: &Value, current: &mut Value) {
    remove_dropped(applied, manifest, current);
    json_patch::merge(current, manifest);
}

fn remove_dropped(applied: &Value, manifest: &Value, current: &mut Value) {
    for (key, applied) in applied.as_object().into_iter().flatten() {
        match (manifest.get(key), current.get_mut(key)) {
            (None, _) => _ = current.as_object_mut().and_then(|current| current.remove(key)),
            (Some(manifest), Some(current)) => remove_dropped(applied, manifest, current),
            (Some(_), None) => {}
        }
    }
}
