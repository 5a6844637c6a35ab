//! `resume`: requests that the controller passes a pause point. It writes `status.resumeRequested` and waits
//! for the controller.

mod plain;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use kube::Api;
use ordereddeployment_api::names::{ALL_POINTS, condition, reason};
use ordereddeployment_api::{Blocked, ConditionStatus, Hold, OrderedDeploymentSpec, OrderedDeploymentStatus};
use ordereddeployment_wire::{Family, PodView};

use crate::client::explain::explain;
use crate::client::{
    ConnectArgs, Connection, DryRunArgs, OfEither, Timeout, object_name, of_either, timeout,
};
use crate::commands::request::{StatusRequest, confirm, next_command};
use crate::terminal::escape::print_line;
use crate::view::declared;
use crate::view::overview::images;
use crate::view::phase::{aborted, blocked, pause_point, suspended_revision};

/// Resume a rollout that is paused at a pause point
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered resume web canary             pass this pause point, if web is paused at it
  kubectl ordered resume web web-5d9c-x7k2p     pass the pause point of this pod
  kubectl ordered resume web canary@4           pass it in the rollout to revision 4 only
  kubectl ordered resume web                    show the pause point at which web is paused, and ask
  kubectl ordered resume web --all              pass all pause points of this rollout

A request names its pause point. If the rollout has passed it already, nothing happens.
deployment/web is a plain Deployment whose ReplicaSets ordered-controller-manager reconciles. It is resumed \
by spec.paused.
--all also ends the suspension of a rollout that was scaled to 0 replicas.
A rollout that is blocked by unavailable pods is not paused: name the pause point in the message to pass \
it.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment, or deployment/NAME
    #[arg(value_name = "NAME", value_parser = of_either)]
    name: OfEither,
    /// The pause point to pass: its name, the name of its pod, or its id. Without it the command asks, and
    /// needs a terminal
    #[arg(value_name = "POINT", conflicts_with_all = ["all", "hold"])]
    point: Option<String>,
    /// Pass this and all later pause points of this rollout
    #[arg(long)]
    all: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// The pause point to pass, by its id: `status.hold.id`, or the id of the pause point at which the
    /// rollout is blocked
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    hold: Option<String>,
    /// How long to wait for the controller; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = timeout)]
    timeout: Timeout,
    #[command(flatten)]
    dry_run: DryRunArgs,
}

/// The pause points to pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResumeTarget<'a> {
    Current,
    Hold(&'a str),
    /// All pause points of this rollout; with a revision, if it is the one that a page has shown.
    All(Option<i64>),
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?.with(args.dry_run);
    let OfEither { family, name } = &args.name;
    if *family == Family::Plain {
        let point = args.hold.as_deref().or(args.point.as_deref());
        return Ok(print_line(plain::resume(&connection, name, point, args.all, args.yes).await?)?);
    }
    let id = if args.all { None } else { chosen(&args, &connection).await? };
    let target = match &id {
        _ if args.all => ResumeTarget::All(None),
        Some(id) => ResumeTarget::Hold(id),
        None => ResumeTarget::Current,
    };
    Ok(print_line(resume(&connection, name, target, args.timeout.0).await?)?)
}

/// The id of the requested pause point, or of the hold, once the user has seen it. `None`: not paused.
async fn chosen(args: &Args, connection: &Connection) -> Result<Option<String>> {
    if args.hold.is_some() {
        return Ok(args.hold.clone());
    }
    let name = &args.name.name;
    let found = StatusRequest::new(connection, name, "resume").read(None).await?;
    let (spec, status) = (found.spec, found.status.unwrap_or_default());
    if let Some(point) = &args.point {
        return id_of(name, point, &status).map(Some);
    }
    let Some(hold) = status.hold else { return Ok(None) };
    let template = images(&spec.template.value()).join(", ");
    let updated = status.updated_replicas.unwrap_or(0);
    let pods = format!("{updated} of {} pods are of the new template ({template})", spec.replicas);
    confirm(name, &hold, &pods, &connection.flags, args.yes).await?;
    Ok(Some(hold.id))
}

