//! Requests to the controller: a field of the status that a client writes and the controller removes once it has answered.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::Api;
use kube::api::Patch;
use kube_runtime::wait::await_condition;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus};
use serde_json::Value;

use crate::client::Connection;
use crate::client::explain::explain;
use crate::exit::ExitError;

/// A request about an object.
#[derive(Clone, Copy)]
pub(crate) struct StatusRequest<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) name: &'a str,
    /// The start of error messages: `cannot resume web in shop`.
    pub(crate) doing: &'a str,
}

impl StatusRequest<'_> {
    /// Reads the object.
    pub(crate) async fn read(&self) -> Result<OrderedDeployment> {
        let found = self.api(&self.connection.client).get_status(self.name).await;
        found.map_err(|error| explain(error, self.doing))
    }

    /// Reads the object. With the revision that a page has shown, an error if the rollout is to another one by now: the user has
    /// not seen that one.
    pub(crate) async fn read_seen(&self, seen: Option<i64>) -> Result<OrderedDeployment> {
        let found = self.read().await?;
        let rollout = found.status.as_ref().and_then(|status| status.rollout.as_ref());
        refuse_another(self.name, rollout.map_or(0, |rollout| rollout.revision), seen)?;
        Ok(found)
    }

    /// Writes these fields of the status. `what` is what they request. After a dry run, returns the text to print: the controller
    /// gets no request then.
    pub(crate) async fn write(&self, what: &str, status: Value) -> Result<Option<String>> {
        let dry_run = self.connection.dry_run;
        if dry_run.sends() {
            let patch = Patch::Merge(serde_json::json!({"status": status}));
            let api = self.api(&self.connection.client);
            let patched = api.patch_status(self.name, &dry_run.patch_params(), &patch).await;
            patched.map_err(|error| explain(error, self.doing))?;
        }
        let (name, note) = (self.name, dry_run.note());
        Ok(dry_run.is_dry().then(|| format!("{name}: {what} would be requested{note}")))
    }

    /// Waits until the controller has answered, and returns the object then. `what` is what was requested, such as `the resume
    /// of canary@4`.
    pub(crate) async fn answered(
        &self,
        limit: Duration,
        what: &str,
        is_pending: impl Fn(&OrderedDeploymentStatus) -> bool,
    ) -> Result<OrderedDeployment> {
        let Self { connection, name, doing } = *self;
        let is_answered =
            |found: &OrderedDeployment| found.status.as_ref().is_none_or(|status| !is_pending(status));
        let answered =
            await_condition(self.api(&connection.watching), name, |found: Option<&OrderedDeployment>| {
                found.is_none_or(is_answered)
            });
        let found = tokio::time::timeout(limit, answered).await.map_err(|_| {
            ExitError::timed_out(format!(
                "{name}: timed out waiting for the controller to handle {what} ({} s)\nhint: is ordered-controller-manager running? The request stays and is handled once it is.",
                limit.as_secs()
            ))
        })?;
        let found = found.map_err(|error| anyhow!("{doing}: the watch failed: {error}"))?;
        found.ok_or_else(|| anyhow!("{name} was deleted"))
    }

    /// The text if the command does not wait.
    pub(crate) fn requested(&self, what: &str) -> String {
        let (name, flags) = (self.name, &self.connection.flags);
        format!(
            "{name}: {what} requested\n`kubectl ordered get {name}{flags}` shows whether the controller has handled it"
        )
    }

    fn api(&self, client: &kube::Client) -> Api<OrderedDeployment> {
        Api::namespaced(client.clone(), &self.connection.namespace)
    }
}

/// An error if a page has shown another revision than the current one.
fn refuse_another(name: &str, revision: i64, seen: Option<i64>) -> Result<()> {
    match seen {
        Some(seen) if seen != revision => bail!(
            "{name}: the page has shown the rollout to revision {seen}, and it is to revision {revision} by now: nothing was requested\nhint: check the rollout, and try again"
        ),
        _ => Ok(()),
    }
}
