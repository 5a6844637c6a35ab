//! Which cases are played: every scenario as it is, with some combinations of faults, with a crash at every write, with pairs
//! of crashes, and with random faults by seed.
//!
//! A [`Play`] is a small name for a case: it makes the same one each time.

use ordereddeployment_sandbox::Record;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::case::{Act, Case, Class, Ends, Fault, How, Millis, Moment, Pick, Span, WatchHow};
use crate::log::{What, instance};
use crate::run::{Error, run};
use crate::scenarios::{self, DELETIONS, UNDER_WAY};
use crate::trouble::trouble;

/// The three moments at which a write can be cut off.
const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Unanswered, Moment::Answered];
/// From a crash to a fresh instance.
const BACK: u64 = 1000;
/// So many writes more than without faults are crashed in pairs.
const MORE: u32 = 3;
/// One in so many deletions is played in a slice; prime to how many there are, so that every kind has its turn.
const TURNS: usize = 7;
/// The seed of a scenario in its plain form.
const PLAIN: u64 = 1;

/// A case by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    /// That scenario without faults.
    Calm(usize),
    /// That scenario, cut off at one write.
    Crash(usize, (u32, Moment)),
    /// The same at two.
    Pair(usize, (u32, Moment), (u32, Moment)),
    /// That scenario with one of the combinations of `COMBINATIONS`.
    Together(usize, usize),
    /// That rollout, with one of the deletions just before that write.
    Deletion(usize, u32, usize),
    /// Any scenario and any faults, drawn by this seed.
    Random(u64),
}

impl Play {
    /// The case of that name.
    #[must_use]
    pub fn case(self) -> Case {
        match self {
            Self::Calm(scenario) => plain(scenario, &[]),
            Self::Crash(scenario, one) => plain(scenario, &[one]),
            Self::Pair(scenario, one, other) => plain(scenario, &[one, other]),
            Self::Together(scenario, combination) => {
                let mut case = plain(scenario, &[]);
                COMBINATIONS[combination % COMBINATIONS.len()](&mut case);
                case
            }
            Self::Deletion(rollout, write, deletion) => {
                let mut case = UNDER_WAY[rollout % UNDER_WAY.len()](&mut StdRng::seed_from_u64(PLAIN));
                DELETIONS[deletion % DELETIONS.len()].before(write, &mut case);
                case
            }
            Self::Random(seed) => random(seed),
        }
    }
}

fn plain(scenario: usize, crashes: &[(u32, Moment)]) -> Case {
    let mut case = scenarios::ALL[scenario % scenarios::ALL.len()](&mut StdRng::seed_from_u64(PLAIN));
    case.faults.extend(crashes.iter().map(|&(write, moment)| Fault::Crash { write, moment, back: BACK }));
    case
}

fn random(seed: u64) -> Case {
    let mut rng = StdRng::seed_from_u64(seed);
    let scenario = rng.random_range(0..scenarios::ALL.len());
    let mut case = scenarios::ALL[scenario](&mut rng);
    (case.seed, case.ends) = (seed, Ends::Anyhow);
    trouble(&mut case, &mut rng);
    case
}

