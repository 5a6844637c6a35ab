//! The contract's rules for one decision: what it may never do, in any state of the cluster.
//!
//! The planner's tests, the exploration of small clusters and the campaign of faults check decisions by these rules. The campaign
//! also checks the requests that a decision leads to, and `e2e` what a server stores; where a rule is the same, they call the
//! functions of this crate.
//! The rules are written from the contract. This crate uses the planner's types and the sorter's key of the order. It computes
//! everything else itself, so that it does not repeat a mistake of the planner. It never decides, and the product does not use it.

mod creates;
mod declared;
mod deletes;
mod idle;
mod status;
mod view;
mod violation;

use std::time::Duration;

use ordereddeployment_planner::{Act, Decision, Snapshot};

pub use creates::above_ceiling;
pub use declared::DeclaredBarrier;
pub use deletes::{below_floor, collected, past_barrier, rollout_order, scaling_order, surge};
pub use idle::check_idle;
pub use status::{conditions, counts, generation, transitions};
pub use view::{ActivePod, View, count, current_sets, has_begun};
pub use violation::{Messages, Violation};

/// An oracle over an act, and over what the act was decided on.
type Oracle = fn(&View<'_>, &Act) -> Messages;

const CEILING: (&str, &str, Oracle) = ("S4", "creates::ceiling", creates::ceiling);
const REVISIONS: (&str, &str, Oracle) = ("S4", "creates::revisions", creates::revisions);
const SET_REVISIONS: (&str, &str, Oracle) = ("S11", "status::revisions", status::revisions);
const SCALED: (&str, &str, Oracle) = ("S3", "deletes::scaled", deletes::scaled);
const ORDER: (&str, &str, Oracle) = ("S1", "deletes::order", deletes::rollout_order);
const FLOORS: (&str, &str, Oracle) = ("S3", "deletes::floors", deletes::floors);
const BARRIER: (&str, &str, Oracle) = ("S5", "deletes::barrier", deletes::barrier);
const GROUPS: (&str, &str, Oracle) = ("S2", "deletes::groups", deletes::groups);
const PROOF: (&str, &str, Oracle) = ("S3", "deletes::proof", deletes::proof);
const SIZES: (&str, &str, Oracle) = ("S11", "status::sizes", status::sizes);
const ONE_STATE: (&str, &str, Oracle) = ("S11", "status::conditions", status::one_state);

/// The oracles for acts on a status that the planner wrote.
const ALL: [(&str, &str, Oracle); 21] = [
    ORDER,
    ("S1", "deletes::order", deletes::scaling_order),
    ("S1", "deletes::order", deletes::surge),
    ("S5", "deletes::points", deletes::points),
    ("S6", "deletes::collected", deletes::collected),
    ("S11", "status::blocked", status::blocked),
    GROUPS,
    FLOORS,
    PROOF,
    CEILING,
    REVISIONS,
    SET_REVISIONS,
    SCALED,
    ("S4", "creates::ceiling", creates::wanted),
    ("S4", "creates::ceiling", declared::most_updated),
    ("S5", "deletes::points", declared::old_pod_stays),
    ("S8", "creates::one_per_slot", creates::replacements_wait),
    BARRIER,
    ("S5", "deletes::barrier", deletes::kept),
    SIZES,
    ONE_STATE,
];

/// The oracles for acts on a status that a user wrote: such a status may stop the rollout, or say which points are passed.
const FOR_ANY_STATUS: [(&str, &str, Oracle); 11] =
    [ORDER, GROUPS, FLOORS, PROOF, CEILING, REVISIONS, SET_REVISIONS, SCALED, BARRIER, SIZES, ONE_STATE];

/// The names of the oracles over acts.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(_, name, _)| *name)
}

/// The rules that a decision breaks.
#[must_use]
pub fn check(snapshot: &Snapshot, decision: &Decision) -> Vec<Violation> {
    check_view(&View::of(snapshot), decision)
}

/// The rules that a decision on this breaks.
#[must_use]
pub fn check_view(view: &View<'_>, decision: &Decision) -> Vec<Violation> {
    let transitions = |after| {
        let message = transitions(view, view.status, after);
        message.map(|message| Violation { rule: "S11", oracle: "status::transitions", message })
    };
    match decision {
        Decision::Read(_) => Vec::new(),
        Decision::Record(record) => transitions(&record.status).into_iter().collect(),
        Decision::Act(act) => {
            let mut violations = check_act(view, act, &ALL);
            violations.extend(transitions(&act.status));
            let mut add = |oracle, message: Option<String>| {
                violations.extend(message.map(|message| Violation { rule: "S11", oracle, message }));
            };
            add("status::never_ahead", generation(view, view.status, &act.status));
            add("status::never_ahead", counts(view, &act.status));
            add("status::conditions", conditions(view, &act.status));
            violations.extend(busy_loop(view, act));
            violations
        }
    }
}

/// The rules that an act breaks where its status is not the planner's own.
#[must_use]
pub fn check_with_any_status(snapshot: &Snapshot, act: &Act) -> Vec<Violation> {
    check_act(&View::of(snapshot), act, &FOR_ANY_STATUS)
}

/// A decision that changes nothing is not made again at once.
fn busy_loop(view: &View<'_>, act: &Act) -> Option<Violation> {
    let is_again = act.is_idle() && act.status == *view.status && act.requeue == Some(Duration::ZERO);
    let message = "the decision changes nothing and is requeued at once".to_owned();
    is_again.then_some(Violation { rule: "S12", oracle: "idle::busy_loop", message })
}

fn check_act(view: &View<'_>, act: &Act, oracles: &[(&'static str, &'static str, Oracle)]) -> Vec<Violation> {
    let idle_or = |rule, oracle, message: &str| {
        if act.is_idle() {
            return Vec::new();
        }
        vec![Violation { rule, oracle, message: message.to_owned() }]
    };
    if view.snapshot.deployment.metadata.deletion_timestamp.is_some() {
        return idle_or("S10", "outdated::deleted_object", "the act changes an object that is being deleted");
    }
    if !view.is_valid() {
        return idle_or("S3", "deletes::floors", "the act is not idle although the spec is invalid");
    }
    let violations = oracles.iter().flat_map(|(rule, oracle, messages)| {
        messages(view, act).into_iter().map(move |message| Violation { rule, oracle, message })
    });
    violations.collect()
}
