//! Compares a template with those of the sets by dry runs, as the controller does, but as the user. Two
//! templates are equal if the API server stores them equally. Nothing is stored.

use anyhow::Result;
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use kube::{ResourceExt, core::Status};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_planner::{Answer, Comparison, ComparisonResult, Snapshot, to_compare};
use ordereddeployment_wire::{Family, new_pod, strict_create};
use serde_json::Value;

use crate::client::explain::explain;

/// The result of the comparison. If dry runs are not possible, `notes` gets the reason.
pub(crate) async fn compare(
    client: &Client,
    snapshot: &Snapshot,
    notes: &mut Vec<String>,
) -> Result<ComparisonResult> {
    let sets = to_compare(snapshot);
    if sets.is_empty() {
        return Ok(ComparisonResult::Not);
    }
    let namespace = snapshot.deployment.namespace().unwrap_or_default();
    let mut comparison = Comparison::of(snapshot, &sets);
    while let Some(object) = comparison.question() {
        match dry_run(client, &namespace, &object).await {
            Ok(taken) => comparison.answered(&Answer::Taken(taken)),
            Err(kube::Error::Api(status)) if is_not_supported(&status) => {
                notes.push(format!(
                    "templates are compared as written, so one with explicit defaults can look like a new \
                     one: {}",
                    status.message
                ));
                return Ok(ComparisonResult::New);
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                comparison.answered(&Answer::Refused);
            }
            Err(error) => return Err(explain(error, "cannot compare the template with those of the sets")),
        }
    }
    let verdict = comparison.verdict();
    if verdict == ComparisonResult::New {
        try_pod(client, &snapshot.deployment, notes).await?;
    }
    Ok(verdict)
}

fn is_not_supported(status: &Status) -> bool {
    status.code == 403 || status.message.contains("does not support dry run")
}

async fn dry_run(client: &Client, namespace: &str, object: &Value) -> kube::Result<Value> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: true, field_manager: None };
    let url = format!("/api/v1/namespaces/{namespace}/podtemplates");
    client.request(Request::new(url).create(&params, body).map_err(kube::Error::BuildRequest)?).await
}

/// Whether the API server accepts a pod of a new template. If it does not, `notes` gets the reason.
async fn try_pod(client: &Client, deployment: &OrderedDeployment, notes: &mut Vec<String>) -> Result<()> {
    let (name, namespace) = (deployment.name_any(), deployment.namespace().unwrap_or_default());
    // The set does not exist yet, and an owner reference without a UID is refused.
    let uid = deployment.uid().unwrap_or_default();
    let pod = new_pod(Family::Ordered, &name, &uid, &deployment.spec.template, &name, &namespace);
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let request = strict_create(&path, &pod, true).map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(_) => {}
        // Who may not create pods cannot ask.
        Err(kube::Error::Api(status)) if status.message.contains("cannot create resource") => {}
        Err(kube::Error::Api(status)) => {
            notes.push(format!("a dry run of a pod of this template fails: {}", status.message));
        }
        Err(error) => return Err(explain(error, "cannot try a pod of the template")),
    }
    Ok(())
}
