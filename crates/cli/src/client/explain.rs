//! Adds a hint to errors of the API server. The server's own message is kept.

use anyhow::anyhow;

use crate::client::connect_error::{Explained, explained};
use crate::terminal::escape::escaped;

/// The error with a hint. `doing` is what failed, such as `cannot read web in shop`.
pub(crate) fn explain(error: kube::Error, doing: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => anyhow!(
                "{doing}: the API server rejects the credentials\nhint: log in again, or choose another \
                 --context"
            ),
            403 => {
                anyhow!("{doing}: {}\nhint: {}", escaped(&status.message), role_for(doing, &status.message))
            }
            404 if status.details.as_ref().is_none_or(|details| details.name.is_empty()) => anyhow!(
                "{doing}: this cluster has no OrderedDeployment CRD\nhint: install the controller and its \
                 CRDs with the Helm chart (docs/installation.md); `kubectl ordered crd` prints the CRDs \
                 alone, and `kubectl ordered demo` needs no cluster"
            ),
            404 => {
                let what = if doing.contains(" pod ") { "shows the pods" } else { "lists the objects" };
                anyhow!(
                    "{doing}: {}\nhint: `kubectl ordered get` {what}, -n chooses the namespace",
                    escaped(&status.message)
                )
            }
            409 => anyhow!(
                "{doing}: {}\nhint: another client changed the object at the same time; try again",
                escaped(&status.message)
            ),
            _ => anyhow!("{doing}: {}", escaped(&status.message)),
        },
        other => {
            let Explained { what, hint } = explained(&other, None);
            anyhow!("{doing}: {what}\nhint: {hint}")
        }
    }
}

/// The role that the command needs. The server's message names the verb and the resource.
pub(crate) fn role_for(doing: &str, message: &str) -> &'static str {
    let requests = ["cannot resume ", "cannot abort ", "cannot retry "];
    if requests.iter().any(|request| doing.starts_with(request)) {
        "ask for the chart's role `ordered-deployment-resumer`: `edit` and `admin` may not patch \
         ordereddeployments/status"
    } else if message.contains("at the cluster scope") && !doing.contains("nodes") {
        "ask for a ClusterRoleBinding, or choose one namespace with -n"
    } else if doing.contains("nodes") {
        "ask for a role that may list nodes: the order reads their labels and taints"
    } else if message.contains("cannot patch resource \"pods\"") {
        "ask for a role that may patch pods, such as `edit`"
    } else if message.contains("cannot patch ") {
        "ask for a role that may patch ordereddeployments: `edit` has it if the chart is installed"
    } else {
        "ask for a role that may get and list ordereddeployments, orderedreplicasets and pods: `view` has it \
         if the chart is installed"
    }
}
