//! Measures what a slow or failing API server costs ordered-controller-manager, and kube-controller-manager beside it.
//!
//! Both run on one real control plane with leader election, each behind a proxy of its own. Each row disturbs all requests of both in the
//! same way. It prints how many requests and log lines that costs, how long a scale-up takes that comes a second after the begin, and how
//! long one takes that comes at the end. A program that ends is started again at once.
//!
//! Usage: `outages [ROW]...`, with the names of rows, such as `slow-3s`. `KUBEBUILDER_ASSETS` names the folder with the servers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use scenarios::proxy::{RequestMatcher, Rules};
use scenarios::real::{BuiltIn, Component};
use scenarios::{Manager, Server, Setting, TestCluster};
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);
/// How long a scale-up may take until it counts as not carried out.
const LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
const EVER: usize = usize::MAX;
/// The wait before the scale-up in a disturbance: it has begun.
const BEGIN: Duration = Duration::from_secs(1);

/// What is done to the requests.
#[derive(Clone, Copy)]
enum Disturbance {
    None,
    Late(RequestMatcher, Duration),
    Refused(RequestMatcher, u16),
    Stalled,
    /// The API server is killed and started again at the end.
    Down,
}

impl Disturbance {
    fn begin(self, rules: &Rules) {
        match self {
            Self::None | Self::Down => {}
            Self::Late(matching, delay) => rules.answer_late(matching, delay),
            Self::Refused(matching, code) => {
                rules.refuse(matching, code, EVER);
                // What is open is closed.
                rules.cut();
            }
            Self::Stalled => rules.stall(),
        }
    }

    fn end(self, rules: &Rules) {
        match self {
            Self::None | Self::Down => {}
            Self::Late(matching, _) => rules.answer_late(matching, Duration::ZERO),
            Self::Refused(..) => rules.accept(),
            Self::Stalled => rules.flow(),
        }
    }
}

fn rows() -> Vec<(&'static str, Duration, Disturbance)> {
    let all = RequestMatcher::default();
    let leases = RequestMatcher { plural: Some("leases"), ..all };
    let watches = RequestMatcher { verb: Some("watch"), ..all };
    let late = |seconds| Disturbance::Late(all, Duration::from_secs(seconds));
    vec![
        ("undisturbed", MINUTE, Disturbance::None),
        ("slow-1s", MINUTE, late(1)),
        ("slow-3s", MINUTE, late(3)),
        ("slow-5s", MINUTE, late(5)),
        ("slow-9s", MINUTE, late(9)),
        ("lease-3s", MINUTE, Disturbance::Late(leases, Duration::from_secs(3))),
        ("refuses-1m", MINUTE, Disturbance::Refused(all, 503)),
        ("refuses-10m", 10 * MINUTE, Disturbance::Refused(all, 503)),
        ("throttles-1m", MINUTE, Disturbance::Refused(all, 429)),
        ("forgets-1m", MINUTE, Disturbance::Refused(watches, 410)),
        ("restarts", Duration::from_secs(10), Disturbance::Down),
        ("vanishes-1m", MINUTE, Disturbance::Stalled),
        ("vanishes-10m", 10 * MINUTE, Disturbance::Stalled),
    ]
}

enum Program {
    Ours(Box<Manager>),
    BuiltIn(BuiltIn),
}

/// A program with its proxy, and the object that it manages.
struct Subject {
    cluster: TestCluster,
    is_ours: bool,
    program: Program,
    /// How often it was started again.
    ended: usize,
    replicas: usize,
    /// The lines that were counted: those of programs that have ended, and of ours those that were read.
    lines: usize,
}

impl Subject {
    async fn start(cluster: &TestCluster, is_ours: bool) -> Result<Self> {
        let cluster = cluster.behind_another_proxy().await?;
        let program = program(&cluster, is_ours)?;
        Ok(Self { cluster, is_ours, program, ended: 0, replicas: 1, lines: 0 })
    }

