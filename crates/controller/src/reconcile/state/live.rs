//! Live reads of one object: which are due, and how often others may cause them.

use ordereddeployment_kubernetes::backoff::Pace;

/// Why a live read is due. Of several reasons the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LiveReadReason {
    // First those that other clients can cause as often as they like: they wait for their pace.
    /// The planner asked for it.
    Asked,
    /// There is an orphan that matches.
    Orphan,
    /// A user asked to resume, to abort or to retry the rollout.
    Resume,
    /// The spec changed.
    Generation,
    /// Another client wrote in between.
    Conflict,
    /// A watch listed again: events in between may be missing.
    Relist,
    /// The watch shows an object that was gone at the last live read: it repeats what happened before.
    Replayed,
    /// The object could not be found or read before a large number of creates.
    Created,
    /// The watch did not confirm an expectation in time.
    Expired,
    /// A write may or may not have been stored.
    Unknown,
    /// This process has not read the object yet.
    First,
}

impl LiveReadReason {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Generation => "generation",
            Self::Resume => "resume",
            Self::Relist => "relist",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
            Self::Conflict => "conflict",
            Self::Orphan => "orphan",
            Self::Asked => "asked",
            Self::Created => "created",
            Self::Replayed => "replayed",
        }
    }

    /// Whether other clients can cause it as often as they like.
    pub(crate) fn is_by_others(self) -> bool {
        self <= Self::Conflict
    }
}

/// The last live read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveRead {
    pub(crate) generation: i64,
    /// How many lists the watches had completed before it.
    pub(crate) lists: u64,
    /// The versions of its lists of sets and of pods.
    pub(crate) versions: (u64, u64),
}

/// The live reads of one object.
#[derive(Debug, Default)]
pub(crate) struct LiveReads {
    /// Why one was asked for since the last one.
    pub(crate) due: Option<LiveReadReason>,
    pub(crate) last: Option<LiveRead>,
    /// How often it is read live because of changes by others.
    pub(crate) pace: Pace,
}

impl LiveReads {
    /// Asks for a live read.
    pub(crate) fn ask(&mut self, reason: LiveReadReason) {
        self.due = self.due.max(Some(reason));
    }

    /// A live read has ended. It answers all who asked before.
    pub(crate) fn done(&mut self, read: LiveRead) {
        (self.due, self.last) = (None, Some(read));
    }

    /// Why one is due, if it is. `lists`: how many lists the watches have completed.
    pub(crate) fn reason(&self, generation: i64, lists: u64) -> Option<LiveReadReason> {
        let Some(last) = self.last else { return Some(LiveReadReason::First) };
        let changed = (last.generation != generation).then_some(LiveReadReason::Generation);
        let listed = (last.lists != lists).then_some(LiveReadReason::Relist);
        self.due.max(changed).max(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveRead, LiveReadReason, LiveReads};

    #[test]
    fn a_live_read_is_due_at_first_for_a_new_generation_after_a_relist_and_when_asked() {
        let mut live = LiveReads::default();
        assert_eq!(live.reason(1, 3), Some(LiveReadReason::First));
        live.done(LiveRead { generation: 1, lists: 3, versions: (1, 1) });
        assert_eq!(live.reason(1, 3), None);
        assert_eq!(live.reason(2, 3), Some(LiveReadReason::Generation));
        assert_eq!(live.reason(2, 4), Some(LiveReadReason::Relist));
        // What others cause waits for its pace; what this process needs does not.
        for reason in [LiveReadReason::Unknown, LiveReadReason::Conflict] {
            live.ask(reason);
            assert_eq!(live.reason(2, 4), Some(LiveReadReason::Unknown));
        }
        live.done(LiveRead { generation: 2, lists: 4, versions: (1, 1) });
        assert_eq!(live.reason(2, 4), None);
    }
}
