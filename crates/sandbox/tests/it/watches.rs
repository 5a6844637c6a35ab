//! Watches: start, resume, expiry, bookmarks, selectors, delay.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{create, pod, pods, sandbox, sandbox_with, started};

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn text(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(object) => format!("added {}", object.name_any()),
        WatchEvent::Modified(object) => format!("modified {}", object.name_any()),
        WatchEvent::Deleted(object) => format!("deleted {}", object.name_any()),
        WatchEvent::Bookmark(mark) => format!("bookmark {}", mark.metadata.annotations.len()),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

/// All events of a watch with this timeout.
async fn seen(api: &Api<ConfigMap>, params: WatchParams, version: &str) -> Vec<String> {
    let stream = api.watch(&params, version).await.unwrap();
    stream.map_ok(|event| text(&event)).try_collect().await.unwrap()
}

async fn make(api: &Api<ConfigMap>, name: &str) -> String {
    let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    create(api, &map).await.resource_version().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_after_the_version_it_is_given() {
    let sandbox = sandbox().await;
    let api = maps(&sandbox.client().unwrap());
    let version = make(&api, "a").await;
    make(&api, "b").await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let short = WatchParams::default().disable_bookmarks().timeout(5);
    assert_eq!(seen(&api, short.clone(), &version).await, ["added b", "deleted a"]);
    assert_eq!(seen(&api, short, "0").await, ["added b"], "without a version, what is there comes first");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let sandbox = sandbox().await;
    let api = maps(&sandbox.client().unwrap());
    let version = make(&api, "a").await;
    let start = Instant::now();
    assert_eq!(seen(&api, WatchParams::default().timeout(100), &version).await, ["bookmark 0", "bookmark 0"]);
    assert!(start.elapsed() >= Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_compacted_version_expires_at_the_start_and_during_a_watch() {
    let sandbox = sandbox_with(|config| config.history = 3).await;
    let api = maps(&sandbox.client().unwrap());
    let version = make(&api, "a").await;
    sandbox.delay_watch("configmaps", Duration::from_secs(60));
    let mut lagging = api.watch(&WatchParams::default().timeout(200), &version).await.unwrap().boxed();
    for name in ["b", "c", "d", "e"] {
        make(&api, name).await;
    }
    let event = lagging.next().await.unwrap().unwrap();
    assert_eq!(text(&event), "error 410");
    assert!(lagging.next().await.is_none(), "the stream ends after the error");
    assert_eq!(seen(&api, WatchParams::default(), &version).await, ["error 410"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_watch_lags_and_lists_do_not() {
    let (sandbox, client) = started().await;
    let api = pods(&client);
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut early = api.watch(&WatchParams::default().timeout(200), &version).await.unwrap().boxed();
    sandbox.delay_watch("pods", Duration::from_secs(2));
    let start = Instant::now();
    create(&api, &pod("a")).await;
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let first = early.next().await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(_)), "{first:?}");
    assert!(start.elapsed() >= Duration::from_secs(2), "seen after {:?}", start.elapsed());
    let mut late = api.watch(&WatchParams::default().timeout(200), &version).await.unwrap().boxed();
    assert!(matches!(late.next().await.unwrap().unwrap(), WatchEvent::Added(_)));
    sandbox.delay_watch("pods", Duration::ZERO);
    let start = Instant::now();
    api.delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    while !matches!(early.next().await.unwrap().unwrap(), WatchEvent::Deleted(_)) {}
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_timeout_beyond_the_range_of_the_clock_is_accepted() {
    let (_sandbox, client) = started().await;
    for seconds in ["9223372036854775807", "4000000000000", "-9223372036854775808"] {
        let path = format!("/api/v1/configmaps?watch=1&resourceVersion=0&timeoutSeconds={seconds}");
        let response = client.send(http::Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200, "{seconds}");
    }
}
