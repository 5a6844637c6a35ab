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
use crate::convert::To;

/// The number of parallel writes of one step.
const PARALLEL: usize = 16;

#[derive(Debug)]
pub(crate) enum PlannedStep {
    /// Send these writes, in any order.
    Do(Vec<Write>),
    /// Wait for this, which begins with `for`.
    Wait(String),
    Complete,
}

impl PlannedStep {
    /// What it does or waits for, for the user.
    pub(crate) fn describe(&self) -> Vec<String> {
        match self {
            Self::Do(writes) => writes.iter().map(Write::describe).collect(),
            Self::Wait(what) => vec![format!("wait {what}")],
            Self::Complete => Vec::new(),
        }
    }
}

/// The step that sends one write.
#[allow(clippy::unnecessary_wraps, reason = "the result of functions that can fail")]
pub(super) fn one(write: Write) -> Result<PlannedStep> {
    Ok(PlannedStep::Do(vec![write]))
}

/// The step that waits for this.
#[allow(clippy::unnecessary_wraps, reason = "the result of functions that can fail")]
pub(super) fn wait(what: impl Into<String>) -> Result<PlannedStep> {
    Ok(PlannedStep::Wait(what.into()))
}

/// The write that lets an autoscaler target the new kind, if one has the old kind.
pub(super) fn retarget(objects: &Objects, to: To) -> Option<Write> {
    let autoscaler = objects.autoscalers_of(to.from()).next()?;
    let what = match to {
        To::Ordereddeployment => "target the OrderedDeployment",
        To::Deployment => "target the Deployment",
    };
    let patch = target(to, "scaleTargetRef", &objects.name);
    Some(Write::Patch(Kind::Autoscaler, autoscaler.clone(), patch, what))
}

/// The merge patch that changes the target of an autoscaler.
pub(super) fn target(to: To, field: &str, name: &str) -> Value {
    let (version, kind) = to.is();
    json!({"spec": {field: {"apiVersion": version, "kind": kind, "name": name}}})
}

#[derive(Debug)]
pub(crate) enum Write {
    Create(Kind, DynamicObject),
    /// An update with the resourceVersion of the object.
    Replace(Kind, DynamicObject),
    /// A merge patch with the UID and resourceVersion of the object, and its description.
    Patch(Kind, DynamicObject, Value, &'static str),
    /// A deletion with the policy `Orphan`, with the UID and resourceVersion of the object.
    Orphan(Kind, DynamicObject),
}

impl Write {
    /// The description for the user.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Create(kind, object) => format!("create {}/{}", kind.plural(), object.name_any()),
            Self::Replace(kind, object) => format!("update {}/{}", kind.plural(), object.name_any()),
            Self::Patch(kind, object, _, what) => {
                format!("patch {}/{}: {what}", kind.plural(), object.name_any())
            }
            Self::Orphan(kind, object) => {
                format!("delete {}/{}, keep its dependents", kind.plural(), object.name_any())
            }
        }
    }

    async fn send(&self, client: &Client, namespace: &str) -> kube::Result<()> {
        match self {
            Self::Create(kind, object) => {
                kind.api(client, namespace).create(&PostParams::default(), object).await.map(drop)
            }
            Self::Replace(kind, object) => {
                let api = kind.api(client, namespace);
                api.replace(&object.name_any(), &PostParams::default(), object).await.map(drop)
            }
            Self::Patch(kind, object, patch, _) => {
                let mut patch = patch.clone();
                patch["metadata"]["uid"] = object.metadata.uid.clone().into();
                patch["metadata"]["resourceVersion"] = object.metadata.resource_version.clone().into();
                let api = kind.api(client, namespace);
                let patch = Patch::Merge(patch);
                api.patch(&object.name_any(), &PatchParams::default(), &patch).await.map(drop)
            }
            Self::Orphan(kind, object) => {
                let same = Preconditions {
                    uid: object.metadata.uid.clone(),
                    resource_version: object.metadata.resource_version.clone(),
                };
                let params = DeleteParams::orphan().preconditions(same);
                kind.api(client, namespace).delete(&object.name_any(), &params).await.map(drop)
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
