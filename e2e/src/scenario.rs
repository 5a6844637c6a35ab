//! Scenarios are written once and run on both servers.

use std::sync::OnceLock;

use tokio::sync::{Mutex, MutexGuard};

/// Keeps other control planes of this process away: several at once would only share the same few cores, and a
/// scenario that waits for its server's leases and timers would measure its neighbours.
pub async fn hold_the_machine() -> MutexGuard<'static, ()> {
    static MACHINE: OnceLock<Mutex<()>> = OnceLock::new();
    MACHINE.get_or_init(Mutex::default).lock().await
}

/// Makes a test of each server out of each `async fn(Server)` named: `NAME::on_the_sandbox` and, with the feature
/// `real-servers`, `NAME::on_a_real_server`.
#[macro_export]
macro_rules! on_both {
    ($($scenario:ident),+ $(,)?) => {$(
        mod $scenario {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_sandbox() {
                Box::pin(super::$scenario($crate::Server::Sandbox)).await;
            }

            #[cfg(feature = "real-servers")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_a_real_server() {
                let _machine = $crate::hold_the_machine().await;
                Box::pin(super::$scenario($crate::Server::Real)).await;
            }
        }
    )+};
}
