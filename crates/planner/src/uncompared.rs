//! A template that is not known to be new: the API server is asked before a rollout starts, and what it answers is stored.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{OrderedDeploymentStatus, equality_hash};

use crate::census::Census;
use crate::revision::{Revision, uids};
use crate::{Compared, Event, Read, SetChange, events};

/// How many equal templates a set remembers.
const REMEMBERED: usize = 8;

/// How long there may be no answer before it is told.
const TOLERATED: SignedDuration = SignedDuration::from_secs(30);

/// What comes before a rollout of such a template.
pub(crate) enum First {
    /// The question.
    Ask(Read),
    /// The answer: the set remembers that the template is equal to its own.
    Store(SetChange),
}

/// What comes first where the template is not known to be new: the question, or the answer to store.
pub(crate) fn compare(census: &Census<'_>) -> Option<First> {
    let Revision { candidates, template, .. } = &census.revision;
    if candidates.is_empty() {
        return None;
    }
    let equal = match &census.observed.compared {
        Compared::NoAnswer { .. } => return None,
        Compared::Equal(uid) => candidates.iter().find(|set| set.uid == *uid),
        Compared::Not | Compared::New => None,
    };
    let Some(set) = equal else { return Some(First::Ask(Read::Template(uids(candidates)))) };
    let mut equal_templates = vec![equality_hash(&set.template, template)];
    equal_templates.extend(set.equal_templates.iter().take(REMEMBERED - 1).cloned());
    let change = SetChange::Equal { uid: Arc::clone(&set.uid), equal_templates };
    Some(First::Store(change))
}

/// Why no rollout starts, once there has been no answer for long enough.
pub(crate) fn unanswered(census: &Census<'_>) -> Option<(&'static str, String)> {
    let Compared::NoAnswer { since, message, .. } = asked(census)? else { return None };
    // Another process knows no more since when.
    let is_due = is_told(&census.status) || due(*since).is_some_and(|at| at <= census.observed.now);
    is_due.then(|| {
        let message = format!(
            "The API server does not answer whether this template differs from those of the sets, and no rollout \
             starts: {message}"
        );
        (reason::TEMPLATE_NOT_COMPARED, message)
    })
}

/// The event of it, once.
pub(crate) fn overdue(census: &Census<'_>) -> Option<Event> {
    let (reason, message) = unanswered(census)?;
    (!is_told(&census.status)).then(|| events::warning(reason, message))
}

/// When it will be told, or asked again.
pub(crate) fn next(census: &Census<'_>) -> Option<Timestamp> {
    let Compared::NoAnswer { since, again, .. } = asked(census)? else { return None };
    let told = due(*since).filter(|at| *at > census.observed.now);
    [told, Some(*again)].into_iter().flatten().min()
}

fn asked<'c>(census: &'c Census<'_>) -> Option<&'c Compared> {
    census.revision.is_uncompared().then_some(&census.observed.compared)
}

fn is_told(status: &OrderedDeploymentStatus) -> bool {
    let stalled = status.condition(condition::STALLED);
    stalled.is_some_and(|stalled| stalled.reason == reason::TEMPLATE_NOT_COMPARED)
}

fn due(since: Timestamp) -> Option<Timestamp> {
    since.checked_add(TOLERATED).ok()
}
