//! All committed changes, from the server itself: from etcd for a real server, from a watch for the sandbox.
//! The history is complete, even if processes were killed.

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use crate::{Commit, TestCluster};

/// The resources in the history, with the path of their group and version.
const KINDS: [(&str, &str); 4] = [
    ("pods", "/api/v1"),
    ("ordereddeployments", "/apis/ordereddeployment.io/v1alpha1"),
    ("orderedreplicasets", "/apis/ordereddeployment.io/v1alpha1"),
    ("leases", "/apis/coordination.k8s.io/v1"),
];

/// All changes in the namespace of the scenario that were read so far.
#[derive(Debug)]
pub struct History {
    commits: Vec<Commit>,
    next: u64,
}

impl Default for History {
    fn default() -> Self {
        // The first version is that of the empty store.
        Self { commits: Vec::new(), next: 2 }
    }
}

impl History {
    /// The changes that were read, in order.
    #[must_use]
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// The version up to which it was read.
    #[must_use]
    pub fn read_until(&self) -> u64 {
        self.next - 1
    }

    /// Reads and returns the changes in all namespaces since the last read. Only for real servers.
    pub async fn take_all(&mut self, cluster: &TestCluster) -> Result<Vec<Commit>> {
        let plane = cluster.control_plane().context("the history of all namespaces needs a real server")?;
        let (mut commits, now) = plane.store()?.commits(self.next).await?;
        commits.retain(|commit| KINDS.iter().any(|(plural, _)| *plural == commit.plural));
        self.next = now + 1;
        Ok(commits)
    }

    /// Reads the changes since the last read. Call it before a compaction.
    pub async fn read_on(&mut self, cluster: &TestCluster) -> Result<()> {
        let (mut commits, now) = match cluster.control_plane() {
            Some(plane) => plane.store()?.commits(self.next).await?,
            None => watched(cluster, self.next).await?,
        };
        commits.retain(|commit| {
            commit.namespace == cluster.namespace && KINDS.iter().any(|(plural, _)| *plural == commit.plural)
        });
        self.commits.extend(commits);
        self.next = now + 1;
        Ok(())
    }
}

/// The changes from the sandbox, which keeps its history and does not restart.
async fn watched(cluster: &TestCluster, from: u64) -> Result<(Vec<Commit>, u64)> {
    let listed: Value =
        cluster.client.request(http::Request::get("/api/v1/namespaces?limit=1").body(Vec::new())?).await?;
    let now = version(&listed)?;
    let mut commits = Vec::new();
    for (plural, base) in KINDS {
        let since = from - 1;
        let path = format!(
            "{base}/namespaces/{}/{plural}?watch=true&resourceVersion={since}&timeoutSeconds=1",
            cluster.namespace
        );
        let answer = cluster.client.send(http::Request::get(path).body(Body::empty())?).await?;
        ensure!(answer.status().is_success(), "a watch of {plural} from {since}: {}", answer.status());
        let text = answer.into_body().collect().await.context("a watch broke")?.to_bytes();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).context("a watch speaks no JSON")?;
            let object = event.get("object").cloned().unwrap_or_default();
            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
            ensure!(matches!(kind, "ADDED" | "MODIFIED" | "DELETED"), "a watch of {plural} says {event}");
            let text = |pointer: &str| {
                object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
            let version = version(&object)?;
            let object = (kind != "DELETED").then_some(object);
            commits.push(Commit { version, plural: plural.to_owned(), namespace, name, object });
        }
    }
    commits.retain(|commit| commit.version <= now);
    commits.sort_by_key(|commit| commit.version);
    Ok((commits, now))
}

fn version(object: &Value) -> Result<u64> {
    let text = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).with_context(|| format!("no version: {object}"))
}
