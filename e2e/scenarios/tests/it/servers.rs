//! The proxy in front of both servers.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams, WatchParams};
use scenarios::proxy::RequestMatcher;
use scenarios::{Server, TestCluster, on_both};
use serde_json::json;
use tokio::time::Instant;

fn pod(name: &str) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": "web:1"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// A client behind the proxy, like the controller.
async fn behind_the_proxy(cluster: &TestCluster) -> Api<Pod> {
    let config = kube::config::Kubeconfig::from_yaml(&cluster.proxy.kubeconfig(&cluster.namespace)).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    config.default_retry = false;
    Api::namespaced(kube::Client::try_from(config).unwrap(), &cluster.namespace)
}

fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn the_proxy_delays_watches_and_breaks_requests(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let straight: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let pods = behind_the_proxy(&cluster).await;
    let rules = cluster.proxy.rules();
    let version = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();

    rules.refuse(RequestMatcher::new("create", "pods"), 503, 1);
    assert_eq!(code(pods.create(&PostParams::default(), &pod("one")).await), 503);
    assert!(straight.get_opt("one").await.unwrap().is_none(), "the server saw nothing of it");

    rules.lose_answers(RequestMatcher::new("create", "pods"), 1);
    assert!(pods.create(&PostParams::default(), &pod("one")).await.is_err());
    assert!(
        straight.get_opt("one").await.unwrap().is_some(),
        "the server did it, though no response arrived"
    );
    assert_eq!(rules.faults_left(), 0);
    assert!(events.next().await.unwrap().is_ok(), "watches go on");

    rules.delay_watch("pods", Duration::from_millis(700));
    let before = Instant::now();
    straight.create(&PostParams::default(), &pod("two")).await.unwrap();
    loop {
        let event = events.next().await.unwrap().unwrap();
        if matches!(&event, kube::api::WatchEvent::Added(pod) if pod.metadata.name.as_deref() == Some("two"))
        {
            break;
        }
    }
    assert!(before.elapsed() >= Duration::from_millis(700), "a watch under way is late too");

    rules.freeze(RequestMatcher::new("list", "pods"));
    let everything = ListParams::default();
    let mut list = Box::pin(pods.list(&everything));
    assert!(futures::poll!(&mut list).is_pending());
    assert_eq!(straight.list(&everything).await.unwrap().items.len(), 2, "the server itself is well");
    rules.thaw();
    assert_eq!(list.await.unwrap().items.len(), 2);

    rules.cut();
    let rest: Vec<_> = events.collect().await;
    assert!(rest.len() < 100, "the watch ended");
}

on_both!(the_proxy_delays_watches_and_breaks_requests);
