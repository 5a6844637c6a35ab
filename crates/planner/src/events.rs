//! The events of decisions, and the history in the status.

use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::names::{HISTORY, reason};
use ordereddeployment_api::{Action, HistoryEntry, OrderedDeploymentStatus};

use crate::conditions::seconds;
use crate::{Event, EventType, Regarding};

pub(crate) fn normal(reason: &'static str, message: String) -> Event {
    Event { type_: EventType::Normal, reason, message, regarding: Regarding::Deployment }
}

pub(crate) fn warning(reason: &'static str, message: String) -> Event {
    Event { type_: EventType::Warning, reason, message, regarding: Regarding::Deployment }
}

/// Adds an entry to the history in the status; the oldest entries are dropped.
pub(crate) fn remember(
    status: &mut OrderedDeploymentStatus,
    action: Action,
    id: Option<&str>,
    revision: i64,
    now: Timestamp,
    why: &str,
) {
    let history = status.history.get_or_insert_default();
    history.push(HistoryEntry {
        action,
        id: id.map(ToOwned::to_owned),
        revision,
        at: seconds(now).into(),
        reason: why.to_owned(),
    });
    let excess = history.len().saturating_sub(HISTORY);
    history.drain(..excess);
}

pub(crate) fn point_lost(name: &str, uid: &Arc<str>) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason::PAUSE_POINT_LOST,
        message: format!(
            "Pod {name} with a pause point is gone: the number of updated pods alone holds the rollout"
        ),
        regarding: Regarding::Pod { name: name.to_owned(), uid: Arc::clone(uid) },
    }
}

pub(crate) fn point_skipped(id: &str) -> Event {
    let message = format!("Pause point {id} holds nothing in this rollout: no old pod is behind it");
    warning(reason::PAUSE_POINT_SKIPPED, message)
}

pub(crate) fn points_joined(id: &str, most: usize) -> Event {
    let message = format!(
        "More than {most} pods have a pause point, or too many groups of nodes: {id} stands for those with \
         the largest numbers"
    );
    warning(reason::PAUSE_POINTS_JOINED, message)
}

pub(crate) fn place_lost(id: &str) -> Event {
    let message =
        format!("No pod is at pause point {id} any more: the number of updated pods alone holds the rollout");
    warning(reason::PAUSE_POINT_LOST, message)
}
