//! How far the faults of a case explain that something is late.

use jiff::{SignedDuration, Timestamp};

use crate::case::{Fault, How, Millis, WatchHow};
use crate::log::What;
use crate::{Case, Log};

/// How old a view may be where no fault holds it back: a watch that ended begins anew within that time.
const CALM: SignedDuration = SignedDuration::from_secs(12);
/// The longest wait of a watch that failed again and again.
const BACKOFF: Millis = 35_000;
/// How long a watch may say nothing before it is opened anew.
const SILENCE: Millis = 330_000;

/// How many requests one after the other a pass has at most in these scenarios.
const REQUESTS: u64 = 30;
/// How many batches of writes a pass has at most in these scenarios.
const IN_A_PASS: u32 = 10;

/// How old what a decision of that moment was made on may be.
pub(super) fn staleness(case: &Case, log: &Log, at: Timestamp) -> SignedDuration {
    let Some(start) = log.marks.first().map(|mark| mark.at) else { return CALM };
    let healed = log.mark(&What::Healed).map_or(Timestamp::MAX, |mark| mark.at);
    let explained = case.faults.iter().map(|fault| {
        let delay = match fault {
            Fault::Freeze { span, .. } => span.lasts,
            Fault::Watch { how: WatchHow::Delay(delay), span, .. } => span.lasts.max(*delay) + *delay,
            Fault::Watch { how: WatchHow::HalfOpen, span, .. } => span.lasts + SILENCE,
            Fault::Cut { span, .. } | Fault::Watch { span, .. } => span.lasts + BACKOFF,
            // A pass knows the object as it was at its beginning, and lasts as long as its writes do one after the other.
            Fault::Request { how: How::Late(delay), times, .. } => {
                *delay * u64::from((*times).min(IN_A_PASS))
            }
            // As long as each of the requests of a pass may take.
            Fault::Slow { before, after, .. } => (*before + *after) * REQUESTS,
            Fault::Request { class, .. } if matches!(class.verb.as_str(), "" | "list" | "watch") => SILENCE,
            _ => 0,
        };
        let delay = SignedDuration::from_millis(i64::try_from(delay).unwrap_or(i64::MAX));
        let time = |millis: Millis| {
            let after = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
            start.checked_add(after).unwrap_or(Timestamp::MAX)
        };
        let (begin, end) =
            fault.span().map_or((start, healed), |span| (time(span.at), time(span.end()).min(healed)));
        if at < begin || at > end + delay + CALM { SignedDuration::ZERO } else { delay }
    });
    explained.fold(CALM, SignedDuration::saturating_add)
}
