//! The cases of the campaign: every scenario without faults, with combinations of faults, with a crash at
//! every write, with pairs of crashes, and with random faults by seed.
//!
//! A [`CaseId`] identifies a case: it gives the same case each time.

use anyhow::Result;
use ordereddeployment_sandbox::Record;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::case::{
    Case, Fault, Millis, Moment, Outcome, PodSelector, RequestFault, RequestMatcher, Span, UserAction,
    WatchFault,
};
use crate::log::{RunEventKind, instance};
use crate::random_faults::{add_faults, response};
use crate::run::run;
use crate::scenarios::{self, DELETIONS, ROLLOUTS, disowned};

/// The moments of a write at which an instance can crash.
const MOMENTS: [Moment; 3] = [Moment::BeforeRequest, Moment::BeforeResponse, Moment::AfterResponse];
/// How many writes more than without faults get a second crash.
const EXTRA_WRITES: u32 = 3;
/// A slice plays every n-th deletion. The number is coprime to the number of deletions, so that every kind is
/// played.
const EVERY: usize = 7;
/// A slice plays every n-th crash, so that random runs are a large part of it. The number is coprime to the
/// number of moments.
const EVERY_CRASH: usize = 2;
/// The seed of a scenario with its default parameters.
const PLAIN: u64 = 1;

/// Identifies a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseId {
    /// A scenario without faults.
    NoFaults(usize),
    /// A scenario with a crash at a write.
    Crash(usize, (u32, Moment)),
    /// A scenario with crashes at two writes.
    TwoCrashes(usize, (u32, Moment), (u32, Moment)),
    /// A scenario with one of `COMBINATIONS`.
    Combination(usize, usize),
    /// A rollout with one of the deletions just before a write.
    Deletion(usize, u32, usize),
    /// A random scenario with random faults, by seed.
    Random(u64),
}

impl CaseId {
    /// The case.
    pub fn case(self) -> Case {
        match self {
            Self::NoFaults(scenario) => plain(scenario, &[]),
            Self::Crash(scenario, one) => plain(scenario, &[one]),
            Self::TwoCrashes(scenario, one, other) => plain(scenario, &[one, other]),
            Self::Combination(scenario, combination) => {
                let mut case = plain(scenario, &[]);
                COMBINATIONS[combination % COMBINATIONS.len()](&mut case);
                case
            }
            Self::Deletion(rollout, write, deletion) => {
                let mut case = ROLLOUTS[rollout % ROLLOUTS.len()].case(&mut StdRng::seed_from_u64(PLAIN));
                DELETIONS[deletion % DELETIONS.len()].before(write, &mut case);
                case
            }
            Self::Random(seed) => random(seed),
        }
    }
}

fn plain(scenario: usize, crashes: &[(u32, Moment)]) -> Case {
    let mut case = scenarios::ALL[scenario % scenarios::ALL.len()].case(&mut StdRng::seed_from_u64(PLAIN));
    case.faults.extend(crashes.iter().copied().map(crash));
    case
}

fn crash((write, moment): (u32, Moment)) -> Fault {
    Fault::Crash { write, moment, restart_after: 1000 }
}

fn random(seed: u64) -> Case {
    let mut rng = StdRng::seed_from_u64(seed);
    let scenario = rng.random_range(0..scenarios::ALL.len());
    let mut case = scenarios::ALL[scenario].case(&mut rng);
    (case.seed, case.outcome) = (seed, Outcome::Any);
    add_faults(&mut case, &mut rng);
    case
}

/// The cases in their order: the enumerated cases, then random cases from that seed on, `runs` in total. If
/// the enumerated cases are more than that, or for a slice, each write gets one crash, at alternating
/// moments, and there are no pairs of crashes. A slice has half of these crashes.
pub fn case_ids(slice: bool, runs: usize, seed: u64) -> Result<Vec<CaseId>> {
    let scenarios = || 0..scenarios::ALL.len();
    let mut crashes = Vec::new();
    for scenario in scenarios() {
        let case = plain(scenario, &[]);
        crashes.push((scenario, case.short, run(&case)?.writes));
    }
    let deletions = deletions()?;
    let mut ids: Vec<CaseId> = scenarios().map(CaseId::NoFaults).collect();
    ids.extend(
        scenarios().flat_map(|one| (0..COMBINATIONS.len()).map(move |other| CaseId::Combination(one, other))),
    );
    let all: Vec<CaseId> =
        crashes.iter().flat_map(|&(scenario, short, writes)| all_of(scenario, short, writes)).collect();
    if slice || ids.len() + all.len() > runs {
        let once = crashes.iter().flat_map(|&(scenario, _, writes)| once_of(scenario, writes));
        ids.extend(once.step_by(if slice { EVERY_CRASH } else { 1 }));
        // Each kind of deletion at some writes, and each write with some deletions.
        let turns = deletions.into_iter().enumerate().filter(|(place, _)| place % EVERY == 0);
        ids.extend(turns.map(|(_, id)| id));
    } else {
        ids.extend(all);
        ids.extend(deletions);
    }
    let random = runs.saturating_sub(ids.len());
    ids.extend((seed..).take(random).map(CaseId::Random));
    Ok(ids)
}

