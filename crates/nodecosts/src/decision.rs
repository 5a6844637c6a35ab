//! The change of one pod's deletion cost. A pure function of the pod's two annotations and of the cost that
//! the rules give; it never changes a value that the controller did not write.

/// The two annotations of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub(crate) cost: Option<String>,
    /// The cost that the controller wrote last.
    pub(crate) written: Option<String>,
}

/// The change to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This cost, and that it is ours.
    Set(i32),
    /// Remove our cost.
    TakeBack,
    /// Another client owns the cost: remove only our record.
    Forget,
}

/// `wanted` is the cost that the rules give; `None` if no rule matches or no entry selects the Deployment.
pub(crate) fn decide(costs: &Costs, wanted: Option<i32>) -> Option<Change> {
    match (&costs.cost, &costs.written, wanted) {
        (None, None, Some(wanted)) => Some(Change::Set(wanted)),
        (Some(cost), Some(written), Some(wanted)) if cost == written => {
            (*cost != wanted.to_string()).then_some(Change::Set(wanted))
        }
        (Some(cost), Some(written), None) if cost == written => Some(Change::TakeBack),
        // Another client changed or removed the cost: it stays theirs as long as the rules give one.
        (_, Some(_), None) => Some(Change::Forget),
        (_, _, Some(_)) | (_, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Costs, decide};

    #[test]
    fn only_own_costs_are_changed_or_removed() {
        let table = [
            // cost, written, wanted, change
            (None, None, None, None),
            (None, None, Some(-100), Some(Change::Set(-100))),
            (Some("-100"), Some("-100"), Some(-100), None),
            (Some("-100"), Some("-100"), Some(5), Some(Change::Set(5))),
            (Some("-100"), Some("-100"), None, Some(Change::TakeBack)),
            // Another client's cost.
            (Some("7"), None, Some(-100), None),
            (Some("-100"), None, Some(-100), None),
            (Some("-100"), None, None, None),
            // Another client changed or removed our cost.
            (Some("7"), Some("-100"), Some(-100), None),
            (Some("7"), Some("-100"), Some(7), None),
            (None, Some("-100"), Some(-100), None),
            (Some("7"), Some("-100"), None, Some(Change::Forget)),
            (None, Some("-100"), None, Some(Change::Forget)),
            // A malformed cost is another client's too.
            (Some("cheap"), None, Some(-100), None),
        ];
        for (cost, written, wanted, change) in table {
            let costs = Costs { cost: cost.map(str::to_owned), written: written.map(str::to_owned) };
            assert_eq!(decide(&costs, wanted), change, "{costs:?} {wanted:?}");
        }
    }
}
