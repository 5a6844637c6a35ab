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
        message: format!("Pod {name} is gone, and with it a pause point that the rollout had not reached"),
        regarding: Regarding::Pod { name: name.to_owned(), uid: Arc::clone(uid) },
    }
}