/// Every deletion just before every write of the last rollout.
fn deletions() -> Result<Vec<CaseId>> {
    let mut ids = Vec::new();
    for (rollout, scenario) in ROLLOUTS.iter().enumerate() {
        let case = scenario.case(&mut StdRng::seed_from_u64(PLAIN));
        let log = run(&case)?;
        let last = |what: &RunEventKind| match what {
            RunEventKind::Step { place, .. } => place + 2 == case.steps.len(),
            _ => false,
        };
        let begun = log.events.iter().find(|event| last(&event.kind)).map_or(0, |event| event.requests);
        let later = log.requests[begun..].iter().filter(|record| is_counted(record)).count();
        let first = log.writes.saturating_sub(u32::try_from(later).unwrap_or(u32::MAX)) + 1;
        let all = (first..=log.writes).flat_map(|write| (0..DELETIONS.len()).map(move |one| (write, one)));
        ids.extend(all.map(|(write, one)| CaseId::Deletion(rollout, write, one)));
    }
    Ok(ids)
}

/// Whether that is a write that [`Fault::Crash`] counts.
fn is_counted(record: &Record) -> bool {
    instance(&record.user_agent).is_some()
        && !matches!(record.verb, "get" | "list" | "watch")
        && !record.path.contains("dryRun")
        && record.plural != "leases"
}

/// Faults that have an effect only in combination, or only at one moment, which random faults rarely hit.
const COMBINATIONS: &[fn(&mut Case)] = &[
    // The watch of pods is late: a request is seen before the changes of pods that precede it.
    |case| case.faults.push(watch("pods", 0, 60_000, WatchFault::Delay(2000))),
    // The leader is frozen or disconnected for longer than the lease.
    |case| without_leader(case, |span| Fault::Freeze { instance: 1, span }),
    |case| without_leader(case, |span| Fault::Freeze { instance: 2, span }),
    |case| without_leader(case, |span| Fault::Partition { instance: 1, span }),
    |case| without_leader(case, |span| Fault::Partition { instance: 2, span }),
    // A restarted instance gets an older version.
    |case| {
        case.faults.push(watch("", 0, 60_000, WatchFault::Rewind(20)));
        case.faults.push(crash((6, Moment::AfterResponse)));
    },
    // Pods are created and deleted while the watch is frozen. It expires afterwards, so that it never shows
    // them.
    |case| {
        case.faults.push(watch("pods", 1000, 5000, WatchFault::Freeze));
        case.faults.push(kill(2000));
        case.faults.push(kill(4000));
        case.faults.push(watch("pods", 6000, 1, WatchFault::Expire));
    },
    // Pods of the new template cannot be created, and old pods are deleted.
    |case| {
        let matcher =
            RequestMatcher { body_contains: "web:2".to_owned(), ..RequestMatcher::of("create", "pods", "") };
        let message = "failed calling webhook \"pods.example.com\": context deadline exceeded";
        let effect = response(500, "InternalError", message, false);
        case.faults.push(Fault::Request { matcher, skip: 1, times: 10_000, effect });
        let kill = |at| action(at, UserAction::ForceDeletePod(PodSelector::Old(0)));
        case.faults.extend([5000, 5500, 6000].map(kill));
        case.faults.push(action(100_000, UserAction::NoAction));
    },
    // An orphaned pod cannot be adopted, and another pod is deleted.
    |case| {
        let matcher = RequestMatcher::of("patch", "pods", "");
        let effect = response(403, "Forbidden", "User \"manager\" cannot patch pods", false);
        case.faults.push(Fault::Request { matcher, skip: 0, times: 10_000, effect });
        case.faults.push(action(4000, UserAction::PatchPod(PodSelector::Any(0), disowned())));
        case.faults.push(action(30_000, UserAction::ForceDeletePod(PodSelector::Updated(1))));
        case.faults.push(action(60_000, UserAction::NoAction));
    },
    // The watch breaks, and the events that it missed are compacted.
    |case| {
        case.faults.push(watch("", 1500, 1500, WatchFault::Disconnect));
        case.faults.push(kill(2000));
        case.faults.push(Fault::Compaction { at: 2500 });
    },
    // Every request fails for ten minutes.
    |case| {
        let effect = response(503, "ServiceUnavailable", "no healthy upstream", false);
        let matcher = RequestMatcher::default();
        case.faults.push(Fault::Request { matcher, skip: 40, times: 100_000, effect });
        case.faults.push(action(600_000, UserAction::NoAction));
    },
    // The API server no longer has the version that a watch begins at.
    |case| {
        let effect = response(410, "Expired", "too old resource version", false);
        let matcher = RequestMatcher::of("watch", "", "");
        case.faults.push(Fault::Request { matcher, skip: 0, times: 20, effect });
    },
    // The Lease is answered late.
    |case| {
        case.cluster.instances = 2;
        let matcher = RequestMatcher::of("", "leases", "");
        case.faults.push(Fault::Latency { matcher, before: 0, after: 3000 });
    },
    // The CRDs are older than the controller: the server drops unknown fields until they are updated.
    |case| {
        let matcher = RequestMatcher::of("patch", "ordereddeployments", "status");
        let dropped = serde_json::json!({"status": {"blocked": null, "rollout": {"points": null}}});
        let effect = RequestFault::Mutate(dropped);
        case.faults.push(Fault::Request { matcher, skip: 0, times: 10_000, effect });
    },
];

