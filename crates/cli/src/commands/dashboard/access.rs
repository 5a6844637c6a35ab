//! What the user may do, as the API server says.

use futures::future::join3;
use kube::Client;
use ordereddeployment_api::names::GROUP;

use crate::client::explain::role_for;
use crate::client::permission::{Permission, is_denied};

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
    /// Asks the API server about the object of that name. A role can be limited to names (`resourceNames`): a
    /// review without a name asks about all objects.
    pub(super) async fn read(client: &Client, namespace: &str, name: &str) -> Self {
        let object = (namespace, Some(name));
        let (spec, status, pods) = join3(
            denied(client, object, (GROUP, "ordereddeployments", "patch")),
            denied(client, object, (GROUP, "ordereddeployments/status", "patch")),
            denied(client, (namespace, None), ("", "pods", "patch")),
        )
        .await;
        Self { spec, status, pods }
    }
}

/// Why the user may not patch this resource.
async fn denied(client: &Client, scope: (&str, Option<&str>), permission: Permission) -> Option<String> {
    if !is_denied(client, scope, permission).await {
        return None;
    }
    let (namespace, (_, what, _)) = (scope.0, permission);
    let (resource, doing) = match what.split_once('/') {
        None => (what, "cannot change "),
        Some((resource, _)) => (resource, "cannot resume "),
    };
    let hint = role_for(doing, &format!("cannot patch resource \"{resource}\""));
    Some(format!("you may not patch {what} in {namespace}: {hint}"))
}
