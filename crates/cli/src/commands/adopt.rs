//! `adopt`: adopts a Deployment with its pods as an OrderedDeployment, or hands it back. It never deletes a
//! pod. Each step depends only on the current objects.

mod back;
mod convert;
mod forward;
mod notes;
mod objects;
mod steps;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::api::PostParams;
use kube::{Client, ResourceExt};
use ordereddeployment_api::names::annotation;
use serde_json::Value;
use tokio::time::Instant;

use crate::client::explain::explain;
use crate::client::{ConnectArgs, DryRun, DryRunArgs, Timeout, deployment_name, timeout};
use crate::commands::convert::{To, template_of};
use crate::input;
use crate::terminal::escape::{escaped, print, print_line, print_stderr};
use objects::{Kind, Objects, annotation_of};
use steps::{Change, Executor, PlannedStep, Write};
use template::TemplateChoice;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Adopt a running Deployment with its pods, without restarts, or hand it back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered adopt deployment/web --dry-run    print the steps, change nothing
  kubectl ordered adopt deployment/web              make web an OrderedDeployment, keep its pods
  kubectl ordered adopt deployment/web --back       make web a Deployment again, keep its pods
  helm get manifest shop | kubectl ordered adopt deployment/web -f -

If the command is interrupted, run it again: it continues where it stopped. Rollouts must be complete \
before.
Afterwards apply manifests of the new kind only (`kubectl ordered convert` writes them): applying an old one \
creates a second set of pods. The first apply starts no rollout if the last applied configuration, or the \
manifest from -f, matches the running template; otherwise a note says so.")]
pub(crate) struct Args {
    /// The Deployment: web or deployment/web
    #[arg(value_name = "DEPLOYMENT", value_parser = deployment_name)]
    name: String,
    /// Make the OrderedDeployment of that name a Deployment again
    #[arg(long)]
    back: bool,
    /// The manifest of the Deployment, or the converted one, if `kubectl apply` did not create it; `-` is
    /// standard input
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "back")]
    file: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    /// The timeout of each wait for a controller; 0 is no limit
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = timeout)]
    timeout: Timeout,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    if args.dry_run.dry_run == DryRun::Server {
        bail!(
            "--dry-run=server is not possible, because each step needs the one before it\nhint: \
             --dry-run=client prints the steps"
        );
    }
    let manifest = args.file.map(|file| input::read(&file)).transpose()?;
    let template = manifest.map(|text| template_of(&text, &args.name)).transpose()?;
    let connection = connect.connect().await?;
    let to = if args.back { To::Deployment } else { To::Ordereddeployment };
    let adoption = Adoption {
        client: &connection.client,
        namespace: &connection.namespace,
        name: &args.name,
        to,
        timeout: args.timeout.0,
        template,
    };
    for note in adoption.notes().await? {
        print_stderr(format_args!("note: {}", escaped(&note)));
    }
    let kind = if args.back { "a Deployment" } else { "an OrderedDeployment" };
    let nothing = || Ok(print_line(format_args!("{} is already {kind}: nothing to do", args.name))?);
    if args.dry_run.dry_run.is_dry() {
        let lines = adoption.preview().await?;
        let steps: String = lines.iter().flat_map(|line| ["  ", line, "\n"]).collect();
        return if lines.is_empty() { nothing() } else { Ok(print(format_args!("Steps:\n{steps}"))?) };
    }
    let mut executor = Executor::default();
    adoption.run(&mut executor, |line| Ok(print_line(escaped(line))?)).await?;
    if executor.done == 0 {
        return nothing();
    }
    let (show, to) = match to {
        To::Ordereddeployment => ("kubectl ordered get", ""),
        To::Deployment => ("kubectl get deployment", " --to deployment"),
    };
    Ok(print(format_args!(
        "{name} is now {kind} and has kept its pods\n  show it:             {show} {name}{}\n  change its \
         manifest: kubectl ordered convert -f FILE{to}\n",
        connection.flags,
        name = args.name
    ))?)
}

struct Adoption<'a> {
    client: &'a Client,
    namespace: &'a str,
    name: &'a str,
    to: To,
    /// The timeout of one wait; `None` is no limit.
    timeout: Option<Duration>,
    template: Option<Value>,
}

/// The template chosen for a Deployment, with the generation that it was chosen for.
type ChosenTemplate = Option<(String, TemplateChoice)>;

