//! Templates that the API server refuses never cost a running pod; colliding hashes are distinguished.

use std::time::Duration;

use ordereddeployment_api::names::reason;
use serde_json::json;

use crate::cluster::Cluster;
use crate::fault_injector::RequestFault;

#[tokio::test(start_paused = true)]
async fn a_template_that_stays_refused_is_reported_once() {
    let cluster = Cluster::start().await;
    cluster.deployed(json!({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}})).await;
    let containers = json!([{"name": "Not A Name", "image": "a"}]);
    cluster.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}})).await;
    cluster.pass(Duration::from_secs(60)).await;
    let mark = cluster.mark();
    cluster.pass(Duration::from_secs(300)).await;
    // The message of the API server contains the name of the pod, and each try has another name.
    assert_eq!(cluster.asked(mark, "patch", "ordereddeployments").len(), 0);
    assert!(cluster.asked(mark, "create", "pods").len() >= 5, "it is tried on");
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_lost_on_the_way_are_named() {
    let (cluster, _) = Cluster::with_pods(2).await;
    cluster.faults.rule(|info| {
        let mut body = info.body.clone();
        let has_it = body.pointer_mut("/spec").and_then(|spec| spec.as_object_mut()?.remove("hostname"));
        if has_it.is_some() { RequestFault::Mutate(body) } else { RequestFault::None }
    });
    cluster.patch(json!({"spec": {"template": {"spec": {"hostname": "h"}}}})).await;
    cluster.until_out(2).await;
    let said = cluster.events_of(reason::UNKNOWN_FIELDS).await;
    assert!(matches!(said.as_slice(), [one] if one.contains(": spec.hostname.")), "{said:?}");
}
