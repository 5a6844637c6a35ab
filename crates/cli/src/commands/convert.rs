//! `convert`: converts manifests between Deployment and OrderedDeployment, and from Rollout to
//! OrderedDeployment. It reads files and sends no request.

mod rollout;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use ordereddeployment_api::names::{GROUP, VERSION};
use serde_json::{Map, Value};

use crate::client::explain::first_line;
use crate::client::output::yaml;
use crate::input;
use crate::terminal::escape::{escaped, print_data, print_stderr};

/// Convert manifests of Deployments and Argo Rollouts to OrderedDeployments, or back to Deployments
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered convert -f deployment.yaml | kubectl apply -f -
  helm template my-chart | kubectl ordered convert -f - > ordered.yaml
  kubectl ordered convert -f rollout.yaml > ordered.yaml
  kubectl ordered convert -f ordered.yaml --to deployment

It converts all documents of a file. Other kinds stay unchanged, except for autoscalers \
(HorizontalPodAutoscaler, VerticalPodAutoscaler, ScaledObject) that target a converted object; notes on \
standard error list them. Comments are kept if only apiVersion and kind change.
Of a Rollout (argoproj.io), each pause after a setWeight of its canary becomes a declared pause point: \
`setWeight: 25` and `pause: {duration: 10m}` become `afterUpdated: 25%` for 10m. A weight is a share of the \
pods, not of the traffic. Notes name everything else that is not converted.
It converts manifests only: if the Deployment still runs, the applied object creates its own pods beside it. \
`kubectl ordered adopt` takes over running pods.")]
pub(crate) struct Args {
    /// A manifest; `-` is standard input; can be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The kind to convert to
    #[arg(long, value_name = "KIND", default_value = "ordereddeployment")]
    to: To,
}

pub(crate) fn run(Args { files, to }: Args) -> Result<()> {
    let texts: Vec<String> = files.iter().map(|path| input::read(path)).collect::<Result<_>>()?;
    let converted = convert(&texts.join("\n---\n"), to)?;
    for note in &converted.notes {
        print_stderr(format_args!("note: {}", escaped(note)));
    }
    Ok(print_data(&converted.text)?)
}

/// The kind to convert to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum To {
    #[value(alias = "od")]
    Ordereddeployment,
    #[value(alias = "deploy")]
    Deployment,
}

#[derive(Debug)]
pub(crate) struct Converted {
    pub(crate) text: String,
    /// Notes for the user, one line each.
    pub(crate) notes: Vec<String>,
}

/// Metadata that the API server sets. Manifests do not have it.
const FILLED_IN: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"];
const FILLED_IN_ANNOTATIONS: [&str; 2] =
    ["deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"];
/// Fields that a Deployment does not have.
const OUR_FIELDS: [&str; 4] =
    ["deletionOrder", "podDeletion", "podReplacementPolicy", "progressDeadlineAction"];
/// Defaults of the CRD that are the behaviour of a Deployment.
const OUR_DEFAULTS: [(&str, &str); 3] = [
    ("podDeletion", "Delete"),
    ("podReplacementPolicy", "TerminationStarted"),
    ("progressDeadlineAction", "Continue"),
];

impl To {
    pub(crate) fn is(self) -> (String, &'static str) {
        match self {
            Self::Ordereddeployment => (format!("{GROUP}/{VERSION}"), "OrderedDeployment"),
            Self::Deployment => ("apps/v1".to_owned(), "Deployment"),
        }
    }

    /// The kind to convert from.
    pub(crate) fn from(self) -> Self {
        match self {
            Self::Ordereddeployment => Self::Deployment,
            Self::Deployment => Self::Ordereddeployment,
        }
    }

    /// Whether the object has the kind to convert from.
    fn takes(self, object: &Value) -> bool {
        let (version, kind) = self.from().is();
        let is_rollout = self == Self::Ordereddeployment && rollout::is_rollout(object);
        is_rollout || (object["apiVersion"] == version.as_str() && object["kind"] == kind)
    }
}

