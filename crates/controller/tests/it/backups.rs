//! etcd restored from a backup: what the API server says is older than what was known, and counts.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, names};

#[tokio::test(start_paused = true)]
async fn what_a_restored_backup_says_counts_though_its_versions_are_older() {
    for (before, after) in [(3, 6), (6, 3)] {
        let cluster = Cluster::start().await;
        let pods = names(&cluster.deployed(json!({"replicas": before})).await);
        cluster.pass(Duration::from_secs(20)).await;
        let backup = cluster.sandbox.backup();
        cluster.scale(after).await;
        cluster.until_complete().await;
        // Kubelets are done with those that went.
        cluster.pass(Duration::from_secs(20)).await;
        let mark = cluster.mark();
        cluster.sandbox.restore(&backup);
        cluster.pass(Duration::from_secs(120)).await;
        let view = cluster.view().await;
        assert_eq!(names(&view.pods), pods);
        let moved = cluster.asked(mark, "create", "pods").len() + cluster.asked(mark, "delete", "pods").len();
        assert_eq!(moved, 0);
        cluster.scale(4).await;
        let four = cluster.until("there are four", |view| view.is_complete() && view.available() == 4).await;
        assert_eq!(four.active().len(), 4);
    }
}
