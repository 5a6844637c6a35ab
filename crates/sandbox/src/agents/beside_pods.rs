//! What agents share that look at pods and at the objects of one other kind: they watch pods only once one of those asks
//! for it. Nothing is decided or written here.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kube_runtime::watcher::Event;
use serde::de::DeserializeOwned;

use super::{Cache, burst, watch};

/// Who looks at pods and at objects of another kind.
pub(crate) trait Agent: Send {
    /// The other kind.
    type Other: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static;

    /// Whether this object is a reason to watch pods at all.
    fn asks_for_pods(_: &Self::Other) -> bool {
        true
    }

    /// Looks once at all there is; how long to wait for events before the next look.
    fn round(
        &mut self,
        pods: &Cache<Pod>,
        others: &Cache<Self::Other>,
    ) -> impl Future<Output = Duration> + Send;
}

enum Seen<K> {
    Pod(Box<Event<Pod>>),
    Other(Box<Event<K>>),
}

/// Runs until the process or the task ends.
pub(crate) async fn run<A: Agent>(client: Client, mut agent: A) {
    let (mut pods, mut others) = (Cache::default(), Cache::default());
    let mut watched = watch(Api::<A::Other>::all(client.clone()));
    while !others.objects.values().any(A::asks_for_pods) {
        let Some(seen) = burst(&mut watched, Duration::MAX).await else { return };
        for event in seen {
            others.apply(event);
        }
    }
    let watched_pods = watch(Api::<Pod>::all(client)).map(|event| Seen::Pod(Box::new(event)));
    let mut events = stream::select(watched_pods, watched.map(|event| Seen::Other(Box::new(event))));
    let mut patience = Duration::MAX;
    while let Some(seen) = burst(&mut events, patience).await {
        for event in seen {
            match event {
                Seen::Pod(event) => pods.apply(*event),
                Seen::Other(event) => others.apply(*event),
            }
        }
        if pods.synced {
            patience = agent.round(&pods, &others).await;
        }
    }
}
