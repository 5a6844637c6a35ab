//! `pause` and `unpause`: `spec.paused`, as in a Deployment. One field is written, and nothing is waited for.

use anyhow::Result;
use kube::Api;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::OrderedDeployment;
use serde_json::json;

use crate::client::{ConnectArgs, Connection, object_name};
use crate::escape::print;
use crate::exit::Exit;
use crate::explain::explain;

/// Pause an OrderedDeployment as a whole (spec.paused): no pod is replaced until `unpause`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered pause web      stop where it is, wherever that is
  kubectl ordered unpause web    go on

Lost pods come back and scaling goes on, as in a paused Deployment. This is no pause point: `kubectl ordered mark POD \
--pause before` halts a rollout at one given pod. `resume` passes such a point, and never lifts this pause.")]
pub(crate) struct PauseArgs {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Lift the pause of `pause` (spec.paused); a pause point that holds the rollout goes on holding it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered unpause web    go on after `kubectl ordered pause web`

A Deployment's `kubectl rollout resume` does this. Here `kubectl ordered resume` is for pause points alone, so that nobody \
who passes a point lifts by accident the pause that somebody else has put on the whole.")]
pub(crate) struct UnpauseArgs {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: PauseArgs) -> Result<Exit> {
    say(&set(&args.connect.connect().await?, &args.name, true).await?)
}

pub(crate) async fn run_unpause(args: UnpauseArgs) -> Result<Exit> {
    say(&set(&args.connect.connect().await?, &args.name, false).await?)
}

fn say(told: &str) -> Result<Exit> {
    print(format_args!("{told}\n"))?;
    Ok(Exit::Done)
}

/// Writes the field. What came of it, and what to do next.
pub(crate) async fn set(connection: &Connection, name: &str, paused: bool) -> Result<String> {
    let api: Api<OrderedDeployment> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let what = if paused { "pause" } else { "unpause" };
    let doing = format!("cannot {what} {name} in {}", connection.namespace);
    let found = api.get(name).await.map_err(|error| explain(error, &doing))?;
    let flags = &connection.flags;
    let changed = found.spec.paused != paused;
    if changed {
        let patch = Patch::Merge(json!({"spec": {"paused": paused}}));
        let written = api.patch(name, &PatchParams::default(), &patch).await;
        written.map_err(|error| explain(error, &doing))?;
    }
    let hold = found.status.and_then(|status| status.hold);
    Ok(match (paused, changed, hold) {
        (true, true, _) => {
            format!("{name}: paused as a whole\ngo on with `kubectl ordered unpause {name}{flags}`")
        }
        (true, false, _) => {
            format!("{name}: paused as a whole already\ngo on with `kubectl ordered unpause {name}{flags}`")
        }
        (false, _, Some(hold)) => {
            let how = if changed { "no longer paused" } else { "not paused" };
            format!(
                "{name}: {how} as a whole, but held at {}\n`kubectl ordered resume {name}{flags}` passes that point",
                hold.id
            )
        }
        (false, true, None) => {
            format!("{name}: goes on\nwatch it with `kubectl ordered get {name} -w{flags}`")
        }
        (false, false, None) => {
            format!("{name}: not paused\n`kubectl ordered get {name}{flags}` shows where it stands")
        }
    })
}

#[cfg(test)]
#[path = "pause/tests.rs"]
mod tests;
