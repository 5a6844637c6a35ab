//! Objects of another namespace that claim owners in this one.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use ordereddeployment_sandbox::Collector;
use ordereddeployment_wire::Family;
use serde_json::json;

use crate::client::reader::{self, Scope};
use crate::client::watch_cache::WatchCache;
use crate::commands::list::waiting;
use crate::commands::plan::timeline;
use crate::testing::fixture::Fixture;
use crate::view::state::revisions_of;

/// What the commands and the dashboard show, for all namespaces, at this time.
async fn shown(fixture: &Fixture, now: jiff::Timestamp) -> Vec<String> {
    let connection = &fixture.connection;
    let scope = Scope { family: Family::Ordered, namespace: None, name: None, selector: None };
    let read = reader::all(&connection.client, scope, now).await.unwrap();
    let cache = WatchCache::start(connection, scope).await.unwrap();
    let (watched, stores) = (cache.states(now), cache.stores);
    let page = stores.state("default", "web", now).unwrap();
    let sets = stores.sets(&page.deployment);
    let history = revisions_of(&page.deployment, sets.iter().map(|set| &**set));
    let plan = timeline(&connection.client, &page, &["web=web:3".to_owned()]).await.unwrap();
    let list = waiting(&Api::all(connection.client.clone())).await.remove(&("default".into(), "web".into()));
    let states = [read, watched, vec![page]].map(|mut states| {
        // A store has no order.
        for state in &mut states {
            state.pods.sort_by_key(ResourceExt::name_any);
            state.sets.sort_by(|first, second| first.uid.cmp(&second.uid));
        }
        format!("{states:#?}")
    });
    let plan = serde_json::to_string_pretty(&plan).unwrap();
    states.into_iter().chain([format!("{history:#?}"), plan, format!("{list:?}")]).collect()
}

/// Copies every pod and set into another namespace, with their names, labels and owners.
async fn forge(fixture: &Fixture) -> usize {
    let client = fixture.connection.client.clone();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "attacker"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let mut count = 0;
    let sets: Api<OrderedReplicaSet> = Api::default_namespaced(client.clone());
    for mut set in sets.list(&ListParams::default()).await.unwrap() {
        set.metadata.namespace = Some("attacker".to_owned());
        (set.metadata.resource_version, set.status) = (None, None);
        Api::namespaced(client.clone(), "attacker").create(&PostParams::default(), &set).await.unwrap();
        count += 1;
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for mut pod in pods.list(&ListParams::default()).await.unwrap() {
        pod.metadata.namespace = Some("attacker".to_owned());
        pod.annotations_mut().insert("ordereddeployment.io/delete-priority".to_owned(), "-1000".to_owned());
        pod.annotations_mut().insert("ordereddeployment.io/pause-point".to_owned(), "before".to_owned());
        (pod.metadata.resource_version, pod.status) = (None, None);
        // Without a node it takes no room that the plan counts.
        let spec = pod.spec.as_mut().unwrap();
        (spec.node_name, spec.node_selector) = (None, Some([("no".to_owned(), "node".to_owned())].into()));
        Api::namespaced(client.clone(), "attacker").create(&PostParams::default(), &pod).await.unwrap();
        count += 1;
    }
    count
}

#[tokio::test(start_paused = true)]
async fn forged_pods_and_sets_of_another_namespace_change_nothing_that_is_shown() {
    let mut fixture = Fixture::start().await;
    fixture.pause_at(json!([{"name": "canary", "afterUpdated": 1}])).await;
    fixture.cluster.stop().await.unwrap();
    fixture.cluster.sandbox.set_collector(Collector { frozen: true, ..Collector::default() });
    let now = fixture.connection.clock.now();
    let before = shown(&fixture, now).await;
    assert!(forge(&fixture).await >= 6);
    for (before, after) in before.iter().zip(&shown(&fixture, now).await) {
        let lines = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        assert!(before == after, "{lines:?}");
    }
}
