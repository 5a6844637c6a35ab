//! `resume`: asks the controller to go on. It writes one field, `status.resumeRequested`, and waits for the answer.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_runtime::wait::await_condition;
use ordereddeployment_api::names::{ALL_POINTS, condition, reason};
use ordereddeployment_api::{Blocked, ConditionStatus, Hold, OrderedDeployment, OrderedDeploymentStatus};
use ordereddeployment_wire::PodView;
use serde_json::json;

use crate::client::{ConnectArgs, Connection, Timeout, object_name, timeout};
use crate::escape::print;
use crate::exit::Ended;
use crate::explain::explain;

/// Continue a rollout that is held at a pause point
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered resume web                            pass the point at which web is held
  kubectl ordered resume web --hold web-5d9c-x7k2p@4    pass that one, and no other
  kubectl ordered resume web --all                      pass this and all later ones of this rollout

A resume names the hold it is for: if that one has ended meanwhile, nothing is resumed.
A rollout that is blocked by unavailable pods is not held: --hold with the id that it shows passes that pause point.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    /// Pass this and all later pause points of this rollout
    #[arg(long)]
    all: bool,
    /// The hold to end, as `status.hold.id` gives it, instead of whichever there is; or the pause point at which the
    /// rollout is blocked
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    hold: Option<String>,
    /// How long to wait for the controller; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// What to resume.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'a> {
    /// The present hold.
    Present,
    /// The hold of that id.
    Hold(&'a str),
    /// All points of this rollout.
    All,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let connection = args.connect.connect().await?;
    let which = match (&args.hold, args.all) {
        (_, true) => Which::All,
        (Some(id), false) => Which::Hold(id),
        (None, false) => Which::Present,
    };
    let told = resume(&connection, &args.name, which, args.timeout.0).await?;
    Ok(print(format_args!("{told}\n"))?)
}

/// Asks for the resume and waits until the controller has taken it. What happened, and what to do next.
pub(crate) async fn resume(
    connection: &Connection,
    name: &str,
    which: Which<'_>,
    limit: Option<Duration>,
) -> Result<String> {
    let Connection { client, watching, namespace, flags, .. } = connection;
    let api: Api<OrderedDeployment> = Api::namespaced(client.clone(), namespace);
    let doing = format!("cannot resume {name} in {namespace}");
    let found = api.get_status(name).await.map_err(|error| explain(error, &doing))?;
    let (paused, status) = (found.spec.paused, found.status.unwrap_or_default());
    let pod = match which {
        Which::Hold(id) if status.hold.as_ref().is_none_or(|hold| hold.id != id) => {
            let pod = id.rsplit_once('@').map_or(id, |(pod, _)| pod);
            let pod = object_name(pod).map_err(|error| anyhow!("{id:?} is no id of a hold: {error}"))?;
            let pods: Api<PodView> = Api::namespaced(client.clone(), namespace);
            let found = pods.get_opt(&pod).await;
            found.map_err(|error| explain(error, &format!("cannot tell whether {id} is passed")))?
        }
        Which::Hold(_) | Which::Present | Which::All => None,
    };
    let asked = request((name, flags), &status, which, pod.as_ref()).map_err(|error| match &status.hold {
        None if paused => anyhow!(
            "{name} is not held at a pause point, but paused as a whole (spec.paused)\nhint: `kubectl ordered unpause {name}{flags}` goes on"
        ),
        _ => error,
    });
    let id = match asked? {
        Request::Passed(id) => {
            let how = if pod.is_none() { ", as that pod is gone" } else { "" };
            let next = next((name, flags), &status, paused);
            return Ok(format!("{name}: {id} is passed already{how}\n{next}"));
        }
        Request::For(id) => id,
    };
    let patch = json!({"status": {"resumeRequested": id}});
    let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| explain(error, &doing))?;
    let Some(limit) = limit else {
        return Ok(format!(
            "{name}: asked for the resume of {id}\n`kubectl ordered get {name}{flags}` shows whether it was taken"
        ));
    };
    let before = status.hold.as_ref();
    let api: Api<OrderedDeployment> = Api::namespaced(watching.clone(), namespace);
    let taken = await_condition(api, name, |found: Option<&OrderedDeployment>| {
        found.is_none_or(|found| {
            found.status.as_ref().and_then(|status| status.resume_requested.as_ref()).is_none()
        })
    });
    let after = tokio::time::timeout(limit, taken).await.map_err(|_| {
        Ended::timed_out(format!(
            "{name}: the controller has not taken the resume of {id} within {} s\nhint: is ordered-controller-manager running? The request stands and will be taken once it is.",
            limit.as_secs()
        ))
    })?;
    let after = after.map_err(|error| anyhow!("{doing}: lost sight of it: {error}"))?;
    let after = after.ok_or_else(|| anyhow!("{name} was deleted meanwhile"))?;
    let paused = after.spec.paused;
    let after = after.status.unwrap_or_default();
    let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
    if is_blocked_at(&status, &id) && uid.is_some_and(|uid| !after.has_passed(uid)) {
        bail!(
            "{name}: the controller dropped the request for {id}: the rollout was not blocked there any more\nhint: `kubectl ordered get {name}{flags}` shows where it is now"
        );
    }
    answer((name, flags), &id, before, &after, paused)
}

