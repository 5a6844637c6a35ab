//! Objects that are deleted during a rollout, with a slow garbage collector.

use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::Scenario;
use super::builder::{Draw, NO_ACTION, ScenarioBuilder, image, set};
use crate::case::{Case, Fault, Millis, Outcome, RequestMatcher, UserAction};
use crate::user::DEPLOYMENT;

/// Rollouts of a third template, by strategy.
pub(crate) const ROLLOUTS: &[Scenario] = &[rolling, without_surge, recreating];

/// A rollout with two older revisions: one set has pods, the other has none.
fn in_a_rollout(name: &str, rng: &mut StdRng, strategy: &Value) -> Case {
    let draw = &mut Draw::from(rng);
    ScenarioBuilder::of(name, draw, &json!({"replicas": 3, "strategy": strategy}))
        .after(0, image("web:2"))
        .when_complete(image("web:3"))
        .when_complete(NO_ACTION)
        .build_with(Outcome::Complete)
}

fn rolling(rng: &mut StdRng) -> Case {
    in_a_rollout(
        "deleted-in-a-rolling-update",
        rng,
        &json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
    )
}

fn without_surge(rng: &mut StdRng) -> Case {
    in_a_rollout(
        "deleted-without-surge",
        rng,
        &json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
    )
}

fn recreating(rng: &mut StdRng) -> Case {
    in_a_rollout("deleted-under-recreate", rng, &json!({"type": "Recreate"}))
}

/// A deletion, and the behavior of the garbage collector afterwards.
pub(crate) struct Deletion {
    /// The image of the set; none: the OrderedDeployment itself.
    set: Option<&'static str>,
    policy: &'static str,
    pace: Millis,
    lag: Millis,
    frozen: Millis,
}

/// Every deletion of the OrderedDeployment, and of its sets.
pub(crate) const DELETIONS: &[Deletion] = &[
    Deletion { set: None, policy: "Orphan", pace: 0, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Orphan", pace: 50, lag: 0, frozen: 0 },
    Deletion { set: Some("web:3"), policy: "Orphan", pace: 50, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Background", pace: 50, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Orphan", pace: 1000, lag: 0, frozen: 0 },
    Deletion { set: Some("web:2"), policy: "Orphan", pace: 50, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Foreground", pace: 50, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Orphan", pace: 50, lag: 2000, frozen: 0 },
    Deletion { set: Some("web:3"), policy: "Orphan", pace: 1000, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Orphan", pace: 50, lag: 0, frozen: 8000 },
    Deletion { set: Some("web:2"), policy: "Orphan", pace: 1000, lag: 0, frozen: 0 },
    Deletion { set: None, policy: "Background", pace: 1000, lag: 0, frozen: 8000 },
    Deletion { set: Some("web:3"), policy: "Orphan", pace: 0, lag: 2000, frozen: 8000 },
    Deletion { set: None, policy: "Foreground", pace: 1000, lag: 2000, frozen: 0 },
    Deletion { set: Some("web:2"), policy: "Orphan", pace: 0, lag: 2000, frozen: 8000 },
    Deletion { set: None, policy: "Foreground", pace: 0, lag: 0, frozen: 8000 },
    Deletion { set: Some("web:3"), policy: "Foreground", pace: 50, lag: 0, frozen: 0 },
    Deletion { set: Some("web:2"), policy: "Background", pace: 50, lag: 0, frozen: 0 },
];

impl Deletion {
    /// Adds the deletion just before that write of the controllers.
    pub(crate) fn before(&self, write: u32, case: &mut Case) {
        let path = self.set.map_or_else(|| DEPLOYMENT.to_owned(), set);
        let acts = [
            UserAction::SetGarbageCollector { pace: self.pace, lag: self.lag, frozen: self.frozen },
            UserAction::Delete(path, json!({"propagationPolicy": self.policy})),
        ];
        let matcher = RequestMatcher::of("write", "", "");
        let skip = write.saturating_sub(1);
        case.faults.extend(acts.map(|action| Fault::ActionBefore { matcher: matcher.clone(), skip, action }));
        if self.set.is_none() {
            case.steps.pop();
            let deleted = ScenarioBuilder::from(case.clone()).not_found(DEPLOYMENT, NO_ACTION);
            *case = deleted.build_with(if self.policy == "Orphan" {
                Outcome::Orphaned
            } else {
                Outcome::Deleted
            });
        }
    }
}