fn without_leader(case: &mut Case, fault: fn(Span) -> Fault) {
    case.cluster.instances = 2;
    case.faults.push(fault(Span { start: 1500, duration: 20_000 }));
}

fn watch(plural: &str, start: Millis, duration: Millis, effect: WatchFault) -> Fault {
    Fault::Watch { plural: plural.to_owned(), span: Span { start, duration }, effect }
}

fn kill(at: Millis) -> Fault {
    action(at, UserAction::ForceDeletePod(PodSelector::Updated(0)))
}

fn action(at: Millis, action: UserAction) -> Fault {
    Fault::Action { at, action, undo: None }
}

/// A crash at each write.
fn once_of(scenario: usize, writes: u32) -> impl Iterator<Item = CaseId> {
    let moments = MOMENTS.iter().cycle().skip(scenario % MOMENTS.len());
    (1..=writes).zip(moments).map(move |(write, &moment)| CaseId::Crash(scenario, (write, moment)))
}

/// A crash at each moment of each write, and in short scenarios each pair of these.
fn all_of(scenario: usize, short: bool, writes: u32) -> Vec<CaseId> {
    let crashes = |writes: u32| (1..=writes).flat_map(|write| MOMENTS.map(|moment| (write, moment)));
    let mut ids: Vec<CaseId> = crashes(writes).map(|crash| CaseId::Crash(scenario, crash)).collect();
    if short {
        // After a crash, writes are repeated: there are more writes than without.
        let pairs =
            crashes(writes).flat_map(|one| crashes(writes + EXTRA_WRITES).map(move |other| (one, other)));
        let pairs = pairs.filter(|(one, other)| one.0 < other.0);
        ids.extend(pairs.map(|(one, other)| CaseId::TwoCrashes(scenario, one, other)));
    }
    ids
}

/// The same cases, with crashes and random cases alternating, so that a violation is found early.
pub fn interleaved(ids: Vec<CaseId>) -> Vec<CaseId> {
    let (random, others): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| matches!(id, CaseId::Random(_)));
    let (no_faults, crashes): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|id| matches!(id, CaseId::NoFaults(_)));
    let mut interleaved = no_faults;
    let (mut crashes, mut random) = (crashes.into_iter(), random.into_iter());
    loop {
        let two = [crashes.next(), random.next()];
        if two == [None, None] {
            return interleaved;
        }
        interleaved.extend(two.into_iter().flatten());
    }
}
