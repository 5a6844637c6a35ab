//! Names from the cluster and the kubeconfig. Read-only; errors give no candidates.

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::core::ObjectList;
use kube::{Api, ResourceExt};
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus};
use ordereddeployment_wire::{Family, PodView};

use crate::client::reader::revisions;
use crate::client::{ConnectArgs, Connection};
use crate::view::phase::blocked;

/// Names that come from the cluster or the kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Deployments,
    /// Deployments, and OrderedDeployments for `--back`.
    Adoptable,
    Pods,
    Containers,
    Holds,
    Revisions,
    Namespaces,
    Contexts,
    Clusters,
    Users,
}

/// The names; `named` is the OrderedDeployment on the command line.
pub(super) async fn candidates(
    connect: &ConnectArgs,
    named: Option<&str>,
    resource: Resource,
) -> Result<Vec<String>> {
    if !matches!(resource, Resource::Contexts | Resource::Clusters | Resource::Users) {
        return of(&connect.connect().await?, named, resource).await;
    }
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
        Resource::Namespaces => Ok(names(&Api::<Namespace>::all(client.clone()).list(&all).await?).collect()),
        Resource::Deployments => Ok(names(&deployments.list(&all).await?).collect()),
        Resource::Adoptable => {
            let found = Api::<Deployment>::namespaced(client.clone(), namespace).list(&all).await?;
            let ours = deployments.list(&all).await?;
            Ok(names(&found).chain(names(&ours)).collect())
        }
        Resource::Pods => {
            let found = Api::<PodView>::namespaced(client.clone(), namespace).list(&all).await?;
            let ours = found.iter().filter(|pod| Family::Ordered.set_of(&pod.metadata).is_some());
            Ok(ours.map(ResourceExt::name_any).collect())
        }
        Resource::Contexts | Resource::Clusters | Resource::Users => Ok(Vec::new()),
        Resource::Containers | Resource::Holds | Resource::Revisions => {
            let Some(name) = named else { return Ok(Vec::new()) };
            let found = deployments.get(name).await?;
            if resource == Resource::Holds {
                return Ok(found.status.as_ref().map(holds).unwrap_or_default());
            }
            if resource == Resource::Revisions {
                let found = revisions(connection, &found).await?;
                return Ok(found.iter().map(|revision| revision.number.to_string()).collect());
            }
            let spec = &found.spec.template.value()["spec"];
            let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
            let containers = lists.flatten().filter_map(|container| container["name"].as_str());
            Ok(containers.map(|name| format!("{name}=")).collect())
        }
    }
}

fn names<K: kube::Resource + Clone>(found: &ObjectList<K>) -> impl Iterator<Item = String> {
    found.iter().map(ResourceExt::name_any)
}

/// The ids that a resume can name now: the hold, or the pause point at which the rollout is blocked.
pub(super) fn holds(status: &OrderedDeploymentStatus) -> Vec<String> {
    let hold = status.hold.as_ref().map(|hold| hold.id.clone());
    hold.or_else(|| blocked(status).map(|(blocked, _)| blocked.id.clone())).into_iter().collect()
}
