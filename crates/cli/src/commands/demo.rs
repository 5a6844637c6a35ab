//! The demo: a rollout on a cluster in memory with priorities, a pause point and a resume. It checks the
//! order of deletions.
//!
//! It sends the requests that a user would send; the controller does the rest. The demo selects no pod to
//! delete.

mod expected_order;
mod screen;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::annotation;
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Config, Sandbox};
use ordereddeployment_wire::{Family, PodView};
use serde_json::{Value, json};

use crate::client::reader::Scope;
use crate::client::watch_cache::WatchCache;
use crate::client::{Connection, DryRun};
use crate::commands::resume::{ResumeTarget, resume};
use crate::embedded::Embedded;
use crate::view::overview::Overview;
use crate::view::phase::Phase;
use expected_order::{DeletedPod, ExpectedOrder};
pub(crate) use screen::Screen;

/// The manifest of the documentation, as a user applies it.
const MANIFEST: &str = include_str!("../../../../docs/examples/web.yaml");
const NAMESPACE: &str = "default";
const POOL: &str = "node.usage";
/// A timeout that no step reaches.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// The priority of the two pods that are deleted first.
const FIRST_PRIORITY: i32 = 5;
/// The priority of the pod with the pause point.
const PAUSE_POINT_PRIORITY: i32 = 3;
/// The images of the two revisions.
const OLD_IMAGE: &str = "nginx:1.28";
const NEW_IMAGE: &str = "nginx:1.29";

/// Watch an ordered rollout with a pause point, on a cluster in memory; needs no cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ten pods in two pools: two get priority 5, one gets priority 3 and a pause point. Then the image changes: \
the two pods with priority 5 are deleted first, the rollout pauses at the pause point, is resumed (by Enter \
on a terminal, otherwise without a prompt) and completes. The demo fails if a pod is deleted out of order.")]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args) -> Result<()> {
    let screen = Screen::of_stdout();
    // Slow on a terminal, so that a user can watch it.
    let (ready, shown) = if screen.is_terminal() { (1000, 3000) } else { (300, 0) };
    let options = DemoOptions {
        config: Config {
            ready_delay: Duration::from_millis(ready),
            termination_delay: Duration::from_millis(ready / 2),
            ..Config::default()
        },
        clock: Clock::system(),
        names: Names::random(),
        before_change: Duration::from_millis(shown),
        at_pause: Duration::from_millis(shown),
    };
    show(options, screen).await
}

/// The speed and the clocks of the demo.
pub(crate) struct DemoOptions {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    /// How long to show the order before the image changes.
    pub(crate) before_change: Duration,
    /// How long to show the pause if no user can press Enter.
    pub(crate) at_pause: Duration,
}

/// Runs the demo. An error if the order of deletions is wrong.
pub(crate) async fn show(options: DemoOptions, screen: Screen) -> Result<()> {
    let DemoOptions { config, clock, names, before_change, at_pause } = options;
    let pools: Vec<String> = config.nodes.iter().filter_map(|node| node.labels.get(POOL).cloned()).collect();
    let mut cluster = Embedded::start(config).await?;
    cluster.start_controller(clock.clone(), names, Duration::ZERO)?;
    let client = cluster.sandbox.connect("kubectl-ordered")?;
    let connection = Connection {
        client: client.clone(),
        watching: client,
        namespace: NAMESPACE.to_owned(),
        clock,
        flags: String::new(),
        dry_run: DryRun::None,
    };
    let scope = Scope { family: Family::Ordered, namespace: Some(NAMESPACE), name: None, selector: None };
    let mut demo = Demo {
        sandbox: &cluster.sandbox,
        cache: WatchCache::start(&connection, scope).await?,
        connection,
        screen,
        last: None,
        deleted: Vec::new(),
        events: Vec::new(),
        name: String::new(),
    };
    demo.screen.introduce(&format!(
        "A cluster in memory with {} nodes: {} in pool inference, {} in pool hybrid. Nothing outside it is \
         changed.",
        pools.len(),
        pools.iter().filter(|pool| *pool == "inference").count(),
        pools.iter().filter(|pool| *pool == "hybrid").count(),
    ))?;
    let done = demo.run(before_change, at_pause).await;
    let printed = match &done {
        Ok(result) => demo.screen.end(&demo.events, result),
        Err(_) => Ok(()),
    };
    cluster.stop().await?;
    done?;
    printed
}

struct Demo<'a> {
    sandbox: &'a Sandbox,
    connection: Connection,
    cache: WatchCache,
    screen: Screen,
    last: Option<Overview>,
    deleted: Vec<DeletedPod>,
    /// The deletions, the pause and the resume as text.
    events: Vec<String>,
    name: String,
}

