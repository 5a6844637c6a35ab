//! Rollouts and first creations: rates, requests, and whether every promise was kept.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::names::annotation;
use scenarios::{Request, TestCluster};
use serde_json::json;

use super::{PARALLEL, Priorities, Run, rate};
use crate::contender::Contender;
use crate::null;
use crate::observer::Observer;
use crate::promises;
use crate::results::{Outcome, count};
use crate::workload::{Bounds, NAME, template};

const RATE: &str = "pods/s";

impl Run<'_> {
    pub(super) async fn creation(&self, pods: usize) -> Result<Outcome> {
        let running = self.cluster.run(self.contender).await?;
        let observer = Observer::start(&self.test_cluster);
        let begin = Instant::now();
        self.contender.create(&self.test_cluster, NAME, pods, Bounds::STRICT).await?;
        let end = observer.until_created(pods).await?;
        running.kill().await?;
        Ok(Outcome::Kept(vec![(RATE, rate(pods, begin, end))]))
    }

    pub(super) async fn rollout(
        &self,
        pods: usize,
        bounds: Bounds,
        priorities: Priorities,
    ) -> Result<Outcome> {
        let running = self.cluster.run(self.contender).await?;
        let observer = Observer::start(&self.test_cluster);
        self.contender.create(&self.test_cluster, NAME, pods, bounds).await?;
        observer.until_created(pods).await?;
        self.contender.until_reported(&self.test_cluster, NAME, pods).await?;
        let priorities = if self.contender == Contender::Ours {
            Some(prioritise(&self.test_cluster, &observer, priorities).await?)
        } else {
            None
        };
        let mark = self.mark()?;
        observer.reset();
        let begin = Instant::now();
        match self.contender {
            Contender::Null => null::roll_out(&self.test_cluster, &observer, pods, bounds).await?,
            contender => {
                contender.patch(&self.test_cluster, NAME, &json!({"template": template(NAME, 2)})).await?;
            }
        }
        let end = observer.until_replaced(pods).await?;
        let requests = self.cluster.plane()?.requests_since(mark).await?;
        running.kill().await?;
        let broken =
            observer.read(|state| promises::broken(state, pods, bounds, self.contender, priorities.as_ref()));
        if let Some(broken) = broken {
            return Ok(Outcome::Broken(broken));
        }
        let requests = self.requests_a_pod(&requests, pods);
        let rate = rate(pods, begin, end);
        Ok(Outcome::Kept(vec![(RATE, rate), ("requests a pod", requests)]))
    }

    /// The requests of the contender in its namespace, divided by the number of pods. Watches do not count:
    /// they last longer than the rollout.
    fn requests_a_pod(&self, requests: &[Request], pods: usize) -> f64 {
        let counts = |request: &&Request| {
            request.namespace.as_deref() == Some(&self.test_cluster.namespace)
                && request.verb != "watch"
                && self.contender.sent(request)
        };
        count(requests.iter().filter(counts).count()) / count(pods)
    }
}

/// Gives every pod a priority, unrelated to its name.
async fn prioritise(
    test_cluster: &TestCluster,
    observer: &Observer,
    priorities: Priorities,
) -> Result<BTreeMap<String, i32>> {
    let names: Vec<String> = observer.read(|state| state.pods.keys().cloned().collect());
    let all = i32::try_from(names.len())?;
    let groups = match priorities {
        Priorities::Own => all,
        Priorities::Groups(groups) => i32::try_from(groups)?,
    };
    // A prime that divides no number of pods here: each priority equally often.
    let priorities: BTreeMap<String, i32> =
        names.into_iter().zip((0..all).map(|place| place * 7919 % all % groups)).collect();
    let pods = &test_cluster.api::<Pod>();
    let annotate = async |(name, priority): (&String, &i32)| -> Result<()> {
        let annotations = json!({annotation::DELETE_PRIORITY: priority.to_string()});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let done = pods.patch_metadata(name, &PatchParams::default(), &patch).await;
        done.map(drop).with_context(|| format!("cannot annotate {name}"))
    };
    stream::iter(&priorities).map(annotate).buffer_unordered(PARALLEL).try_collect::<()>().await?;
    Ok(priorities)
}
