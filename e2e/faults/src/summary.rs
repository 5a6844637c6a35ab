//! The numbers of a campaign.

use std::collections::BTreeMap;
use std::fmt;

use faults::campaign::CaseId;
use faults::log::{Log, RunEventKind, instance};

/// Sums over all runs.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    runs: BTreeMap<&'static str, u64>,
    requests: u64,
    decisions: u64,
    deletions: u64,
    creates: u64,
    seconds: u64,
    faults: BTreeMap<String, u64>,
}

impl Summary {
    pub(crate) fn add(&mut self, id: CaseId, log: &Log) {
        let kind = match id {
            CaseId::NoFaults(_) => "without faults",
            CaseId::Crash(..) => "one crash",
            CaseId::TwoCrashes(..) => "two crashes",
            CaseId::Combination(..) => "faults together",
            CaseId::Deletion(..) => "deletions",
            CaseId::Random(_) => "random faults",
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
        if let (Some(first), Some(last)) = (log.requests.first(), log.events.last()) {
            self.seconds += u64::try_from(last.at.duration_since(first.at).as_secs()).unwrap_or_default();
        }
        for event in &log.events {
            if let RunEventKind::FaultInjected(fault) = &event.kind {
                *self.faults.entry(kind_of(fault)).or_default() += 1;
            }
        }
    }
}

/// The kind of a fault: of a watch its effect, of a response its code, of an action its kind.
fn kind_of(fault: &str) -> String {
    let word = |text: &str| text.split([' ', '(', ',', '{']).next().unwrap_or_default().to_owned();
    let detail =
        ["effect: ", "code: ", "action: "].into_iter().find_map(|key| Some(word(fault.split_once(key)?.1)));
    detail.map_or_else(|| word(fault), |detail| format!("{} {detail}", word(fault)))
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

impl fmt::Display for Summary {
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
        let faults: Vec<String> = self.faults.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        write!(f, "injected faults: {}", faults.join(", "))
    }
}
