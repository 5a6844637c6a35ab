//! A rollout from beginning to end on a cluster in memory: the order, a pause point, a resume, and whether the promise
//! was kept.
//!
//! It does what a user would do, by requests to the API server; the controller does the rest. Nothing here chooses a pod to
//! delete.

mod screen;
mod verdict;

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures::stream::{BoxStream, StreamExt, select_all};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kube_runtime::{WatchStreamExt, watcher};
use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_controller::{Clock, Names};
use ordereddeployment_sandbox::{Config, Sandbox};
use ordereddeployment_wire::PodView;
use serde_json::{Value, json};

use crate::client::Connection;
use crate::commands::resume::{Which, resume};
use crate::embedded::Embedded;
use crate::observe::Reader;
use crate::overview::{Overview, Phase};
pub(crate) use screen::Screen;
use verdict::{Deleted, Promise};

/// The manifest of the documentation, as a user applies it.
const MANIFEST: &str = include_str!("../../../docs/examples/web.yaml");
const NAMESPACE: &str = "default";
const POOL: &str = "node.usage";
/// Far longer than any step takes.
const STUCK: Duration = Duration::from_secs(20);
/// Changes that come together are looked at together.
const BURST: Duration = Duration::from_millis(20);
/// Both of them are to be deleted before the rest.
const FIRST: i32 = 5;
/// The rollout is to halt before this one.
const HALT: i32 = 3;
/// The images of the two revisions.
const OLD_IMAGE: &str = "nginx:1.28";
const NEW_IMAGE: &str = "nginx:1.29";

/// How fast the demo goes, and on which clocks.
pub(crate) struct Pace {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    /// How long the order is shown before the image changes.
    pub(crate) before_change: Duration,
    /// How long the hold is shown when nobody is there to press Enter.
    pub(crate) at_hold: Duration,
}

/// Plays the demo. An error where anything was not as promised.
pub(crate) async fn play(pace: Pace, screen: Screen) -> Result<()> {
    let Pace { config, clock, names, before_change, at_hold } = pace;
    let pools: Vec<String> = config.nodes.iter().filter_map(|node| node.labels.get(POOL).cloned()).collect();
    let mut cluster = Embedded::start(config).await?;
    cluster.control(clock.clone(), names)?;
    let client = cluster.sandbox.connect("kubectl-ordered")?;
    let mut stage = Stage {
        sandbox: &cluster.sandbox,
        reader: Reader::new(&client, NAMESPACE),
        changes: changes(&client),
        client,
        clock,
        screen,
        shown: None,
        deleted: Vec::new(),
        told: Vec::new(),
        name: String::new(),
    };
    stage.screen.say(&format!(
        "A cluster in memory: {} nodes, {} of pool inference and {} of pool hybrid. Nothing outside is touched.",
        pools.len(),
        pools.iter().filter(|pool| *pool == "inference").count(),
        pools.iter().filter(|pool| *pool == "hybrid").count(),
    ))?;
    let done = stage.play(before_change, at_hold).await;
    let said = match &done {
        Ok(verdict) => stage.screen.end(&stage.told, verdict),
        Err(_) => Ok(()),
    };
    cluster.stop().await?;
    done?;
    said
}

struct Stage<'a> {
    sandbox: &'a Sandbox,
    client: Client,
    reader: Reader,
    changes: BoxStream<'static, ()>,
    clock: Clock,
    screen: Screen,
    /// What was there when it was last looked at.
    shown: Option<Overview>,
    deleted: Vec<Deleted>,
    /// The deletions in words, with the hold and the resume among them.
    told: Vec<String>,
    name: String,
}

