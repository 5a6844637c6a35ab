//! Template fields that an older server does not support.

use ordereddeployment_api::names::reason;
use scenarios::TestCluster;
use serde_json::{Value, json};

/// The pods as the server has them: the types here do not have all fields.
async fn raw_pods(cluster: &TestCluster) -> Vec<Value> {
    let list = cluster.kubectl.run(&["get", "pods", "-o", "json"]).await.unwrap();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

/// Fields that Kubernetes 1.36 has and 1.20 drops from pods. A resize in place changes a pod, and no
/// template.
pub(super) async fn fields_of_newer_servers_start_no_second_rollout(cluster: TestCluster) {
    let spec = json!({
        "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}],
        "hostUsers": false,
        "resources": {"requests": {"cpu": "20m"}},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"],
        }],
    });
    let fields = ["/spec/hostUsers", "/spec/resources", "/spec/topologySpreadConstraints/0/matchLabelKeys"];
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    cluster.deployed(&json!({"replicas": 2, "template": template})).await.unwrap();
    match cluster.control_plane() {
        Some(plane) if plane.minor() >= 36 => {
            for pod in raw_pods(&cluster).await {
                for field in fields {
                    assert_eq!(pod.pointer(field), template.pointer(field), "{field}");
                }
                let resources = |cpu: &str| json!([{"name": "web", "resources": {"requests": {"cpu": cpu}}}]);
                let name = pod["metadata"]["name"].as_str().unwrap();
                // A kubelet that can resize reports what a container has.
                for (subresource, change) in [
                    ("--subresource=status", json!({"status": {"containerStatuses": resources("10m")}})),
                    ("--subresource=resize", json!({"spec": {"containers": resources("15m")}})),
                ] {
                    let patch = ["patch", "pod", name, subresource, "-p", &change.to_string()];
                    cluster.kubectl.run(&patch).await.unwrap();
                }
            }
        }
        Some(_) => cluster.until_event(reason::UNKNOWN_FIELDS).await.unwrap(),
        // The sandbox stores all fields.
        None => {}
    }
    cluster.scale(3).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    let object = cluster.deployments().get("web").await.unwrap();
    let sets = cluster.sets();
    let sets = sets.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 1, "one template, one set");
    for field in fields {
        assert_eq!(object.spec.template.value().pointer(field), template.pointer(field));
        assert_eq!(sets[0].spec.template.value().pointer(field), template.pointer(field));
    }
    assert_eq!(object.status.unwrap().rollout.unwrap().revision, 1);
    assert_eq!(cluster.created().await.unwrap(), 3);
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
}