/// The id of the point of this name: of the hold, or of a point that is ahead or passed.
fn id_of(name: &str, point: &str, status: &OrderedDeploymentStatus) -> Result<String> {
    if point.contains('@') {
        return Ok(point.to_owned());
    }
    let held = status.hold.iter().map(|hold| &hold.id);
    let stands = status.blocked.iter().map(|blocked| &blocked.id);
    let ahead = status.points();
    let passed = status.passed.iter().flatten().map(|passed| &passed.id);
    let mut ids = held.chain(stands).chain(ahead.map(|point| &point.id)).chain(passed);
    let found = ids.find(|id| id.rsplit_once('@').is_some_and(|(of, _)| of == point));
    found.cloned().ok_or_else(|| {
        anyhow!(
            "{name} has no pause point {point} in this rollout\nhint: `kubectl ordered get {name}` shows its \
                 pause points"
        )
    })
}

/// Writes the request and waits until the controller has handled it. Returns the result and the next command.
pub(crate) async fn resume(
    connection: &Connection,
    name: &str,
    target: ResumeTarget<'_>,
    limit: Option<Duration>,
) -> Result<String> {
    let flags = &connection.flags;
    let ask = StatusRequest::new(connection, name, "resume");
    let seen = if let ResumeTarget::All(seen) = target { seen } else { None };
    let found = ask.read(seen).await?;
    let (spec, status) = (found.spec, found.status.unwrap_or_default());
    let point = match target {
        ResumeTarget::Hold(id) if status.hold.as_ref().is_none_or(|hold| hold.id != id) => {
            let (label, _) = id.rsplit_once('@').unwrap_or((id, ""));
            let exists = is_declared(id, &spec, &status) || pod_exists(id, label, connection).await?;
            exists.then_some(label)
        }
        _ => None,
    };
    let request = request((name, flags), &status, target, point).map_err(|error| match &status.hold {
        None if spec.paused && aborted(&status).is_none() => anyhow!(
            "{name} is not paused at a pause point, but by spec.paused\nhint: continue with `kubectl \
                 ordered unpause {name}{flags}`"
        ),
        _ => error,
    });
    let (id, is_passed) = request?;
    if is_passed {
        let how = if point.is_none() { ": its pod is deleted" } else { "" };
        let next = next_command((name, flags), status.hold.as_ref(), spec.paused);
        return Ok(format!("{name}: {id} is already passed{how}\n{next}"));
    }
    let what = format!("resume of {}", named(&id));
    let result = |after: &OrderedDeploymentStatus, paused| {
        let ignored = point.is_some_and(|label| !after.has_passed(label));
        if is_blocked_at(&status, &id) && ignored {
            bail!(
                "{name}: the controller ignored the request for {id}: the rollout is no longer blocked \
                 there\nhint: `kubectl ordered get {name}{flags}` shows its state"
            );
        }
        result((name, flags), &id, status.hold.as_ref(), after, paused)
    };
    ask.send(&what, ("resumeRequested", id.as_str().into()), limit, result).await
}

/// Whether the id is that of a declared pause point: in the spec, or one that this rollout has passed.
fn is_declared(id: &str, spec: &OrderedDeploymentSpec, status: &OrderedDeploymentStatus) -> bool {
    id.rsplit_once('@')
        .is_some_and(|(label, _)| status.passed_by(id).is_some() || declared::find(spec, label).is_some())
}

async fn pod_exists(id: &str, pod: &str, connection: &Connection) -> Result<bool> {
    let pod = object_name(pod).with_context(|| format!("{id:?} is not the id of a pause point"))?;
    let pods: Api<PodView> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let found = pods.get_opt(&pod).await;
    let found = found.map_err(|error| explain(error, &format!("cannot check whether {id} is passed")))?;
    Ok(found.is_some())
}

