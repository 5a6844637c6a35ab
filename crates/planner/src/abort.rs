//! The abort of a rollout, and its retry. An aborted rollout replaces the pods of every other revision by
//! those of the last complete one; the spec stays.
//!
//! All functions return a status to store. No pod is deleted or created here.

use ordereddeployment_api::{
    Aborted, Action, OrderedDeploymentStatus, ProgressDeadlineAction, Rollout, names::reason,
};

use crate::conditions::seconds;
use crate::inventory::{Inventory, narrow};
use crate::{Decision, Record, Set, conditions, events, groups, history};

/// An abort or a retry that is due. It comes before any other change of the rollout.
pub(crate) fn transition(inventory: &Inventory<'_>) -> Option<Decision> {
    if inventory.revision.needs_comparison() {
        // The spec may have another template than the rollout.
        return None;
    }
    if let Some(requested) = inventory.status.abort_requested {
        return Some(match target(inventory, requested) {
            Ok(to) => abort(inventory, to, "by request".to_owned()),
            Err(why) => {
                let mut status = inventory.status.clone();
                status.abort_requested = None;
                ignored(status, &format!("the request to abort revision {requested}"), &why)
            }
        });
    }
    if let Some(requested) = inventory.status.retry_requested {
        return Some(retry(inventory, requested));
    }
    let aborts = inventory.spec.progress_deadline_action == ProgressDeadlineAction::Abort;
    if !aborts
        || inventory.spec.paused
        || inventory.bounds.desired == 0
        || inventory.returns()
        || !conditions::is_overdue(inventory.status)
    {
        return None;
    }
    let to = target(inventory, inventory.rollout_revision()).ok()?;
    let seconds = inventory.spec.progress_deadline_seconds;
    Some(abort(inventory, to, format!("no progress for {seconds} seconds (progressDeadlineAction: Abort)")))
}

/// The set to which an abort of that revision rolls back; else why it is impossible.
fn target<'a>(inventory: &Inventory<'a>, requested: i64) -> Result<&'a Set, String> {
    let Some(rollout) = &inventory.status.rollout else { return Err("no rollout has started".to_owned()) };
    let revision = rollout.revision;
    if revision != requested {
        return Err(format!("the rollout is to revision {revision}"));
    }
    if inventory.aborts() {
        return Err("it is aborted already".to_owned());
    }
    if rollout.completed && inventory.has_served() {
        return Err("the rollout is complete; an undo rolls it back".to_owned());
    }
    inventory.back.ok_or_else(|| match &rollout.from {
        Some(from) => format!("the set of revision {}, the last complete one, is gone", from.revision),
        None => "no revision was complete before, to which the pods could be rolled back".to_owned(),
    })
}

fn abort(inventory: &Inventory<'_>, to: &Set, why: String) -> Decision {
    let mut status = inventory.status.clone();
    let revision = inventory.rollout_revision();
    history::clear(&mut status);
    if let Some(rollout) = &mut status.rollout {
        // No point is ahead of an abort. Without replicas, a retry has those that were.
        if inventory.bounds.desired > 0 {
            rollout.points = Some(Vec::new());
        }
        rollout.pause = None;
    }
    let message =
        format!("Aborted the rollout to revision {revision}, back to revision {}: {why}", to.revision);
    events::remember(&mut status, Action::Aborted, None, revision, inventory.snapshot.now, &why);
    if inventory.status.hold.is_some() {
        conditions::not_held(&mut status, inventory.snapshot.now);
    }
    status.aborted = Some(Aborted {
        revision,
        to: to.revision,
        template_hash: to.hash.clone(),
        at: seconds(inventory.snapshot.now).into(),
        reason: why,
    });
    Decision::Record(Record { status, events: vec![events::warning(reason::ABORTED, message)] })
}

/// Starts the aborted rollout again, with a new revision number.
fn retry(inventory: &Inventory<'_>, requested: i64) -> Decision {
    let before = inventory.status.rollout.as_ref().filter(|rollout| rollout.revision == requested);
    let Some(before) = before.filter(|_| inventory.aborts()) else {
        let why = match inventory.status.aborted.as_ref().filter(|_| inventory.aborts()) {
            Some(aborted) => format!("the aborted revision is {}", aborted.revision),
            None => "the rollout is not aborted".to_owned(),
        };
        let mut status = inventory.status.clone();
        status.retry_requested = None;
        return ignored(status, &format!("the request to retry revision {requested}"), &why);
    };
    let mut status = inventory.status.clone();
    history::clear(&mut status);
    let revision = history::number_after_all(inventory);
    // It begins anew: all points are ahead. Without pods, those that were stay.
    let points = history::carried(inventory, revision, inventory.is_at_zero());
    status.rollout = Some(Rollout {
        revision,
        completed: false,
        points: Some(points),
        node_groups: groups::kept(inventory),
        from: before.from.clone().map(|from| history::begun_from(inventory, from)),
        pause: None,
        ..before.clone()
    });
    // Progress is computed from this count.
    status.updated_replicas = Some(narrow(inventory.with_spec_template()));
    let now = inventory.snapshot.now;
    events::remember(&mut status, Action::Retried, None, revision, now, "by request");
    conditions::progressing_again(&mut status, reason::RETRIED, "been started again", now);
    let message = format!("Started the aborted rollout again, as revision {revision}");
    Decision::Record(Record { status, events: vec![events::normal(reason::RETRIED, message)] })
}

fn ignored(status: OrderedDeploymentStatus, what: &str, why: &str) -> Decision {
    let message = format!("Dropped {what}: {why}");
    Decision::Record(Record { status, events: vec![events::warning(reason::REQUEST_IGNORED, message)] })
}