impl Stage<'_> {
    async fn play(&mut self, before_change: Duration, at_hold: Duration) -> Result<String> {
        self.apply().await?;
        let complete = |overview: &Overview| {
            overview.phase == Phase::Complete && overview.in_order().len() == count(overview.desired)
        };
        let ready = self.until("all pods to be available", complete).await?;
        self.screen.say(&format!("{} pods of revision 1 are available.", ready.available))?;

        let expected = self.annotate(&ready).await?;
        let halts = |overview: &Overview| {
            overview.barrier.as_ref().is_some_and(|barrier| barrier.pod == expected.halt)
        };
        let ordered = self.until("the annotations to be seen", halts).await?;
        self.screen.say("The order, the first to go first:")?;
        self.screen.print(&ordered)?;
        tokio::time::sleep(before_change).await;

        self.change_image().await?;
        let halted = |overview: &Overview| {
            matches!(overview.phase, Phase::Held(_)) && overview.available >= overview.desired
        };
        let stopped = self.until("the pause point", halted).await?;
        let Phase::Held(hold) = &stopped.phase else { bail!("the rollout is not held") };
        let before_hold = self.deleted.len();
        self.screen.say(&format!(
            "Held before {}: {} of {} pods are updated, {} are available.",
            hold.pod, stopped.updated, stopped.desired, stopped.available
        ))?;
        self.told.push(format!("    held before {}", hold.pod));
        if !self.screen.confirm("Press Enter to resume the rollout.").await? {
            tokio::time::sleep(at_hold).await;
        }
        self.look().await?;
        let at_resume = self.deleted.len();

        self.screen.say(&format!("$ kubectl ordered resume {}", self.name))?;
        let connection = Connection {
            client: self.client.clone(),
            watching: self.client.clone(),
            namespace: NAMESPACE.to_owned(),
            clock: self.clock.clone(),
            flags: String::new(),
        };
        let told = resume(&connection, &self.name, Which::Hold(&hold.id), Some(STUCK)).await?;
        self.screen.say(told.lines().next().unwrap_or_default())?;
        self.told.push(format!("    resumed {}", hold.id));
        let desired = ready.desired;
        let last = self
            .until("the rollout to be complete", |overview| complete(overview) && overview.updated == desired)
            .await?;
        self.screen.say(&format!(
            "Complete: {} of {} pods are of revision {}.",
            last.updated, last.desired, last.revision
        ))?;
        expected.judge(&self.deleted, before_hold, at_resume)
    }

    /// Looks until it is so, and shows what happens meanwhile.
    async fn until(&mut self, what: &str, is_so: impl Fn(&Overview) -> bool) -> Result<Overview> {
        loop {
            let overview = self.look().await?;
            if is_so(&overview) {
                return Ok(overview);
            }
            let change = tokio::time::timeout(STUCK, self.changes.next()).await;
            change
                .map_err(|_| {
                    anyhow!("nothing has happened for {} s while waiting for {what}", STUCK.as_secs())
                })?
                .context("the watches ended")?;
            tokio::time::sleep(BURST).await;
            while let Some(Some(())) = futures::FutureExt::now_or_never(self.changes.next()) {}
        }
    }

    /// Looks once: tells the deletions since, and shows what is there.
    async fn look(&mut self) -> Result<Overview> {
        let seen = self.reader.one(&self.name, self.clock.now()).await?;
        let overview = Overview::of(&seen, POOL);
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
            let row = self.shown.as_ref().and_then(|shown| shown.pods().find(|row| row.name == name));
            let deleted = Deleted::new(&name, row);
            let told = format!("{:>2}. {deleted}", self.deleted.len() + 1);
            self.screen.say(&told)?;
            self.told.push(told);
            self.deleted.push(deleted);
        }
        self.screen.show(&overview)?;
        self.shown = Some(overview.clone());
        Ok(overview)
    }

    async fn apply(&mut self) -> Result<()> {
        self.screen.say("$ kubectl apply -f docs/examples/web.yaml")?;
        let manifest: Value = serde_saphyr::from_str(MANIFEST).context("the example is no YAML")?;
        let deployment: OrderedDeployment =
            serde_json::from_value(manifest).context("the example is malformed")?;
        let api: Api<OrderedDeployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let created =
            api.create(&PostParams::default(), &deployment).await.context("cannot apply the example")?;
        self.name = created.metadata.name.unwrap_or_default();
        Ok(())
    }

    /// Gives priorities as a user would, to pods that would otherwise go last.
    async fn annotate(&mut self, ready: &Overview) -> Result<Promise> {
        let mut last = ready.in_order();
        last.reverse();
        let [halt, second, first, ..] = last.as_slice() else { bail!("too few pods") };
        let pods: Api<PodView> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut annotate = async |name: &str, annotations: Value| -> Result<()> {
            let written: Vec<String> = annotations
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            self.screen.say(&format!("$ kubectl annotate pod {name} {}", written.join(" ")))?;
            let patch = json!({"metadata": {"annotations": annotations}});
            pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .context("cannot annotate")?;
            Ok(())
        };
        annotate(&first.name, json!({annotation::DELETE_PRIORITY: FIRST.to_string()})).await?;
        annotate(&second.name, json!({annotation::DELETE_PRIORITY: FIRST.to_string()})).await?;
        annotate(
            &halt.name,
            json!({annotation::DELETE_PRIORITY: HALT.to_string(), annotation::PAUSE_POINT: "before"}),
        )
        .await?;
        let first = [&first.name, &second.name].map(Clone::clone).into();
        let rest = last[3..].iter().map(|row| row.name.clone()).collect();
        Ok(Promise { first, halt: halt.name.clone(), rest })
    }

    async fn change_image(&mut self) -> Result<()> {
        self.screen
            .say(&format!("$ sed s/{OLD_IMAGE}/{NEW_IMAGE}/ docs/examples/web.yaml | kubectl apply -f -"))?;
        let manifest: Value = serde_saphyr::from_str(&MANIFEST.replace(OLD_IMAGE, NEW_IMAGE))
            .context("the example is no YAML")?;
        let patch = json!({"spec": manifest["spec"]});
        let api: Api<OrderedDeployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patched = api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.context("cannot change the image")?;
        Ok(())
    }
}

/// One item whenever anything of the demo's changes.
fn changes(client: &Client) -> BoxStream<'static, ()> {
    let config = watcher::Config::default();
    select_all([
        watcher(Api::<PodView>::namespaced(client.clone(), NAMESPACE), config.clone())
            .default_backoff()
            .map(drop)
            .boxed(),
        watcher(Api::<OrderedDeployment>::namespaced(client.clone(), NAMESPACE), config.clone())
            .default_backoff()
            .map(drop)
            .boxed(),
        watcher(Api::<OrderedReplicaSet>::namespaced(client.clone(), NAMESPACE), config)
            .default_backoff()
            .map(drop)
            .boxed(),
    ])
    .boxed()
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
#[path = "demo/tests.rs"]
mod tests;
