//! The watches of the dashboard. Read-only.

use tokio::sync::watch;

use crate::client::watch_cache::{Stores, WatchCache};
use crate::client::watches::Lost;

/// What the watches have shown so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pulse {
    /// It grows with each change of an object.
    pub(super) version: u64,
    pub(super) lost: Option<Lost>,
}

/// The objects, and what the watches have shown, until no one listens.
pub(super) fn follow(mut cache: WatchCache) -> (Stores, watch::Receiver<Pulse>) {
    let (sender, receiver) = watch::channel(Pulse::default());
    let stores = cache.stores.clone();
    tokio::spawn(async move {
        loop {
            let differs = tokio::select! {
                Ok(differs) = cache.changed() => differs,
                () = sender.closed() => return,
                else => return,
            };
            sender.send_modify(|pulse| {
                pulse.version += u64::from(differs);
                pulse.lost = cache.lost().cloned();
            });
        }
    });
    (stores, receiver)
}
