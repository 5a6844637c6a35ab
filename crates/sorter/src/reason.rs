//! Why one pod sorts before another, for programs and as text. It only reads two keys.

use std::fmt;

use crate::{Facts, Key};

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

/// The rule that sorted `first` before `second`; `None` if `first` is not before it.
#[must_use]
pub fn reason(first: &Key, second: &Key) -> Option<Rule> {
    if first >= second {
        return None;
    }
    let rules = [
        (Rule::DeletePriority, first.priority != second.priority),
        (Rule::Unassigned, first.assigned != second.assigned),
        (Rule::Phase, first.phase != second.phase),
        (Rule::NotReady, first.ready != second.ready),
        (Rule::DeletionCost, first.cost != second.cost),
        (Rule::Rank, first.rank != second.rank),
        (Rule::ReadyTime, first.ready_time != second.ready_time),
        (Rule::Restarts, first.restarts != second.restarts),
        (Rule::SidecarRestarts, first.sidecar_restarts != second.sidecar_restarts),
        (Rule::CreationTime, first.creation_time != second.creation_time),
    ];
    let decides = rules.into_iter().find(|(_, differs)| *differs);
    Some(decides.map_or(Rule::Uid, |(rule, _)| rule))
}

/// Why a pod has its place, as text for users: its delete priority, then what parts it from the next pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// The rule that sorted it before the next one; `None` for the last, and where a rule of the caller did.
    pub rule: Option<Rule>,
    words: String,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.words)
    }
}

/// Why `pod`, whose key is `key`, has its place before `next`. Without a pod behind it, it is the last.
///
/// The text begins with the pod's own delete priority: it says why the pod is here at all. The rule that
/// parts it from the next one comes second, since among pods of one priority it only says which of them is
/// first.
#[must_use]
pub fn why(pod: &Facts, key: &Key, next: Option<&Key>) -> Why {
    let decided = next.and_then(|next| Some((reason(key, next)?, next)));
    let parted = decided.map_or_else(|| ", last".to_owned(), |(rule, next)| parted(rule, key, next));
    Why { rule: decided.map(|(rule, _)| rule), words: format!("{}{parted}", own_priority(pod, key)) }
}

/// Why `pod` has its place where no rule of this order decides, but the caller's own: the words name it.
#[must_use]
pub fn why_by(pod: &Facts, key: &Key, words: &str) -> Why {
    Why { rule: None, words: format!("{}, {words}", own_priority(pod, key)) }
}

fn own_priority(pod: &Facts, key: &Key) -> String {
    let priority = key.priority.0;
    // The annotation and the default need no word; a node rule that gives 0 is like the default.
    let source = if pod.priority.is_none() && priority != 0 { " (node rule)" } else { "" };
    format!("priority {priority}{source}")
}

/// What parts two pods by that rule, behind the priority of the first: ` > 0` or `, cost -100 < 0`. The
/// second value is that of the next pod.
fn parted(rule: Rule, first: &Key, next: &Key) -> String {
    let words = match rule {
        Rule::DeletePriority => return format!(" > {}", next.priority.0),
        Rule::Unassigned => "no node".to_owned(),
        Rule::Phase => format!("{} before {}", first.phase.name(), next.phase.name()),
        Rule::NotReady => "not ready".to_owned(),
        Rule::DeletionCost => format!("cost {} < {}", first.cost, next.cost),
        Rule::Rank => format!("pods on its node {} > {}", first.rank.0, next.rank.0),
        Rule::ReadyTime if first.ready_time.is_none() => "no ready time".to_owned(),
        Rule::ReadyTime => "ready for less time".to_owned(),
        Rule::Restarts => format!("restarts {} > {}", first.restarts.0, next.restarts.0),
        Rule::SidecarRestarts => {
            format!("sidecar restarts {} > {}", first.sidecar_restarts.0, next.sidecar_restarts.0)
        }
        Rule::CreationTime if first.creation_time.is_none() => "no creation time".to_owned(),
        Rule::CreationTime => "newer".to_owned(),
        Rule::Uid => "tie: UID".to_owned(),
    };
    format!(", {words}")
}
