//! Deployments into OrderedDeployments and back, with their pods: step by step, each decided from what is there.

mod back;
mod convert;
mod forward;
mod notes;
mod rights;
mod seen;
mod steps;
mod template;
#[cfg(test)]
mod tests;
mod way;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use kube::api::PostParams;
use kube::{Client, ResourceExt};
use ordereddeployment_api::names::annotation;
use serde_json::Value;
use tokio::time::Instant;

use crate::explain::explain;
use seen::{Kind, Seen, annotation_of};
pub(crate) use steps::Hands;
use steps::{Next, Write};
use template::Choice;
pub(crate) use way::Way;

/// How often it is looked whether what is waited for is so.
const LOOK: Duration = Duration::from_millis(200);
/// How often in a row somebody else may come before, or undo it.
const MOST_ATTEMPTS: usize = 50;

/// Whose pods, and where.
#[derive(Clone)]
pub(crate) struct Takeover<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) way: Way,
    /// How long to wait for one thing; none waits for ever.
    pub(crate) patience: Option<Duration>,
    /// The template of the manifest that is to count.
    pub(crate) template: Option<Value>,
}

/// What was tried last, and how often in a row.
#[derive(Default)]
struct Attempts {
    words: Vec<String>,
    times: usize,
}

impl Attempts {
    /// An error where it is too often: somebody else comes before, or undoes it, as a controller would without end.
    fn count(&mut self, name: &str, words: Vec<String>) -> Result<()> {
        self.times = if self.words == words { self.times + 1 } else { 1 };
        self.words = words;
        if self.times > MOST_ATTEMPTS {
            bail!(
                "{name}: somebody else comes in between again and again: {}\nhint: run this again",
                self.words.join(", ")
            );
        }
        Ok(())
    }
}

/// The template that was chosen for a Deployment, and for which state of it.
type Chosen = Option<(String, Choice)>;

impl Takeover<'_> {
    /// Goes on from whatever is there until all is done. `tell` hears of each write.
    pub(crate) async fn run(
        &self,
        hands: &mut Hands,
        mut tell: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let mut waiting: Option<(String, Instant)> = None;
        let mut attempts = Attempts::default();
        let mut chosen = None;
        loop {
            let seen = self.read(&mut chosen).await?;
            match self.next(&seen)? {
                Next::Done => return Ok(()),
                Next::Do(writes) => {
                    let words: Vec<String> = writes.iter().map(Write::words).collect();
                    attempts.count(self.name, words)?;
                    if hands.perform(self.client, self.namespace, &writes).await? {
                        // Somebody else came before.
                        continue;
                    }
                    waiting = None;
                    for word in &attempts.words {
                        tell(word)?;
                    }
                }
                Next::Wait(what) => {
                    let since = match &waiting {
                        Some((before, since)) if *before == what => *since,
                        _ => Instant::now(),
                    };
                    if self.patience.is_some_and(|patience| since.elapsed() >= patience) {
                        return Err(self.too_late(&what));
                    }
                    waiting = Some((what, since));
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// What would be done, and whether the server would take the new object. Nothing is written.
    pub(crate) async fn preview(&self) -> Result<Vec<String>> {
        let seen = self.read(&mut None).await?;
        let first = match self.next(&seen)? {
            Next::Done => return Ok(Vec::new()),
            Next::Wait(what) => return Ok(vec![format!("wait {what}"), "and go on".to_owned()]),
            Next::Do(writes) => writes,
        };
        if let [Write::Create(kind, object)] = &*first {
            let dry = PostParams { dry_run: true, ..PostParams::default() };
            let tried = kind.api(self.client, self.namespace).create(&dry, object).await;
            tried.map_err(|error| explain(error, "the server would refuse it"))?;
        }
        let mut lines: Vec<String> = first.iter().map(Write::words).collect();
        lines.extend(self.rest(&seen));
        Ok(lines)
    }

    /// The steps after the first one, where nothing has been done yet.
    fn rest(&self, seen: &Seen) -> Vec<String> {
        let names = |objects: &[kube::core::DynamicObject], kind: Kind| -> Vec<String> {
            objects.iter().map(|object| format!("{}/{}", kind.plural(), object.name_any())).collect()
        };
        let old = names(&seen.replica_sets, Kind::ReplicaSet).join(", ");
        let new = names(&seen.sets, Kind::OrderedReplicaSet).join(", ");
        let name = self.name;
        let pods = seen.pods.len();
        match (self.way, &seen.deployment, &seen.ordered) {
            (Way::Forward, Some(_), None) => vec![
                format!("create an OrderedReplicaSet for each of {old}"),
                format!("delete deployments/{name}, and leave what it owns"),
                format!("delete {old}, and leave what they own: the controller takes {pods} pods in"),
                format!("let autoscalers of deployments/{name} scale ordereddeployments/{name}"),
            ],
            (Way::Back, None, Some(_)) => vec![
                format!("let the controller of {name} do nothing"),
                format!("give {pods} pods to the ReplicaSet, and let it replace lost ones"),
                format!("create deployments/{name}, which takes the ReplicaSets in"),
                format!("let autoscalers of ordereddeployments/{name} scale deployments/{name}"),
                format!("delete ordereddeployments/{name} and {new}, and leave what they own"),
            ],
            _ => vec!["and what was begun before is finished".to_owned()],
        }
    }

    /// What the user should know before anything is done; an error where the user may not do all of it.
    pub(crate) async fn notes(&self) -> Result<Vec<String>> {
        let mut chosen = None;
        let seen = self.read(&mut chosen).await?;
        let begins = match self.way {
            Way::Forward => seen.deployment.is_some() && seen.ordered.is_none(),
            Way::Back => {
                let begun = annotation::HANDING_BACK;
                seen.deployment.is_none()
                    && seen.ordered.as_ref().is_some_and(|it| annotation_of(it, begun).is_none())
            }
        };
        // What cannot be done at all is said by the first step.
        if !begins || self.next(&seen).is_err() {
            return Ok(Vec::new());
        }
        rights::check(self.client, self.namespace, self.way, &seen).await?;
        let mut notes = notes::notes(self.client, self.namespace, self.way, &seen).await;
        notes.extend(chosen.and_then(|(_, choice)| choice.note));
        Ok(notes)
    }

    async fn read(&self, chosen: &mut Chosen) -> Result<Seen> {
        let mut seen = Seen::read(self.client, self.namespace, self.name).await?;
        if let (Way::Forward, Some(deployment)) = (self.way, &seen.deployment) {
            let state = convert::generation(deployment);
            // Once the object is there it holds what was chosen.
            let is_made =
                seen.ordered.as_ref().and_then(|it| annotation_of(it, annotation::ADOPTED_GENERATION))
                    == Some(&state);
            if !is_made && chosen.as_ref().is_none_or(|(before, _)| *before != state) {
                let given = self.template.as_ref();
                let choice = template::choose(self.client, self.namespace, deployment, given).await;
                *chosen = Some((state, choice));
            }
            seen.template = chosen.as_ref().and_then(|(_, choice)| choice.template.clone());
        }
        Ok(seen)
    }

    fn next(&self, seen: &Seen) -> Result<Next> {
        match self.way {
            Way::Forward => forward::next(seen),
            Way::Back => back::next(seen),
        }
    }

    fn too_late(&self, what: &str) -> anyhow::Error {
        let back = if self.way == Way::Back { " --back" } else { "" };
        let name = self.name;
        anyhow!("{name}: waited in vain {what}\nhint: `kubectl ordered adopt {name}{back}` goes on from here")
    }
}
