//! The control plane of some rows: nodes, fast kubelet stand-ins, pods without an owner, and one controller
//! at a time.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use ordereddeployment_sandbox::NodeSpec;
use scenarios::real::{BuiltIn, ControlPlane};
use scenarios::{Manager, Server, Setting, TestCluster};
use serde_json::{Value, json};

use crate::contender::Contender;
use crate::null;
use crate::observer::{LIMIT, Observer};
use crate::workload::Bounds;

/// How many pods fit on a node.
const PODS_PER_NODE: usize = 500;
/// The controllers of a Deployment. They run in a process of their own: the other 30 controllers of
/// kube-controller-manager would be part of its CPU time and memory.
const BUILT_IN: &str = "deployment,replicaset";
/// The arguments of kube-controller-manager against client limits.
const UNLIMITED: [&str; 2] = ["--kube-api-qps=10000", "--kube-api-burst=20000"];
/// The namespace of the other pods.
const OTHERS: &str = "others";

/// What a control plane has. Rows of one shape share a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many pods without an owner exist.
    pub others: usize,
    /// How many more pods the nodes can run.
    pub room: usize,
}

/// The servers.
pub struct Cluster {
    pub test_cluster: TestCluster,
    probes: AtomicU32,
}

/// A controller that runs, or none.
pub enum Running {
    Ours(Manager),
    BuiltIn(BuiltIn),
    Nothing,
}

impl Running {
    /// Its process.
    pub fn process(&self) -> Result<Process> {
        match self {
            Self::Ours(manager) => manager.id().context("the controller has ended").map(Process),
            Self::BuiltIn(built_in) => built_in.id().map(Process),
            Self::Nothing => bail!("no process is measured"),
        }
    }

    /// Kills it. Returns after it has ended.
    pub async fn kill(self) -> Result<()> {
        match self {
            Self::Ours(manager) => manager.kill().await,
            Self::BuiltIn(built_in) => built_in.kill(),
            Self::Nothing => Ok(()),
        }
    }
}

