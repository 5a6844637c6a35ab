//! A pod of a state, and the times in states.

use jiff::Timestamp;

use crate::case::PodPausePoint;

/// The time of every decision, in seconds.
const NOW: i64 = 2_000_000_000;
/// The time of everything that has expired or does not matter.
const OLD: i64 = NOW - 100_000;
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