impl Adoption<'_> {
    /// Runs the steps from the current state to the end. Calls `report` for each write.
    async fn run(&self, executor: &mut Executor, mut report: impl FnMut(&str) -> Result<()>) -> Result<()> {
        // Each step, and when it was the next one first: another client can undo it.
        let mut first = BTreeMap::new();
        let mut chosen = None;
        loop {
            let objects = self.read(&mut chosen).await?;
            let step = self.next(&objects)?;
            let described = step.describe();
            let is_repeated = first.contains_key(&described);
            let since = first.entry(described.clone()).or_insert_with(Instant::now).elapsed();
            if self.timeout.is_some_and(|timeout| since >= timeout) {
                return Err(self.timed_out(&step));
            }
            match &step {
                PlannedStep::Complete => return Ok(()),
                PlannedStep::Do(writes) => {
                    let is_conflict = executor.perform(self.client, self.namespace, writes).await?;
                    // After a conflict, the step is decided again.
                    for write in described.iter().filter(|_| !is_conflict) {
                        report(write)?;
                    }
                }
                PlannedStep::Wait(_) => {}
            }
            if is_repeated {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    /// The steps, after a dry run of the first object to create. Nothing is written.
    async fn preview(&self) -> Result<Vec<String>> {
        let objects = self.read(&mut None).await?;
        let step = self.next(&objects)?;
        let mut lines = step.describe();
        match step {
            PlannedStep::Complete => {}
            PlannedStep::Wait(_) => lines.push("continue".to_owned()),
            PlannedStep::Do(writes) => {
                if let [Write { kind, object, change: Change::Create }] = &*writes {
                    let dry = PostParams { dry_run: true, ..PostParams::default() };
                    let tried = kind.api(self.client, self.namespace).create(&dry, object).await;
                    tried.map_err(|error| explain(error, "the API server would reject the object"))?;
                }
                lines.extend(self.rest(&objects));
            }
        }
        Ok(lines)
    }

    /// The steps after the first one, if nothing has been done yet.
    fn rest(&self, objects: &Objects) -> Vec<String> {
        let names = |objects: &[kube::core::DynamicObject], kind: Kind| -> Vec<String> {
            objects.iter().map(|object| format!("{}/{}", kind.plural(), object.name_any())).collect()
        };
        let old = names(&objects.replica_sets, Kind::ReplicaSet).join(", ");
        let new = names(&objects.sets, Kind::OrderedReplicaSet).join(", ");
        let name = self.name;
        let pods = objects.pods.len();
        match (self.to, &objects.deployment, &objects.ordered) {
            (To::Ordereddeployment, Some(_), None) => vec![
                format!("create an OrderedReplicaSet for each of {old}"),
                format!("delete deployments/{name}, keep its dependents"),
                format!("delete {old}, keep their dependents: the controller adopts {pods} pods"),
                format!("change autoscalers of deployments/{name} to ordereddeployments/{name}"),
            ],
            (To::Deployment, None, Some(_)) => vec![
                format!("stop the controller of {name}"),
                format!("move {pods} pods to the ReplicaSet, and allow it to create pods"),
                format!("create deployments/{name}, which adopts the ReplicaSets"),
                format!("change autoscalers of ordereddeployments/{name} to deployments/{name}"),
                format!("delete ordereddeployments/{name} and {new}, keep their dependents"),
            ],
            _ => vec!["finish the steps of the interrupted run".to_owned()],
        }
    }

    /// Notes before the first write; an error if the user lacks permissions.
    async fn notes(&self) -> Result<Vec<String>> {
        let mut chosen = None;
        let objects = self.read(&mut chosen).await?;
        let is_first_run = match self.to {
            To::Ordereddeployment => objects.deployment.is_some() && objects.ordered.is_none(),
            To::Deployment => {
                let begun = annotation::HANDING_BACK;
                objects.deployment.is_none()
                    && objects.ordered.as_ref().is_some_and(|it| annotation_of(it, begun).is_none())
            }
        };
        // The first step reports why an adoption is not possible.
        if !is_first_run || self.next(&objects).is_err() {
            return Ok(Vec::new());
        }
        notes::check_permissions(self.client, self.namespace, self.to, &objects).await?;
        let mut notes = notes::notes(self.client, self.namespace, self.to, &objects).await;
        notes.extend(chosen.and_then(|(_, choice)| choice.note));
        Ok(notes)
    }

    async fn read(&self, chosen: &mut ChosenTemplate) -> Result<Objects> {
        let mut objects = Objects::read(self.client, self.namespace, self.name).await?;
        if let (To::Ordereddeployment, Some(deployment)) = (self.to, &objects.deployment) {
            let generation = convert::generation(deployment);
            // An existing object has the chosen template already.
            let is_created =
                objects.ordered.as_ref().and_then(|it| annotation_of(it, annotation::ADOPTED_GENERATION))
                    == Some(&generation);
            if !is_created && chosen.as_ref().is_none_or(|(before, _)| *before != generation) {
                let given = self.template.as_ref();
                let choice = template::choose(self.client, self.namespace, deployment, given).await;
                *chosen = Some((generation, choice));
            }
            objects.template = chosen.as_ref().and_then(|(_, choice)| choice.template.clone());
        }
        Ok(objects)
    }

    fn next(&self, objects: &Objects) -> Result<PlannedStep> {
        match self.to {
            To::Ordereddeployment => forward::next(objects),
            To::Deployment => back::next(objects),
        }
    }

    fn timed_out(&self, step: &PlannedStep) -> anyhow::Error {
        let back = if self.to == To::Deployment { " --back" } else { "" };
        let (name, what) = (self.name, step.describe().join(", "));
        let what = match step {
            PlannedStep::Wait(_) => what.replacen("wait", "waiting", 1),
            _ => format!("because another client changes the same objects again and again: {what}"),
        };
        anyhow!("{name}: timed out {what}\nhint: continue with `kubectl ordered adopt {name}{back}`")
    }
}
