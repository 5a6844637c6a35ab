//! A pod of a state, and the times in states.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::PausePoint;
use ordereddeployment_planner::{Pod, Point};
use ordereddeployment_sorter::{Facts, Phase};

use crate::case::{PodPausePoint, Setup};

/// The time of every decision, in seconds.
const NOW: i64 = 2_000_000_000;
/// The time of everything that has expired or does not matter.
const OLD: i64 = NOW - 100_000;
/// How long a timed pause point lasts.
const MINUTE: Duration = Duration::from_secs(60);

pub fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap_or_default()
}

pub fn old() -> Timestamp {
    Timestamp::from_second(OLD).unwrap_or_default()
}

/// A pod.
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodState {
    /// The number in its name and UID, until the next canonical form.
    pub id: u16,
    pub template: u8,
    pub priority: i8,
    pub point: PodPausePoint,
    pub ready: bool,
    /// Whether its containers run.
    pub started: bool,
    pub terminating: bool,
    /// Whether it never becomes ready.
    pub never_ready: bool,
}

/// The number in a UID.
pub fn id_of(uid: &str) -> Option<u16> {
    uid.strip_prefix("uid-")?.parse().ok()
}

/// The pod as the planner observes it.
pub fn pod(state: &PodState, setup: &Setup) -> Pod {
    let named = setup.pods.get(usize::from(state.id)).cloned();
    // A new pod has another number until the next canonical form.
    let (name, uid) =
        named.unwrap_or_else(|| (format!("pod-{:04}", state.id), format!("uid-{:04}", state.id).into()));
    let at = |side, duration| Point::At { side, duration: Ok(duration) };
    Pod {
        name,
        set: Arc::clone(&setup.sets[usize::from(state.template)]),
        resource_version: "1".to_owned(),
        facts: Facts {
            uid,
            node: Some(Arc::clone(&setup.node)),
            phase: if state.started { Phase::Running } else { Phase::Pending },
            ready: state.ready,
            ready_since: Some(old()),
            created: Some(old()),
            priority: Some(i32::from(state.priority)),
            ..Facts::default()
        },
        terminating: state.terminating,
        ends: None,
        finished: false,
        failed: None,
        unscheduled: None,
        point: match state.point {
            PodPausePoint::None => Point::None,
            PodPausePoint::Before => at(PausePoint::Before, None),
            PodPausePoint::After => at(PausePoint::After, None),
            PodPausePoint::BeforeTimed => at(PausePoint::Before, Some(MINUTE)),
            PodPausePoint::AfterTimed => at(PausePoint::After, Some(MINUTE)),
        },
    }
}
