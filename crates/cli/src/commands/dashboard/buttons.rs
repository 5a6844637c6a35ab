//! The buttons of the page: which actions are possible, else why not. Pure functions: the checks are those of
//! the commands.

use anyhow::{Result, anyhow};
use kube::ResourceExt;
use ordereddeployment_api::OrderedDeployment;
use serde::Serialize;

use crate::client::explain::first_line;
use crate::commands::abort::{abortable, retriable};
use crate::commands::resume::{ResumeTarget, request};
use crate::commands::undo::target;
use crate::view::overview::images;
use crate::view::phase::{aborted, blocked};
use crate::view::state::Revision;

/// A button.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Button {
    action: &'static str,
    label: &'static str,
    command: String,
    /// Why it is disabled.
    reason: Option<String>,
    confirm: Option<String>,
    hold: Option<String>,
    /// The revision to roll back to; otherwise that of the rollout, if the action is about it.
    revision: Option<i64>,
}

/// The buttons of an OrderedDeployment. `flags` are those of the printed commands.
pub(super) fn buttons(deployment: &OrderedDeployment, revisions: &[Revision], flags: &str) -> Vec<Button> {
    let name = deployment.name_any();
    let object = (name.as_str(), flags);
    let status = deployment.status.clone().unwrap_or_default();
    let button = |action, label, verb: &str, possible: Result<()>| Button {
        action,
        label,
        command: format!("kubectl ordered {verb}{flags}"),
        // Without hints: they name commands, and the page has buttons.
        reason: possible.err().map(first_line),
        ..Button::default()
    };
    let (hold, confirm, possible) =
        match (blocked(&status), request(object, &status, ResumeTarget::Current, None)) {
            (Some((blocked, message)), _) => {
                let confirm = format!("{message} Pass the pause point all the same.");
                (Some(blocked.id.clone()), Some(confirm), Ok(()))
            }
            (None, Ok((id, _))) => (Some(id), None, Ok(())),
            (None, Err(why)) => (None, None, Err(why)),
        };
    let verb = hold.iter().fold(format!("resume {name}"), |verb, id| format!("{verb} {id}"));
    let resume = Button { confirm, hold, ..button("resume", "Resume", &verb, possible) };

    let revision = status.rollout.as_ref().map(|rollout| rollout.revision);
    let is_resumable = request(object, &status, ResumeTarget::All(None), None).map(drop);
    let all = Button {
        confirm: Some(format!("Pass this and all later pause points of the rollout of {name}.")),
        revision,
        ..button("resumeAll", "Resume all", &format!("resume {name} --all"), is_resumable)
    };
    let (action, label) = if deployment.spec.paused { ("unpause", "Unpause") } else { ("pause", "Pause") };
    let pause = button(action, label, &format!("{action} {name}"), Ok(()));
    let is_abortable = match aborted(&status) {
        Some(aborted) => Err(anyhow!("revision {} is already aborted", aborted.revision)),
        None => abortable(object, &status).map(drop),
    };
    let back_to = status.rollout.as_ref().and_then(|rollout| rollout.from.as_ref());
    let abort = Button {
        confirm: back_to.map(|from| {
            format!(
                "Abort the rollout: roll the pods of {name} back to revision {}. Pause points are ignored.",
                from.revision
            )
        }),
        revision,
        ..button("abort", "Abort", &format!("abort {name}"), is_abortable)
    };
    let is_retriable = retriable(object, &status).map(drop);
    let retry = Button {
        confirm: Some(format!("Start the aborted rollout of {name} again. It pauses at its pause points.")),
        revision,
        ..button("retry", "Retry", &format!("retry {name}"), is_retriable)
    };
    let to = match target(revisions, 0, object) {
        _ if deployment.spec.paused => Err(anyhow!("{name} is paused (spec.paused): unpause it first")),
        found => found,
    };
    let undo = Button {
        confirm: to.as_ref().ok().map(|to| confirm_undo(deployment, to)),
        revision: to.as_ref().ok().map(|to| to.number),
        ..button("undo", "Undo", &format!("undo {name}"), to.map(drop))
    };
    vec![resume, all, pause, abort, retry, undo]
}

pub(super) fn confirm_undo(deployment: &OrderedDeployment, to: &Revision) -> String {
    let images = images(&to.template.value()).join(", ");
    let declared: Vec<&str> = deployment.spec.strategy.points().map(|point| point.name.as_str()).collect();
    let and = if declared.is_empty() { String::new() } else { format!("{} and at ", declared.join(", ")) };
    let name = deployment.name_any();
    format!("Roll {name} back to revision {} ({images}). It pauses at {and}pause points of pods.", to.number)
}
