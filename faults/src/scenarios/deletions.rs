//! Objects that are deleted in the midst of a rollout, with a garbage collector that takes its time.

use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::Scenario;
use super::story::{Draw, NOTHING, Story, image, set};
use crate::case::{Act, Case, Class, Ends, Fault, Millis};
use crate::people::DEPLOYMENT;

/// Rollouts to a third template, of the ways in which pods are replaced.
pub(crate) const UNDER_WAY: &[Scenario] = &[rolling, without_surge, recreating];

/// Two revisions more than the one that is rolled out to: sets that have pods, and one that has none any more.
fn under_way(name: &str, rng: &mut StdRng, strategy: &Value) -> Case {
    let draw = &mut Draw::from(rng);
    Story::of(name, draw, &json!({"replicas": 3, "strategy": strategy}))
        .after(0, image("web:2"))
        .complete(image("web:3"))
        .complete(NOTHING)
        .ends(Ends::Complete)
}

fn rolling(rng: &mut StdRng) -> Case {
    under_way(
        "deleted-in-a-rolling-update",
        rng,
        &json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
    )
}

fn without_surge(rng: &mut StdRng) -> Case {
    under_way("deleted-without-surge", rng, &json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}))
}

fn recreating(rng: &mut StdRng) -> Case {
    under_way("deleted-under-recreate", rng, &json!({"type": "Recreate"}))
}

/// What is deleted, how, and how the garbage collector works from then on.
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
    /// Has it done just before that write of the controllers.
    pub(crate) fn before(&self, write: u32, case: &mut Case) {
        let path = self.set.map_or_else(|| DEPLOYMENT.to_owned(), set);
        let acts = [
            Act::Collector { pace: self.pace, lag: self.lag, frozen: self.frozen },
            Act::Delete(path, json!({"propagationPolicy": self.policy})),
        ];
        let class = Class::of("write", "", "");
        let skip = write.saturating_sub(1);
        case.faults.extend(acts.map(|act| Fault::Before { class: class.clone(), skip, act }));
        if self.set.is_none() {
            case.steps.pop();
            let gone = Story::from(case.clone()).gone(DEPLOYMENT, NOTHING);
            *case = gone.ends(if self.policy == "Orphan" { Ends::Orphaned } else { Ends::Gone });
        }
    }
}