/// The id to write for that target, and whether that pause point is passed already; else why there is nothing
/// to resume. `point` is the name of the requested pause point, if it is declared or its pod exists.
pub(crate) fn request(
    (name, flags): (&str, &str),
    status: &OrderedDeploymentStatus,
    target: ResumeTarget<'_>,
    point: Option<&str>,
) -> Result<(String, bool)> {
    let hold = status.hold.as_ref();
    if aborted(status).is_some() {
        bail!(
            "{name} is aborted: its rollout cannot be resumed\nhint: start it again with `kubectl ordered \
             retry {name}{flags}`"
        );
    }
    let not_paused = || {
        if suspended_revision(status).is_some() {
            return anyhow!(
                "{name} is not paused at a pause point, but its rollout is suspended at 0 replicas\nhint: it \
                 continues when the number of replicas grows; pass all its pause points with `kubectl \
                 ordered resume {name} --all{flags}`"
            );
        }
        anyhow!(
            "{name} is not paused at a pause point: nothing to resume\nhint: `kubectl ordered get \
             {name}{flags}` shows the next pause point"
        )
    };
    match target {
        ResumeTarget::Current => {
            if let Some((Blocked { id, .. }, message)) = blocked(status) {
                bail!(
                    "{name} is not paused, and a resume would pass its next pause point. {message}\nhint: \
                     the rollout continues once these pods are available or deleted\nhint: pass the pause \
                     point with `kubectl ordered resume {name} {id}{flags}`, or roll back with `kubectl \
                     ordered undo {name}{flags}`"
                );
            }
            Ok((hold.ok_or_else(not_paused)?.id.clone(), false))
        }
        ResumeTarget::All(_) => {
            let rollout = status.rollout.as_ref().ok_or_else(not_paused)?;
            let complete = status.condition(condition::COMPLETE);
            let is_complete = complete.is_none_or(|found| found.status == ConditionStatus::True);
            if hold.is_none() && suspended_revision(status).is_none() && is_complete {
                return Err(not_paused());
            }
            Ok((format!("{ALL_POINTS}@{}", rollout.revision), false))
        }
        ResumeTarget::Hold(id) => match hold {
            Some(hold) if hold.id == id => Ok((id.to_owned(), false)),
            _ if is_blocked_at(status, id) => Ok((id.to_owned(), false)),
            _ if is_passed(name, id, status, point) => Ok((id.to_owned(), true)),
            Some(hold) => bail!(
                "{name} is not paused at {id}, but at {}\nhint: pass that one with `kubectl ordered resume \
                 {name} {}{flags}`",
                pause_point(hold),
                hold.label()
            ),
            None => Err(not_paused()),
        },
    }
}

fn is_blocked_at(status: &OrderedDeploymentStatus, id: &str) -> bool {
    blocked(status).is_some_and(|(blocked, _)| blocked.id == id)
}

/// Whether the current rollout has passed that pause point: the status says so, or its pod is deleted.
fn is_passed(name: &str, id: &str, status: &OrderedDeploymentStatus, point: Option<&str>) -> bool {
    let Some((pod_name, revision)) = id.rsplit_once('@') else { return false };
    if status.rollout.as_ref().is_none_or(|rollout| rollout.revision.to_string() != revision) {
        return false;
    }
    let mut ahead = status.points();
    if ahead.any(|ahead| ahead.id == id) {
        return false;
    }
    match point {
        Some(label) => status.has_passed(label),
        // Names of pods are not reused.
        None => pod_name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')),
    }
}

fn result(
    (name, flags): (&str, &str),
    id: &str,
    before: Option<&Hold>,
    after: &OrderedDeploymentStatus,
    paused: bool,
) -> Result<String> {
    let next = next_command((name, flags), after.hold.as_ref(), paused);
    let point = named(id);
    match &after.hold {
        Some(hold) if Some(&hold.id) == before.map(|before| &before.id) => bail!(
            "{name}: the controller ignored the request for {point}\nhint: see the event {} in `kubectl \
             describe od {name}{flags}`",
            reason::RESUME_IGNORED
        ),
        Some(hold) => Ok(format!("{name}: passed {point}; now paused at {}\n{next}", pause_point(hold))),
        None if paused => Ok(format!("{name}: passed {point}; still paused (spec.paused)\n{next}")),
        None => Ok(format!("{name}: passed {point}; the rollout continues\n{next}")),
    }
}

/// The pause points of a request, for people.
fn named(id: &str) -> String {
    match id.rsplit_once('@') {
        Some((ALL_POINTS, revision)) => format!("all pause points of revision {revision}"),
        _ => id.to_owned(),
    }
}

#[cfg(test)]
mod tests;
