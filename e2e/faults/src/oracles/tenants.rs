//! S6: nothing that happens in one namespace has an effect in another one.

use std::collections::BTreeSet;

use super::history::{History, found, uid};
use super::violation::Violation;
use crate::log::instance;
use crate::user::HOSTILE;

/// S6: no request of a controller is for the namespace without an OrderedDeployment, and no decision is made
/// on an object of it. That its objects cause no write elsewhere follows from `steady_state::writes_at_rest`:
/// they are forged again at rest.
pub(super) fn apart(history: &History<'_>) -> Vec<Violation> {
    let requests = history.log.requests.iter();
    let sent = requests
        .filter(|record| {
            instance(&record.user_agent).is_some() && record.namespace.as_deref() == Some(HOSTILE)
        })
        .map(|record| found("S6", record.at, format!("{} {}", record.verb, record.path)));
    let forged: BTreeSet<&str> = history.log.hostile.iter().map(|commit| uid(&commit.object)).collect();
    let decided = history.log.decisions.iter().filter_map(|decided| {
        let pods = decided.snapshot.pods.iter().map(|pod| &pod.facts.uid);
        let mut all = pods.chain(decided.snapshot.sets.iter().map(|set| &set.uid));
        let uid = all.find(|uid| forged.contains(&***uid))?;
        Some(found(
            "S6",
            decided.at,
            format!("the decision is made on {uid}, an object of another namespace"),
        ))
    });
    sent.chain(decided).collect()
}
