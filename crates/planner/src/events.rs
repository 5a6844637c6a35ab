//! The events of decisions: their reasons and messages.

use std::sync::Arc;

use ordereddeployment_api::names::reason;

use crate::{Event, EventType, Regarding};

pub(crate) fn normal(reason: &'static str, message: String) -> Event {
    Event { type_: EventType::Normal, reason, message, regarding: Regarding::Deployment }
}

pub(crate) fn warning(reason: &'static str, message: String) -> Event {
    Event { type_: EventType::Warning, reason, message, regarding: Regarding::Deployment }
}

pub(crate) fn point_lost(name: &str, uid: &Arc<str>) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason::PAUSE_POINT_LOST,
        message: format!("Pod {name} is gone, and with it a pause point that the rollout had not reached"),
        regarding: Regarding::Pod { name: name.to_owned(), uid: Arc::clone(uid) },
    }
}