    fn name(&self) -> &'static str {
        if self.is_ours { "ordered-controller-manager" } else { "kube-controller-manager" }
    }

    /// Starts it again if it has ended.
    fn care(&mut self) -> Result<()> {
        let runs = match &mut self.program {
            Program::Ours(manager) => manager.runs()?,
            Program::BuiltIn(manager) => manager.runs(),
        };
        if !runs {
            self.lines = self.logged()?;
            self.program = program(&self.cluster, self.is_ours)?;
            self.ended += 1;
        }
        Ok(())
    }

    /// All lines that were logged so far.
    fn logged(&mut self) -> Result<usize> {
        match &mut self.program {
            Program::Ours(manager) => {
                self.lines += manager.new_log_lines();
                Ok(self.lines)
            }
            Program::BuiltIn(manager) => Ok(self.lines + manager.log_lines()?),
        }
    }

    /// How long a scale-up by one takes; `None` if it is not carried out in time.
    async fn scaled(&mut self, limit: Duration) -> Result<Option<Duration>> {
        self.replicas += 1;
        let (kind, name) = if self.is_ours { ("od", "web") } else { ("deployment", "plain") };
        let replicas = format!("--replicas={}", self.replicas);
        // The API server may just start.
        while self.cluster.kubectl.run(&["scale", kind, name, &replicas]).await.is_err() {
            tokio::time::sleep(POLL).await;
        }
        let begun = Instant::now();
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace);
        let of_app = ListParams::default().labels(&format!("app={name}"));
        while begun.elapsed() < limit {
            if pods.list(&of_app).await.is_ok_and(|pods| pods.items.len() >= self.replicas) {
                return Ok(Some(begun.elapsed()));
            }
            self.care()?;
            tokio::time::sleep(POLL).await;
        }
        Ok(None)
    }

    async fn measure(&mut self, row: &str, length: Duration, disturbance: Disturbance) -> Result<String> {
        self.cluster.proxy.rules().start_timeline();
        let (before, begun) = (self.logged()?, Instant::now());
        disturbance.begin(self.cluster.proxy.rules());
        tokio::time::sleep(BEGIN).await;
        let inside = if matches!(disturbance, Disturbance::Down) {
            None
        } else {
            self.scaled(length.saturating_sub(BEGIN)).await?
        };
        while begun.elapsed() < length {
            self.care()?;
            tokio::time::sleep(POLL).await;
        }
        let requests = self.cluster.proxy.rules().stop_timeline();
        let requests =
            requests.iter().filter(|one| matches!(one.passed, scenarios::proxy::Passed::Request(_)));
        let requests = requests.count();
        let lines = self.logged()?.saturating_sub(before);
        disturbance.end(self.cluster.proxy.rules());
        if matches!(disturbance, Disturbance::Down) && self.is_ours {
            let plane = self.cluster.control_plane().context("no control plane")?;
            plane.start_again(Component::ApiServer).await?;
        }
        let after = self.scaled(LIMIT).await?;
        let ended = std::mem::take(&mut self.ended);
        let words = |time: Option<Duration>| time.map_or("-".to_owned(), |time| format!("{time:.1?}"));
        let (inside, after) = (words(inside), words(after));
        let name = self.name();
        Ok(format!("| {row} | {name} | {requests} | {lines} | {ended} | {inside} | {after} |"))
    }
}

fn program(cluster: &TestCluster, is_ours: bool) -> Result<Program> {
    if is_ours {
        return Ok(Program::Ours(Box::new(cluster.start_manager_with(&["--leader-elect"])?)));
    }
    // The proxy reads watches by lines.
    let arguments = [
        "--leader-elect=true",
        "--leader-elect-resource-namespace=default",
        "--kube-api-content-type=application/json",
    ];
    Ok(Program::BuiltIn(cluster.start_built_in_behind_the_proxy("deployment,replicaset", &arguments)?))
}

#[tokio::main]
async fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let setting = Setting {
        built_in_controllers: "*,-deployment,-replicaset".to_owned(),
        faults: true,
        ..Setting::default()
    };
    let cluster = TestCluster::with(Server::Real, setting).await?;
    println!("{}", cluster.control_plane().context("no control plane")?.version);
    let plain = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "plain"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "plain"}}, "template": {
            "metadata": {"labels": {"app": "plain"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example/app:v1"}]},
        }},
    });
    cluster.kubectl.run_with(&["apply", "-f", "-"], &plain.to_string()).await?;
    cluster.apply(&json!({"replicas": 1})).await?;
    let mut ours = Subject::start(&cluster, true).await?;
    let mut theirs = Subject::start(&cluster, false).await?;
    println!("| row | program | requests | log lines | starts | scaled within | scaled after |");
    println!("|---|---|---|---|---|---|---|");
    for (row, length, disturbance) in rows() {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == row) {
            continue;
        }
        // Both are at rest.
        for subject in [&mut ours, &mut theirs] {
            subject.care()?;
            subject.scaled(LIMIT).await?.with_context(|| format!("{} does not work", subject.name()))?;
            subject.ended = 0;
        }
        if matches!(disturbance, Disturbance::Down) {
            cluster.control_plane().context("no control plane")?.kill(Component::ApiServer)?;
        }
        let both = tokio::try_join!(
            ours.measure(row, length, disturbance),
            theirs.measure(row, length, disturbance)
        );
        let (first, second) = both?;
        println!("{first}\n{second}");
    }
    Ok(())
}
