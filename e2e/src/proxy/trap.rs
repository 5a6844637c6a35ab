//! Stops one write at a chosen moment, so that a scenario can strike just then.

use tokio::sync::oneshot;

use super::matching::{Matching, Seen};

/// Where in its life a write is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The server has not seen it.
    Before,
    /// It is on its way, and is not stopped: anything may come first.
    During,
    /// The server has answered, and its client has not heard.
    After,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];
}

/// A write that will be stopped, or is. Dropping this ends its connection; one that the server has not seen never gets there.
#[derive(Debug)]
pub struct Trap {
    /// Where it is stopped.
    pub moment: Moment,
    reached: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Trap {
    /// Waits until the write has come.
    pub async fn reached(&mut self) {
        // Nobody sets two traps at once: the sender is there.
        let _ = (&mut self.reached).await;
    }

    /// Lets it go on.
    pub fn release(self) {
        // Its client may be gone.
        let _ = self.go.send(());
    }
}

/// The proxy's side of a trap.
#[derive(Debug)]
pub(super) struct Snare {
    matching: Matching,
    left: usize,
    moment: Moment,
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// A write in a trap.
pub(super) struct Caught {
    pub(super) moment: Moment,
    go: oneshot::Receiver<()>,
}

pub(super) fn set(matching: Matching, nth: usize, moment: Moment) -> (Trap, Snare) {
    let (tell, reached) = oneshot::channel();
    let (release, go) = oneshot::channel();
    (Trap { moment, reached, go: release }, Snare { matching, left: nth.max(1), moment, reached: tell, go })
}

/// Counts one more write; whether this is the one that is meant.
pub(super) fn spring(snare: &mut Option<Snare>, seen: &Seen) -> Option<(oneshot::Sender<()>, Caught)> {
    let set = snare.as_mut().filter(|snare| snare.matching.is(seen))?;
    set.left -= 1;
    if set.left > 0 {
        return None;
    }
    let Snare { moment, reached, go, .. } = snare.take()?;
    // Whoever set it may have lost interest.
    (!reached.is_closed()).then_some((reached, Caught { moment, go }))
}

impl Caught {
    /// Waits for what is to become of it; whether it goes on.
    pub(super) async fn goes_on(self) -> bool {
        self.go.await.is_ok()
    }
}
