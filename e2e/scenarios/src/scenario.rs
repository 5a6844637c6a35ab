//! Runs each scenario on both servers.

use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use std::time::Instant;

use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Server, Setting, TestCluster};

/// How many control planes of this process run at once. Scenarios mostly wait; what needs the cores is the
/// start of a control plane.
const CONTROL_PLANES: u32 = 3;

/// Each control plane is a reader.
static MACHINE: LazyLock<RwLock<()>> = LazyLock::new(|| RwLock::with_max_readers((), CONTROL_PLANES));

/// A share of the machine, for one control plane beside others of this process.
pub async fn share_the_machine() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().await
}

/// The machine without other control planes of this process: a scenario that asserts how soon something
/// happens would measure the load of the others.
pub async fn hold_the_machine() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().await
}

/// A scenario in a namespace with a running controller. Other scenarios may run on the same server.
pub type Scenario = fn(TestCluster) -> LocalBoxFuture<'static, ()>;

/// Runs one scenario on a separate embedded server.
pub async fn alone(setting: Setting, name: &'static str, scenario: Scenario) -> Result<(), String> {
    run(Server::Sandbox, setting, &[(name, scenario)]).await
}

/// Runs all scenarios at once on one control plane, each in its own namespace: the start of a control plane
/// takes longer than most scenarios.
pub async fn side_by_side(setting: Setting, scenarios: &[(&'static str, Scenario)]) -> Result<(), String> {
    let _machine = share_the_machine().await;
    run(Server::Real, setting, scenarios).await
}

/// Fails with the names of the failed scenarios, or with the error that prevents the start of all of them.
async fn run(server: Server, setting: Setting, scenarios: &[(&'static str, Scenario)]) -> Result<(), String> {
    let start = Instant::now();
    let cluster = TestCluster::with(server, setting).await.map_err(|error| format!("{error:#}"))?;
    let _manager = cluster.start_manager().map_err(|error| format!("{error:#}"))?;
    if server == Server::Real {
        println!("a control plane in {:.1?}", start.elapsed());
    }
    run_on(&cluster, scenarios).await
}

/// Runs all scenarios at once on this cluster, on which their controller runs, each in its own namespace.
/// Fails with the names of the failed scenarios.
pub async fn run_on(cluster: &TestCluster, scenarios: &[(&'static str, Scenario)]) -> Result<(), String> {
    let running = scenarios.iter().enumerate().map(async |(index, (name, scenario))| {
        let start = Instant::now();
        let cluster = cluster.apart(&format!("{}-{}", cluster.namespace, index + 1)).await;
        let cluster = cluster.map_err(|error| format!("{name}: {error:#}"))?;
        // A panic fails only one scenario; the others continue.
        let result = AssertUnwindSafe(scenario(cluster.clone())).catch_unwind().await;
        // Its pods would slow down the other scenarios.
        let cleared = cluster.clear().await;
        println!("{name}: {:.1?}", start.elapsed());
        result.map_err(|_| format!("{name}, in the namespace {}", cluster.namespace))?;
        cleared.map_err(|error| format!("{name}: {error:#}"))
    });
    let failed: Vec<String> = join_all(running).await.into_iter().filter_map(Result::err).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

/// Scenarios with their names, for [`run_on`].
#[macro_export]
macro_rules! scenarios {
    ($($scenario:ident),+ $(,)?) => {
        &[$((stringify!($scenario), (|cluster| Box::pin($scenario(cluster))) as $crate::Scenario)),+]
    };
}

/// Defines tests for each `async fn(Server)`: `NAME::on_the_sandbox` and, with the feature `real-servers`,
/// `NAME::on_a_real_server`. Scenarios after `alone on a real server` assert how soon something happens.
#[macro_export]
macro_rules! on_both {
    ($($scenario:ident),* $(,)? $(; alone on a real server: $($alone:ident),+ $(,)?)?) => {
        $($crate::on_both!(@each $scenario, share_the_machine);)*
        $($($crate::on_both!(@each $alone, hold_the_machine);)+)?
    };
    (@each $scenario:ident, $machine:ident) => {
        mod $scenario {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_sandbox() {
                Box::pin(super::$scenario($crate::Server::Sandbox)).await;
            }

            #[cfg(feature = "real-servers")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_a_real_server() {
                let _machine = $crate::$machine().await;
                Box::pin(super::$scenario($crate::Server::Real)).await;
            }
        }
    };
}

/// Defines tests for each `async fn(TestCluster)`, which runs in a namespace with a running controller: one
/// test each on the sandbox, and with the feature `real-servers` one test of all scenarios on one control
/// plane. Scenarios after `only on a real server` need features that the sandbox lacks.
#[macro_export]
macro_rules! side_by_side {
    ($setting:expr; $($scenario:ident),* $(,)? $(; only on a real server: $($only:ident),+ $(,)?)?) => {
        fn setting() -> $crate::Setting {
            $setting
        }

        $(mod $scenario {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_sandbox() {
                let scenario: $crate::Scenario = |cluster| Box::pin(super::$scenario(cluster));
                $crate::alone(super::setting(), stringify!($scenario), scenario).await.unwrap();
            }
        })*

        #[cfg(feature = "real-servers")]
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn side_by_side_on_a_real_server() {
            let scenarios: &[(&'static str, $crate::Scenario)] = &[
                $((stringify!($scenario), |cluster| Box::pin($scenario(cluster))),)*
                $($((stringify!($only), |cluster| Box::pin($only(cluster))),)+)?
            ];
            $crate::side_by_side(setting(), scenarios).await.unwrap();
        }
    };
}
