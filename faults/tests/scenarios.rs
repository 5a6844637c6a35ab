//! Scenarios rot silently: a step that waits for what never comes goes on all the same. So each is played as it is, with the
//! plain parameters and with drawn ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot play has nothing to say")]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use faults::case::Ends;
use faults::log::What;
use faults::scenarios::{ALL, Scenario};
use faults::{Case, Log, run};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;

/// Seed 1 is the plain form.
const SEEDS: RangeInclusive<u64> = 1..=2;

/// What one run has shown.
struct Played {
    case: Case,
    /// Of seed 1.
    plain: bool,
    steps: Vec<What>,
    writes: u32,
    /// In what it did not end as it says.
    unlike: Vec<String>,
}

/// Every scenario with every seed, played once for all tests.
static PLAYED: LazyLock<Vec<Played>> = LazyLock::new(|| {
    let seeds = |scenario: &'static Scenario| {
        SEEDS.map(move |seed| (seed, scenario(&mut StdRng::seed_from_u64(seed))))
    };
    let cases = ALL.iter().flat_map(seeds);
    cases
        .map(|(seed, case)| {
            let log = run(&case).unwrap();
            let steps = log.marks.iter().map(|mark| mark.what.clone());
            let steps = steps.filter(|what| matches!(what, What::Step { .. })).collect();
            let unlike = unlike(case.ends, &standing(&log));
            Played { case, plain: seed == 1, steps, writes: log.writes, unlike }
        })
        .collect()
});

fn told(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_step_of_every_scenario_comes_in_time_and_none_is_refused() {
    told(PLAYED.iter().flat_map(|played| {
        let case = &played.case;
        played.steps.iter().filter_map(|step| {
            let What::Step { place, in_time, refused } = step else { return None };
            let fine = *in_time && refused.is_none();
            (!fine)
                .then(|| format!("{} (seed {}): {step:?} of {:?}", case.name, case.seed, case.steps[*place]))
        })
    }));
}

#[test]
fn every_scenario_ends_as_it_says() {
    told(PLAYED.iter().flat_map(|played| {
        played.unlike.iter().map(|words| format!("{} (seed {}): {words}", played.case.name, played.case.seed))
    }));
}

#[test]
fn no_scenario_has_too_many_writes_to_be_crashed_at_each() {
    told(PLAYED.iter().filter(|played| played.plain).filter_map(|played| {
        let limit = match (played.case.short, played.case.ends) {
            (true, _) => 45,
            // What is refused for ever is tried again for ever.
            (_, Ends::Stalled) => 150,
            _ => 90,
        };
        let fits = (1..=limit).contains(&played.writes);
        (!fits).then(|| format!("{}: {} of {limit} writes", played.case.name, played.writes))
    }));
}

#[test]
fn names_of_scenarios_are_told_apart() {
    let mut names: Vec<String> =
        ALL.iter().map(|scenario| scenario(&mut StdRng::seed_from_u64(1)).name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// What the server has at the end, by its plural.
fn standing(log: &Log) -> BTreeMap<&str, Vec<&Value>> {
    let mut objects = BTreeMap::new();
    for commit in &log.commits {
        let metadata = &commit.object["metadata"];
        let key = (&*commit.plural, metadata["namespace"].to_string(), metadata["name"].to_string());
        if commit.deleted {
            objects.remove(&key);
        } else {
            objects.insert(key, &*commit.object);
        }
    }
    let mut standing: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for ((plural, ..), object) in objects {
        standing.entry(plural).or_default().push(object);
    }
    standing
}

fn unlike(ends: Ends, standing: &BTreeMap<&str, Vec<&Value>>) -> Vec<String> {
    let of = |plural| standing.get(plural).map(Vec::as_slice).unwrap_or_default();
    let (deployments, sets) = (of("ordereddeployments"), of("orderedreplicasets"));
    let active = |pod: &&&Value| {
        let phase = pod["status"]["phase"].as_str();
        let owned = pod["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        !matches!(phase, Some("Failed" | "Succeeded")) && (owned || deployments.is_empty())
    };
    let pods = of("pods").iter().filter(active).count();
    let has = |object: &Value, kind: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
    };
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, words: &str| {
        if !holds {
            wrong.push(words.to_owned());
        }
    };
    match ends {
        Ends::Complete => {
            let wanted: i64 = deployments.iter().filter_map(|one| one["spec"]["replicas"].as_i64()).sum();
            expect(!deployments.is_empty(), "there is nothing");
            expect(deployments.iter().all(|one| has(one, "Complete")), "it is not complete");
            expect(i64::try_from(pods) == Ok(wanted), &format!("{pods} pods, not {wanted}"));
        }
        Ends::Held => {
            expect(deployments.iter().all(|one| one["status"]["hold"].is_object()), "it is not held");
        }
        Ends::Paused => {
            expect(deployments.iter().all(|one| one["spec"]["paused"] == true), "it is not paused");
            expect(!deployments.iter().any(|one| has(one, "Complete")), "it is complete");
        }
        Ends::Stalled => expect(deployments.iter().all(|one| has(one, "Stalled")), "it is not stalled"),
        Ends::Gone => {
            expect(deployments.is_empty() && sets.is_empty() && pods == 0, "something is left");
        }
        Ends::Orphaned => {
            let is_orphan =
                |one: &&Value| one["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty);
            expect(deployments.is_empty(), "it is still there");
            expect(!sets.is_empty() && sets.iter().all(is_orphan), "its sets are not orphans");
            expect(pods > 0, "its pods are gone");
        }
    }
    wrong
}
