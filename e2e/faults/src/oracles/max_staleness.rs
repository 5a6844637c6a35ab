//! How old the view of a decision may be, given the faults of a case.

use jiff::{SignedDuration, Timestamp};

use crate::case::{Fault, Millis, RequestFault, WatchFault};
use crate::log::RunEventKind;
use crate::{Case, Log};

/// The maximum without faults: the time until a watch that ended is opened again.
const WITHOUT_FAULTS: SignedDuration = SignedDuration::from_secs(12);
/// The longest back-off of a watch.
const BACKOFF: Millis = 35_000;
/// The time until a watch without events times out and is opened again.
const WATCH_TIMEOUT: Millis = 330_000;

/// The maximum number of consecutive requests of a reconcile in these scenarios.
const MAX_REQUESTS: u64 = 30;
/// The maximum number of batches of writes of a reconcile in these scenarios.
const MAX_BATCHES: u32 = 10;

/// How old the view of a decision at that moment may be.
pub(super) fn max_staleness(case: &Case, log: &Log, at: Timestamp) -> SignedDuration {
    let Some(start) = log.events.first().map(|event| event.at) else { return WITHOUT_FAULTS };
    let healed = log.event(&RunEventKind::FaultsEnded).map_or(Timestamp::MAX, |event| event.at);
    let delays = case.faults.iter().map(|fault| {
        let delay = match fault {
            Fault::Freeze { span, .. } => span.duration,
            Fault::Watch { effect: WatchFault::Delay(delay), span, .. } => span.duration.max(*delay) + *delay,
            Fault::Watch { effect: WatchFault::HalfOpen, span, .. } => span.duration + WATCH_TIMEOUT,
            Fault::Partition { span, .. } | Fault::Watch { span, .. } => span.duration + BACKOFF,
            // A reconcile keeps the object of its start, and its batches of writes are sent one after the
            // other.
            Fault::Request { effect: RequestFault::Delay(delay), times, .. } => {
                *delay * u64::from((*times).min(MAX_BATCHES))
            }
            // Each request of a reconcile may take that time.
            Fault::Latency { before, after, .. } => (*before + *after) * MAX_REQUESTS,
            Fault::Request { matcher, .. } if matches!(matcher.verb.as_str(), "" | "list" | "watch") => {
                WATCH_TIMEOUT
            }
            _ => 0,
        };
        let delay = SignedDuration::from_millis(i64::try_from(delay).unwrap_or(i64::MAX));
        let time = |millis: Millis| {
            let after = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
            start.checked_add(after).unwrap_or(Timestamp::MAX)
        };
        let (begin, end) =
            fault.span().map_or((start, healed), |span| (time(span.start), time(span.end()).min(healed)));
        if at < begin || at > end + delay + WITHOUT_FAULTS { SignedDuration::ZERO } else { delay }
    });
    delays.fold(WITHOUT_FAULTS, SignedDuration::saturating_add)
}
