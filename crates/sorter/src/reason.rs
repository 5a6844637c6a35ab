//! Why one pod sorts before another, for programs and as text. It only reads two keys.

use std::fmt;

use crate::Key;
use crate::packed::{Field, LOWER, UPPER};

/// The rule that decided between two pods, in the order of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// 0: the larger delete priority.
    DeletePriority,
    /// 1: not assigned to a node.
    Unassigned,
    /// 2: Pending before Unknown before Running.
    Phase,
    /// 3: not ready.
    NotReady,
    /// 4: the lower deletion cost.
    DeletionCost,
    /// 5: more related pods on its node.
    Rank,
    /// 6: ready for less time.
    ReadyTime,
    /// 7: more container restarts.
    Restarts,
    /// 7, second half: more sidecar restarts.
    SidecarRestarts,
    /// 8: newer.
    CreationTime,
    /// 9: the smaller UID.
    Uid,
}

impl Rule {
    /// The rule's number in the table of the order.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::DeletePriority => 0,
            Self::Unassigned => 1,
            Self::Phase => 2,
            Self::NotReady => 3,
            Self::DeletionCost => 4,
            Self::Rank => 5,
            Self::ReadyTime => 6,
            Self::Restarts | Self::SidecarRestarts => 7,
            Self::CreationTime => 8,
            Self::Uid => 9,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DeletePriority => "delete priority",
            Self::Unassigned => "unassigned",
            Self::Phase => "phase",
            Self::NotReady => "not ready",
            Self::DeletionCost => "deletion cost",
            Self::Rank => "pods on its node",
            Self::ReadyTime => "ready time",
            Self::Restarts => "restarts",
            Self::SidecarRestarts => "sidecar restarts",
            Self::CreationTime => "creation time",
            Self::Uid => "UID",
        })
    }
}

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
