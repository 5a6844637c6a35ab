//! Adopts Deployments with their pods as OrderedDeployments, and hands them back. Each step depends only on
//! the current objects.

mod back;
mod convert;
mod forward;
mod notes;
mod objects;
mod permissions;
mod steps;
mod template;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::api::PostParams;
use kube::{Client, ResourceExt};
use ordereddeployment_api::names::annotation;
use serde_json::Value;
use tokio::time::Instant;

use crate::client::explain::explain;
use objects::{Kind, Objects, annotation_of};
pub(crate) use steps::{Direction, Executor};
use steps::{PlannedStep, Write};
use template::TemplateChoice;

const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The maximum number of attempts at one step, if other clients change or undo it.
const MAX_ATTEMPTS: usize = 50;

/// An adoption of one Deployment, or its hand-back.
#[derive(Clone)]
pub(crate) struct Adoption<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) direction: Direction,
    /// The timeout of one wait; `None` is no limit.
    pub(crate) timeout: Option<Duration>,
    /// The template of the manifest from `--filename`.
    pub(crate) template: Option<Value>,
}

/// The last step, and the number of attempts in a row.
#[derive(Default)]
struct Attempts {
    writes: Vec<String>,
    count: usize,
}

impl Attempts {
    /// An error after too many attempts: another client, such as a controller, undoes the step each time.
    fn count(&mut self, name: &str, writes: Vec<String>) -> Result<()> {
        self.count = if self.writes == writes { self.count + 1 } else { 1 };
        self.writes = writes;
        if self.count > MAX_ATTEMPTS {
            bail!(
                "{name}: another client repeatedly changes the same objects: {}\nhint: run this command \
                 again",
                self.writes.join(", ")
            );
        }
        Ok(())
    }
}

/// The template chosen for a Deployment, with the generation that it was chosen for.
type ChosenTemplate = Option<(String, TemplateChoice)>;

impl Adoption<'_> {
    /// Runs the steps from the current state to the end. Calls `report` for each write.
    pub(crate) async fn run(
        &self,
        executor: &mut Executor,
        mut report: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let mut waiting: Option<(String, Instant)> = None;
        let mut attempts = Attempts::default();
        let mut chosen = None;
        loop {
            let objects = self.read(&mut chosen).await?;
            match self.next(&objects)? {
                PlannedStep::Complete => return Ok(()),
                PlannedStep::Do(writes) => {
                    let descriptions = writes.iter().map(Write::describe).collect();
                    attempts.count(self.name, descriptions)?;
                    if executor.perform(self.client, self.namespace, &writes).await? {
                        // Another client changed an object: decide again.
                        continue;
                    }
                    waiting = None;
                    for write in &attempts.writes {
                        report(write)?;
                    }
                }
                PlannedStep::Wait(what) => {
                    let since = match &waiting {
                        Some((before, since)) if *before == what => *since,
                        _ => Instant::now(),
                    };
                    if self.timeout.is_some_and(|timeout| since.elapsed() >= timeout) {
                        return Err(self.timed_out(&what));
                    }
                    waiting = Some((what, since));
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
    }

    /// The steps, after a dry run of the first object to create. Nothing is written.
    pub(crate) async fn preview(&self) -> Result<Vec<String>> {
        let objects = self.read(&mut None).await?;
        let first = match self.next(&objects)? {
            PlannedStep::Complete => return Ok(Vec::new()),
            PlannedStep::Wait(what) => return Ok(vec![format!("wait {what}"), "continue".to_owned()]),
            PlannedStep::Do(writes) => writes,
        };
        if let [Write::Create(kind, object)] = &*first {
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let tried = kind.api(self.client, self.namespace).create(&dry, object).await;
            tried.map_err(|error| explain(error, "the API server would reject the object"))?;
        }
        let mut lines: Vec<String> = first.iter().map(Write::describe).collect();
        lines.extend(self.rest(&objects));
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
        match (self.direction, &objects.deployment, &objects.ordered) {
            (Direction::Forward, Some(_), None) => vec![
                format!("create an OrderedReplicaSet for each of {old}"),
                format!("delete deployments/{name}, keep its dependents"),
                format!("delete {old}, keep their dependents: the controller adopts {pods} pods"),
                format!("change autoscalers of deployments/{name} to ordereddeployments/{name}"),
            ],
            (Direction::Back, None, Some(_)) => vec![
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
    pub(crate) async fn notes(&self) -> Result<Vec<String>> {
        let mut chosen = None;
        let objects = self.read(&mut chosen).await?;
        let is_first_run = match self.direction {
            Direction::Forward => objects.deployment.is_some() && objects.ordered.is_none(),
            Direction::Back => {
                let begun = annotation::HANDING_BACK;
                objects.deployment.is_none()
                    && objects.ordered.as_ref().is_some_and(|it| annotation_of(it, begun).is_none())
            }
        };
        // The first step reports why an adoption is not possible.
        if !is_first_run || self.next(&objects).is_err() {
            return Ok(Vec::new());
        }
        permissions::check(self.client, self.namespace, self.direction, &objects).await?;
        let mut notes = notes::notes(self.client, self.namespace, self.direction, &objects).await;
        notes.extend(chosen.and_then(|(_, choice)| choice.note));
        Ok(notes)
    }

    async fn read(&self, chosen: &mut ChosenTemplate) -> Result<Objects> {
        let mut objects = Objects::read(self.client, self.namespace, self.name).await?;
        if let (Direction::Forward, Some(deployment)) = (self.direction, &objects.deployment) {
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
        match self.direction {
            Direction::Forward => forward::next(objects),
            Direction::Back => back::next(objects),
        }
    }

    fn timed_out(&self, what: &str) -> anyhow::Error {
        let back = if self.direction == Direction::Back { " --back" } else { "" };
        let name = self.name;
        anyhow!("{name}: timed out waiting {what}\nhint: continue with `kubectl ordered adopt {name}{back}`")
    }
}
