//! `version`: prints the versions of this program, the controller and the CRDs, and how they differ.
//! Read-only.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::crds;
use serde_json::{Value, json};

use crate::client::explain::{explained, first_line};
use crate::client::{ConnectArgs, Connection};
use crate::terminal::escape::{escaped, print, print_line, print_stderr};

/// The version of this program, and of the CRDs that it knows.
const OWN: &str = env!("CARGO_PKG_VERSION");
const CONTROLLER: &str = "app.kubernetes.io/name=ordered-deployment";
const VERSION: &str = "app.kubernetes.io/version";

/// Print the versions of this program, the controller and the CRDs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered version
  kubectl ordered version --client

The version of the controller is a label of the chart's Deployment. The fields of the CRDs are compared: the \
API server drops fields that its CRDs lack.")]
pub(crate) struct Args {
    /// Print the version of this program only
    #[arg(long)]
    client: bool,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    print(format_args!("kubectl-ordered {OWN}\n"))?;
    if args.client {
        return Ok(());
    }
    let connection = match connect.connect().await {
        Ok(connection) => connection,
        Err(error) => {
            // The version of this program is known without a cluster.
            let why = first_line(format_args!("{error:#}"));
            print_stderr(format_args!("note: the versions in the cluster are not known: {}", escaped(&why)));
            return Ok(());
        }
    };
    Ok(print_line(in_cluster(&connection).await)?)
}

pub(crate) async fn in_cluster(connection: &Connection) -> String {
    let controller = controller(&connection.client).await;
    let mut lines = vec![format!("controller: {controller}")];
    for own in crds() {
        let name = own.name_any();
        let found = Api::<CustomResourceDefinition>::all(connection.client.clone()).get_opt(&name).await;
        lines.push(format!("CRD {name}: {}", compared(&own, found)));
    }
    lines.join("\n")
}

async fn controller(client: &Client) -> String {
    let all: Api<Deployment> = Api::all(client.clone());
    match all.list(&ListParams::default().labels(CONTROLLER)).await {
        Ok(found) => controllers(&found.items),
        Err(error) => format!("not known: {}", why(&error)),
    }
}

fn controllers(found: &[Deployment]) -> String {
    let lines: Vec<String> = found
        .iter()
        .map(|deployment| {
            let version = deployment.labels().get(VERSION).map_or("of an unknown version", String::as_str);
            let place = format!("{}/{}", deployment.namespace().unwrap_or_default(), deployment.name_any());
            let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            let skew = if version == OWN { "" } else { ", another version than this program" };
            format!("{} (deployment {}, {ready} ready{skew})", escaped(version), escaped(&place))
        })
        .collect();
    if lines.is_empty() {
        return format!("no Deployment with the label {CONTROLLER}: not installed, or not by the chart");
    }
    lines.join("; ")
}

fn compared(own: &CustomResourceDefinition, found: kube::Result<Option<CustomResourceDefinition>>) -> String {
    match found {
        Ok(Some(found)) => {
            let (mut lacks, own) = (Vec::new(), schema(own));
            missing(&own, &schema(&found), "", &mut lacks);
            if lacks.is_empty() {
                return "has every field that this program knows".to_owned();
            }
            format!("lacks fields that this program knows, update the CRDs: {}", lacks.join(", "))
        }
        Ok(None) => "not installed".to_owned(),
        Err(error) => format!("not known: {}", why(&error)),
    }
}

fn why(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => escaped(&status.message).into_owned(),
        error => first_line(explained(error, None)),
    }
}

fn schema(crd: &CustomResourceDefinition) -> Value {
    let stored = crd.spec.versions.iter().find(|version| version.storage);
    json!(stored.and_then(|version| version.schema.as_ref()))["openAPIV3Schema"].take()
}

/// Collects the outermost fields that the schema found lacks.
fn missing(own: &Value, found: &Value, path: &str, all: &mut Vec<String>) {
    for (name, field) in own["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match found["properties"].get(name) {
            Some(found) => missing(field, found, &path, all),
            None => all.push(path),
        }
    }
    for (key, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
        if own[key].is_object() {
            missing(&own[key], &found[key], &format!("{path}{suffix}"), all);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use ordereddeployment_api::crds;
    use serde_json::json;

    use super::{OWN, compared, controllers, in_cluster};
    use crate::testing::fixture::Fixture;

    #[test]
    fn a_crd_without_newer_fields_is_named_with_the_outermost_of_them() {
        let own = crds().into_iter().next().unwrap();
        assert_eq!(compared(&own, Ok(Some(own.clone()))), "has every field that this program knows");
        let mut old = serde_json::to_value(&own).unwrap();
        let strategy =
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/strategy/properties";
        old.pointer_mut(strategy).unwrap().as_object_mut().unwrap().remove("pausePoints");
        let old = serde_json::from_value(old).unwrap();
        let said = compared(&own, Ok(Some(old)));
        assert_eq!(said, "lacks fields that this program knows, update the CRDs: spec.strategy.pausePoints");
        assert_eq!(compared(&own, Ok(None)), "not installed");
    }

    #[test]
    fn the_version_of_the_controller_is_that_of_the_charts_deployment() {
        let deployment = |version: &str| -> Deployment {
            serde_json::from_value(json!({
                "metadata": {"name": "ordered", "namespace": "system",
                "labels": {"app.kubernetes.io/version": version}},
                "status": {"readyReplicas": 2},
            }))
            .unwrap()
        };
        assert_eq!(controllers(&[deployment(OWN)]), format!("{OWN} (deployment system/ordered, 2 ready)"));
        let skew = controllers(&[deployment("0.0.1")]);
        assert_eq!(skew, "0.0.1 (deployment system/ordered, 2 ready, another version than this program)");
        assert!(controllers(&[]).contains("not installed, or not by the chart"));
    }

    #[tokio::test]
    async fn it_reads_the_crds_of_the_cluster() {
        let fixture = Fixture::start().await;
        let lines = in_cluster(&fixture.connection).await;
        assert!(lines.contains("CRD ordereddeployments.ordereddeployment.io: has every field"), "{lines}");
        assert!(lines.starts_with("controller: no Deployment with the label"), "{lines}");
    }
}