/// What is played, in order: what can be enumerated, and then random cases from that seed on, `runs` in all. Where all that
/// can be enumerated are more, or a slice is asked for, every write is crashed once, the moments in turn, and no pairs are.
///
/// # Errors
/// Where a scenario cannot be played, to count its writes.
pub fn plays(slice: bool, runs: usize, seed: u64) -> Result<Vec<Play>, Error> {
    let scenarios = || 0..scenarios::ALL.len();
    let mut crashes = Vec::new();
    for scenario in scenarios() {
        let case = plain(scenario, &[]);
        crashes.push((scenario, case.short, run(&case)?.writes));
    }
    let deletions = deletions()?;
    let mut plays: Vec<Play> = scenarios().map(Play::Calm).collect();
    plays.extend(
        scenarios().flat_map(|one| (0..COMBINATIONS.len()).map(move |other| Play::Together(one, other))),
    );
    let all: Vec<Play> =
        crashes.iter().flat_map(|&(scenario, short, writes)| all_of(scenario, short, writes)).collect();
    if slice || plays.len() + all.len() > runs {
        plays.extend(crashes.iter().flat_map(|&(scenario, _, writes)| once_of(scenario, writes)));
        // Each kind of deletion at every so many of the writes, and each write with some of them.
        let turns = deletions.into_iter().enumerate().filter(|(place, _)| place % TURNS == 0);
        plays.extend(turns.map(|(_, play)| play));
    } else {
        plays.extend(all);
        plays.extend(deletions);
    }
    let random = runs.saturating_sub(plays.len());
    plays.extend((seed..).take(random).map(Play::Random));
    Ok(plays)
}

/// Every deletion just before every write of the last rollout of each.
fn deletions() -> Result<Vec<Play>, Error> {
    let mut plays = Vec::new();
    for (rollout, scenario) in UNDER_WAY.iter().enumerate() {
        let case = scenario(&mut StdRng::seed_from_u64(PLAIN));
        let log = run(&case)?;
        let last = |what: &What| matches!(what, What::Step { place, .. } if place + 2 == case.steps.len());
        let begun = log.marks.iter().find(|mark| last(&mark.what)).map_or(0, |mark| mark.requests);
        let later = log.requests[begun..].iter().filter(|record| is_counted(record)).count();
        let first = log.writes.saturating_sub(u32::try_from(later).unwrap_or(u32::MAX)) + 1;
        let all = (first..=log.writes).flat_map(|write| (0..DELETIONS.len()).map(move |one| (write, one)));
        plays.extend(all.map(|(write, one)| Play::Deletion(rollout, write, one)));
    }
    Ok(plays)
}

/// Whether that is a write that [`Fault::Crash`] counts.
fn is_counted(record: &Record) -> bool {
    instance(&record.user_agent).is_some()
        && !matches!(record.verb, "get" | "list" | "watch")
        && !record.path.contains("dryRun")
        && record.plural != "leases"
}

/// Faults that show something only together, or only in one moment, which a seed seldom meets.
const COMBINATIONS: &[fn(&mut Case)] = &[
    // Whoever leads is not given the processor, or reaches nobody, for longer than the lease.
    |case| without(case, |span| Fault::Freeze { instance: 1, span }),
    |case| without(case, |span| Fault::Freeze { instance: 2, span }),
    |case| without(case, |span| Fault::Cut { instance: 1, span }),
    |case| without(case, |span| Fault::Cut { instance: 2, span }),
    // A fresh instance is shown what there was before.
    |case| {
        case.faults.push(watch("", 0, 60_000, WatchHow::Rewind(20)));
        case.faults.push(Fault::Crash { write: 6, moment: Moment::Answered, back: BACK });
    },
    // Pods come and go that no watch shows: it stands still meanwhile, and begins anew after.
    |case| {
        case.faults.push(watch("pods", 1000, 5000, WatchHow::Freeze));
        case.faults.push(kill(2000));
        case.faults.push(kill(4000));
        case.faults.push(watch("pods", 6000, 1, WatchHow::Expire));
    },
    // Pods of the new template are not made any more, and old ones are lost.
    |case| {
        let class = Class { says: "web:2".to_owned(), ..Class::of("create", "pods", "") };
        let how = How::Answer {
            code: 500,
            reason: "InternalError".to_owned(),
            message: "failed calling webhook \"pods.example.com\": context deadline exceeded".to_owned(),
            applied: false,
        };
        case.faults.push(Fault::Request { class, skip: 1, times: 10_000, how });
        let kill = |at| Fault::Somebody { at, act: Act::KillPod(Pick::Old(0)), mend: None };
        case.faults.extend([5000, 5500, 6000].map(kill));
        case.faults.push(Fault::Somebody { at: 100_000, act: Act::Nothing, mend: None });
    },
    // A pod of nobody that cannot be adopted, and one that is lost beside it.
    |case| {
        let class = Class::of("patch", "pods", "");
        let how = How::Answer {
            code: 403,
            reason: "Forbidden".to_owned(),
            message: "User \"manager\" cannot patch pods".to_owned(),
            applied: false,
        };
        case.faults.push(Fault::Request { class, skip: 0, times: 10_000, how });
        let disowned = serde_json::json!({"metadata": {"ownerReferences": null}});
        let somebody = |at, act| Fault::Somebody { at, act, mend: None };
        case.faults.push(somebody(4000, Act::Pod(Pick::Any(0), disowned)));
        case.faults.push(somebody(30_000, Act::KillPod(Pick::Updated(1))));
        case.faults.push(somebody(60_000, Act::Nothing));
    },
    // The same where the watch broke, and what it missed was compacted.
    |case| {
        case.faults.push(watch("", 1500, 1500, WatchHow::Break));
        case.faults.push(kill(2000));
        case.faults.push(Fault::Compact { at: 2500 });
    },
    // CRDs older than the controller: what they do not know is dropped until they are updated.
    |case| {
        let class = Class::of("patch", "ordereddeployments", "status");
        let dropped = serde_json::json!({"status": {"blocked": null, "rollout": {"scaledFrom": null}}});
        case.faults.push(Fault::Request { class, skip: 0, times: 10_000, how: How::Mutated(dropped) });
    },
];

