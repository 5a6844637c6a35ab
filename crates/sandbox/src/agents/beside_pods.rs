//! The shared part of agents that read pods and objects of one other kind. They start to watch pods when one
//! of these objects requires it. This module does not decide or write anything.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::future::Either;
use futures::{StreamExt, stream};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use super::pod::Pod;
use super::{Cache, burst, watch};

/// An agent that reads pods and objects of another kind.
pub(crate) trait Agent: Send {
    /// The other kind.
    type Other: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static;

    /// Whether this object is a reason to watch pods.
    fn asks_for_pods(_: &Self::Other) -> bool {
        true
    }

    /// Processes the caches once. Returns how long to wait for events before the next round.
    fn round(
        &mut self,
        pods: &Cache<Pod>,
        others: &Cache<Self::Other>,
    ) -> impl Future<Output = Duration> + Send;
}

/// Runs until the process or the task ends.
pub(crate) async fn run<A: Agent>(client: Client, mut agent: A) {
    let (mut pods, mut others) = (Cache::default(), Cache::default());
    let mut watched = watch(Api::<A::Other>::all(client.clone()));
    while !others.objects.values().any(A::asks_for_pods) {
        let Some(batch) = burst(&mut watched, Duration::MAX).await else { return };
        for event in batch {
            others.apply(event);
        }
    }
    let watched_pods = watch(Api::<Pod>::all(client)).map(Either::Left);
    let mut events = stream::select(watched_pods, watched.map(Either::Right));
    let mut wait = Duration::MAX;
    while let Some(batch) = burst(&mut events, wait).await {
        for event in batch {
            match event {
                Either::Left(event) => pods.apply(event),
                Either::Right(event) => others.apply(event),
            }
        }
        if pods.synced {
            wait = agent.round(&pods, &others).await;
        }
    }
}
