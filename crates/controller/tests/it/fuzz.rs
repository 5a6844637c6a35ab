//! Random specs and statuses: an object that the API server accepts can be decoded, and `validate` accepts
//! it. `PROPTEST_CASES` raises the number of cases.

use http::Request;
use json_patch::jsonptr::PointerBuf;
use kube::Client;
use ordereddeployment_api::{OrderedDeployment, crds, validate};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const PATH: &str = "/apis/ordereddeployment.io/v1alpha1/namespaces/default/ordereddeployments";

/// The fields of a schema, as JSON pointers; `0` is the first item of a list.
fn places(schema: &Value, at: &str, into: &mut Vec<String>) {
    let mut add = |name: &str, field: &Value| {
        let at = format!("{at}/{name}");
        into.push(at.clone());
        places(field, &at, into);
    };
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        add(name, field);
    }
    for (name, part) in [("0", "items"), ("app", "additionalProperties")] {
        if schema[part].is_object() {
            add(name, &schema[part]);
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    let words = "x web Always Never RollingUpdate Recreate Delete Evict InOrder In Exists True Before \
                 PausePoint 5 -1 0% 100% 101% 2147483647% 99999999999% -5% % +5% 1e3% 9999-12-31T23:59:59Z \
                 2030-01-01T00:00:00+99:99 2030-01-01T00:00:00,5z 0000-01-01T00:00:00Z 10000-01-01T00:00:00Z \
                 ٥%";
    let integers = [0, 1, -1, 599, 600, i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31, i64::MAX];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(integers.to_vec()).prop_map(Value::from),
        prop::sample::select(vec![0.5, 3.0, -0.0, 1e300]).prop_map(Value::from),
        prop::sample::select(words.split_whitespace().collect::<Vec<_>>()).prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    let keys = ["app", "matchLabels", "key", "operator", "values", "priority", "type"];
    let key = prop::sample::select(keys.to_vec());
    prop_oneof![
        4 => leaf.clone(),
        1 => proptest::collection::vec(leaf.clone(), 0..3).prop_map(Value::from),
        1 => (key, leaf).prop_map(|(key, value)| json!({key: value})),
    ]
}

/// An object with every list and every object of a status.
fn complete() -> Value {
    let time = "2030-01-01T00:00:00Z";
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "spec": {
            "replicas": 3,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "app", "operator": "Exists"}],
            },
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "deletionOrder": {
                "nodePriorities": [{"nodeSelector": {"matchLabels": {"pool": "x"}}, "priority": 5}],
            },
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
        "status": {
            "hold": {"id": "p@1", "pod": "p", "podUID": "u", "point": "Before", "revision": 1,
                     "reason": "PausePoint", "since": time, "replicas": 3, "limit": 1},
            "passed": [{"id": "q@1", "by": "Resume", "podUID": "v", "resumedAt": time}],
            "rollout": {"revision": 1, "templateHash": "x", "scaling": {"reached": 3},
                        "points": [{"id": "p@1", "limit": 1, "replicas": 3, "side": "Before"}]},
            "conditions": [{"type": "Held", "status": "True", "reason": "x", "message": "",
                            "lastTransitionTime": time, "lastUpdateTime": time}],
        },
    })
}

/// What the server stores, or `None` if it refuses the object.
async fn accepted(client: &Client, method: &str, path: &str, body: &Value) -> Option<Value> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    match client.request(request.body(body.to_string().into_bytes()).unwrap()).await {
        Ok(stored) => Some(stored),
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => None,
        Err(error) => panic!("{error} to {body}"),
    }
}

fn decoded(stored: &Value) -> OrderedDeployment {
    serde_json::from_value(stored.clone()).unwrap_or_else(|error| panic!("{error}: {stored}"))
}

async fn play(all: Vec<Vec<(String, Value)>>) {
    let cluster = Cluster::without_controller().await;
    for (number, changes) in all.into_iter().enumerate() {
        let name = format!("web-{number}");
        let mut object = complete();
        object["metadata"] = json!({"name": name});
        for (place, value) in changes {
            // A change before it can have put a value of another kind on the way to the place.
            let _ = PointerBuf::parse(place).unwrap().assign(&mut object, value);
        }
        // A create drops the status.
        let Some(mut made) = accepted(&cluster.client, "POST", PATH, &object).await else { continue };
        assert_eq!(validate(&decoded(&made).spec), [], "{made}");
        made["status"] = object["status"].take();
        let status = format!("{PATH}/{name}/status");
        if let Some(stored) = accepted(&cluster.client, "PUT", &status, &made).await {
            decoded(&stored);
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(String, Value)>> {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == "OrderedDeployment").unwrap();
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
    let mut all = Vec::new();
    for part in ["spec", "status"] {
        places(&schema["openAPIV3Schema"]["properties"][part], &format!("/{part}"), &mut all);
    }
    proptest::collection::vec((prop::sample::select(all), value()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_object_that_the_api_server_accepts_can_be_decoded_and_is_valid(
        all in proptest::collection::vec(changes(), 1..40)
    ) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap().block_on(play(all));
    }
}
