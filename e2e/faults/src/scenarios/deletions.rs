//! Objects that are deleted during a rollout, with a slow garbage collector.

use super::builder::prelude::*;
use crate::case::{Case, Fault, RequestMatcher};

/// Rollouts of a third template, by strategy.
pub(crate) const ROLLOUTS: &[Scenario] = &[
    Scenario("deleted-in-a-rolling-update", |draw| {
        in_a_rollout(draw, &json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}))
    }),
    Scenario("deleted-without-surge", |draw| {
        in_a_rollout(draw, &json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}))
    }),
    Scenario("deleted-under-recreate", |draw| in_a_rollout(draw, &json!({"type": "Recreate"}))),
];

/// A rollout with two older revisions: one set has pods, the other has none.
fn in_a_rollout(draw: &mut Draw<'_>, strategy: &Value) -> ScenarioBuilder {
    web(draw, &json!({"replicas": 3, "strategy": strategy}))
        .after(0, image("web:2"))
        .when_complete(image("web:3"))
}

/// A deletion, and the behavior of the garbage collector afterwards: the image of the set, none for the
/// OrderedDeployment itself; the propagation policy; pace and lag of the garbage collector, and how long it
/// is frozen.
pub(crate) struct Deletion(Option<&'static str>, &'static str, Millis, Millis, Millis);

/// Every deletion of the OrderedDeployment, and of its sets.
pub(crate) const DELETIONS: &[Deletion] = &[
    Deletion(None, "Orphan", 0, 0, 0),
    Deletion(None, "Orphan", 50, 0, 0),
    Deletion(Some("web:3"), "Orphan", 50, 0, 0),
    Deletion(None, "Background", 50, 0, 0),
    Deletion(None, "Orphan", 1000, 0, 0),
    Deletion(Some("web:2"), "Orphan", 50, 0, 0),
    Deletion(None, "Foreground", 50, 0, 0),
    Deletion(None, "Orphan", 50, 2000, 0),
    Deletion(Some("web:3"), "Orphan", 1000, 0, 0),
    Deletion(None, "Orphan", 50, 0, 8000),
    Deletion(Some("web:2"), "Orphan", 1000, 0, 0),
    Deletion(None, "Background", 1000, 0, 8000),
    Deletion(Some("web:3"), "Orphan", 0, 2000, 8000),
    Deletion(None, "Foreground", 1000, 2000, 0),
    Deletion(Some("web:2"), "Orphan", 0, 2000, 8000),
    Deletion(None, "Foreground", 0, 0, 8000),
    Deletion(Some("web:3"), "Foreground", 50, 0, 0),
    Deletion(Some("web:2"), "Background", 50, 0, 0),
];

impl Deletion {
    /// Adds the deletion just before that write of the controllers.
    pub(crate) fn before(&self, write: u32, case: &mut Case) {
        let Self(image, policy, pace, lag, frozen) = *self;
        let path = image.map_or_else(|| DEPLOYMENT.to_owned(), set);
        let acts = [UserAction::SetGarbageCollector { pace, lag, frozen }, delete(&path, policy)];
        let matcher = RequestMatcher::of("write", "", "");
        let skip = write.saturating_sub(1);
        case.faults.extend(acts.map(|action| Fault::ActionBefore { matcher: matcher.clone(), skip, action }));
        if image.is_none() {
            case.steps.pop();
            case.steps.push(until_gone(DEPLOYMENT));
            case.outcome = if policy == "Orphan" { Outcome::Orphaned } else { Outcome::Deleted };
        }
    }
}
