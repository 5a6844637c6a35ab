//! Plays each scenario without faults, with its default parameters and with random ones. A step whose
//! condition does not happen continues after its time limit; these tests find such steps.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use faults::{ALL, Case, Outcome, RunEventKind, Scenario, Violation, check, run};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Seed 1 gives the default parameters.
const SEEDS: RangeInclusive<u64> = 1..=2;

/// The result of one run.
struct Played {
    case: Case,
    /// Whether the parameters are the default ones.
    plain: bool,
    steps: Vec<RunEventKind>,
    writes: u32,
    violations: Vec<Violation>,
}

/// Every scenario with every seed, played once for all tests.
static PLAYED: LazyLock<Vec<Played>> = LazyLock::new(|| {
    let seeds = |scenario: &&'static Scenario| {
        let scenario = *scenario;
        SEEDS.map(move |seed| (seed, scenario.case(&mut StdRng::seed_from_u64(seed))))
    };
    let cases: Vec<(u64, Case)> = ALL.iter().flat_map(seeds).collect();
    let halves = cases.split_at(cases.len() / 2);
    let play = |cases: &[(u64, Case)]| cases.iter().map(played).collect::<Vec<_>>();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| play(halves.0));
        let second = play(halves.1);
        first.join().unwrap().into_iter().chain(second).collect()
    })
});

fn played((seed, case): &(u64, Case)) -> Played {
    let log = run(case).unwrap();
    let steps = log.events.iter().map(|event| event.kind.clone());
    let steps = steps.filter(|what| matches!(what, RunEventKind::Step { .. })).collect();
    let violations = check(case, &log);
    Played { case: case.clone(), plain: *seed == 1, steps, writes: log.writes, violations }
}

fn assert_none(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_step_of_every_scenario_is_in_time_and_not_refused() {
    assert_none(PLAYED.iter().flat_map(|played| {
        let case = &played.case;
        played.steps.iter().filter_map(|step| {
            let RunEventKind::Step { place, in_time, refused } = step else { return None };
            let fine = *in_time && refused.is_none();
            (!fine)
                .then(|| format!("{} (seed {}): {step:?} of {:?}", case.name, case.seed, case.steps[*place]))
        })
    }));
}

#[test]
fn every_scenario_keeps_every_promise_and_has_its_outcome() {
    assert_none(PLAYED.iter().flat_map(|played| {
        let wrong = played.violations.iter();
        wrong.map(|violation| format!("{} (seed {}): {violation}", played.case.name, played.case.seed))
    }));
}

#[test]
fn no_scenario_has_too_many_writes_for_a_crash_at_each() {
    assert_none(PLAYED.iter().filter(|played| played.plain).filter_map(|played| {
        let limit = match (played.case.short, played.case.outcome) {
            (true, _) => 50,
            // Refused writes are retried until the end.
            (_, Outcome::Stalled) => 150,
            // The sizes and the statuses of two sets are written each second.
            _ => 120,
        };
        let fits = (1..=limit).contains(&played.writes);
        (!fits).then(|| format!("{}: {} of {limit} writes", played.case.name, played.writes))
    }));
}

#[test]
fn names_of_scenarios_are_unique() {
    let mut names: Vec<String> =
        ALL.iter().map(|scenario| scenario.case(&mut StdRng::seed_from_u64(1)).name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}