impl Cluster {
    /// Starts the servers without a controller, and creates the other pods.
    pub async fn start(shape: Shape) -> Result<Self> {
        let nodes = |pool: &'static str, pods: usize| {
            let node = move |number| NodeSpec {
                pods_capacity: PODS_PER_NODE.try_into().unwrap_or(u32::MAX),
                // The scheduler adds no pods to those of the others.
                unschedulable: pool == OTHERS,
                ..NodeSpec::in_pool(&node(pool, number), pool)
            };
            (0..pods.div_ceil(PODS_PER_NODE)).map(node)
        };
        let arguments = [
            "--kube-api-qps=10000",
            "--kube-api-burst=20000",
            // Under load heartbeats may be late.
            "--node-monitor-grace-period=10m",
        ];
        let setting = Setting {
            nodes: nodes("bench", shape.room).chain(nodes(OTHERS, shape.others)).collect(),
            ready_delay: Duration::ZERO,
            termination_delay: Duration::ZERO,
            built_in_controllers: "*,-deployment,-replicaset".to_owned(),
            controller_manager_arguments: arguments.map(str::to_owned).to_vec(),
            ..Setting::default()
        };
        let test_cluster = TestCluster::with(Server::Real, setting).await?.with_timeout(LIMIT);
        let cluster = Self { test_cluster, probes: AtomicU32::new(0) };
        cluster.create_others(shape.others).await?;
        Ok(cluster)
    }

    /// The control plane.
    pub fn plane(&self) -> Result<&ControlPlane> {
        self.test_cluster.control_plane().context("this is no real control plane")
    }

    /// Starts the controller of that contender, with a direct connection and without client limits, and waits
    /// until it has read everything.
    pub async fn run(&self, contender: Contender) -> Result<Running> {
        let mut running = self.spawn(contender)?;
        match &mut running {
            Running::Ours(manager) => manager.until_logged("every watch has synced").await.map(drop)?,
            Running::BuiltIn(_) => self.until_built_in_works().await?,
            Running::Nothing => {}
        }
        Ok(running)
    }

    /// Starts the controller, without any wait.
    pub fn spawn(&self, contender: Contender) -> Result<Running> {
        let cluster = &self.test_cluster;
        Ok(match contender {
            Contender::Ours => Running::Ours(cluster.start_manager_beside_the_proxy(&["--kube-api-qps=0"])?),
            Contender::BuiltIn => Running::BuiltIn(cluster.start_built_in_apart(BUILT_IN, &UNLIMITED)?),
            Contender::Null => Running::Nothing,
        })
    }

    /// The built-in controllers do not say when they have read everything: they work then.
    async fn until_built_in_works(&self) -> Result<()> {
        let name = format!("probe-{}", self.probes.fetch_add(1, Ordering::Relaxed));
        Contender::BuiltIn.create(&self.test_cluster, &name, 0, Bounds::STRICT).await?;
        let is_known = |sets: &[ReplicaSet]| {
            sets.iter().any(|set| {
                set.name_any().starts_with(&name)
                    && set.status.as_ref().is_some_and(|status| status.observed_generation.is_some())
            })
        };
        self.test_cluster
            .until_all(self.test_cluster.api(), "known to the built-in controllers", is_known)
            .await?;
        self.test_cluster.api::<Deployment>().delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Removes a namespace with everything in it. Returns after it is gone.
    pub async fn remove(&self, test_cluster: &TestCluster) -> Result<()> {
        test_cluster.clear().await?;
        let namespaces: Api<Namespace> = Api::all(self.test_cluster.client.clone());
        let named = ListParams::default().fields(&format!("metadata.name={}", test_cluster.namespace));
        let limit = tokio::time::Instant::now() + LIMIT;
        while !namespaces.list(&named).await?.items.is_empty() {
            anyhow::ensure!(tokio::time::Instant::now() < limit, "{} is not removed", test_cluster.namespace);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Creates the pods without an owner, on nodes of their own.
    async fn create_others(&self, others: usize) -> Result<()> {
        if others == 0 {
            return Ok(());
        }
        let test_cluster = self.test_cluster.apart(OTHERS).await?;
        let observer = Observer::start(&test_cluster);
        null::create(&test_cluster, (0..others).map(other)).await?;
        observer.until_created(others).await.map(drop)
    }
}

fn node(pool: &str, number: usize) -> String {
    format!("{pool}-{number}")
}

/// A pod without an owner, about as large as one of an ordinary service.
fn other(number: usize) -> Value {
    let container = |name: &str| {
        let variable =
            |number| json!({"name": format!("VARIABLE_{number}"), "value": format!("value-{number}")});
        json!({
            "name": name, "image": format!("registry.example/{name}:1.0.0"),
            "env": (0..10).map(variable).collect::<Vec<_>>(),
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "1Gi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        })
    };
    json!({
        "metadata": {
            "name": format!("other-{number:05}"),
            "labels": {"app": "other", "revision": "1", "team": "others", "tier": "backend"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        },
        "spec": {
            // Without the scheduler, which is the slowest part of the start of so many pods.
            "nodeName": node(OTHERS, number / PODS_PER_NODE),
            "terminationGracePeriodSeconds": 0,
            "containers": [container("main"), container("sidecar")],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    })
}

/// A clock tick of `/proc/PID/stat`, in seconds: Linux reports 100 a second on every platform.
const TICK: f64 = 0.01;

/// A running process.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// User and system time so far, in seconds.
    pub fn cpu_seconds(self) -> Result<f64> {
        let text = self.read("stat")?;
        // The name of the program stands in parentheses and may contain spaces. utime and stime are fields 14
        // and 15.
        let rest = text.rsplit_once(')').context("an unexpected format of stat")?.1;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
        Ok(ticks.sum::<Result<u32, _>>().map(f64::from)? * TICK)
    }

    /// The resident memory, in MiB.
    pub fn resident_mib(self) -> Result<f64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.context("status has no VmRSS")?.trim().trim_end_matches("kB").trim();
        Ok(f64::from(kib.parse::<u32>()?) / 1024.0)
    }

    fn read(self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[test]
    fn a_process_has_cpu_time_and_memory() {
        let own = Process(std::process::id());
        assert!(own.cpu_seconds().unwrap() >= 0.0);
        let large = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(own.resident_mib().unwrap() >= 64.0);
        drop(large);
    }
}
