//! The servers themselves: they start, run pods, and are accessible through the proxy.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
#[cfg(feature = "real-servers")]
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchParams};
use kube_runtime::wait::{await_condition, conditions};
use scenarios::proxy::RequestMatcher;
use scenarios::{Server, TestCluster, on_both};
use serde_json::json;
use tokio::time::Instant;

fn pod(name: &str) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": "web:1"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn pods_become_ready_and_deletions_are_recorded(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    pods.create(&PostParams::default(), &pod("one")).await.unwrap();
    await_condition(pods.clone(), "one", conditions::is_pod_running()).await.unwrap();
    let uid = pods.get("one").await.unwrap().metadata.uid.unwrap();
    let only = kube::api::Preconditions { uid: Some(uid.clone()), resource_version: None };
    pods.delete("one", &DeleteParams::default().preconditions(only)).await.unwrap();
    await_condition(pods.clone(), "one", conditions::is_deleted(&uid)).await.unwrap();
    let deletions = cluster.deletions().await.unwrap();
    assert_eq!(deletions.len(), 1, "the kubelet's own delete does not count: {deletions:?}");
    assert_eq!((deletions[0].pod.as_str(), deletions[0].uid.as_ref()), ("one", Some(&uid)));
    assert_eq!(deletions[0].user_agent, "scenario");
}

on_both!(pods_become_ready_and_deletions_are_recorded);

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

async fn every_crd_is_served_and_discovered(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    let table = cluster.kubectl.run(&["get", "od,ors"]).await.unwrap();
    assert_eq!(table, "", "no such objects yet, and no error");
}

on_both!(the_proxy_delays_watches_and_breaks_requests, every_crd_is_served_and_discovered);

/// The ReplicaSet controller must run: otherwise it proves little that no controller changes our pods.
#[cfg(feature = "real-servers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_controllers_run_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let cluster = TestCluster::start(Server::Real).await.unwrap();
    cluster.kubectl.run(&["create", "deployment", "plain", "--image=web:1", "--replicas=2"]).await.unwrap();
    cluster.kubectl.run(&["rollout", "status", "deployment/plain", "--timeout=60s"]).await.unwrap();
    let pods = cluster.pods().await.unwrap();
    let owners: Vec<_> = pods.iter().flat_map(|pod| pod.owner_references().to_vec()).collect();
    assert_eq!(owners.iter().filter(|owner| owner.kind == "ReplicaSet").count(), 2);
    let requests = cluster.requests().await.unwrap();
    let mut users: Vec<_> = requests
        .iter()
        .filter(|request| {
            request.verb == "create" && request.plural == "pods" && request.subresource.is_none()
        })
        .filter(|request| !request.path.contains("dryRun"))
        .filter_map(|request| request.user.clone())
        .collect();
    users.dedup();
    assert_eq!(users, ["system:serviceaccount:kube-system:replicaset-controller"]);
}
