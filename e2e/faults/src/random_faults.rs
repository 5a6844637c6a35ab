//! Random faults by seed.
//!
//! User actions are undone, so that a run can settle, unless users usually keep them: a scale, a template, a
//! pause point.

mod actions;
mod requests;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::case::{Case, Fault, Moment, Span, WatchFault};
pub(crate) use requests::response;
use requests::{moment, one};

/// The resources of watches.
const WATCHED: &[&str] = &["", "pods", "pods", "pods", "ordereddeployments", "orderedreplicasets", "nodes"];

/// Adds up to six faults.
pub(crate) fn add_faults(case: &mut Case, rng: &mut StdRng) {
    if rng.random_range(0..8) == 0 {
        case.cluster.page_limit = rng.random_range(1..4);
    }
    if rng.random_range(0..4) == 0 {
        case.cluster.instances = 2;
    }
    for _ in 0..rng.random_range(0..=6) {
        let fault = fault(case, rng);
        case.faults.push(fault);
    }
}

fn fault(case: &Case, rng: &mut StdRng) -> Fault {
    let instances = case.cluster.instances.max(1);
    match rng.random_range(0..100) {
        0..15 => Fault::Crash {
            write: rng.random_range(1..70),
            moment: one(rng, &[Moment::BeforeRequest, Moment::BeforeResponse, Moment::AfterResponse]),
            restart_after: one(rng, &[10, 1000, 1000, 30_000]),
        },
        15..18 => requests::latency(rng),
        18..44 => requests::fault(rng),
        44..62 => Fault::Watch { plural: one(rng, WATCHED).to_owned(), span: span(rng), effect: watch(rng) },
        62..81 => actions::fault(rng),
        81..86 => actions::before(rng),
        86..90 => Fault::Compaction { at: moment(rng) },
        90..94 => {
            Fault::ClockJump { instance: rng.random_range(0..=instances), at: moment(rng), by: jump(rng) }
        }
        94..97 if instances > 1 => {
            Fault::Partition { instance: rng.random_range(1..=instances), span: span(rng) }
        }
        _ => Fault::Freeze { instance: rng.random_range(1..=instances), span: span(rng) },
    }
}

fn span(rng: &mut StdRng) -> Span {
    let max = one(rng, &[100, 1000, 5000, 20_000, 60_000]);
    Span { start: moment(rng), duration: rng.random_range(1..=max) }
}

fn watch(rng: &mut StdRng) -> WatchFault {
    match rng.random_range(0..7) {
        0 => WatchFault::Delay(one(rng, &[50, 500, 2000, 10_000])),
        1 => WatchFault::Freeze,
        2 => WatchFault::HalfOpen,
        3 => WatchFault::Disconnect,
        4 => WatchFault::Duplicate,
        5 => WatchFault::Expire,
        _ => WatchFault::Rewind(rng.random_range(1..30)),
    }
}

/// The jump of a clock: from a step of NTP to a clock that is set by hand.
fn jump(rng: &mut StdRng) -> i64 {
    let max = one(rng, &[1000, 30_000, 3_600_000, 36_000_000]);
    rng.random_range(-max..=max)
}
