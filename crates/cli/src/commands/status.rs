//! `status`: waits for a rollout, and tells scripts by the exit code what became of it. It reads and tells.

use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::StreamExt;
use kube::{Api, Client};
use kube_runtime::{WatchStreamExt, watcher};
use ordereddeployment_api::OrderedDeployment;

use crate::client::{ConnectArgs, Timeout, object_name, timeout};
use crate::escape::{escaped, print, tell};
use crate::exit::Exit;
use crate::explain::explain;
use crate::state::{State, side};

/// Wait for a rollout; the exit code says what became of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  what was awaited is there: complete, or with `--until held` held
  1  an error, such as no cluster or no such object
  3  held at a pause point, or paused as a whole (spec.paused); without --until only
  4  failed: the progress deadline has passed, or nothing goes on until somebody changes something
  5  timed out
  6  complete without being held; with `--until held` only

Without --until the command ends as soon as somebody is needed: complete (0), held (3) or failed (4). A hold with a \
duration ends by itself and is waited for.

Examples:
  kubectl ordered status web                               until complete, held or failed
  kubectl ordered status web --until complete              also through holds that others resume
  kubectl ordered status web --until held && ./ok && kubectl ordered resume web
  kubectl ordered status web --timeout 0.1s                only tell the present state")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    /// What to wait for
    #[arg(long, value_name = "STATE")]
    until: Option<Until>,
    /// How long to wait, such as 30s or 10m; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = timeout)]
    timeout: Timeout,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What is awaited. Comments of the variants would swell the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Until {
    Complete,
    Held,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let connection = args.connect.connect().await?;
    let api: Api<OrderedDeployment> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let doing = format!("cannot read {} in {}", args.name, connection.namespace);
    // A missing object, right or server is told at once.
    let first = api.get(&args.name).await.map_err(|error| explain(error, &doing))?;
    let mut told = Told::default();
    if let Some(exit) = told.tell(&first, args.until, &connection.flags)? {
        return Ok(exit);
    }
    let waiting = wait(&connection.watching, &connection.namespace, &args, &connection.flags, &mut told);
    let Timeout(limit) = args.timeout;
    if let Ok(done) = tokio::time::timeout(limit.unwrap_or(Duration::MAX), waiting).await {
        return done;
    }
    tell(format_args!(
        "error: {}: timed out\nhint: see `kubectl ordered get {}{}`",
        args.name, args.name, connection.flags
    ));
    Ok(Exit::TimedOut)
}

async fn wait(client: &Client, namespace: &str, args: &Args, flags: &str, told: &mut Told) -> Result<Exit> {
    let api: Api<OrderedDeployment> = Api::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={}", args.name));
    let mut changes = watcher(api, config).default_backoff().boxed();
    while let Some(change) = changes.next().await {
        let (watcher::Event::Apply(found) | watcher::Event::InitApply(found)) = (match change {
            Ok(watcher::Event::Delete(_)) => return Err(anyhow!("{} was deleted meanwhile", args.name)),
            Ok(event) => event,
            // The watch tries again by itself; the time limit is the caller's.
            Err(_) => continue,
        }) else {
            continue;
        };
        if let Some(exit) = told.tell(&found, args.until, flags)? {
            return Ok(exit);
        }
    }
    Err(anyhow!("the watch of {} ended", args.name))
}

/// What was said last: nothing is said twice.
#[derive(Debug, Default)]
struct Told {
    last: String,
}

impl Told {
    /// Says where it stands; the exit code where the wait is over.
    fn tell(&mut self, found: &OrderedDeployment, until: Option<Until>, flags: &str) -> Result<Option<Exit>> {
        let (exit, line) = judge(found, until, flags);
        if line != self.last {
            print(format_args!("{}\n", escaped(&line)))?;
            self.last = line;
        }
        Ok(exit)
    }
}

/// Whether the wait is over, and where it stands in one line.
fn judge(found: &OrderedDeployment, until: Option<Until>, flags: &str) -> (Option<Exit>, String) {
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let status = found.status.clone().unwrap_or_default();
    let revision = status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    let counts = format!(
        "{} of {} pods updated, {} available",
        status.updated_replicas.unwrap_or(0),
        found.spec.replicas,
        status.available_replicas.unwrap_or(0)
    );
    match State::of(found) {
        State::Unseen => (None, format!("{name}: waiting for the controller to see this spec")),
        State::Rolling => (None, format!("{name}: rolling out revision {revision}: {counts}")),
        State::Moving(moving) => {
            let (word, command) = (moving.words(), moving.command(name, flags));
            (None, format!("{name}: {word}: {}; finish it with `{command}`", moving.message))
        }
        State::Failed(why) => (Some(Exit::Failed), format!("{name}: failed: {why}")),
        State::Complete => {
            let exit = if until == Some(Until::Held) { Exit::NotHeld } else { Exit::Done };
            (Some(exit), format!("{name}: complete at revision {revision}"))
        }
        State::Paused => {
            let exit = (until.is_none()).then_some(Exit::Held);
            let line = format!(
                "{name}: paused as a whole: {counts}; go on with `kubectl ordered unpause {name}{flags}`"
            );
            (exit, line)
        }
        State::Held(hold) => {
            let exit = match until {
                Some(Until::Held) => Some(Exit::Done),
                Some(Until::Complete) => None,
                None => hold.until.is_none().then_some(Exit::Held),
            };
            let end = hold.until.as_ref().map(|until| format!(", until {}", until.0)).unwrap_or_default();
            let line = format!(
                "{name}: held {} {}{end}: {counts}; go on with `kubectl ordered resume {name}{flags}`",
                side(hold.point),
                hold.pod
            );
            (exit, line)
        }
    }
}

#[cfg(test)]
#[path = "status/tests.rs"]
mod tests;
