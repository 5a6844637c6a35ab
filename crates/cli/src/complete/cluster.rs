//! What a cluster and a kubeconfig know of names. It reads, and gives up quietly.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_wire::PodView;

use super::words::{Thing, deployment};
use crate::client::{ConnectArgs, Connection};
use crate::revisions;

pub(super) async fn candidates(connect: ConnectArgs, words: &[String], what: Thing) -> Result<Vec<String>> {
    if matches!(what, Thing::Contexts | Thing::Clusters | Thing::Users) {
        return kubeconfig(&connect, what);
    }
    let connection = connect.connect().await?;
    let named = deployment(&crate::command(), words);
    of(&connection, named.as_deref(), what).await
}

fn kubeconfig(connect: &ConnectArgs, what: Thing) -> Result<Vec<String>> {
    let found = match &connect.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)?,
        None => Kubeconfig::read()?,
    };
    Ok(match what {
        Thing::Contexts => found.contexts.into_iter().map(|named| named.name).collect(),
        Thing::Clusters => found.clusters.into_iter().map(|named| named.name).collect(),
        _ => found.auth_infos.into_iter().map(|named| named.name).collect(),
    })
}

/// The names on the cluster; `named` is the OrderedDeployment that the line speaks of.
pub(super) async fn of(connection: &Connection, named: Option<&str>, what: Thing) -> Result<Vec<String>> {
    let Connection { client, namespace, .. } = connection;
    let all = ListParams::default();
    let deployments: Api<OrderedDeployment> = Api::namespaced(client.clone(), namespace);
    match what {
        Thing::Namespaces => {
            let found = Api::<Namespace>::all(client.clone()).list(&all).await?;
            Ok(found.iter().map(ResourceExt::name_any).collect())
        }
        Thing::Deployments => Ok(deployments.list(&all).await?.iter().map(ResourceExt::name_any).collect()),
        // Forth and back.
        Thing::Adoptable => {
            let found = Api::<Deployment>::namespaced(client.clone(), namespace).list(&all).await?;
            let ours = deployments.list(&all).await?;
            Ok(found
                .iter()
                .map(ResourceExt::name_any)
                .chain(ours.iter().map(ResourceExt::name_any))
                .collect())
        }
        Thing::Pods => {
            let found = Api::<PodView>::namespaced(client.clone(), namespace).list(&all).await?;
            Ok(found.iter().filter(|pod| pod.set_uid().is_some()).map(ResourceExt::name_any).collect())
        }
        Thing::Contexts | Thing::Clusters | Thing::Users => Ok(Vec::new()),
        Thing::Containers | Thing::Holds | Thing::Revisions => {
            let Some(name) = named else { return Ok(Vec::new()) };
            let found = deployments.get(name).await?;
            if what == Thing::Holds {
                return Ok(found
                    .status
                    .and_then(|status| status.hold)
                    .map(|hold| hold.id)
                    .into_iter()
                    .collect());
            }
            if what == Thing::Revisions {
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
