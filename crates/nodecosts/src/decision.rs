//! What becomes of one pod's deletion cost. A plain function of the pod's two annotations and of what the rules want; it
//! never touches a value that it did not write.

/// The two annotations as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub(crate) cost: Option<String>,
    /// What was written there last by us.
    pub(crate) written: Option<String>,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This cost, and that it is ours.
    Set(i32),
    /// Take our cost back.
    TakeBack,
    /// The cost is somebody else's: forget that we ever wrote one.
    Forget,
}

/// `wanted` is what the rules give; `None` where none matches, or the Deployment is not chosen.
pub(crate) fn decide(costs: &Costs, wanted: Option<i32>) -> Option<Change> {
    match (&costs.cost, &costs.written, wanted) {
        (None, None, Some(wanted)) => Some(Change::Set(wanted)),
        (Some(cost), Some(written), Some(wanted)) if cost == written => {
            (*cost != wanted.to_string()).then_some(Change::Set(wanted))
        }
        (Some(cost), Some(written), None) if cost == written => Some(Change::TakeBack),
        // Changed or taken away by somebody since: theirs, as long as the rules would give one.
        (_, Some(_), None) => Some(Change::Forget),
        (_, _, Some(_)) | (_, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Costs, decide};

    #[test]
    fn only_what_was_written_here_is_ever_changed_or_taken_back() {
        let table = [
            // cost, written, wanted, change
            (None, None, None, None),
            (None, None, Some(-100), Some(Change::Set(-100))),
            (Some("-100"), Some("-100"), Some(-100), None),
            (Some("-100"), Some("-100"), Some(5), Some(Change::Set(5))),
            (Some("-100"), Some("-100"), None, Some(Change::TakeBack)),
            // Somebody's own.
            (Some("7"), None, Some(-100), None),
            (Some("-100"), None, Some(-100), None),
            (Some("-100"), None, None, None),
            // Somebody changed ours, or took it away.
            (Some("7"), Some("-100"), Some(-100), None),
            (Some("7"), Some("-100"), Some(7), None),
            (None, Some("-100"), Some(-100), None),
            (Some("7"), Some("-100"), None, Some(Change::Forget)),
            (None, Some("-100"), None, Some(Change::Forget)),
            // Malformed is somebody's too.
            (Some("cheap"), None, Some(-100), None),
        ];
        for (cost, written, wanted, change) in table {
            let costs = Costs { cost: cost.map(str::to_owned), written: written.map(str::to_owned) };
            assert_eq!(decide(&costs, wanted), change, "{costs:?} {wanted:?}");
        }
    }
}
