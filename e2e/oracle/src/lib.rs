//! The contract's rules for one decision: what it may never do, in any state of the cluster.
//!
//! The planner's tests, the exploration of small clusters and the campaign of faults check decisions by these
//! rules. The campaign also checks the requests that a decision leads to, and `e2e` what a server stores;
//! where a rule is the same, they call the functions of this crate. The rules are written from the contract.
//! This crate uses the planner's types and the sorter's key of the order. It computes everything else itself,
//! so that it does not repeat a mistake of the planner. It never decides, and the product does not use it.
#![allow(clippy::must_use_candidate, reason = "every function only computes")]

mod creates;
mod deletes;
mod history;
mod idle;
mod status;
mod view;

use std::time::Duration;

use ordereddeployment_planner::{Act, Decision, Snapshot};

pub use creates::above_ceiling;
pub use deletes::{below_floor, collected, rollout_order};
pub use history::History;
pub use idle::check_idle;
pub use status::{conditions, counts, generation};
pub use view::{ActivePod, Messages, View, Violation, count, current_sets, is_true};

/// An oracle over an act, and over what the act was decided on.
type Oracle = fn(&View<'_>, &Act) -> Messages;

/// The oracles for acts: the promise, the name, and what checks it.
const ALL: [(&str, &str, Oracle); 13] = [
    ("S1", "deletes::order", deletes::rollout_order),
    ("S1", "deletes::order", deletes::scaling_order),
    ("S2", "deletes::groups", deletes::groups),
    ("S3", "deletes::floors", deletes::floors),
    ("S3", "deletes::proof", deletes::proof),
    ("S4", "creates::ceiling", creates::ceiling),
    ("S11", "status::revisions", status::revisions),
    ("S3", "deletes::scaled", deletes::scaled),
    ("S11", "status::sizes", status::sizes),
    ("S11", "status::conditions", status::one_state),
    ("S6", "deletes::collected", deletes::collected),
    ("S4", "creates::served", creates::served),
    ("S8", "creates::one_per_slot", creates::replacements_wait),
];

/// The names of the oracles over acts and over histories.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(_, name, _)| *name).chain([history::PASSED, history::HELD])
}

/// The rules that a decision breaks, whatever was before it.
pub fn check(snapshot: &Snapshot, decision: &Decision) -> Vec<Violation> {
    check_view(&View::of(snapshot), decision)
}

/// The rules that a decision on this breaks.
pub fn check_view(view: &View<'_>, decision: &Decision) -> Vec<Violation> {
    let Decision::Act(act) = decision else { return Vec::new() };
    let mut violations = check_act(view, act);
    let mut add = |oracle, message: Option<String>| {
        violations.extend(message.map(|message| Violation { rule: "S11", oracle, message }));
    };
    add("status::never_ahead", generation(view, view.status, &act.status));
    add("status::never_ahead", counts(view, &act.status));
    add("status::conditions", conditions(view, &act.status));
    violations.extend(busy_loop(view, act));
    violations
}

/// A decision that changes nothing is not made again at once.
fn busy_loop(view: &View<'_>, act: &Act) -> Option<Violation> {
    let is_again = act.is_idle() && act.status == *view.status && act.requeue == Some(Duration::ZERO);
    let message = "the decision changes nothing and is requeued at once".to_owned();
    is_again.then_some(Violation { rule: "S12", oracle: "idle::busy_loop", message })
}

fn check_act(view: &View<'_>, act: &Act) -> Vec<Violation> {
    let idle_or = |rule, oracle, message: &str| {
        if act.is_idle() {
            return Vec::new();
        }
        vec![Violation { rule, oracle, message: message.to_owned() }]
    };
    if view.snapshot.deployment.metadata.deletion_timestamp.is_some() {
        return idle_or("S10", "outdated::deleted_object", "the act changes an object that is being deleted");
    }
    if !view.is_valid {
        return idle_or("S3", "deletes::floors", "the act is not idle although the spec is invalid");
    }
    let violations = ALL.iter().flat_map(|(rule, oracle, messages)| {
        messages(view, act).into_iter().map(move |message| Violation { rule, oracle, message })
    });
    violations.collect()
}
