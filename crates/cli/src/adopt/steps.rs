//! One step of a takeover, and how it is done: at most a few writes, each bound to the version that the step was decided by.
//!
//! It decides nothing. A write that somebody else came before is dropped: what comes next is decided from what is there.

use anyhow::{Result, bail};
use futures::StreamExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::seen::Kind;
use crate::explain::explain;

/// How many writes of one step go at a time.
const PARALLEL: usize = 16;

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// These writes, in any order.
    Do(Vec<Write>),
    /// Nothing, until this is so.
    Wait(String),
    /// All is done.
    Done,
}

/// One write.
#[derive(Debug)]
pub(crate) enum Write {
    Create(Kind, DynamicObject),
    /// The whole object, at its version.
    Replace(Kind, DynamicObject),
    /// A merge patch of the object at its version, and what it does.
    Patch(Kind, DynamicObject, Value, &'static str),
    /// Deletes the object at its version and leaves what it owns.
    Orphan(Kind, DynamicObject),
}

impl Write {
    /// What it does, for people.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Create(kind, object) => format!("create {}/{}", kind.plural(), object.name_any()),
            Self::Replace(kind, object) => format!("update {}/{}", kind.plural(), object.name_any()),
            Self::Patch(kind, object, _, what) => {
                format!("patch {}/{}: {what}", kind.plural(), object.name_any())
            }
            Self::Orphan(kind, object) => {
                format!("delete {}/{}, and leave what it owns", kind.plural(), object.name_any())
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

/// Who writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hands {
    /// How many writes are left before it breaks off, for trying what an interruption leaves behind.
    pub(crate) left: Option<usize>,
    pub(crate) done: usize,
}

impl Hands {
    /// Does the writes; whether somebody else came before in any of them.
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
                Err(error) => return Err(explain(error, &format!("cannot {}", write.words()))),
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
