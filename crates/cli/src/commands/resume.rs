//! `resume`: requests that the controller passes a pause point. It writes `status.resumeRequested` and waits for the
//! controller.

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
use crate::exit::ExitError;
use crate::explain::explain;
use crate::state::pause_point;

/// Resume a rollout that is paused at a pause point
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered resume web                            pass the pause point at which web is paused
  kubectl ordered resume web --hold web-5d9c-x7k2p@4    pass this pause point only
  kubectl ordered resume web --all                      pass all pause points of this rollout

A request names its pause point. If the rollout has passed it already, nothing happens.
A rollout that is blocked by unavailable pods is not paused: use --hold with the id in the message to pass that pause \
point.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    /// Pass this and all later pause points of this rollout
    #[arg(long)]
    all: bool,
    /// The pause point to pass: `status.hold.id`, or the id of the pause point at which the rollout is blocked. The
    /// default is the current one
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    hold: Option<String>,
    /// How long to wait for the controller; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// The pause points to pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResumeTarget<'a> {
    /// The pause point at which the rollout is paused.
    Current,
    /// The pause point with that id.
    Hold(&'a str),
    /// All pause points of this rollout.
    All,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let connection = args.connect.connect().await?;
    let target = match (&args.hold, args.all) {
        (_, true) => ResumeTarget::All,
        (Some(id), false) => ResumeTarget::Hold(id),
        (None, false) => ResumeTarget::Current,
    };
    let text = resume(&connection, &args.name, target, args.timeout.0).await?;
    Ok(print(format_args!("{text}\n"))?)
}

/// Writes the request and waits until the controller has handled it. Returns the result and the next command.
pub(crate) async fn resume(
    connection: &Connection,
    name: &str,
    target: ResumeTarget<'_>,
    limit: Option<Duration>,
) -> Result<String> {
    let Connection { client, watching, namespace, flags, .. } = connection;
    let api: Api<OrderedDeployment> = Api::namespaced(client.clone(), namespace);
    let doing = format!("cannot resume {name} in {namespace}");
    let found = api.get_status(name).await.map_err(|error| explain(error, &doing))?;
    let (paused, status) = (found.spec.paused, found.status.unwrap_or_default());
    let pod = match target {
        ResumeTarget::Hold(id) if status.hold.as_ref().is_none_or(|hold| hold.id != id) => {
            let pod = id.rsplit_once('@').map_or(id, |(pod, _)| pod);
            let pod = object_name(pod)
                .map_err(|error| anyhow!("{id:?} is not the id of a pause point: {error}"))?;
            let pods: Api<PodView> = Api::namespaced(client.clone(), namespace);
            let found = pods.get_opt(&pod).await;
            found.map_err(|error| explain(error, &format!("cannot check whether {id} is passed")))?
        }
        ResumeTarget::Hold(_) | ResumeTarget::Current | ResumeTarget::All => None,
    };
    let request = request((name, flags), &status, target, pod.as_ref()).map_err(|error| match &status.hold {
        None if paused => anyhow!(
            "{name} is not paused at a pause point, but by spec.paused\nhint: continue with `kubectl ordered unpause {name}{flags}`"
        ),
        _ => error,
    });
    let id = match request? {
        ResumeRequest::AlreadyPassed(id) => {
            let how = if pod.is_none() { ": its pod is deleted" } else { "" };
            let next = next((name, flags), &status, paused);
            return Ok(format!("{name}: {id} is already passed{how}\n{next}"));
        }
        ResumeRequest::Write(id) => id,
    };
    let patch = json!({"status": {"resumeRequested": id}});
    let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map_err(|error| explain(error, &doing))?;
    let Some(limit) = limit else {
        return Ok(format!(
            "{name}: resume of {id} requested\n`kubectl ordered get {name}{flags}` shows whether the controller has handled it"
        ));
    };
    let before = status.hold.as_ref();
    let api: Api<OrderedDeployment> = Api::namespaced(watching.clone(), namespace);
    let handled = await_condition(api, name, |found: Option<&OrderedDeployment>| {
        found.is_none_or(|found| {
            found.status.as_ref().and_then(|status| status.resume_requested.as_ref()).is_none()
        })
    });
    let after = tokio::time::timeout(limit, handled).await.map_err(|_| {
        ExitError::timed_out(format!(
            "{name}: timed out waiting for the controller to handle the resume of {id} ({} s)\nhint: is ordered-controller-manager running? The request stays and is handled once it is.",
            limit.as_secs()
        ))
    })?;
    let after = after.map_err(|error| anyhow!("{doing}: the watch failed: {error}"))?;
    let after = after.ok_or_else(|| anyhow!("{name} was deleted"))?;
    let paused = after.spec.paused;
    let after = after.status.unwrap_or_default();
    let uid = pod.as_ref().and_then(|pod| pod.metadata.uid.as_deref());
    if is_blocked_at(&status, &id) && uid.is_some_and(|uid| !after.has_passed(uid)) {
        bail!(
            "{name}: the controller ignored the request for {id}: the rollout is no longer blocked there\nhint: `kubectl ordered get {name}{flags}` shows its state"
        );
    }
    result((name, flags), &id, before, &after, paused)
}