/// Converts all documents. Other kinds stay as they are, except for references to converted objects.
pub(crate) fn convert(text: &str, to: To) -> Result<Converted> {
    let documents = split(text);
    let mut parsed = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        parsed.push(parse(document).map_err(|error| {
            anyhow!(
                "document {}: {error}\nhint: render templates first: `helm template … | kubectl ordered \
                 convert -f -`",
                index + 1
            )
        })?);
    }
    let mut names = BTreeSet::new();
    for object in parsed.iter().flat_map(objects) {
        let is_refused = || rollout::is_rollout(object) && rollout::refusal(object).is_some();
        if to.takes(object) && !is_refused() {
            names.insert(object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    let mut notes = Vec::new();
    let mut written = Vec::new();
    for (document, mut value) in documents.iter().zip(parsed) {
        let before = value.clone();
        if value["items"].is_array() {
            for item in value["items"].as_array_mut().into_iter().flatten() {
                object(item, to, &names, &mut notes);
            }
        } else {
            object(&mut value, to, &names, &mut notes);
        }
        written.push(if value == before { (*document).to_owned() } else { text_of(document, &value, to)? });
    }
    if names.is_empty() {
        let kinds = match to {
            To::Ordereddeployment => "Deployment or Rollout",
            To::Deployment => "OrderedDeployment",
        };
        notes.push(format!("no {kinds} found; nothing was converted"));
    }
    Ok(Converted { text: join(&written), notes })
}

/// The pod template of the Deployment or OrderedDeployment of that name; an error if there is none.
pub(crate) fn template_of(text: &str, name: &str) -> Result<Value> {
    let parsed = parse_all(text)?;
    let wanted = |object: &&&Value| {
        [To::Deployment, To::Ordereddeployment].iter().any(|kind| kind.takes(object))
            && object["metadata"]["name"] == name
    };
    let found = parsed.iter().flat_map(objects).collect::<Vec<_>>();
    let template = found.iter().find(wanted).and_then(|object| object.pointer("/spec/template")).cloned();
    template.ok_or_else(|| anyhow!("the manifest has no Deployment {name}\nhint: check the file"))
}

fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            documents.push(&text[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    documents.push(&text[start..]);
    documents.retain(|document| !document.trim().is_empty());
    documents
}

fn join(documents: &[String]) -> String {
    let mut text = String::new();
    for (index, document) in documents.iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(document);
        if !document.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// The YAML options of kubectl: `defaultMode: 0440` is octal.
fn as_kubectl() -> serde_saphyr::Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

fn parse(document: &str) -> Result<Value> {
    serde_saphyr::from_str_with_options(document, as_kubectl()).map_err(|error| anyhow!(first_line(error)))
}

/// The documents of a stream in YAML or JSON.
pub(crate) fn parse_all(text: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple_with_options(text, as_kubectl()).map_err(|error| anyhow!(first_line(error)))
}

fn objects(document: &Value) -> Vec<&Value> {
    match document["items"].as_array() {
        Some(items) => items.iter().collect(),
        None => vec![document],
    }
}

/// Removes what a Deployment does not have. Returns the fields that it does not behave like.
pub(crate) fn remove_ours(spec: &mut Map<String, Value>) -> Vec<&'static str> {
    let is_default =
        |field: &str, value: &Value| OUR_DEFAULTS.iter().any(|one| one.0 == field && *value == one.1);
    let mut removed = Vec::new();
    for field in OUR_FIELDS {
        let value = spec.remove(field);
        removed.extend(value.filter(|value| !is_default(field, value)).map(|_| field));
    }
    let strategy = spec.get_mut("strategy").and_then(Value::as_object_mut);
    if strategy.is_some_and(|strategy| strategy.remove("pausePoints").is_some()) {
        removed.push("strategy.pausePoints");
    }
    removed
}

fn object(value: &mut Value, to: To, names: &BTreeSet<String>, notes: &mut Vec<String>) {
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if to.takes(value) {
        let (version, kind) = to.is();
        if to == To::Ordereddeployment && rollout::is_rollout(value) {
            if let Some(why) = rollout::refusal(value) {
                notes.push(format!("{name}: Rollout not converted: {why}"));
                return;
            }
            value["spec"] = rollout::spec(&value["spec"], &name, notes);
        }
        value["apiVersion"] = version.into();
        value["kind"] = kind.into();
        strip(value);
        if to == To::Deployment {
            let dropped = value["spec"].as_object_mut().map(remove_ours).unwrap_or_default();
            if !dropped.is_empty() {
                notes.push(format!(
                    "{name}: removed {}, which a Deployment does not have",
                    dropped.join(" and ")
                ));
            }
        }
        return;
    }
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    if kind == "Deployment" && to == To::Ordereddeployment {
        let version = value["apiVersion"].as_str().unwrap_or_default();
        notes.push(format!("{name}: Deployment of {version} not converted: only apps/v1 is supported"));
    }
    let field = match kind.as_str() {
        "HorizontalPodAutoscaler" | "ScaledObject" => "scaleTargetRef",
        "VerticalPodAutoscaler" => "targetRef",
        _ => return,
    };
    let (version, wanted) = to.is();
    let (_, from) = to.from().is();
    let target = value.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_object_mut);
    let Some(target) = target else { return };
    let points_at = target.get("name").and_then(Value::as_str).is_some_and(|name| names.contains(name));
    // The default kind of KEDA is Deployment.
    let of_kind = target.get("kind").map_or(from == "Deployment", |kind| {
        kind == from || (to == To::Ordereddeployment && kind == "Rollout")
    });
    if points_at && of_kind {
        target.insert("apiVersion".to_owned(), version.into());
        target.insert("kind".to_owned(), wanted.into());
        notes.push(format!("{kind} {name}: now targets the {wanted}"));
    }
}

/// Removes fields that the API server sets, for manifests from `kubectl get -o yaml`.
fn strip(value: &mut Value) {
    value.as_object_mut().map(|object| object.remove("status"));
    let Some(metadata) = value["metadata"].as_object_mut() else { return };
    metadata.retain(|key, _| !FILLED_IN.contains(&key.as_str()));
    let emptied = metadata.get_mut("annotations").and_then(Value::as_object_mut).is_some_and(|annotations| {
        let before = annotations.len();
        annotations.retain(|key, _| !FILLED_IN_ANNOTATIONS.contains(&key.as_str()));
        before > 0 && annotations.is_empty()
    });
    if emptied {
        metadata.remove("annotations");
    }
}

/// The text of the converted object. If only `apiVersion` and `kind` change, comments stay.
fn text_of(document: &str, value: &Value, to: To) -> Result<String> {
    let (version, kind) = to.is();
    let lines = document.split_inclusive('\n').map(|line| {
        if line.starts_with("apiVersion:") {
            format!("apiVersion: {version}\n")
        } else if line.starts_with("kind:") {
            format!("kind: {kind}\n")
        } else {
            line.to_owned()
        }
    });
    let edited: String = lines.collect();
    if parse(&edited).is_ok_and(|parsed| parsed == *value) { Ok(edited) } else { yaml(value) }
}

#[cfg(test)]
mod tests;
