//! What can be set of the garbage collector, while it runs too.

use std::time::Duration;

/// How the garbage collector works. The default is as fast as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collector {
    /// The least time between two of its writes, as its client's rate limit has it.
    pub pace: Duration,
    /// How late its watches show a change.
    pub lag: Duration,
    /// Whether it is not given the processor: no event is read and no request is sent.
    pub frozen: bool,
}
