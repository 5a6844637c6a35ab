//! Random faults. Drawn from a seed, so that the seed is all that has to be kept.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::case::{Act, Case, Class, Fault, How, Moment, Pick, Span, WatchHow};

/// What controllers ask for most, and what of it.
const CLASSES: &[(&str, &str, &str)] = &[
    ("", "", ""),
    ("create", "pods", ""),
    ("delete", "pods", ""),
    ("patch", "ordereddeployments", "status"),
    ("create", "orderedreplicasets", ""),
    ("patch", "orderedreplicasets", ""),
    ("patch", "orderedreplicasets", "status"),
    ("list", "pods", ""),
    ("list", "", ""),
    ("get", "", ""),
    ("watch", "", ""),
    ("update", "leases", ""),
];
/// What watches show.
const WATCHED: &[&str] = &["", "pods", "pods", "pods", "ordereddeployments", "orderedreplicasets", "nodes"];
/// How long most runs take, in milliseconds.
const LONG: u64 = 30_000;

fn one<'a, T>(rng: &mut StdRng, of: &'a [T]) -> &'a T {
    &of[rng.random_range(0..of.len())]
}

/// Adds none to six faults of any kind.
pub(crate) fn trouble(case: &mut Case, rng: &mut StdRng) {
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
    match rng.random_range(0..12) {
        0 | 1 => Fault::Crash {
            write: rng.random_range(1..60),
            moment: *one(rng, &[Moment::Before, Moment::Unanswered, Moment::Answered]),
            back: *one(rng, &[10, 1000, 30_000]),
        },
        2..=5 => request(rng),
        6..=8 => Fault::Watch { plural: (*one(rng, WATCHED)).to_owned(), span: span(rng), how: watch(rng) },
        9 => match case.cluster.instances {
            1 => Fault::Compact { at: rng.random_range(0..LONG) },
            _ => Fault::Cut { instance: rng.random_range(1..=2), span: span(rng) },
        },
        10 => {
            Fault::Freeze { instance: rng.random_range(1..=case.cluster.instances.max(1)), span: span(rng) }
        }
        _ => Fault::Somebody {
            at: rng.random_range(0..LONG),
            act: one(
                rng,
                &[Act::DeletePod(Pick::Any(1)), Act::KillPod(Pick::Any(2)), Act::Ready(Pick::Old(1), false)],
            )
            .clone(),
        },
    }
}

fn span(rng: &mut StdRng) -> Span {
    let lasts = *one(rng, &[100, 1000, 5000, 20_000, 60_000]);
    Span { at: rng.random_range(0..LONG), lasts: rng.random_range(1..=lasts) }
}

fn watch(rng: &mut StdRng) -> WatchHow {
    match rng.random_range(0..7) {
        0 => WatchHow::Delay(*one(rng, &[50, 500, 2000, 10_000])),
        1 => WatchHow::Freeze,
        2 => WatchHow::HalfOpen,
        3 => WatchHow::Break,
        4 => WatchHow::Double,
        5 => WatchHow::Expire,
        _ => WatchHow::Rewind(rng.random_range(1..30)),
    }
}

fn request(rng: &mut StdRng) -> Fault {
    let (verb, plural, subresource) = *one(rng, CLASSES);
    let class = Class {
        verb: verb.to_owned(),
        plural: plural.to_owned(),
        subresource: subresource.to_owned(),
        continued: false,
    };
    let applied = rng.random_range(0..2) == 0;
    let answer = |code: u16, reason: &str, applied: bool| How::Answer {
        code,
        reason: reason.to_owned(),
        message: "injected".to_owned(),
        applied,
    };
    let how = match rng.random_range(0..11) {
        0 => answer(409, "Conflict", false),
        1 => answer(429, "TooManyRequests", false),
        2 => answer(500, "InternalError", applied),
        3 => answer(503, "ServiceUnavailable", applied),
        4 => answer(504, "Timeout", applied),
        5 => How::Reset { applied },
        6 => How::Hang { applied },
        7 => How::Late(*one(rng, &[20, 500, 5000, 9000])),
        8 => answer(403, "Forbidden", false),
        9 => answer(410, "Expired", false),
        _ => How::Overtaken,
    };
    Fault::Request { class, skip: rng.random_range(0..20), times: *one(rng, &[1, 1, 1, 3, 10, 40]), how }
}
