//! The writes of the dashboard. Each one is that of a command, with the rights of the user.

use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::Deserialize;

use crate::client::{Connection, object_name, pause_length, pod_name};
use crate::commands::abort::abort;
use crate::commands::mark::{Marks, Side, mark, unmark};
use crate::commands::pause;
use crate::commands::resume::{ResumeTarget, resume};
use crate::commands::retry::retry;
use crate::commands::undo::{UndoOptions, undo};

/// How long a write waits for the controller.
const LIMIT: Duration = Duration::from_secs(10);

/// A write that the page requests. A request about the rollout has the revision that the page shows, so that
/// a click on an outdated page never acts on another rollout.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum Act {
    /// Pass the pause point with this id.
    Resume { hold: String },
    /// Pass all pause points of the rollout to this revision.
    ResumeAll { revision: i64 },
    /// Set `spec.paused`.
    Pause,
    /// Unset `spec.paused`.
    Unpause,
    /// Abort the rollout to this revision.
    Abort { revision: i64 },
    /// Start the aborted rollout to this revision again.
    Retry { revision: i64 },
    /// Roll back to this revision.
    Undo { revision: i64 },
    /// Mark a pod.
    Mark { pod: String, priority: Option<i32>, pause: Option<Side>, length: Option<String> },
    /// Remove the marks of a pod.
    Unmark { pod: String },
}

impl Act {
    /// Writes, and returns the text that the command prints.
    pub(super) async fn run(self, connection: &Connection, name: &str) -> Result<String> {
        let name = &object_name(name).map_err(|error| anyhow!(error))?;
        match self {
            Self::Resume { hold } => resume(connection, name, ResumeTarget::Hold(&hold), Some(LIMIT)).await,
            Self::ResumeAll { revision } => {
                resume(connection, name, ResumeTarget::All(Some(revision)), Some(LIMIT)).await
            }
            Self::Pause => pause::set(connection, name, true).await,
            Self::Unpause => pause::set(connection, name, false).await,
            Self::Abort { revision } => abort(connection, name, Some(revision), Some(LIMIT)).await,
            Self::Retry { revision } => retry(connection, name, Some(revision), Some(LIMIT)).await,
            Self::Undo { revision } => {
                undo(connection, name, UndoOptions { to_revision: revision, ..UndoOptions::default() }).await
            }
            Self::Mark { pod, priority, pause, length } => {
                let pod = pod_name(&pod).map_err(|error| anyhow!(error))?;
                let length = length.filter(|_| pause.is_some()).map(|text| pause_length(&text)).transpose();
                let length = length.map_err(|error| anyhow!(error))?;
                mark(connection, &pod, Marks { priority, pause, length }).await
            }
            Self::Unmark { pod } => {
                let pod = pod_name(&pod).map_err(|error| anyhow!(error))?;
                unmark(connection, &pod).await
            }
        }
    }
}
