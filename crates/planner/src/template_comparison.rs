//! Templates that are not known to be new: the API server compares them, and the result is stored.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{OrderedDeploymentStatus, equality_hash};

use crate::inventory::Inventory;
use crate::revision::{Revision, uids};
use crate::{ComparisonResult, Event, Read, SetChange, events};

/// How many equal templates a set stores.
const REMEMBERED: usize = 8;

/// How long there may be no answer before that is reported.
const TOLERATED: SignedDuration = SignedDuration::from_secs(30);

/// What must come before a rollout of such a template.
pub(crate) enum Prerequisite {
    /// The read that asks the API server.
    Ask(Read),
    /// The write that stores the result: the template equals that of the set.
    Store(SetChange),
}

/// The read or the write that must come first if the template is not known to be new.
pub(crate) fn compare(inventory: &Inventory<'_>) -> Option<Prerequisite> {
    let Revision { candidates, template, .. } = &inventory.revision;
    if candidates.is_empty() {
        return None;
    }
    let equal = match &inventory.snapshot.comparison {
        ComparisonResult::NoAnswer { .. } => return None,
        ComparisonResult::Equal(uid) => candidates.iter().find(|set| set.uid == *uid),
        ComparisonResult::Not | ComparisonResult::New => None,
    };
    let Some(set) = equal else { return Some(Prerequisite::Ask(Read::Template(uids(candidates)))) };
    let mut equal_templates = vec![equality_hash(&set.template, template)];
    equal_templates.extend(set.equal_templates.iter().take(REMEMBERED - 1).cloned());
    let change = SetChange::Equal { uid: Arc::clone(&set.uid), equal_templates };
    Some(Prerequisite::Store(change))
}

/// Why no rollout starts, once there has been no answer for long enough.
pub(crate) fn unanswered(inventory: &Inventory<'_>) -> Option<(&'static str, String)> {
    let ComparisonResult::NoAnswer { since, message, .. } = asked(inventory)? else { return None };
    // A restarted process does not know since when: the condition says that it is due.
    let is_due = is_told(inventory.status) || due(*since).is_some_and(|at| at <= inventory.snapshot.now);
    is_due.then(|| {
        let message = format!(
            "The API server does not answer whether this template differs from those of the sets, and no \
             rollout starts: {message}"
        );
        (reason::TEMPLATE_NOT_COMPARED, message)
    })
}

/// The event about it, once.
pub(crate) fn overdue(inventory: &Inventory<'_>) -> Option<Event> {
    let (reason, message) = unanswered(inventory)?;
    (!is_told(inventory.status)).then(|| events::warning(reason, message))
}

/// When it is due to be reported, or the API server is asked again.
pub(crate) fn next(inventory: &Inventory<'_>) -> Option<Timestamp> {
    let ComparisonResult::NoAnswer { since, again, .. } = asked(inventory)? else { return None };
    let deadline = due(*since).filter(|at| *at > inventory.snapshot.now);
    [deadline, Some(*again)].into_iter().flatten().min()
}

fn asked<'c>(inventory: &'c Inventory<'_>) -> Option<&'c ComparisonResult> {
    inventory.revision.needs_comparison().then_some(&inventory.snapshot.comparison)
}

fn is_told(status: &OrderedDeploymentStatus) -> bool {
    let stalled = status.condition(condition::STALLED);
    stalled.is_some_and(|stalled| stalled.reason == reason::TEMPLATE_NOT_COMPARED)
}

fn due(since: Timestamp) -> Option<Timestamp> {
    since.checked_add(TOLERATED).ok()
}
