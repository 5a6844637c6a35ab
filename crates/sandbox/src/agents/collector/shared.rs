//! The graph and the queues. The event reader and the workers share them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::graph::Graph;
use super::monitors::MonitorMessage;
use super::queue::{Queue, Task, Uid};

/// The state that the event reader updates and the workers read.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) graph: Graph,
    orphan: Queue,
    delete: Queue,
}

impl Shared {
    pub(super) fn queue(&mut self, task: Task) -> &mut Queue {
        match task {
            Task::Orphan => &mut self.orphan,
            Task::Delete => &mut self.delete,
        }
    }

    /// Applies one event to the graph and adds the affected objects to the queues.
    pub(super) fn take_in(&mut self, message: MonitorMessage) {
        let wanted = match message {
            MonitorMessage::Resources(resources) => self.graph.set_resources(resources),
            MonitorMessage::Event(resource, event) => self.graph.apply(&resource, *event),
        };
        self.enqueue(wanted);
    }

    pub(super) fn enqueue(&mut self, wanted: Vec<(Task, Uid)>) {
        for (task, uid) in wanted {
            self.queue(task).add(uid);
        }
    }
}

pub(super) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
