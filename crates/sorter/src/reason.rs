//! Why one pod sorts before another, for programs and as text. It only reads two keys.

use std::fmt;

use crate::packed::{Field, LOWER, UPPER};
use crate::{Key, Rule};

/// The rule that sorted `first` before `second`; `None` if `first` is not before it.
#[must_use]
pub fn reason(first: &Key, second: &Key) -> Option<Rule> {
    if first >= second {
        return None;
    }
    // Destructured, so that a new field of the key does not compile without its reason.
    let Key { upper: _, ready_time, lower: _, creation_time, uid: _ } = first;
    let differing = first.packed().differing(second.packed());
    let decides =
        |fields: &[Field]| fields.iter().find(|field| field.of(&differing) != 0).map(|field| field.rule);
    let ready_time = (*ready_time != second.ready_time).then_some(Rule::ReadyTime);
    let creation_time = (*creation_time != second.creation_time).then_some(Rule::CreationTime);
    let rule = decides(&UPPER).or(ready_time).or_else(|| decides(&LOWER)).or(creation_time);
    Some(rule.unwrap_or(Rule::Uid))
}

/// The rule that sorted one pod before another, with the compared values as text for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The rule.
    pub rule: Rule,
    words: String,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words)
    }
}

/// Why a pod sorts before the next one, as text for users. The last pod has no next one.
#[must_use]
pub fn why_text(why: Option<&Why>) -> String {
    why.map_or_else(|| "last in the order".to_owned(), ToString::to_string)
}

/// Why `first` sorts before `second`; `None` if it does not.
#[must_use]
pub fn why(first: &Key, second: &Key) -> Option<Why> {
    let rule = reason(first, second)?;
    let (first, second) = (first.packed(), second.packed());
    let words = match rule {
        Rule::DeletePriority => format!("delete priority {} > {}", first.priority(), second.priority()),
        Rule::Unassigned => "not assigned to a node".to_owned(),
        Rule::Phase => format!("{}, the next is {}", first.phase().name(), second.phase().name()),
        Rule::NotReady => "not ready".to_owned(),
        Rule::DeletionCost => format!("deletion cost {} < {}", first.cost(), second.cost()),
        Rule::Rank => format!("{} on its node, the next has {}", count(first.rank(), "pod"), second.rank()),
        Rule::ReadyTime if !first.has_ready_time() => "no time of becoming ready".to_owned(),
        Rule::ReadyTime => "ready for less time".to_owned(),
        Rule::Restarts => {
            format!("{}, the next has {}", count(first.restarts(), "restart"), second.restarts())
        }
        Rule::SidecarRestarts => format!(
            "{}, the next has {}",
            count(first.sidecar_restarts(), "sidecar restart"),
            second.sidecar_restarts()
        ),
        Rule::CreationTime if !first.has_creation_time() => "no creation time".to_owned(),
        Rule::CreationTime => "newer".to_owned(),
        Rule::Uid => "smaller UID, all else is equal".to_owned(),
    };
    Some(Why { rule, words })
}

fn count<N: Into<i64>>(number: N, thing: &str) -> String {
    let number = number.into();
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
