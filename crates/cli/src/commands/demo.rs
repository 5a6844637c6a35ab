//! The demo: a rollout on a cluster in memory with priorities, a pause point and a resume. It checks the
//! order of deletions.
//!
//! It sends the requests that a user would send; the controller does the rest. The demo selects no pod to
//! delete.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use kube::api::PostParams;
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Config, Sandbox};
use ordereddeployment_wire::Family;

use crate::client::explain::first_line;
use crate::client::reader::Scope;
use crate::client::watch_cache::WatchCache;
use crate::client::{Connection, DryRun};
use crate::commands::mark::{Marks, Side, mark};
use crate::commands::resume::{ResumeTarget, resume};
use crate::commands::set::set_image;
use crate::embedded::Embedded;
use crate::terminal::escape::terminal_text;
use crate::terminal::style::Paint;
use crate::terminal::table::wrapped;
use crate::view::overview::{Overview, PodRow};
use crate::view::phase::Phase;
use crate::view::tree::{self, Drawing};

/// The manifest of the documentation, as a user applies it.
const MANIFEST: &str = include_str!("../../../../docs/examples/web.yaml");
const NAME: &str = "web";
const NAMESPACE: &str = "default";
const POOL: &str = "node.usage";
/// A timeout that no step reaches.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
const CONTAINER: &str = "web";
const NEW_IMAGE: &str = "nginx:1.29";

/// Watch an ordered rollout with a pause point, on a cluster in memory; needs no cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ten pods in two pools: two get priority 5, one gets priority 3 and a pause point. Then the image changes: \
the two pods with priority 5 are deleted first, the rollout pauses at the pause point, is resumed (by Enter \
on a terminal, otherwise without a prompt) and completes. The demo fails if a pod is deleted out of order.")]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args) -> Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    // Slow on a terminal, so that a user can watch it.
    let (ready, shown) = if is_terminal { (1000, 3000) } else { (300, 0) };
    let options = DemoOptions {
        config: Config {
            ready_delay: Duration::from_millis(ready),
            termination_delay: Duration::from_millis(ready / 2),
            ..Config::default()
        },
        clock: Clock::system(),
        names: Names::random(),
        shown: Duration::from_millis(shown),
        attended: is_terminal && std::io::stdin().is_terminal(),
    };
    show(options, Box::new(std::io::stdout()), Drawing::of_stdout("")).await
}

pub(crate) struct DemoOptions {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    /// How long to show the order before the image changes, and the pause if no user can press Enter.
    pub(crate) shown: Duration,
    pub(crate) attended: bool,
}

/// Runs the demo. An error if the order of deletions is wrong.
pub(crate) async fn show(
    options: DemoOptions,
    out: Box<dyn Write + Send>,
    drawing: Drawing<'static>,
) -> Result<()> {
    let DemoOptions { config, clock, names, shown, attended } = options;
    let cluster = format!(
        "A cluster in memory with {} nodes in two pools. Nothing outside it is changed.",
        config.nodes.len()
    );
    let mut embedded = Embedded::start(config).await?;
    embedded.start_controller(clock.clone(), names, Duration::ZERO)?;
    let client = embedded.sandbox.connect("kubectl-ordered")?;
    let connection = Connection {
        client: client.clone(),
        watching: client,
        namespace: NAMESPACE.to_owned(),
        clock,
        flags: String::new(),
        dry_run: DryRun::None,
    };
    let scope = Scope { family: Family::Ordered, namespace: Some(NAMESPACE), name: None, selector: None };
    let cache = WatchCache::start(&connection, scope).await?;
    let sandbox = &embedded.sandbox;
    let mut demo =
        Demo { sandbox, connection, cache, out, drawing, attended, last: None, deleted: Vec::new() };
    demo.say(&cluster)?;
    let done = demo.run(shown).await;
    embedded.stop().await?;
    done
}

struct Demo<'a> {
    sandbox: &'a Sandbox,
    connection: Connection,
    cache: WatchCache,
    out: Box<dyn Write + Send>,
    drawing: Drawing<'static>,
    attended: bool,
    last: Option<Overview>,
    deleted: Vec<String>,
}

