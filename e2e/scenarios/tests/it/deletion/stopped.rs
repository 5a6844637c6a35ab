//! The garbage collector is stopped while it orphans dependents, and continues later.

use std::collections::BTreeSet;

use futures::future::{join, join_all};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedReplicaSet;
use scenarios::proxy::RequestMatcher;
use scenarios::real::Component;
use scenarios::{History, Server, TestCluster};
use serde_json::{Value, json};

use super::checks::Case;
use super::{Moment, litter, setting, until_gone, until_quiet};

/// Enough objects for a queue, so that the garbage collector releases the sets one by one.
const LITTER: usize = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_set_is_not_adopted_if_the_deletion_of_its_owner_is_seen_late_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let base = TestCluster::with(Server::Real, setting()).await.unwrap();
    let cluster = base.apart("doomed").await.unwrap();
    let elsewhere = base.apart("elsewhere").await.unwrap();
    let plane = cluster.control_plane().unwrap();
    let _manager = cluster.start_manager().unwrap();
    elsewhere.deployed(&json!({})).await.unwrap();
    let moment = Moment { policy: PropagationPolicy::Orphan, replicas: 12, second: 24, third: 12 };
    moment.reached(&cluster).await;

    let maps: Api<ConfigMap> = cluster.api();
    let names: Vec<String> = (0..LITTER).map(|index| format!("litter-{index}")).collect();
    let created = names.iter().map(async |name| maps.create(&PostParams::default(), &litter(name)).await);
    assert!(join_all(created).await.iter().all(Result::is_ok));
    let uid = cluster.deployments().get("web").await.unwrap().uid().unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    cluster.proxy.rules().freeze(RequestMatcher::new("watch", "ordereddeployments"));
    cluster.deployments().delete("web", &orphan).await.unwrap();
    let released = |sets: &[OrderedReplicaSet]| sets.iter().any(|set| set.owner_references().is_empty());
    cluster.until_all(cluster.sets(), "released in part", released).await.unwrap();
    plane.suspend(Component::ControllerManager).unwrap();
    let kept = cluster.deployments().get("web").await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_some(), "the collector stands still before its end");

    // The watch shows the new generation and the deletion only now. The controller has time to act on them.
    cluster.proxy.rules().thaw();
    meanwhile(&elsewhere).await;
    assert!(cluster.deployments().get("web").await.is_ok());
    plane.resume(Component::ControllerManager).unwrap();
    until_gone(&cluster, &uid).await;
    until_quiet(&cluster).await;
    let commits = History::default().take_all(&cluster).await.unwrap();
    let requests = cluster.requests().await.unwrap();
    let case = Case { policy: moment.policy, namespace: cluster.namespace.clone(), seen: false };
    assert_eq!(case.check(&commits, &requests), Vec::<String>::new());
}

/// Complete rollouts in another namespace, so that the controller had time for everything else too.
async fn meanwhile(cluster: &TestCluster) {
    for image in ["web:2", "web:3"] {
        cluster.set_image(image).await.unwrap();
        cluster.complete("web", 6).await.unwrap();
    }
}

/// An object whose current set is being deleted with the policy Orphan.
struct Orphaning {
    cluster: TestCluster,
    set: OrderedReplicaSet,
    pods: BTreeSet<String>,
}

impl Orphaning {
    async fn deploy(base: &TestCluster, name: &str, strategy: Value) -> Self {
        let cluster = base.apart(name).await.unwrap();
        cluster.deployed(&json!({"replicas": 8, "strategy": strategy})).await.unwrap();
        let set = cluster.sets().list(&ListParams::default()).await.unwrap().items.remove(0);
        let pods = cluster.uids().await.unwrap();
        Self { cluster, set, pods }
    }

    async fn delete_set(&self) {
        let name = self.set.name_any();
        let orphan = ["delete", "ors", &name, "--cascade=orphan", "--wait=false"];
        self.cluster.kubectl.run(&orphan).await.unwrap();
    }

    /// The replacement set, which has the ninth pod.
    async fn replaced(&self) -> OrderedReplicaSet {
        self.cluster.scale(9).await.unwrap();
        self.cluster.complete("web", 9).await.unwrap();
        let all = self.cluster.sets().list(&ListParams::default()).await.unwrap().items;
        let stands_in = all.into_iter().find(|set| set.uid() != self.set.uid()).unwrap();
        let hash = |set: &OrderedReplicaSet| set.labels().get("pod-template-hash").cloned();
        assert_eq!(hash(&stands_in), hash(&self.set));
        stands_in
    }

    /// The replacement set has adopted the pods, and none was replaced.
    async fn adopted(&self, by: &OrderedReplicaSet) {
        let owned = |pods: &[Pod]| {
            pods.iter()
                .all(|pod| pod.owner_references().iter().any(|owner| Some(&owner.uid) == by.uid().as_ref()))
        };
        self.cluster.until_pods("adopted", owned).await.unwrap();
        self.cluster.complete("web", 9).await.unwrap();
        let pods = self.cluster.uids().await.unwrap();
        assert!(self.pods.is_subset(&pods) && pods.len() == 9, "{pods:?}");
        assert_eq!(self.cluster.created().await.unwrap(), 9);
        assert_eq!(self.cluster.deleted().await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_current_set_that_is_being_deleted_costs_no_pod_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let base = TestCluster::with(Server::Real, setting()).await.unwrap();
    let plane = base.control_plane().unwrap();
    let _manager = base.start_manager().unwrap();
    let elsewhere = base.apart("elsewhere").await.unwrap();
    elsewhere.deployed(&json!({})).await.unwrap();
    let bounds = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
    let recreate = Orphaning::deploy(&base, "recreate", json!({"type": "Recreate"}));
    let (recreate, tight) = Box::pin(join(recreate, Orphaning::deploy(&base, "tight", bounds))).await;
    // The garbage collector orphans nothing yet: the sets stay terminating.
    plane.suspend(Component::ControllerManager).unwrap();
    join(recreate.delete_set(), tight.delete_set()).await;
    meanwhile(&elsewhere).await;
    let stand_ins = join(recreate.replaced(), tight.replaced()).await;
    plane.resume(Component::ControllerManager).unwrap();
    join(recreate.adopted(&stand_ins.0), tight.adopted(&stand_ins.1)).await;
}
