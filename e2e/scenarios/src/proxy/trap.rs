//! Stops one write at a chosen moment, so that a scenario can act at that moment.

use tokio::sync::oneshot;

use super::matching::{RequestInfo, RequestMatcher};

/// When a write is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The server has not received the write.
    BeforeRequest,
    /// The write is in transit and is not stopped: the server may process it before or after the action of
    /// the scenario.
    During,
    /// The server has responded, and the client has not received the response.
    BeforeResponse,
}

impl Moment {
    /// All moments.
    pub const ALL: [Self; 3] = [Self::BeforeRequest, Self::During, Self::BeforeResponse];
}

/// A write that is stopped or will be. Dropping the trap closes its connection; a write that the server has
/// not received is lost.
#[derive(Debug)]
pub struct Trap {
    /// When the write is stopped.
    pub moment: Moment,
    reached: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Trap {
    /// Waits until the write has reached the trap.
    pub async fn reached(&mut self) {
        // There is only one trap at a time, so the sender exists.
        let _ = (&mut self.reached).await;
    }

    /// Lets the write continue.
    pub fn release(self) {
        // The client may have disconnected.
        let _ = self.go.send(());
    }
}

/// The proxy's side of a trap.
#[derive(Debug)]
pub(super) struct PendingTrap {
    matching: RequestMatcher,
    left: usize,
    moment: Moment,
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// A stopped write.
pub(super) struct StoppedWrite {
    pub(super) moment: Moment,
    go: oneshot::Receiver<()>,
}

pub(super) fn set(matching: RequestMatcher, nth: usize, moment: Moment) -> (Trap, PendingTrap) {
    let (tell, reached) = oneshot::channel();
    let (release, go) = oneshot::channel();
    (
        Trap { moment, reached, go: release },
        PendingTrap { matching, left: nth.max(1), moment, reached: tell, go },
    )
}

/// Counts one matching write. Returns the trapped write if it is the selected one.
pub(super) fn spring(
    pending: &mut Option<PendingTrap>,
    info: &RequestInfo,
) -> Option<(oneshot::Sender<()>, StoppedWrite)> {
    let set = pending.as_mut().filter(|pending| pending.matching.is(info))?;
    set.left -= 1;
    if set.left > 0 {
        return None;
    }
    let PendingTrap { moment, reached, go, .. } = pending.take()?;
    // The scenario may have dropped the trap.
    (!reached.is_closed()).then_some((reached, StoppedWrite { moment, go }))
}

impl StoppedWrite {
    /// Waits for the decision of the scenario. Returns whether the write continues.
    pub(super) async fn goes_on(self) -> bool {
        self.go.await.is_ok()
    }
}
