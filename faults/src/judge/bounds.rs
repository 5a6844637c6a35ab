//! How far the faults of a case explain that something is late.

use jiff::{SignedDuration, Timestamp};

use crate::case::Fault;
use crate::log::What;
use crate::{Case, Log};

/// How old a view may be where no fault holds it back: a watch that ended begins anew within that time.
const CALM: SignedDuration = SignedDuration::from_secs(12);

/// How old what a decision of that moment was made on may be.
pub(super) fn staleness(case: &Case, log: &Log, at: Timestamp) -> SignedDuration {
    let healed = log.mark(&What::Healed).map_or(Timestamp::MAX, |mark| mark.at);
    let explained = case.faults.iter().map(|fault| match fault {
        Fault::Freeze { lasts, .. } => millis(*lasts),
        // Watches and what they list anew.
        Fault::Request { class, .. } if matches!(class.verb.as_str(), "" | "list" | "watch") => {
            SignedDuration::from_secs(400)
        }
        _ => SignedDuration::ZERO,
    });
    let explained = explained.max().unwrap_or_default();
    if at > healed + explained + CALM { CALM } else { CALM + explained }
}

fn millis(millis: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
