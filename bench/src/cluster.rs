//! The control plane of a row: nodes, fast kubelet stand-ins, and controllers without client limits.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::real::Victim;
use e2e::{Manager, Server, Setting, World};
use ordereddeployment_sandbox::NodeSpec;

use crate::process::Process;

/// How many pods fit on a node.
const PODS_PER_NODE: u32 = 250;

/// The servers and both controllers. Both run all the time; only one has work.
pub struct Cluster {
    pub world: World,
    pub ours: Process,
    pub built_in: Process,
    _manager: Manager,
}

impl Cluster {
    /// Starts everything. Pods become ready after that delay, and end at once.
    pub async fn start(pods: u32, ready_delay: Duration) -> Result<Self> {
        let node = |number| NodeSpec {
            pods_capacity: PODS_PER_NODE,
            ..NodeSpec::in_pool(&format!("node-{number}"), "bench")
        };
        let setting = Setting {
            nodes: (0..=pods / PODS_PER_NODE).map(node).collect(),
            ready_delay,
            termination_delay: Duration::ZERO,
            controller_manager_arguments: ["--kube-api-qps=10000", "--kube-api-burst=20000"]
                .map(str::to_owned)
                .to_vec(),
            ..Setting::default()
        };
        let world = World::with(Server::Real, setting).await?.patient(Duration::from_secs(900));
        let mut manager = world.start_manager_beside_the_proxy(&["--kube-api-qps=0"])?;
        manager.until_logged("every watch has synced").await?;
        let ours = Process::of(manager.id().context("the controller has ended")?);
        let plane = world.control_plane().context("this is no real control plane")?;
        let built_in = Process::of(plane.process(Victim::ControllerManager)?);
        Ok(Self { world, ours, built_in, _manager: manager })
    }
}
