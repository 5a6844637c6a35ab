//! Many objects that do not change. All controllers rest at the same time: they do not disturb each other
//! then.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cluster::{Cluster, Running};
use crate::contender::Contender;
use crate::observer::Observer;
use crate::process::Process;
use crate::results::{Metric, Outcome, Values, count};
use crate::workload::Bounds;

/// How long everything is idle after the last object was created.
const IDLE: Duration = Duration::from_secs(60);

pub(super) async fn rest(
    cluster: &Cluster,
    contenders: &[Contender],
    objects: usize,
    minutes: u64,
) -> Result<Vec<(Contender, Outcome)>> {
    let mut all = Vec::new();
    for contender in contenders {
        all.push((*contender, create(cluster, *contender, objects).await?));
    }
    tokio::time::sleep(IDLE).await;
    let plane = cluster.plane()?;
    let (mark, begin) = (plane.mark()?, Instant::now());
    let mut before = Vec::new();
    for (_, (_, process)) in &all {
        before.push(process.cpu_seconds()?);
    }
    tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
    let took = begin.elapsed().as_secs_f64();
    let mut outcomes = Vec::new();
    for ((contender, (_, process)), before) in all.iter().zip(before) {
        let cpu = process.cpu_seconds()? - before;
        outcomes.push((*contender, cpu, process.resident_mib()?));
    }
    let requests = plane.requests_since(mark).await?;
    let mut found = Vec::new();
    for (contender, cpu, resident) in outcomes {
        let sent = requests.iter().filter(|request| contender.sent(request) && request.verb != "watch");
        let values = Values::from([
            (Metric::CpuPercent, 100.0 * cpu / took),
            (Metric::RequestsPerMinute, 60.0 * count(sent.count()) / took),
            (Metric::RestMib, resident),
        ]);
        found.push((contender, Outcome::Kept(values)));
    }
    // The objects stay: this is the last row, and the removal of 20,000 pods takes minutes.
    for (_, (running, _)) in all {
        running.kill().await?;
    }
    Ok(found)
}

async fn create(cluster: &Cluster, contender: Contender, objects: usize) -> Result<(Running, Process)> {
    let names: Vec<String> = (0..objects).map(|number| format!("web-{number}")).collect();
    let test_cluster = cluster.test_cluster.apart(&format!("rest-{contender:?}").to_lowercase()).await?;
    let running = cluster.run(contender).await?;
    let process = running.process.context("no process is measured")?;
    let observer = Observer::start(&test_cluster.client, &test_cluster.namespace);
    contender.create_all(&test_cluster, &names, 1, Bounds::STRICT).await?;
    observer.until_created(objects).await?;
    Ok((running, process))
}
