//! The buttons of the page: which actions are possible, else why not. Pure functions: the checks are those of
//! the commands.

use anyhow::Result;
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use serde::Serialize;

use super::access::Access;
use crate::commands::abort::abortable;
use crate::commands::resume::{ResumeTarget, resumable};
use crate::commands::retry::retriable;
use crate::commands::undo::target;
use crate::view::overview::images;
use crate::view::phase::{aborted, blocked};
use crate::view::revisions::Revision;

/// A button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Button {
    action: &'static str,
    label: String,
    /// The command that does the same.
    command: String,
    /// Why it is disabled.
    reason: Option<String>,
    /// What to confirm first.
    confirm: Option<String>,
    /// The pause point to pass.
    hold: Option<String>,
    /// The revision to roll back to; otherwise that of the rollout, if the action is about it.
    revision: Option<i64>,
}

/// The buttons of an OrderedDeployment. `flags` are those of the printed commands.
pub(super) fn buttons(
    deployment: &OrderedDeployment,
    revisions: &[Revision],
    access: &Access,
    flags: &str,
) -> Vec<Button> {
    let name = deployment.name_any();
    let object = (name.as_str(), flags);
    let status = deployment.status.clone().unwrap_or_default();
    let button = |action, label: &str, verb: &str, denied: Option<&String>, possible: Result<()>| Button {
        action,
        label: label.to_owned(),
        command: format!("kubectl ordered {verb}{flags}"),
        reason: denied.cloned().or_else(|| possible.err().as_ref().map(first_line)),
        confirm: None,
        hold: None,
        revision: None,
    };
    let revision = status.rollout.as_ref().map(|rollout| rollout.revision);
    let rolled_back_to = status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref());
    let is_abortable = match aborted(&status) {
        Some(aborted) => Err(anyhow::anyhow!("revision {} is already aborted", aborted.revision)),
        None => abortable(object, &status).map(drop),
    };
    let abort = Button {
        confirm: rolled_back_to.map(|from| {
            format!(
                "Abort the rollout: roll the pods of {name} back to revision {}. Pause points are ignored.",
                from.revision
            )
        }),
        revision,
        ..button("abort", "Abort", &format!("abort {name}"), access.status.as_ref(), is_abortable)
    };
    let retry = Button {
        confirm: Some(format!("Start the aborted rollout of {name} again. It pauses at its pause points.")),
        revision,
        ..button(
            "retry",
            "Retry",
            &format!("retry {name}"),
            access.status.as_ref(),
            retriable(object, &status).map(drop),
        )
    };
    let pause = if deployment.spec.paused {
        button("unpause", "Unpause", &format!("unpause {name}"), access.spec.as_ref(), Ok(()))
    } else {
        button("pause", "Pause", &format!("pause {name}"), access.spec.as_ref(), Ok(()))
    };
    let all = Button {
        confirm: Some(format!("Pass this and all later pause points of the rollout of {name}.")),
        revision,
        ..button(
            "resumeAll",
            "Resume all",
            &format!("resume {name} --all"),
            access.status.as_ref(),
            resumable(object, &status, ResumeTarget::All).map(drop),
        )
    };
    let resume = resume(object, &status, &button, access.status.as_ref());
    let undo = undo(object, deployment, revisions, &button, access.spec.as_ref());
    let mark = button("mark", "Mark", "mark POD --priority N --pause before", access.pods.as_ref(), Ok(()));
    vec![resume, all, pause, abort, retry, undo, mark]
}

type Template<'a> = dyn Fn(&'static str, &str, &str, Option<&String>, Result<()>) -> Button + 'a;

fn resume(
    object: (&str, &str),
    status: &ordereddeployment_api::OrderedDeploymentStatus,
    button: &Template<'_>,
    denied: Option<&String>,
) -> Button {
    let name = object.0;
    if let Some((blocked, message)) = blocked(status) {
        return Button {
            confirm: Some(format!("{message} Pass the pause point all the same.")),
            hold: Some(blocked.id.clone()),
            ..button("resume", "Resume", &format!("resume {name} {}", blocked.id), denied, Ok(()))
        };
    }
    match resumable(object, status, ResumeTarget::Current) {
        Ok(id) => Button {
            hold: Some(id.clone()),
            ..button("resume", "Resume", &format!("resume {name} {id}"), denied, Ok(()))
        },
        Err(why) => button("resume", "Resume", &format!("resume {name}"), denied, Err(why)),
    }
}

fn undo(
    (name, flags): (&str, &str),
    deployment: &OrderedDeployment,
    revisions: &[Revision],
    button: &Template<'_>,
    denied: Option<&String>,
) -> Button {
    let found = match target(revisions, 0, (name, flags)) {
        _ if deployment.spec.paused => {
            Err(anyhow::anyhow!("{name} is paused (spec.paused): unpause it first"))
        }
        found => found,
    };
    let (to, possible) = match found {
        Ok(revision) => (Some(revision), Ok(())),
        Err(why) => (None, Err(why)),
    };
    Button {
        confirm: to.map(|to| confirm_undo(deployment, to)),
        revision: to.map(|to| to.number),
        ..button("undo", "Undo", &format!("undo {name}"), denied, possible)
    }
}

/// What to confirm before an undo to that revision.
pub(super) fn confirm_undo(deployment: &OrderedDeployment, to: &Revision) -> String {
    let images = images(&to.template.value()).join(", ");
    let declared: Vec<&str> = deployment.spec.strategy.points().map(|point| point.name.as_str()).collect();
    let and = if declared.is_empty() { String::new() } else { format!("{} and at ", declared.join(", ")) };
    let name = deployment.name_any();
    format!("Roll {name} back to revision {} ({images}). It pauses at {and}pause points of pods.", to.number)
}

/// The message without hints: they name commands, and the page has buttons.
fn first_line(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
