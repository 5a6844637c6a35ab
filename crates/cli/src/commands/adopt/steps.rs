//! One step of an adoption: a few writes with preconditions on UID and resourceVersion.
//!
//! A write that fails its precondition is dropped, and the next step is decided from the current objects.

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::objects::{Kind, Objects};
use crate::client::explain::explain;
use crate::commands::convert::To;

/// The number of parallel writes of one step.
const PARALLEL: usize = 16;

#[derive(Debug)]
pub(crate) enum PlannedStep {
    Do(Vec<Write>),
    /// Wait for this, which begins with `for`.
    Wait(String),
    Complete,
}

impl PlannedStep {
    pub(crate) fn describe(&self) -> Vec<String> {
        match self {
            Self::Do(writes) => writes.iter().map(Write::describe).collect(),
            Self::Wait(what) => vec![format!("wait {what}")],
            Self::Complete => Vec::new(),
        }
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the result of functions that can fail")]
pub(super) fn one(kind: Kind, object: &DynamicObject, change: Change) -> Result<PlannedStep> {
    Ok(PlannedStep::Do(vec![Write { kind, object: object.clone(), change }]))
}

#[allow(clippy::unnecessary_wraps, reason = "the result of functions that can fail")]
pub(super) fn wait(what: impl Into<String>) -> Result<PlannedStep> {
    Ok(PlannedStep::Wait(what.into()))
}

/// The step that lets an autoscaler target the new kind, if one has the old kind.
pub(super) fn retarget(objects: &Objects, to: To) -> Option<Result<PlannedStep>> {
    let autoscaler = objects.autoscalers_of(to.from()).next()?;
    let what = match to {
        To::Ordereddeployment => "target the OrderedDeployment",
        To::Deployment => "target the Deployment",
    };
    let patch = target(to, "scaleTargetRef", &objects.name);
    Some(one(Kind::Autoscaler, autoscaler, Change::Patch(patch, what)))
}

pub(super) fn target(to: To, field: &str, name: &str) -> Value {
    let (version, kind) = to.is();
    json!({"spec": {field: {"apiVersion": version, "kind": kind, "name": name}}})
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(super) kind: Kind,
    pub(super) object: DynamicObject,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(crate) enum Change {
    Create,
    /// An update with the resourceVersion of the object.
    Replace,
    /// A merge patch with the UID and resourceVersion of the object, and its description.
    Patch(Value, &'static str),
    /// A deletion with the policy `Orphan`, with the UID and resourceVersion of the object.
    Orphan,
}

impl Write {
    pub(crate) fn describe(&self) -> String {
        let of = format!("{}/{}", self.kind.plural(), self.object.name_any());
        match &self.change {
            Change::Create => format!("create {of}"),
            Change::Replace => format!("update {of}"),
            Change::Patch(_, what) => format!("patch {of}: {what}"),
            Change::Orphan => format!("delete {of}, keep its dependents"),
        }
    }

    async fn send(&self, client: &Client, namespace: &str) -> kube::Result<()> {
        let (api, object, name) = (self.kind.api(client, namespace), &self.object, self.object.name_any());
        let (uid, version) = (object.metadata.uid.clone(), object.metadata.resource_version.clone());
        match &self.change {
            Change::Create => api.create(&PostParams::default(), object).await.map(drop),
            Change::Replace => api.replace(&name, &PostParams::default(), object).await.map(drop),
            Change::Patch(patch, _) => {
                let mut patch = patch.clone();
                patch["metadata"]["uid"] = uid.into();
                patch["metadata"]["resourceVersion"] = version.into();
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
            }
            Change::Orphan => {
                let same = Preconditions { uid, resource_version: version };
                api.delete(&name, &DeleteParams::orphan().preconditions(same)).await.map(drop)
            }
        }
    }
}

/// Sends writes and counts them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Executor {
    /// For tests: the number of writes before an interruption.
    pub(crate) left: Option<usize>,
    pub(crate) done: usize,
}

impl Executor {
    /// Sends the writes. Returns whether a precondition failed.
    pub(crate) async fn perform(
        &mut self,
        client: &Client,
        namespace: &str,
        writes: &[Write],
    ) -> Result<bool> {
        let now = self.left.map_or(writes.len(), |left| left.min(writes.len()));
        let mut sent = futures::stream::iter(&writes[..now])
            .map(|write| async move { (write, write.send(client, namespace).await) })
            .buffered(PARALLEL);
        let mut conflict = false;
        while let Some((write, outcome)) = sent.next().await {
            match outcome {
                Ok(()) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => conflict = true,
                Err(error) => return Err(explain(error, &format!("cannot {}", write.describe()))),
            }
        }
        drop(sent);
        self.done += now;
        if let Some(left) = &mut self.left {
            *left -= now;
        }
        if now < writes.len() {
            bail!("interrupted");
        }
        Ok(conflict)
    }
}
