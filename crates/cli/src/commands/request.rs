//! Requests to the controller: a field of the status that a client writes and the controller removes once it
//! has answered.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::api::Patch;
use ordereddeployment_api::{Hold, OrderedDeployment, OrderedDeploymentStatus};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::client::explain::explain;
use crate::exit::TimedOut;
use crate::terminal::escape::print_stderr;
use crate::view::phase::pause_point;

pub(crate) struct StatusRequest<'a> {
    connection: &'a Connection,
    name: &'a str,
    /// The start of error messages: `cannot resume web in shop`.
    doing: String,
}

impl<'a> StatusRequest<'a> {
    pub(crate) fn new(connection: &'a Connection, name: &'a str, verb: &str) -> Self {
        Self { connection, name, doing: format!("cannot {verb} {name} in {}", connection.namespace) }
    }

    /// Reads the object. With the revision that a page has shown, an error if the rollout is to another one
    /// by now: the user has not seen that one.
    pub(crate) async fn read(&self, seen: Option<i64>) -> Result<OrderedDeployment> {
        let found = self.connection.deployments().get_status(self.name).await;
        let found = found.map_err(|error| explain(error, &self.doing))?;
        let rollout = found.status.as_ref().and_then(|status| status.rollout.as_ref());
        let revision = rollout.map_or(0, |rollout| rollout.revision);
        match seen {
            Some(seen) if seen != revision => bail!(
                "{}: the page has shown the rollout to revision {seen}, and it is to revision {revision} by \
                 now: nothing was requested\nhint: check the rollout, and try again",
                self.name
            ),
            _ => Ok(found),
        }
    }

    /// Writes this field of the status, and waits until the controller has removed it. `what` is what it
    /// requests, such as `resume of canary@4`. Returns the text to print: what `result` makes of the status
    /// then and of `spec.paused`. It does not wait after a dry run, which requests nothing, and without a
    /// limit.
    pub(crate) async fn send(
        &self,
        what: &str,
        (field, value): (&str, Value),
        limit: Option<Duration>,
        result: impl FnOnce(&OrderedDeploymentStatus, bool) -> Result<String>,
    ) -> Result<String> {
        let Self { connection, name, doing } = self;
        let (dry_run, flags) = (connection.dry_run, &connection.flags);
        if dry_run.sends() {
            let patch = Patch::Merge(json!({"status": {field: value}}));
            let patched = connection.deployments().patch_status(name, &dry_run.patch_params(), &patch).await;
            patched.map_err(|error| explain(error, doing))?;
        }
        if dry_run.is_dry() {
            return Ok(format!("{name}: {what} would be requested{}", dry_run.note()));
        }
        let Some(limit) = limit else {
            return Ok(format!(
                "{name}: {what} requested\n`kubectl ordered get {name}{flags}` shows whether the controller \
                 has handled it"
            ));
        };
        let is_answered = |found: &OrderedDeployment| json!(found.status)[field].is_null();
        let found =
            tokio::time::timeout(limit, connection.until(name, is_answered)).await.map_err(|_| {
                TimedOut(format!(
                    "{name}: timed out waiting for the controller to handle the {what} ({} s)\nhint: is \
                 ordered-controller-manager running? The request stays and is handled once it is.",
                    limit.as_secs()
                ))
            })??;
        result(&found.status.unwrap_or_default(), found.spec.paused)
    }
}

/// The next command: it passes this pause point, unsets `spec.paused`, or shows the rollout.
pub(crate) fn next_command((name, flags): (&str, &str), hold: Option<&Hold>, paused: bool) -> String {
    match hold {
        Some(hold) => format!("pass it with `kubectl ordered resume {name} {}{flags}`", hold.label()),
        None if paused => format!("continue with `kubectl ordered unpause {name}{flags}`"),
        None => format!("watch it with `kubectl ordered get {name} -w{flags}`"),
    }
}

/// Shows the pause point that a resume without a name passes, and asks whether to pass it.
pub(crate) async fn confirm(name: &str, hold: &Hold, pods: &str, flags: &str, yes: bool) -> Result<()> {
    let shown = format!("{name} is paused at {} since {}: {pods}", pause_point(hold), hold.since.0);
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!(
            "{shown}\nhint: name the pause point that you mean: `kubectl ordered resume {name} {}{flags}`",
            hold.label()
        );
    }
    print_stderr(format_args!("{shown}\n"));
    if yes {
        return Ok(());
    }
    print_stderr(format_args!("Pass it? [y/N] "));
    let mut answer = String::new();
    let read = tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut answer).map(|_| answer));
    let answer = read.await?.context("cannot read the answer")?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}
