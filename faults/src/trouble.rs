//! Random faults. Drawn from a seed, so that the seed is all that has to be kept.
//!
//! What somebody breaks, they mend, so that a run can settle; but for what people leave as it is: a scale, a template, a pause
//! point.

mod draw;
mod people;
mod requests;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::case::{Case, Fault, Moment, Span, WatchHow};
use draw::{moment, one};

/// What watches show.
const WATCHED: &[&str] = &["", "pods", "pods", "pods", "ordereddeployments", "orderedreplicasets", "nodes"];

/// Adds none to six faults of any kind.
pub fn trouble(case: &mut Case, rng: &mut StdRng) {
    if rng.random_range(0..8) == 0 {
        case.cluster.page = rng.random_range(1..4);
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
            moment: one(rng, &[Moment::Before, Moment::Unanswered, Moment::Answered]),
            back: one(rng, &[10, 1000, 1000, 30_000]),
        },
        15..18 => requests::slow(rng),
        18..44 => requests::fault(rng),
        44..62 => Fault::Watch { plural: one(rng, WATCHED).to_owned(), span: span(rng), how: watch(rng) },
        62..81 => people::fault(rng),
        81..86 => people::before(rng),
        86..90 => Fault::Compact { at: moment(rng) },
        90..94 => Fault::Jump { instance: rng.random_range(0..=instances), at: moment(rng), by: jump(rng) },
        94..97 if instances > 1 => Fault::Cut { instance: rng.random_range(1..=instances), span: span(rng) },
        _ => Fault::Freeze { instance: rng.random_range(1..=instances), span: span(rng) },
    }
}

fn span(rng: &mut StdRng) -> Span {
    let lasts = one(rng, &[100, 1000, 5000, 20_000, 60_000]);
    Span { at: moment(rng), lasts: rng.random_range(1..=lasts) }
}

fn watch(rng: &mut StdRng) -> WatchHow {
    match rng.random_range(0..7) {
        0 => WatchHow::Delay(one(rng, &[50, 500, 2000, 10_000])),
        1 => WatchHow::Freeze,
        2 => WatchHow::HalfOpen,
        3 => WatchHow::Break,
        4 => WatchHow::Double,
        5 => WatchHow::Expire,
        _ => WatchHow::Rewind(rng.random_range(1..30)),
    }
}

/// From a step of a time server to somebody who sets the clock by hand.
fn jump(rng: &mut StdRng) -> i64 {
    let most = one(rng, &[1000, 30_000, 3_600_000, 36_000_000]);
    rng.random_range(-most..=most)
}