fn without(case: &mut Case, fault: fn(Span) -> Fault) {
    case.cluster.instances = 2;
    case.faults.push(fault(Span { at: 1500, lasts: 20_000 }));
}

fn watch(plural: &str, at: Millis, lasts: Millis, how: WatchHow) -> Fault {
    Fault::Watch { plural: plural.to_owned(), span: Span { at, lasts }, how }
}

fn kill(at: Millis) -> Fault {
    Fault::Somebody { at, act: Act::KillPod(Pick::Updated(0)), mend: None }
}

/// Each write crashed once.
fn once_of(scenario: usize, writes: u32) -> impl Iterator<Item = Play> {
    let moments = MOMENTS.iter().cycle().skip(scenario % MOMENTS.len());
    (1..=writes).zip(moments).map(move |(write, &moment)| Play::Crash(scenario, (write, moment)))
}

/// Each write crashed at each moment, and where it is short each pair of them.
fn all_of(scenario: usize, short: bool, writes: u32) -> Vec<Play> {
    let crashes = |writes: u32| (1..=writes).flat_map(|write| MOMENTS.map(|moment| (write, moment)));
    let mut plays: Vec<Play> = crashes(writes).map(|crash| Play::Crash(scenario, crash)).collect();
    if short {
        // A crash has writes repeated: the second one may be past what there are without any.
        let pairs = crashes(writes).flat_map(|one| crashes(writes + MORE).map(move |other| (one, other)));
        let pairs = pairs.filter(|(one, other)| one.0 < other.0);
        plays.extend(pairs.map(|(one, other)| Play::Pair(scenario, one, other)));
    }
    plays
}

/// The same in another order: crashes and random cases in turns, so that whatever breaks a promise is met soon.
#[must_use]
pub fn mixed(plays: Vec<Play>) -> Vec<Play> {
    let (random, others): (Vec<_>, Vec<_>) =
        plays.into_iter().partition(|play| matches!(play, Play::Random(_)));
    let (calm, crashes): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|play| matches!(play, Play::Calm(_)));
    let mut mixed = calm;
    let (mut crashes, mut random) = (crashes.into_iter(), random.into_iter());
    loop {
        let two = [crashes.next(), random.next()];
        if two == [None, None] {
            return mixed;
        }
        mixed.extend(two.into_iter().flatten());
    }
}