impl Demo<'_> {
    async fn run(&mut self, before_change: Duration, at_pause: Duration) -> Result<String> {
        self.apply().await?;
        let complete = |overview: &Overview| {
            overview.phase == Phase::Complete && overview.in_order().len() == count(overview.desired)
        };
        let ready = self.until("all pods to be available", complete).await?;
        self.screen.say(&format!("{} pods of revision 1 are available.", ready.available))?;

        let expected = self.annotate(&ready).await?;
        let has_barrier = |overview: &Overview| {
            overview.barrier.as_ref().is_some_and(|barrier| barrier.pod == expected.pause_point)
        };
        let ordered = self.until("the annotations", has_barrier).await?;
        self.screen.say("The pods in deletion order:")?;
        self.screen.print(&ordered)?;
        tokio::time::sleep(before_change).await;

        self.change_image().await?;
        let is_paused =
            |overview: &Overview| overview.hold.is_some() && overview.available >= overview.desired;
        let paused = self.until("the pause point", is_paused).await?;
        let Some(hold) = &paused.hold else { bail!("the rollout is not paused") };
        let at_pause_point = self.deleted.len();
        self.screen.say(&format!(
            "Paused at pause point {}: {} of {} pods are updated, {} are available.",
            hold.pod, paused.updated, paused.desired, paused.available
        ))?;
        self.screen.print(&paused)?;
        self.events.push(format!("    paused at pause point {}", hold.pod));
        if !self.screen.confirm("Press Enter to resume the rollout.").await? {
            tokio::time::sleep(at_pause).await;
        }
        self.observe().await?;
        let at_resume = self.deleted.len();

        self.screen.command(&format!("kubectl ordered resume {} {}", self.name, hold.label()))?;
        let output =
            resume(&self.connection, &self.name, ResumeTarget::Hold(&hold.id), Some(STEP_TIMEOUT)).await?;
        self.screen.say(output.lines().next().unwrap_or_default())?;
        self.events.push(format!("    resumed {}", hold.id));
        let desired = ready.desired;
        let last = self
            .until("the rollout to be complete", |overview| complete(overview) && overview.updated == desired)
            .await?;
        self.screen.say(&format!(
            "Complete: {} of {} pods are of revision {}.",
            last.updated, last.desired, last.revision
        ))?;
        expected.check(&self.deleted, at_pause_point, at_resume)
    }

    /// Waits for the condition, and shows what happens meanwhile.
    async fn until(&mut self, what: &str, condition: impl Fn(&Overview) -> bool) -> Result<Overview> {
        loop {
            let overview = self.observe().await?;
            if condition(&overview) {
                return Ok(overview);
            }
            let changed = tokio::time::timeout(STEP_TIMEOUT, self.cache.changed()).await;
            changed.map_err(|_| {
                anyhow!("timed out waiting for {what}: no change for {} s", STEP_TIMEOUT.as_secs())
            })??;
        }
    }

    /// Reads the state once, prints the deletions since the last time, and shows the tree.
    async fn observe(&mut self) -> Result<Overview> {
        let state = self.connection.state(Family::Ordered, &self.name).await?;
        let overview = Overview::of(&state, POOL);
        let known = self.deleted.len();
        let deletions: Vec<String> = self
            .sandbox
            .requests()
            .into_iter()
            .filter(|request| {
                request.verb == "delete"
                    && request.plural == "pods"
                    && request.user_agent.ends_with("/rollout")
                    && request.code < 300
            })
            .filter_map(|request| request.name)
            .collect();
        for name in deletions.into_iter().skip(known) {
            let row = self.last.as_ref().and_then(|last| last.pods().find(|row| row.name == name));
            let deleted = DeletedPod::new(&name, row);
            let event = format!("{:>2}. {deleted}", self.deleted.len() + 1);
            self.screen.say(&event)?;
            self.events.push(event);
            self.deleted.push(deleted);
        }
        self.screen.show(&overview)?;
        self.last = Some(overview.clone());
        Ok(overview)
    }

    async fn apply(&mut self) -> Result<()> {
        self.screen.command("kubectl apply -f docs/examples/web.yaml")?;
        let manifest: Value = serde_saphyr::from_str(MANIFEST).context("the example is not valid YAML")?;
        let deployment: OrderedDeployment =
            serde_json::from_value(manifest).context("the example is invalid")?;
        let api: Api<OrderedDeployment> = Api::namespaced(self.connection.client.clone(), NAMESPACE);
        let created =
            api.create(&PostParams::default(), &deployment).await.context("cannot apply the example")?;
        self.name = created.metadata.name.unwrap_or_default();
        Ok(())
    }

    /// Annotates the last pods of the order: two with priority 5, one with priority 3 and a pause point.
    async fn annotate(&mut self, ready: &Overview) -> Result<ExpectedOrder> {
        let mut last = ready.in_order();
        last.reverse();
        let [pause_point, second, first, ..] = last.as_slice() else { bail!("too few pods") };
        let pods: Api<PodView> = Api::namespaced(self.connection.client.clone(), NAMESPACE);
        let mut annotate = async |name: &str, annotations: Value| -> Result<()> {
            let written: Vec<String> = annotations
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            self.screen.command(&format!("kubectl annotate pod {name} {}", written.join(" ")))?;
            let patch = json!({"metadata": {"annotations": annotations}});
            pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .context("cannot annotate")?;
            Ok(())
        };
        annotate(&first.name, json!({annotation::DELETE_PRIORITY: FIRST_PRIORITY.to_string()})).await?;
        annotate(&second.name, json!({annotation::DELETE_PRIORITY: FIRST_PRIORITY.to_string()})).await?;
        annotate(
            &pause_point.name,
            json!({annotation::DELETE_PRIORITY: PAUSE_POINT_PRIORITY.to_string(),
                annotation::PAUSE_POINT: "before"}),
        )
        .await?;
        let first = [&first.name, &second.name].map(Clone::clone).into();
        let rest = last[3..].iter().map(|row| row.name.clone()).collect();
        Ok(ExpectedOrder { first, pause_point: pause_point.name.clone(), rest })
    }

    async fn change_image(&mut self) -> Result<()> {
        self.screen.command(&format!(
            "sed s/{OLD_IMAGE}/{NEW_IMAGE}/ docs/examples/web.yaml | kubectl apply -f -"
        ))?;
        let manifest: Value = serde_saphyr::from_str(&MANIFEST.replace(OLD_IMAGE, NEW_IMAGE))
            .context("the example is not valid YAML")?;
        let patch = json!({"spec": manifest["spec"]});
        let api: Api<OrderedDeployment> = Api::namespaced(self.connection.client.clone(), NAMESPACE);
        let patched = api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.context("cannot change the image")?;
        Ok(())
    }
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
