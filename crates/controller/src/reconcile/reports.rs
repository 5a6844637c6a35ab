//! Finds out from the statuses of ReplicaSets whether another controller reports them too.
//!
//! A built-in controller that is busy with other sets observes the probe of
//! [`handover`](crate::runtime::handover) late. It reports the sets that it is busy with before.

use std::collections::{BTreeMap, VecDeque};

use ordereddeployment_wire::NamespacedUid;
use parking_lot::Mutex;
use serde_json::Value;

/// The numbers that every controller of ReplicaSets reports, and `terminatingReplicas` (since 1.33).
type Numbers = ([i64; 5], Option<i64>);

const NUMBERS: [&str; 5] =
    ["observedGeneration", "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

/// How many reports of a set are remembered, while its watch is silent. More are sent only in hours.
const REMEMBERED: usize = 4096;

/// The statuses that this process has sent.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Those that the watch has not shown yet, and the last one that it has shown, in the order in which they
    /// were sent. Writes require the version that was read, and are stored in this order.
    sent: Mutex<BTreeMap<NamespacedUid, VecDeque<Numbers>>>,
}

impl Reports {
    /// Remembers a status of this set. Call it before it is sent: the watch can be first.
    pub(crate) fn sending(&self, key: &NamespacedUid, status: &Value) {
        let mut sent = self.sent.lock();
        let of_set = sent.entry(key.clone()).or_default();
        if of_set.len() == REMEMBERED {
            of_set.pop_front();
        }
        of_set.push_back(numbers(status));
    }

    /// The watch shows the set with this status after that one. Whether another client wrote it.
    pub(crate) fn shown(&self, key: &NamespacedUid, before: &Value, after: &Value) -> bool {
        let shown = numbers(after);
        if is_same(&numbers(before), &shown) {
            return false;
        }
        let mut sent = self.sent.lock();
        if let Some(of_set) = sent.get_mut(key)
            && let Some(place) = of_set.iter().position(|sent| is_same(sent, &shown))
        {
            // An API server that goes back in time shows the last one again.
            of_set.drain(..place);
            return false;
        }
        true
    }

    /// Forgets this set: it is gone.
    pub(crate) fn remove(&self, key: &NamespacedUid) {
        self.sent.lock().remove(key);
    }

    /// Forgets all sets except those that are wanted.
    pub(crate) fn forget(&self, keep: impl Fn(&NamespacedUid) -> bool) {
        self.sent.lock().retain(|key, _| keep(key));
    }
}

fn numbers(status: &Value) -> Numbers {
    let number = |key: &str| status.get(key).and_then(Value::as_i64);
    (NUMBERS.map(|key| number(key).unwrap_or(0)), number("terminatingReplicas"))
}

/// Whether the API server shows these numbers, perhaps without a field that it drops.
fn is_same(sent: &Numbers, shown: &Numbers) -> bool {
    sent.0 == shown.0 && (shown.1.is_none() || sent.1 == shown.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Reports;
    use crate::testing::key;

    #[test]
    fn only_a_changed_status_that_was_not_sent_is_foreign() {
        let reports = Reports::default();
        let is_foreign = |before: i64, after: i64| {
            let status = |replicas: i64| json!({"replicas": replicas});
            reports.shown(&key("a"), &status(before), &status(after))
        };
        for replicas in 1..=100 {
            // API servers before 1.33 drop `terminatingReplicas`.
            reports.sending(&key("a"), &json!({"replicas": replicas, "terminatingReplicas": 0}));
        }
        // The watch lags, and a list skips some.
        let shown = [(0, 1), (1, 1), (1, 2), (2, 50), (50, 51), (51, 100)];
        assert!(shown.into_iter().all(|(before, after)| !is_foreign(before, after)));
        // Another client reports only other terminating pods.
        let terminating = |count: i64| json!({"replicas": 100, "terminatingReplicas": count});
        assert!(reports.shown(&key("a"), &terminating(0), &terminating(3)));
        reports.sending(&key("a"), &terminating(3));
        assert!(!reports.shown(&key("a"), &terminating(0), &terminating(3)));
        // Another client repeats what was reported long ago.
        assert!(is_foreign(100, 7));
        reports.sending(&key("a"), &json!({"replicas": 100}));
        assert!(!is_foreign(7, 100));
        reports.remove(&key("a"));
        assert!(is_foreign(3, 100));
    }
}
