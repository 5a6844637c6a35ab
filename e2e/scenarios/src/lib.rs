//! The parts of scenarios: an API server, the controller's binary as a process, real kubectl, and waits for
//! documented behavior.
//!
//! No scenario reads the internal state of the controller; all observations come from the API server.

mod helm;
mod history;
mod kubeconfig;
mod kubectl;
mod manager;
mod plugin;
mod ports;
mod prometheus;
pub mod proxy;
pub mod real;
mod request;
mod scenario;
mod setting;
mod steps;
mod test_cluster;
mod waiting;

pub use helm::{Helm, top};
pub use history::History;
pub use kubectl::{Kubectl, Printed};
pub use manager::{Manager, beside_the_test};
pub use plugin::{Following, Plugin};
pub use ports::free_port;
pub use prometheus::Prometheus;
pub use proxy::Proxy;
pub use request::{Commit, Deletion, Request};
pub use scenario::{Scenario, alone, hold_the_machine, run_on, share_the_machine, side_by_side};
pub use setting::Setting;
pub use steps::{is_held_with, manifest, workload};
pub use test_cluster::{Server, TestCluster, condition_of, image_of, is_complete};
pub use waiting::{is_ready, node_of};

/// The value of a mutex, also after a panic of another thread.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
