//! The driver without a controller: it knows what to do and only sends the requests that every rollout needs.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use scenarios::TestCluster;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::observer::Observer;
use crate::workload::{Bounds, NAME, template};

/// Its user agent.
pub const USER_AGENT: &str = "bench-null-driver";
/// The most requests in flight: as many as the ordereddeployment controller allows one object by default.
const IN_FLIGHT: usize = 25;

async fn pods(test_cluster: &TestCluster) -> Result<Api<Pod>> {
    let plane = test_cluster.control_plane().context("this is no real control plane")?;
    Ok(Api::namespaced(plane.client(USER_AGENT).await?, &test_cluster.namespace))
}

fn name(app: &str, revision: u32, number: usize) -> String {
    format!("{app}-{revision}-{number:05}")
}

/// A pod of that revision.
pub fn pod(app: &str, revision: u32, number: usize) -> Value {
    let mut pod = template(app, revision);
    pod["metadata"]["name"] = name(app, revision, number).into();
    pod
}

async fn create_one(pods: &Api<Pod>, pod: Value) -> Result<()> {
    let pod = serde_json::from_value(pod)?;
    pods.create(&PostParams::default(), &pod).await.map(drop).context("the null driver cannot create a pod")
}

/// Creates these pods.
pub async fn create(test_cluster: &TestCluster, manifests: impl Iterator<Item = Value>) -> Result<()> {
    let pods = pods(test_cluster).await?;
    let creates = stream::iter(manifests).map(|pod| create_one(&pods, pod));
    creates.buffer_unordered(IN_FLIGHT).try_collect().await
}

/// Replaces every pod, as fast as floor and ceiling allow.
pub async fn roll_out(
    test_cluster: &TestCluster,
    observer: &Observer,
    replicas: usize,
    bounds: Bounds,
) -> Result<()> {
    let pods = &pods(test_cluster).await?;
    // A create needs room below the ceiling, which an accepted delete makes. A delete needs a spare pod above
    // the floor, which an updated pod becomes when it is ready.
    let (room, spare) = (&Semaphore::new(bounds.surge), &Semaphore::new(bounds.unavailable));
    let in_flight = &Semaphore::new(IN_FLIGHT);
    let create = async |number: usize| -> Result<()> {
        room.acquire().await?.forget();
        let _turn = in_flight.acquire().await?;
        create_one(pods, pod(NAME, 2, number)).await
    };
    let delete = async |number: usize| -> Result<()> {
        spare.acquire().await?.forget();
        let _turn = in_flight.acquire().await?;
        let deleted = pods.delete(&name(NAME, 1, number), &DeleteParams::default()).await;
        deleted.context("the null driver cannot delete a pod")?;
        room.add_permits(1);
        Ok(())
    };
    let creates = stream::iter(0..replicas).map(create).buffer_unordered(IN_FLIGHT).try_collect::<()>();
    let deletes = stream::iter(0..replicas).map(delete).buffer_unordered(IN_FLIGHT).try_collect::<()>();
    let count_ready = async {
        let mut ready = 0;
        while ready < replicas {
            let now = observer.more_ready(ready).await?;
            spare.add_permits(now - ready);
            ready = now;
        }
        Ok(())
    };
    futures::try_join!(creates, deletes, count_ready).map(drop)
}
