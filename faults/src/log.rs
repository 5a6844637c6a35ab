//! What happened in a run: all that a judge may look at.

use jiff::Timestamp;
use ordereddeployment_planner::{Decision, Snapshot};
use ordereddeployment_sandbox::{Commit, Record};

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Every request as the server saw it, in the order of its answers. Those of controllers have a user agent that begins
    /// with [`instance`]'s word.
    pub requests: Vec<Record>,
    /// Every change that the server committed, in order; [`Commit::request`] is a place in `requests`.
    pub commits: Vec<Commit>,
    /// Every decision of every instance, in order.
    pub decisions: Vec<Decided>,
    /// What happened besides, in order.
    pub marks: Vec<Mark>,
    /// How many writes the controllers began, as [`Fault::Crash`](crate::case::Fault::Crash) counts them.
    pub writes: u32,
}

/// A decision as it was made.
#[derive(Clone, Debug)]
pub struct Decided {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// How many requests the server had answered by then.
    pub requests: usize,
    /// Which instance made it, from 1; one that was started anew has the number of the one before.
    pub instance: u32,
    /// What was known.
    pub snapshot: Snapshot,
    /// What was decided.
    pub decision: Decision,
}

/// Something that happened besides requests.
#[derive(Clone, Debug)]
pub struct Mark {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// How many requests the server had answered by then.
    pub requests: usize,
    /// What.
    pub what: What,
}

/// What happened besides requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An instance started.
    Started(u32),
    /// An instance was killed.
    Killed(u32),
    /// An instance ended by itself, with these words.
    Ended(u32, String),
    /// An instance panicked, with these words.
    Panicked(u32, String),
    /// A step was taken, or given up since what it waited for did not come.
    Step {
        /// Its place, from 0.
        place: usize,
        /// Whether what it waited for came in time.
        in_time: bool,
        /// What the server answered to it, where that was a refusal.
        refused: Option<String>,
    },
    /// A fault struck.
    Struck(String),
    /// From here on nothing goes wrong any more, and nobody does anything.
    Healed,
    /// By here everything has to have settled.
    Rest,
    /// The end.
    End,
}

/// Stands behind the instance's word where the request was long under way.
pub const LATE: &str = " late";
/// Stands behind the instance's word where the request was carried out, and its sender was not told so.
pub const UNHEARD: &str = " unheard";

/// The number of the instance that signed a request so; none for anybody else.
#[must_use]
pub fn instance(user_agent: &str) -> Option<u32> {
    user_agent.strip_prefix("instance-")?.split(' ').next()?.parse().ok()
}

impl Log {
    /// When that happened first.
    #[must_use]
    pub fn mark(&self, what: &What) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.what == *what)
    }

    /// All that can be seen of a run, as text: two runs of one case agree on every line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<(usize, String)> = Vec::new();
        for (place, record) in self.requests.iter().enumerate() {
            let body = record.body.as_ref().map(ToString::to_string).unwrap_or_default();
            let text = format!(
                "{} {} {} {} {} {body}",
                record.at, record.user_agent, record.verb, record.path, record.code
            );
            lines.push((2 * place, text));
        }
        for mark in &self.marks {
            lines.push(((2 * mark.requests).saturating_sub(1), format!("{} {:?}", mark.at, mark.what)));
        }
        lines.sort_by_key(|(place, _)| *place);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