/// The request to write.
#[derive(Debug, PartialEq, Eq)]
enum ResumeRequest {
    /// Write this id.
    Write(String),
    /// Write nothing: this pause point is passed.
    AlreadyPassed(String),
}

/// The request for that target. `pod` is the pod of the requested pause point, if it exists.
fn request(
    (name, flags): (&str, &str),
    status: &OrderedDeploymentStatus,
    target: ResumeTarget<'_>,
    pod: Option<&PodView>,
) -> Result<ResumeRequest> {
    let hold = status.hold.as_ref();
    let not_paused = || {
        anyhow!(
            "{name} is not paused at a pause point: nothing to resume\nhint: `kubectl ordered get {name}{flags}` shows the next pause point"
        )
    };
    match target {
        ResumeTarget::Current => {
            if let Some((blocked, message)) = blocked(status) {
                return Err(blocked_error((name, flags), blocked, message));
            }
            Ok(ResumeRequest::Write(hold.ok_or_else(not_paused)?.id.clone()))
        }
        ResumeTarget::All => {
            let rollout = status.rollout.as_ref().ok_or_else(not_paused)?;
            let complete = status.condition(condition::COMPLETE);
            if hold.is_none() && complete.is_none_or(|found| found.status == ConditionStatus::True) {
                return Err(not_paused());
            }
            Ok(ResumeRequest::Write(format!("{ALL_POINTS}@{}", rollout.revision)))
        }
        ResumeTarget::Hold(id) => match hold {
            Some(hold) if hold.id == id => Ok(ResumeRequest::Write(id.to_owned())),
            _ if is_blocked_at(status, id) => Ok(ResumeRequest::Write(id.to_owned())),
            _ if is_passed(name, id, status, pod) => Ok(ResumeRequest::AlreadyPassed(id.to_owned())),
            Some(hold) => bail!(
                "{name} is not paused at {id}, but at {}\nhint: pass that one with `kubectl ordered resume {name}{flags}`",
                pause_point(hold)
            ),
            None => Err(not_paused()),
        },
    }
}

/// The pause point at which the rollout is blocked, and the message of the condition.
fn blocked(status: &OrderedDeploymentStatus) -> Option<(&Blocked, &str)> {
    let stalled = status.condition(condition::STALLED)?;
    let is_blocked = stalled.status == ConditionStatus::True && stalled.reason == reason::BLOCKED;
    Some((status.blocked.as_ref().filter(|_| is_blocked)?, &stalled.message))
}

fn is_blocked_at(status: &OrderedDeploymentStatus, id: &str) -> bool {
    blocked(status).is_some_and(|(blocked, _)| blocked.id == id)
}

/// The error for a plain resume of a blocked rollout, which continues once the blocking pods are available.
fn blocked_error((name, flags): (&str, &str), blocked: &Blocked, message: &str) -> anyhow::Error {
    let id = &blocked.id;
    anyhow!(
        "{name} is not paused, and a resume would pass its next pause point. {message}\n\
         hint: the rollout continues once these pods are available or deleted\n\
         hint: pass the pause point with `kubectl ordered resume {name} --hold {id}{flags}`, or roll back with `kubectl ordered undo {name}{flags}`"
    )
}

/// Whether the current rollout has passed that pause point: it is in `status.passed`, or its pod is deleted.
fn is_passed(name: &str, id: &str, status: &OrderedDeploymentStatus, pod: Option<&PodView>) -> bool {
    let Some((pod_name, revision)) = id.rsplit_once('@') else { return false };
    if status.rollout.as_ref().is_none_or(|rollout| rollout.revision.to_string() != revision) {
        return false;
    }
    match pod.and_then(|pod| pod.metadata.uid.as_deref()) {
        Some(uid) => status.has_passed(uid),
        // Names of pods are not reused.
        None => pod_name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')),
    }
}

/// The result of the request, and the next command.
fn result(
    (name, flags): (&str, &str),
    id: &str,
    before: Option<&Hold>,
    after: &OrderedDeploymentStatus,
    paused: bool,
) -> Result<String> {
    let next = next((name, flags), after, paused);
    match &after.hold {
        Some(hold) if Some(&hold.id) == before.map(|before| &before.id) => bail!(
            "{name}: the controller ignored the request for {id}\nhint: see the event {} in `kubectl describe od {name}{flags}`",
            reason::RESUME_IGNORED
        ),
        Some(hold) => Ok(format!("{name}: passed {id}; now paused at {}\n{next}", pause_point(hold))),
        None if paused => Ok(format!("{name}: passed {id}; still paused (spec.paused)\n{next}")),
        None => Ok(format!("{name}: passed {id}; the rollout continues\n{next}")),
    }
}

/// The next command after a pause point is passed.
fn next((name, flags): (&str, &str), status: &OrderedDeploymentStatus, paused: bool) -> String {
    match &status.hold {
        Some(_) => format!("pass it with `kubectl ordered resume {name}{flags}`"),
        None if paused => format!("continue with `kubectl ordered unpause {name}{flags}`"),
        None => format!("watch it with `kubectl ordered get {name} -w{flags}`"),
    }
}

#[cfg(test)]
#[path = "resume/tests.rs"]
mod tests;
