//! Finds out from the statuses of ReplicaSets whether another controller reports them too.
//!
//! A built-in controller that is busy with other sets observes the probe of [`handover`](super::handover) late. It reports the sets that
//! it is busy with before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The numbers of a status that every controller of ReplicaSets reports.
type Numbers = [i64; 5];

const NUMBERS: [&str; 5] =
    ["observedGeneration", "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

/// How many reports of a set are remembered, while its watch is silent. More are sent only in hours.
const REMEMBERED: usize = 4096;

/// The statuses that this process has sent.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Those that the watch has not shown yet, and the last one that it has shown, in the order in which they were sent. A write
    /// requires the version that was read, so that the API server stores them in this order.
    sent: Mutex<BTreeMap<Arc<str>, VecDeque<Numbers>>>,
}

impl Reports {
    /// Remembers a status of the set with this UID. Call it before the status is sent: the watch can show it before the answer.
    pub(crate) fn sending(&self, uid: &Arc<str>, status: &Value) {
        let mut sent = self.sent();
        let of_set = sent.entry(Arc::clone(uid)).or_default();
        if of_set.len() == REMEMBERED {
            of_set.pop_front();
        }
        of_set.push_back(numbers(status));
    }

    /// The watch shows the set with this status after that one. Returns whether another client has written it.
    pub(crate) fn shown(&self, uid: &str, before: &Value, after: &Value) -> bool {
        let shown = numbers(after);
        if shown == numbers(before) {
            return false;
        }
        let mut sent = self.sent();
        if let Some(of_set) = sent.get_mut(uid)
            && let Some(place) = of_set.iter().position(|sent| *sent == shown)
        {
            // An API server that goes back in time shows the last one again.
            of_set.drain(..place);
            return false;
        }
        true
    }

    /// Forgets the set with this UID: it is gone.
    pub(crate) fn remove(&self, uid: &str) {
        self.sent().remove(uid);
    }

    /// Forgets all sets except those whose UID is wanted.
    pub(crate) fn forget(&self, keep: impl Fn(&str) -> bool) {
        self.sent().retain(|uid, _| keep(uid));
    }

    fn sent(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, VecDeque<Numbers>>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn numbers(status: &Value) -> Numbers {
    NUMBERS.map(|key| status.get(key).and_then(Value::as_i64).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::Reports;

    #[test]
    fn only_a_changed_status_that_was_not_sent_is_foreign() {
        let reports = Reports::default();
        let is_foreign = |before: i64, after: i64| {
            let status = |replicas: i64| json!({"replicas": replicas});
            reports.shown("a", &status(before), &status(after))
        };
        let uid: Arc<str> = "a".into();
        for replicas in 1..=100 {
            // API servers before 1.33 drop `terminatingReplicas`.
            reports.sending(&uid, &json!({"replicas": replicas, "terminatingReplicas": 0}));
        }
        // The watch lags, and a list skips some.
        let shown = [(0, 1), (1, 1), (1, 2), (2, 50), (50, 51), (51, 100)];
        assert!(shown.into_iter().all(|(before, after)| !is_foreign(before, after)));
        // Another client repeats what was reported long ago.
        assert!(is_foreign(100, 7));
        reports.sending(&uid, &json!({"replicas": 100}));
        assert!(!is_foreign(7, 100));
        reports.remove("a");
        assert!(is_foreign(3, 100));
    }
}
