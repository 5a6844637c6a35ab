//! What the user may do, as the API server says.

use futures::future::join3;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use ordereddeployment_api::names::GROUP;

use crate::client::explain::role_for;
use crate::client::permission::is_denied;

/// Why the user may not do something with an object; `None` if the user may, or if that is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// Change the spec.
    pub(super) spec: Option<String>,
    /// Request a resume, an abort or a retry.
    pub(super) status: Option<String>,
    /// Mark pods, whatever their names are.
    pub(super) pods: Option<String>,
}

impl Access {
    /// Asks the API server about the object of that name. A role can be limited to names (`resourceNames`): a review
    /// without a name asks about all objects.
    pub(super) async fn read(client: &Client, namespace: &str, name: &str) -> Self {
        let ask =
            |resource, subresource| denied(client, (namespace, Some(name)), (GROUP, resource, subresource));
        let (spec, status, pods) = join3(
            ask("ordereddeployments", ""),
            ask("ordereddeployments", "status"),
            denied(client, (namespace, None), ("", "pods", "")),
        )
        .await;
        Self { spec, status, pods }
    }
}

/// Why the user may not patch this resource.
async fn denied(
    client: &Client,
    (namespace, name): (&str, Option<&str>),
    (group, resource, subresource): (&str, &str, &str),
) -> Option<String> {
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
        verb: Some("patch".to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()),
        ..ResourceAttributes::default()
    };
    if !is_denied(client, attributes).await {
        return None;
    }
    let (what, doing) = match (resource, subresource) {
        (resource, "") => (resource.to_owned(), "cannot change "),
        (resource, subresource) => (format!("{resource}/{subresource}"), "cannot resume "),
    };
    let hint = role_for(doing, &format!("cannot patch resource \"{resource}\""));
    Some(format!("you may not patch {what} in {namespace}: {hint}"))
}
