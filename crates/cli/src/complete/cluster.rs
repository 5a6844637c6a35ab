//! Names from the cluster and the kubeconfig. Read-only; errors give no candidates.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_wire::PodView;

use super::arguments::{Resource, deployment};
use crate::client::{ConnectArgs, Connection};
use crate::revisions;

pub(super) async fn candidates(
    connect: ConnectArgs,
    definition: &clap::Command,
    words: &[String],
    resource: Resource,
) -> Result<Vec<String>> {
    if matches!(resource, Resource::Contexts | Resource::Clusters | Resource::Users) {
        return kubeconfig(&connect, resource);
    }
    let connection = connect.connect().await?;
    let named = deployment(definition, words);
    of(&connection, named.as_deref(), resource).await
}

fn kubeconfig(connect: &ConnectArgs, resource: Resource) -> Result<Vec<String>> {
    let found = match &connect.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)?,
        None => Kubeconfig::read()?,
    };
    Ok(match resource {
        Resource::Contexts => found.contexts.into_iter().map(|named| named.name).collect(),
        Resource::Clusters => found.clusters.into_iter().map(|named| named.name).collect(),
        _ => found.auth_infos.into_iter().map(|named| named.name).collect(),
    })
}

/// The names in the cluster; `named` is the OrderedDeployment on the command line.
pub(super) async fn of(
    connection: &Connection,
    named: Option<&str>,
    resource: Resource,
) -> Result<Vec<String>> {
    let Connection { client, namespace, .. } = connection;
    let all = ListParams::default();
    let deployments: Api<OrderedDeployment> = Api::namespaced(client.clone(), namespace);
    match resource {
        Resource::Namespaces => {
            let found = Api::<Namespace>::all(client.clone()).list(&all).await?;
            Ok(found.iter().map(ResourceExt::name_any).collect())
        }
        Resource::Deployments => {
            Ok(deployments.list(&all).await?.iter().map(ResourceExt::name_any).collect())
        }
        // Deployments, and OrderedDeployments for `--back`.
        Resource::Adoptable => {
            let found = Api::<Deployment>::namespaced(client.clone(), namespace).list(&all).await?;
            let ours = deployments.list(&all).await?;
            Ok(found
                .iter()
                .map(ResourceExt::name_any)
                .chain(ours.iter().map(ResourceExt::name_any))
                .collect())
        }
        Resource::Pods => {
            let found = Api::<PodView>::namespaced(client.clone(), namespace).list(&all).await?;
            Ok(found.iter().filter(|pod| pod.set_uid().is_some()).map(ResourceExt::name_any).collect())
        }
        Resource::Contexts | Resource::Clusters | Resource::Users => Ok(Vec::new()),
        Resource::Containers | Resource::Holds | Resource::Revisions => {
            let Some(name) = named else { return Ok(Vec::new()) };
            let found = deployments.get(name).await?;
            if resource == Resource::Holds {
                return Ok(found
                    .status
                    .and_then(|status| status.hold)
                    .map(|hold| hold.id)
                    .into_iter()
                    .collect());
            }
            if resource == Resource::Revisions {
                let found = revisions::read(connection, &found).await?;
                return Ok(found.iter().map(|revision| revision.number.to_string()).collect());
            }
            let spec = &found.spec.template.value()["spec"];
            let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
            let containers = lists.flatten().filter_map(|container| container["name"].as_str());
            Ok(containers.map(|name| format!("{name}=")).collect())
        }
    }
}
