//! The settings of the garbage collector.

use std::time::Duration;

/// The settings of the garbage collector. With the default it works without delay. They can change while it
/// runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collector {
    /// The minimum time between two of its writes, like the rate limit of its client.
    pub pace: Duration,
    /// How late its watches show a change.
    pub lag: Duration,
    /// Whether it is suspended: it reads no events and sends no requests.
    pub frozen: bool,
}