/// What to write.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    /// This id.
    For(String),
    /// Nothing: it is passed.
    Passed(String),
}

/// `pod` is the one that the hold asked for names, if it is there.
fn request(
    (name, flags): (&str, &str),
    status: &OrderedDeploymentStatus,
    which: Which<'_>,
    pod: Option<&PodView>,
) -> Result<Request> {
    let hold = status.hold.as_ref();
    let not_held = || {
        anyhow!(
            "{name} is not held: there is nothing to resume\nhint: `kubectl ordered get {name}{flags}` shows where it halts next"
        )
    };
    match which {
        Which::Present => {
            if let Some((blocked, message)) = blocked(status) {
                return Err(ways_out((name, flags), blocked, message));
            }
            Ok(Request::For(hold.ok_or_else(not_held)?.id.clone()))
        }
        Which::All => {
            let rollout = status.rollout.as_ref().ok_or_else(not_held)?;
            let complete = status.condition(condition::COMPLETE);
            if hold.is_none() && complete.is_none_or(|found| found.status == ConditionStatus::True) {
                return Err(not_held());
            }
            Ok(Request::For(format!("{ALL_POINTS}@{}", rollout.revision)))
        }
        Which::Hold(id) => match hold {
            Some(hold) if hold.id == id => Ok(Request::For(id.to_owned())),
            _ if is_blocked_at(status, id) => Ok(Request::For(id.to_owned())),
            _ if is_passed(name, id, status, pod) => Ok(Request::Passed(id.to_owned())),
            Some(hold) => bail!(
                "{name} is not held at {id} but at {}\nhint: `kubectl ordered resume {name}{flags}` resumes that",
                hold.id
            ),
            None => Err(not_held()),
        },
    }
}

/// Where the rollout is blocked, and what the condition says of it.
fn blocked(status: &OrderedDeploymentStatus) -> Option<(&Blocked, &str)> {
    let stalled = status.condition(condition::STALLED)?;
    let stands = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    Some((status.blocked.as_ref().filter(|_| stands)?, &stalled.message))
}

fn is_blocked_at(status: &OrderedDeploymentStatus, id: &str) -> bool {
    blocked(status).is_some_and(|(blocked, _)| blocked.id == id)
}

/// A blocked rollout is not resumed by the way: it goes on by itself once the pods in the way are available.
fn ways_out((name, flags): (&str, &str), blocked: &Blocked, message: &str) -> anyhow::Error {
    let id = &blocked.id;
    anyhow!(
        "{name} is not held, and a resume would use up its next pause point. {message}\n\
         hint: it goes on by itself once these pods are available or gone\n\
         hint: `kubectl ordered resume {name} --hold {id}{flags}` passes the pause point, `kubectl ordered undo {name}{flags}` goes back"
    )
}

/// Whether that point of the present rollout is behind it: stored as passed, or of a pod that the rollout has replaced.
fn is_passed(name: &str, id: &str, status: &OrderedDeploymentStatus, pod: Option<&PodView>) -> bool {
    let Some((pod_name, revision)) = id.rsplit_once('@') else { return false };
    if status.rollout.as_ref().is_none_or(|rollout| rollout.revision.to_string() != revision) {
        return false;
    }
    match pod.and_then(|pod| pod.metadata.uid.as_deref()) {
        Some(uid) => status.has_passed(uid),
        // Names of pods are never used again.
        None => pod_name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')),
    }
}

/// What the controller made of it, and what to do next.
fn answer(
    (name, flags): (&str, &str),
    id: &str,
    before: Option<&Hold>,
    after: &OrderedDeploymentStatus,
    paused: bool,
) -> Result<String> {
    let next = next((name, flags), after, paused);
    match &after.hold {
        Some(hold) if Some(&hold.id) == before.map(|before| &before.id) => bail!(
            "{name}: the controller dropped the request for {id}\nhint: `kubectl describe od {name}{flags}` shows its event {}",
            reason::RESUME_IGNORED
        ),
        Some(hold) => Ok(format!("{name}: passed {id}; it is now held at {}\n{next}", hold.id)),
        None if paused => {
            Ok(format!("{name}: passed {id}; it is paused as a whole still (spec.paused)\n{next}"))
        }
        None => Ok(format!("{name}: passed {id}; the rollout goes on\n{next}")),
    }
}

/// What a user does next, once a point is passed.
fn next((name, flags): (&str, &str), status: &OrderedDeploymentStatus, paused: bool) -> String {
    match &status.hold {
        Some(_) => format!("pass that too with `kubectl ordered resume {name}{flags}`"),
        None if paused => format!("go on with `kubectl ordered unpause {name}{flags}`"),
        None => format!("watch it with `kubectl ordered get {name} -w{flags}`"),
    }
}

#[cfg(test)]
#[path = "resume/tests.rs"]
mod tests;
