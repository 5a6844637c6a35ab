//! Checks the permissions of the user before the first write, so that an adoption does not stop halfway.

use anyhow::{Result, bail};
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kube::api::PostParams;
use kube::{Api, Client};

use super::objects::Objects;
use crate::commands::convert::To;

/// API group, resource or `resource/subresource`, verb.
type Permission = (&'static str, &'static str, &'static str);

const OURS: &str = "ordereddeployment.io";
const FORWARD: &[Permission] = &[
    (OURS, "ordereddeployments", "create"),
    (OURS, "ordereddeployments", "update"),
    (OURS, "ordereddeployments", "patch"),
    (OURS, "orderedreplicasets", "create"),
    (OURS, "orderedreplicasets", "delete"),
    ("apps", "deployments", "delete"),
    ("apps", "replicasets", "delete"),
];
const BACK: &[Permission] = &[
    ("apps", "replicasets", "create"),
    ("apps", "replicasets", "patch"),
    // Needed to set blockOwnerDeletion in owner references to a ReplicaSet.
    ("apps", "replicasets/finalizers", "update"),
    ("apps", "deployments", "create"),
    ("apps", "deployments", "patch"),
    ("", "pods", "patch"),
    (OURS, "ordereddeployments", "patch"),
    (OURS, "ordereddeployments", "delete"),
    (OURS, "orderedreplicasets", "delete"),
];
const AUTOSCALER: Permission = ("autoscaling", "horizontalpodautoscalers", "patch");

/// An error that lists all missing permissions.
pub(crate) async fn check(client: &Client, namespace: &str, to: To, objects: &Objects) -> Result<()> {
    let permissions = match to {
        To::Ordereddeployment => FORWARD,
        To::Deployment => BACK,
    };
    let autoscaler = objects.autoscalers_of(to.from()).next().map(|_| AUTOSCALER);
    let reviews = permissions.iter().copied().chain(autoscaler).map(async |permission| {
        let (_, resource, verb) = permission;
        let is_denied = is_denied(client, namespace, permission).await;
        is_denied.then(|| format!("{verb} {resource}"))
    });
    let missing: Vec<String> = join_all(reviews).await.into_iter().flatten().collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "missing permissions in namespace {namespace}: {}\nhint: ask for the chart's role \
         `ordered-deployment-adopter` in addition to `edit`",
        missing.join(", ")
    )
}

/// Whether the API server denies it. Without an answer it does not: it decides when the write is sent.
async fn is_denied(client: &Client, namespace: &str, (group, resource, verb): Permission) -> bool {
    let (plural, part) = resource.split_once('/').map_or((resource, None), |(one, two)| (one, Some(two)));
    let resource_attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        subresource: part.map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let mut review = SelfSubjectAccessReview::default();
    review.spec.resource_attributes = Some(resource_attributes);
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await;
    answer.is_ok_and(|answer| answer.status.is_some_and(|status| !status.allowed))
}
