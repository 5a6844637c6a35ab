//! `resume deployment/NAME`: ends the pause of a plain Deployment at a pause point, by clearing
//! `spec.paused`.
//!
//! The write names the pause point: if the Deployment is paused at another one by then, nothing is written.

use anyhow::{Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{Hold, OrderedDeploymentStatus};
use serde_json::json;

use crate::client::Connection;
use crate::client::explain::explain;
use crate::commands::request::confirm;

/// The pause point that this Deployment is paused at, and the annotation that says so.
fn hold(deployment: &Deployment) -> Option<(Hold, String)> {
    let stored = deployment.annotations().get(annotation::ROLLOUT_STATE)?;
    let status: OrderedDeploymentStatus = serde_json::from_str(stored).ok()?;
    Some((status.hold?, stored.clone()))
}

/// Passes the pause point at which it is paused: that of this name or id, or after a confirmation.
pub(super) async fn resume(
    connection: &Connection,
    name: &str,
    point: Option<&str>,
    all: bool,
    yes: bool,
) -> Result<String> {
    let Connection { client, namespace, flags, dry_run, .. } = connection;
    let doing = format!("cannot resume deployment/{name} in {namespace}");
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = api.get(name).await.map_err(|error| explain(error, &doing))?;
    let is_paused = found.spec.as_ref().is_some_and(|spec| spec.paused == Some(true));
    let Some((hold, stored)) = hold(&found).filter(|_| is_paused) else {
        let hint = if is_paused {
            format!(
                ", but by spec.paused\nhint: continue with `kubectl rollout resume deployment/{name}{flags}`"
            )
        } else {
            String::new()
        };
        bail!("deployment/{name} is not paused at a pause point{hint}");
    };
    if all {
        bail!(
            "deployment/{name} is paused at {}: a plain Deployment passes one pause point at a time\nhint: \
             remove the others with `kubectl annotate pod NAME {}-`, and resume without --all",
            hold.id,
            annotation::PAUSE_POINT,
        );
    }
    match point {
        Some(point) if point == hold.id || point == hold.label() => {}
        Some(point) => {
            bail!("deployment/{name} is paused at {}, not at {point}: nothing was changed", hold.id)
        }
        None => {
            let updated = found.status.as_ref().and_then(|status| status.updated_replicas).unwrap_or(0);
            let pods = format!("{updated} pods are of the new template");
            confirm(&format!("deployment/{name}"), &hold, &pods, flags, yes).await?;
        }
    }
    if dry_run.sends() {
        let pointer = annotation::ROLLOUT_STATE.replace('/', "~1");
        let patch = json!([
            {"op": "test", "path": format!("/metadata/annotations/{pointer}"), "value": stored},
            {"op": "test", "path": "/spec/paused", "value": true},
            {"op": "replace", "path": "/spec/paused", "value": false},
        ]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch)?);
        match api.patch(name, &dry_run.patch_params(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 422 => bail!(
                "deployment/{name} has changed meanwhile: nothing was changed\nhint: check the rollout, and \
                 try again"
            ),
            answer => _ = answer.map_err(|error| explain(error, &doing))?,
        }
    }
    let (id, note) = (&hold.id, dry_run.note());
    Ok(if dry_run.is_dry() {
        format!("deployment/{name}: {id} would be passed{note}")
    } else {
        format!(
            "deployment/{name}: {id} is passed\n`kubectl rollout status deployment/{name}{flags}` follows \
             the rollout"
        )
    })
}
