//! The object as it is to be: what `kubectl apply` would make of a manifest, another image, another number of pods. Pure.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use kube::ResourceExt;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentSpec, validate};
use serde_json::{Map, Value, json};

use crate::client::quoted;

/// Where `kubectl apply` keeps what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KIND: &str = "OrderedDeployment";

/// What is to be changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) manifest: Option<Value>,
    pub(super) replicas: Option<i32>,
    pub(super) images: Vec<Image>,
}

/// A container's new image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    container: String,
    image: String,
}

/// `container=image`, as `kubectl set image` takes it.
pub(super) fn image(text: &str) -> Result<Image, String> {
    match text.split_once('=') {
        Some((container, image)) if !container.is_empty() && !image.is_empty() => {
            Ok(Image { container: container.to_owned(), image: image.to_owned() })
        }
        _ => Err("give a container and its image, such as web=nginx:1.29".to_owned()),
    }
}

/// The OrderedDeployment of a manifest, in YAML or JSON.
pub(super) fn manifest(text: &str) -> Result<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, crate::convert::as_kubectl())
        .map_err(|error| {
            // The parser draws a picture of the place below its message.
            anyhow!("it is not valid YAML: {}", error.to_string().lines().next().unwrap_or_default())
        })?;
    let kinds: Vec<&str> = documents.iter().filter_map(|object| object["kind"].as_str()).collect();
    let mut found = documents.iter().filter(|object| object["kind"] == KIND);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => bail!("there are several OrderedDeployments in it: plan one at a time"),
        (None, _) if kinds.contains(&"Deployment") => bail!(
            "there is a Deployment in it, but no OrderedDeployment\nhint: `kubectl ordered convert -f FILE` makes one of it"
        ),
        (None, _) => bail!("there is no OrderedDeployment in it"),
    }
}

impl Change {
    /// The namespace asked for, else the one that the manifest names; they must not differ, as for kubectl.
    pub(super) fn namespace(&self, asked: Option<String>) -> Result<Option<String>> {
        let manifest = self.manifest.as_ref();
        let named = match manifest.and_then(|manifest| manifest.pointer("/metadata/namespace")) {
            None | Some(Value::Null) => None,
            Some(Value::String(namespace)) => Some(namespace.clone()),
            Some(_) => bail!("metadata.namespace of the manifest is no text"),
        };
        match (asked, named) {
            (Some(asked), Some(named)) if asked != named => {
                bail!(
                    "the manifest is of the namespace {named}, not of {asked}\nhint: without -n its own is taken"
                )
            }
            (asked, named) => Ok(asked.or(named)),
        }
    }

    /// The name asked for, which must be the manifest's.
    pub(super) fn name(&self, asked: Option<&str>) -> Result<String> {
        let manifest = self.manifest.as_ref();
        let named = manifest.and_then(|manifest| manifest.pointer("/metadata/name")).and_then(Value::as_str);
        match (asked, named) {
            (Some(asked), Some(named)) if asked != named => {
                bail!("the manifest is of {named}, not of {asked}\nhint: with -f the name may be left out")
            }
            (Some(name), _) | (None, Some(name)) => Ok(name.to_owned()),
            (None, None) => bail!("the manifest has no metadata.name"),
        }
    }

    /// What is to be said of a manifest whose object is not there yet.
    pub(super) fn told_as_new(&self, name: &str, namespace: &str) -> Result<String> {
        let spec = self.manifest.as_ref().map(|manifest| manifest["spec"].clone()).unwrap_or_default();
        let spec: OrderedDeploymentSpec =
            serde_json::from_value(spec).context("the API server would refuse this: spec")?;
        refuse_invalid(&spec)?;
        let count = self.replicas.unwrap_or(spec.replicas);
        Ok(format!(
            "{name} is not there yet in {namespace}: `kubectl apply -f` would create it with {count} pods, and delete none"
        ))
    }

    /// The command that makes this change, where there is a single one.
    pub(super) fn command(&self, name: &str, file: Option<&Path>, flags: &str) -> Option<String> {
        match (file, self.replicas, self.images.as_slice()) {
            (Some(file), None, []) if file.as_os_str() != "-" => {
                Some(format!("kubectl apply -f {}{flags}", quoted(&file.display().to_string())))
            }
            (None, Some(count), []) => Some(format!("kubectl scale od {name} --replicas={count}{flags}")),
            (None, None, images @ [_, ..]) => {
                let images: Vec<String> =
                    images.iter().map(|one| quoted(&format!("{}={}", one.container, one.image))).collect();
                Some(format!("kubectl ordered set image {name} {}{flags}", images.join(" ")))
            }
            _ => None,
        }
    }

    /// The object with the change, its generation counted up where the spec differs.
    pub(super) fn apply(&self, present: &OrderedDeployment) -> Result<OrderedDeployment> {
        let mut spec = serde_json::to_value(&present.spec).context("cannot read the present spec")?;
        if let Some(manifest) = &self.manifest {
            let applied = present.annotations().get(LAST_APPLIED);
            let applied: Value = applied.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            spec = merged(&applied["spec"], &manifest["spec"], &spec);
        }
        if let Some(replicas) = self.replicas {
            spec["replicas"] = json!(replicas);
        }
        for image in &self.images {
            image.set(&mut spec["template"]["spec"])?;
        }
        let mut deployment = present.clone();
        deployment.spec = serde_json::from_value(spec).context("the API server would refuse this: spec")?;
        if deployment.spec.selector != present.spec.selector {
            bail!(
                "the API server would refuse this: spec.selector is immutable\nhint: another selector needs an OrderedDeployment of another name"
            );
        }
        if deployment.spec != present.spec {
            deployment.metadata.generation = present.metadata.generation.map(|count| count + 1);
        }
        Ok(deployment)
    }
}

/// What the API server would say of it.
pub(super) fn refuse_invalid(spec: &OrderedDeploymentSpec) -> Result<()> {
    let violations = validate(spec);
    if violations.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
    bail!("the API server would refuse this: {}", all.join("; "))
}

impl Image {
    fn set(&self, pod: &mut Value) -> Result<()> {
        let mut known = Vec::new();
        let mut found = false;
        for list in ["initContainers", "containers"] {
            for container in pod[list].as_array_mut().into_iter().flatten() {
                let name = container["name"].as_str().unwrap_or_default().to_owned();
                if self.container == name || self.container == "*" {
                    container["image"] = json!(self.image);
                    found = true;
                }
                known.push(name);
            }
        }
        if !found {
            bail!("the template has no container {:?}\nhint: it has {}", self.container, known.join(", "));
        }
        Ok(())
    }
}

/// What `kubectl apply` makes of a custom resource: fields of the manifest, without those that it applied before and that
/// the manifest has no more, over what is there. Lists are taken whole.
fn merged(applied: &Value, manifest: &Value, present: &Value) -> Value {
    let Value::Object(wanted) = manifest else {
        return if manifest.is_null() { present.clone() } else { manifest.clone() };
    };
    let mut merged = present.as_object().cloned().unwrap_or_default();
    for (key, value) in wanted {
        if value.is_null() {
            merged.remove(key);
            continue;
        }
        let there = merged.get(key).cloned().unwrap_or_default();
        let value = if value.is_object() {
            let there = if there.is_object() { there } else { Value::Object(Map::new()) };
            self::merged(&applied[key.as_str()], value, &there)
        } else {
            value.clone()
        };
        merged.insert(key.clone(), value);
    }
    for key in applied.as_object().into_iter().flat_map(Map::keys).filter(|key| !wanted.contains_key(*key)) {
        merged.remove(key);
    }
    Value::Object(merged)
}
