//! What passes the proxy, with its time: the time between a watch event and the request that answers it.

use std::sync::Mutex;
use std::time::Instant;

use bytes::Bytes;

use super::matching::RequestInfo;
use crate::lock;

/// What passed.
#[derive(Clone, Debug)]
pub enum Passed {
    /// A line of a watch, at the moment it was sent to the client.
    Event(Bytes),
    /// A request with this verb, at the moment its head arrived.
    Request(&'static str),
}

/// Something that passed the proxy.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The time.
    pub at: Instant,
    /// The resource.
    pub plural: String,
    /// What it was.
    pub passed: Passed,
}

/// Records passages while it is on; off at first.
#[derive(Debug, Default)]
pub(super) struct Timeline(Mutex<Option<Vec<Passage>>>);

impl Timeline {
    pub(super) fn start(&self) {
        *lock(&self.0) = Some(Vec::new());
    }

    pub(super) fn stop(&self) -> Vec<Passage> {
        lock(&self.0).take().unwrap_or_default()
    }

    pub(super) fn passes(&self, info: &RequestInfo, passed: impl FnOnce() -> Passed) {
        if let Some(all) = lock(&self.0).as_mut() {
            all.push(Passage { at: Instant::now(), plural: info.plural.clone(), passed: passed() });
        }
    }
}
