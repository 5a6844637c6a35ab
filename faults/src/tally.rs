//! What a campaign did, in numbers.

use std::collections::BTreeMap;
use std::fmt;

use faults::campaign::Play;
use faults::log::{Log, What, instance};

/// Sums over all runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    runs: BTreeMap<&'static str, u64>,
    requests: u64,
    decisions: u64,
    deletions: u64,
    creates: u64,
    seconds: u64,
    struck: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn add(&mut self, play: Play, log: &Log) {
        let kind = match play {
            Play::Calm(_) => "without faults",
            Play::Crash(..) => "one crash",
            Play::Pair(..) => "two crashes",
            Play::Together(..) => "faults together",
            Play::Deletion(..) => "deletions by somebody",
            Play::Random(_) => "random faults",
        };
        *self.runs.entry(kind).or_default() += 1;
        let own = || log.requests.iter().filter(|record| instance(&record.user_agent).is_some());
        let of_pods = |verb: &str| {
            count(own().filter(|record| record.verb == verb && record.plural == "pods" && record.code < 300))
        };
        self.requests += count(own());
        self.decisions += count(log.decisions.iter());
        self.deletions += of_pods("delete");
        self.creates += of_pods("create");
        if let (Some(first), Some(last)) = (log.requests.first(), log.marks.last()) {
            self.seconds += u64::try_from(last.at.duration_since(first.at).as_secs()).unwrap_or_default();
        }
        for mark in &log.marks {
            if let What::Struck(words) = &mark.what {
                *self.struck.entry(what(words)).or_default() += 1;
            }
        }
    }
}

/// What struck, in a word or two: a watch by what became of it, an answer by its code, an act of somebody by its kind.
fn what(words: &str) -> String {
    let word = |words: &str| words.split([' ', '(', ',', '{']).next().unwrap_or_default().to_owned();
    let detail =
        ["how: ", "code: ", "act: "].into_iter().find_map(|key| Some(word(words.split_once(key)?.1)));
    detail.map_or_else(|| word(words), |detail| format!("{} {detail}", word(words)))
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<String> = self.runs.iter().map(|(kind, runs)| format!("{runs} {kind}")).collect();
        writeln!(f, "{} runs: {}", self.runs.values().sum::<u64>(), runs.join(", "))?;
        writeln!(
            f,
            "{} simulated hours, {} decisions, {} requests of controllers, {} pods created, {} deleted",
            self.seconds / 3600,
            self.decisions,
            self.requests,
            self.creates,
            self.deletions
        )?;
        let struck: Vec<String> = self.struck.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        write!(f, "faults that struck: {}", struck.join(", "))
    }
}