impl Demo<'_> {
    async fn run(&mut self, shown: Duration) -> Result<()> {
        self.command("kubectl apply -f docs/examples/web.yaml")?;
        let web = serde_saphyr::from_str(MANIFEST).context("the example is invalid")?;
        let created = self.connection.deployments().create(&PostParams::default(), &web).await;
        created.context("cannot apply the example")?;
        let complete = |overview: &Overview| {
            overview.phase == Phase::Complete && overview.in_order().len() == count(overview.desired)
        };
        let ready = self.until("all pods to be available", complete).await?;
        self.say(&format!("{} pods of revision 1 are available.", ready.available))?;

        let expected = self.mark(&ready).await?;
        let has_barrier = |overview: &Overview| {
            overview.barrier.as_ref().is_some_and(|barrier| expected[1].contains(&barrier.pod))
        };
        let ordered = self.until("the annotations", has_barrier).await?;
        self.say("The pods in deletion order:")?;
        self.print(&tree::render(&ordered, self.drawing))?;
        tokio::time::sleep(shown).await;

        self.command(&format!("kubectl ordered set image {NAME} {CONTAINER}={NEW_IMAGE}"))?;
        set_image(&self.connection, NAME, &[(CONTAINER.to_owned(), NEW_IMAGE.to_owned())]).await?;
        let is_paused =
            |overview: &Overview| overview.hold.is_some() && overview.available >= overview.desired;
        let paused = self.until("the pause point", is_paused).await?;
        let Some(hold) = &paused.hold else { bail!("the rollout is not paused") };
        let at_pause = self.deleted.len();
        self.say(&format!(
            "Paused at pause point {}: {} of {} pods are updated, {} are available.",
            hold.pod, paused.updated, paused.desired, paused.available
        ))?;
        self.print(&tree::render(&paused, self.drawing))?;
        if self.attended {
            self.say("Press Enter to resume the rollout.")?;
            tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        } else {
            tokio::time::sleep(shown).await;
        }
        self.observe().await?;
        let at_resume = self.deleted.len();

        self.command(&format!("kubectl ordered resume {NAME} {}", hold.label()))?;
        let target = ResumeTarget::Hold(&hold.id);
        let output = resume(&self.connection, NAME, target, Some(STEP_TIMEOUT)).await?;
        self.say(&first_line(output))?;
        let is_done = |overview: &Overview| complete(overview) && overview.updated == ready.desired;
        let last = self.until("the rollout to be complete", is_done).await?;
        self.say(&format!(
            "Complete: {} of {} pods are of revision {}.",
            last.updated, last.desired, last.revision
        ))?;
        let result = check(&expected, &self.deleted, at_pause, at_resume)?;
        // Painted when it is wrapped: what is wrapped is escaped.
        let lines = self.wrapped(&result);
        self.print(&self.drawing.style.paint(Paint::Good, &lines))
    }

    fn print(&mut self, text: &str) -> Result<()> {
        self.out.write_all(terminal_text(text).as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Prints a command that a user would type. It is never wrapped, so that it can be copied.
    fn command(&mut self, command: &str) -> Result<()> {
        self.print(&format!("$ {command}\n"))
    }

    fn say(&mut self, text: &str) -> Result<()> {
        let lines = self.wrapped(text);
        self.print(&lines)
    }

    fn wrapped(&self, text: &str) -> String {
        wrapped(text, self.drawing.width, "    ").join("\n") + "\n"
    }

    /// Waits for the condition, and shows what happens meanwhile.
    async fn until(&mut self, what: &str, condition: impl Fn(&Overview) -> bool) -> Result<Overview> {
        loop {
            let overview = self.observe().await?;
            if condition(&overview) {
                return Ok(overview);
            }
            let changed = tokio::time::timeout(STEP_TIMEOUT, self.cache.watches.changed()).await;
            changed.map_err(|_| {
                anyhow!("timed out waiting for {what}: no change for {} s", STEP_TIMEOUT.as_secs())
            })??;
        }
    }

    /// Reads the state once, and prints the deletions since the last time.
    async fn observe(&mut self) -> Result<Overview> {
        let state = self.connection.state(Family::Ordered, NAME).await?;
        let overview = Overview::of(&state, POOL);
        let requests = self.sandbox.requests().into_iter().filter(|request| {
            request.verb == "delete"
                && request.plural == "pods"
                && request.user_agent.ends_with("/rollout")
                && request.code < 300
        });
        let names = requests.filter_map(|request| request.name);
        for name in names.skip(self.deleted.len()).collect::<Vec<_>>() {
            let row = self.last.as_ref().and_then(|last| last.pods().find(|row| row.name == name));
            self.say(&format!("{:>2}. {}", self.deleted.len() + 1, deletion(&name, row)))?;
            self.deleted.push(name);
        }
        self.last = Some(overview.clone());
        Ok(overview)
    }

    /// Marks the last pods of the order: two with priority 5, one with priority 3 and a pause point.
    /// Returns the pods in the order in which the rollout must delete them: the two, the one, the others. The
    /// pods of each group have one priority and any order.
    async fn mark(&mut self, ready: &Overview) -> Result<[BTreeSet<String>; 3]> {
        let mut names: Vec<&str> = ready.in_order().iter().map(|row| row.name.as_str()).collect();
        names.reverse();
        let [point, second, first, others @ ..] = names.as_slice() else { bail!("too few pods") };
        for (pod, priority, pause) in [(first, 5, None), (second, 5, None), (point, 3, Some(Side::Before))] {
            let flag = if pause.is_some() { " --pause before" } else { "" };
            self.command(&format!("kubectl ordered mark {pod} --priority {priority}{flag}"))?;
            mark(&self.connection, pod, Marks { priority: Some(priority), pause, length: None }).await?;
        }
        let group = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Ok([group(&[*first, *second]), group(&[*point]), group(others)])
    }
}

fn deletion(name: &str, row: Option<&PodRow>) -> String {
    let place = row.iter().flat_map(|row| [row.node.as_deref(), row.pool.as_deref()]).flatten();
    let place = place.collect::<Vec<_>>().join(", ");
    let why = row.and_then(|row| row.why.as_deref()).unwrap_or("not in the last overview");
    format!("deleted {name} ({place}): {why}")
}

/// The result in one line, or an error that names the first difference. The rollout pauses after the first
/// group; `at_pause` and `at_resume` are the numbers of deletions when it paused and when it was resumed.
fn check(
    groups: &[BTreeSet<String>; 3],
    deleted: &[String],
    at_pause: usize,
    at_resume: usize,
) -> Result<String> {
    let first = groups[0].len();
    ensure!(
        at_pause == first && at_resume == first,
        "wrong order: expected {first} deletions before the pause point, found {at_pause} when it was \
         reached and {at_resume} when it was resumed"
    );
    let mut left = deleted;
    for group in groups {
        let (found, others) = left.split_at(group.len().min(left.len()));
        let is_expected =
            found.len() == group.len() && found.iter().cloned().collect::<BTreeSet<_>>() == *group;
        ensure!(is_expected, "wrong order: expected the deletion of {group:?}, found {found:?}");
        left = others;
    }
    ensure!(left.is_empty(), "wrong order: deleted {left:?} too");
    Ok(format!(
        "ok: {} pods were deleted in the expected order, {first} before the pause point and {} after the \
         resume",
        deleted.len(),
        deleted.len() - first
    ))
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
