//! The contract's rules for one decision: what it may never do, whatever it was made on.
//!
//! One text for whoever checks decisions: the planner's own tests, the exploration of small clusters, and the campaign of faults.
//! Which requests may follow a decision, the campaign judges by rules of its own, over the same [`View`].
//! It is written from the contract. Of the planner it takes the types, and of the sorter the key of the order; everything else
//! is counted anew, so that a mistake of the planner is not made twice. It never decides, and nothing of the product uses it.

mod creates;
mod deletes;
mod rest;
mod stored;
mod view;

use std::fmt;
use std::time::Duration;

use ordereddeployment_api::validate;
use ordereddeployment_planner::{Act, Decision, Snapshot};

pub use rest::rest;
pub use stored::{conditions, counts, generation, transitions};
pub use view::{Member, View, count, current_set, current_sets, has_begun};

/// A rule that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// Which oracle says so.
    pub oracle: &'static str,
    /// What is wrong.
    pub words: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.rule, self.words, self.oracle)
    }
}

/// What one oracle finds.
type Found = Vec<String>;

/// An oracle over an act, and over what the act was decided on.
type Oracle = fn(&View<'_>, &Act) -> Found;

const CREATES: (&str, &str, Oracle) = ("S4", "pods::ceiling", creates::ceiling);
const ORDER: (&str, &str, Oracle) = ("S1", "deletes::order", deletes::order);
const FLOORS: (&str, &str, Oracle) = ("S3", "deletes::floors", deletes::floors);
const BARRIER: (&str, &str, Oracle) = ("S5", "deletes::barrier", deletes::barrier);
const GROUPS: (&str, &str, Oracle) = ("S2", "deletes::groups", deletes::groups);
const PROOF: (&str, &str, Oracle) = ("S3", "deletes::proof", deletes::proof);
const SIZES: (&str, &str, Oracle) = ("S11", "stored::sizes", stored::sizes);
const ONE_THING: (&str, &str, Oracle) = ("S11", "stored::conditions", stored::one_thing);

/// What holds of every act.
const ALWAYS: [(&str, &str, Oracle); 16] = [
    ORDER,
    ("S1", "deletes::order", deletes::scaling),
    ("S1", "deletes::order", deletes::surge),
    ("S5", "deletes::points", deletes::points),
    ("S6", "deletes::collected", deletes::collected),
    ("S11", "stored::blocked", stored::blocked),
    GROUPS,
    FLOORS,
    PROOF,
    CREATES,
    ("S4", "pods::ceiling", creates::wanted),
    ("S8", "pods::one_a_slot", creates::replacements_wait),
    BARRIER,
    ("S5", "deletes::barrier", deletes::kept),
    SIZES,
    ONE_THING,
];

/// What holds even where somebody wrote the status: it may have the rollout stand still, or say which points are passed.
const WHATEVER_IS_STORED: [(&str, &str, Oracle); 8] =
    [ORDER, GROUPS, FLOORS, PROOF, ("S4", "pods::ceiling", creates::few), BARRIER, SIZES, ONE_THING];

/// The rules that a decision breaks.
#[must_use]
pub fn judge(snapshot: &Snapshot, decision: &Decision) -> Vec<Wrong> {
    match decision {
        Decision::Read(_) => Vec::new(),
        Decision::Record(record) => {
            let before = snapshot.deployment.status.clone().unwrap_or_default();
            let words = transitions(&View::of(snapshot), &before, &record.status);
            words
                .into_iter()
                .map(|words| Wrong { rule: "S11", oracle: "stored::transitions", words })
                .collect()
        }
        Decision::Act(act) => {
            let mut wrong = hold(snapshot, act, &ALWAYS);
            let view = View::of(snapshot);
            let mut say = |oracle, words: Option<String>| {
                wrong.extend(words.map(|words| Wrong { rule: "S11", oracle, words }));
            };
            say("stored::transitions", transitions(&view, &view.status, &act.status));
            say("stored::never_ahead", generation(&view, &view.status, &act.status));
            say("stored::never_ahead", counts(&view, &act.status));
            say("stored::conditions", conditions(&view, &act.status));
            wrong.extend(at_once(&view, act));
            wrong
        }
    }
}

/// The rules that an act breaks where its status is not the planner's own.
#[must_use]
pub fn judge_whatever_is_stored(snapshot: &Snapshot, act: &Act) -> Vec<Wrong> {
    hold(snapshot, act, &WHATEVER_IS_STORED)
}

/// A decision that changes nothing is not made again at once: that would never end.
fn at_once(view: &View<'_>, act: &Act) -> Option<Wrong> {
    let is_again = act.is_idle() && act.status == view.status && act.requeue == Some(Duration::ZERO);
    let words = "nothing is done, and the same is decided again at once".to_owned();
    is_again.then_some(Wrong { rule: "S12", oracle: "rest::at_once", words })
}

fn hold(snapshot: &Snapshot, act: &Act, oracles: &[(&'static str, &'static str, Oracle)]) -> Vec<Wrong> {
    if snapshot.deployment.metadata.deletion_timestamp.is_some() {
        let words = "something is done for an object that is being deleted".to_owned();
        return if act.is_idle() {
            Vec::new()
        } else {
            vec![Wrong { rule: "S10", oracle: "lead::gone", words }]
        };
    }
    if !validate(&snapshot.deployment.spec).is_empty() {
        let words = "an invalid spec moves something".to_owned();
        return if act.is_idle() {
            Vec::new()
        } else {
            vec![Wrong { rule: "S3", oracle: "deletes::floors", words }]
        };
    }
    let view = View::of(snapshot);
    let wrong = oracles.iter().flat_map(|(rule, oracle, judge)| {
        judge(&view, act).into_iter().map(move |words| Wrong { rule, oracle, words })
    });
    wrong.collect()
}
