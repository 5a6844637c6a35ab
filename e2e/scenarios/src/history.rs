//! All committed changes of a real server, from etcd. The history is complete, even if processes were killed.

use anyhow::{Context, Result};

use crate::{Commit, TestCluster};

/// The resources in the history.
const KINDS: [&str; 3] = ["pods", "ordereddeployments", "orderedreplicasets"];

/// All changes in the namespace of the scenario that were read so far.
#[derive(Debug)]
pub struct History {
    /// In order.
    pub commits: Vec<Commit>,
    next: u64,
}

impl Default for History {
    fn default() -> Self {
        // The first version is that of the empty store.
        Self { commits: Vec::new(), next: 2 }
    }
}

impl History {
    /// The version up to which it was read.
    #[must_use]
    pub fn read_until(&self) -> u64 {
        self.next - 1
    }

    /// Reads and returns the changes in all namespaces since the last read.
    pub async fn take_all(&mut self, cluster: &TestCluster) -> Result<Vec<Commit>> {
        let plane = cluster.control_plane().context("the history needs a real server")?;
        let (mut commits, now) = plane.store.commits(self.next).await?;
        commits.retain(|commit| KINDS.contains(&commit.plural.as_str()));
        self.next = now + 1;
        Ok(commits)
    }

    /// Reads the changes since the last read. Call it before a compaction.
    pub async fn read_on(&mut self, cluster: &TestCluster) -> Result<()> {
        let mut commits = self.take_all(cluster).await?;
        commits.retain(|commit| commit.namespace == cluster.namespace);
        self.commits.extend(commits);
        Ok(())
    }
}
