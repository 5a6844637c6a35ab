//! The driver without a controller: it knows what to do and only sends the requests that every rollout needs.

use anyhow::{Context, Result};
use e2e::World;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::contender::template;
use crate::observer::Observer;

/// Its user agent.
pub const USER_AGENT: &str = "bench-null-driver";
/// How many pods a bulk rollout replaces at the same time: as many requests as the controller sends in parallel.
const PARALLEL: usize = 16;

async fn pods(world: &World) -> Result<Api<Pod>> {
    let plane = world.control_plane().context("this is no real control plane")?;
    let client: Client = plane.client(USER_AGENT).await?;
    Ok(Api::namespaced(client, &world.namespace))
}

fn name(revision: u32, number: i32) -> String {
    format!("null-{revision}-{number:05}")
}

async fn create_one(pods: &Api<Pod>, revision: u32, number: i32) -> Result<()> {
    let mut pod = template(revision);
    pod["metadata"]["name"] = name(revision, number).into();
    let pod = serde_json::from_value(json!(pod))?;
    pods.create(&PostParams::default(), &pod).await.map(drop).context("the null driver cannot create a pod")
}

/// Creates the pods of the first revision.
pub async fn create(world: &World, replicas: i32) -> Result<()> {
    let pods = pods(world).await?;
    let creates = stream::iter(0..replicas).map(|number| create_one(&pods, 1, number));
    creates.buffer_unordered(PARALLEL).try_collect().await
}

/// Replaces every pod: one after the other, or several at the same time.
pub async fn roll_out(world: &World, observer: &Observer, replicas: i32, is_serial: bool) -> Result<()> {
    let pods = pods(world).await?;
    let replace = async |number: i32| -> Result<()> {
        create_one(&pods, 2, number).await?;
        observer.until_ready(&name(2, number)).await?;
        let deleted = pods.delete(&name(1, number), &DeleteParams::default()).await;
        deleted.map(drop).context("the null driver cannot delete a pod")
    };
    let parallel = if is_serial { 1 } else { PARALLEL };
    stream::iter(0..replicas).map(replace).buffer_unordered(parallel).try_collect().await
}
