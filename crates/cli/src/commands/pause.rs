//! `pause` and `unpause`: write `spec.paused`, as in a Deployment, and do not wait.

use anyhow::Result;
use kube::api::Patch;
use serde_json::json;

use crate::client::explain::explain;
use crate::client::{ConnectArgs, Connection, Target};
use crate::commands::request::next_command;
use crate::terminal::escape::print_line;
use crate::view::phase::pause_point;

/// Pause an OrderedDeployment (spec.paused): no pod is replaced until `unpause`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered pause web      pause the rollout
  kubectl ordered unpause web    continue it

Lost pods are replaced and scaling continues, as in a paused Deployment. This is not a pause point: `kubectl \
ordered mark POD --pause before` pauses a rollout at a given pod. `resume` passes a pause point and does not \
change spec.paused.")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    target: Target,
}

/// Unset spec.paused; a rollout that is paused at a pause point stays paused there
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered unpause web    continue after `kubectl ordered pause web`

For a Deployment, `kubectl rollout resume` does this. `kubectl ordered resume` is for pause points only, so \
that passing a pause point does not undo the pause of another user.")]
pub(crate) struct UnpauseArgs {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: PauseArgs, connect: ConnectArgs) -> Result<()> {
    Ok(print_line(set(&connect.connect().await?.with(args.target.dry_run), &args.target.name, true).await?)?)
}

pub(crate) async fn run_unpause(args: UnpauseArgs, connect: ConnectArgs) -> Result<()> {
    Ok(print_line(set(&connect.connect().await?.with(args.target.dry_run), &args.target.name, false).await?)?)
}

/// Writes the field. Returns the result and the next command.
pub(crate) async fn set(connection: &Connection, name: &str, paused: bool) -> Result<String> {
    let api = connection.deployments();
    let what = if paused { "pause" } else { "unpause" };
    let doing = format!("cannot {what} {name} in {}", connection.namespace);
    let found = api.get(name).await.map_err(|error| explain(error, &doing))?;
    let flags = &connection.flags;
    let changed = found.spec.paused != paused;
    let dry_run = connection.dry_run;
    if changed && dry_run.sends() {
        let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
        let written = api.patch(name, &dry_run.patch_params(), &patch).await;
        written.map_err(|error| explain(error, &doing))?;
    }
    if changed && dry_run.is_dry() {
        return Ok(format!("{name}: spec.paused would be {paused}{}", dry_run.note()));
    }
    let hold = found.status.and_then(|status| status.hold);
    let next = next_command((name, flags), hold.as_ref().filter(|_| !paused), paused);
    Ok(match (paused, changed, hold) {
        (true, true, _) => format!("{name}: paused (spec.paused)\n{next}"),
        (true, false, _) => format!("{name}: already paused (spec.paused)\n{next}"),
        (false, _, Some(hold)) => {
            let how = if changed { "no longer" } else { "not" };
            format!("{name}: {how} paused by spec.paused, but paused at {}\n{next}", pause_point(&hold))
        }
        (false, true, None) => format!("{name}: unpaused\n{next}"),
        (false, false, None) => {
            format!("{name}: not paused\n`kubectl ordered get {name}{flags}` shows its state")
        }
    })
}

#[cfg(test)]
mod tests;
