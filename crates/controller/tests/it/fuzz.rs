//! Random specs and statuses: an object that the API server accepts can be decoded, and the validation in
//! Rust accepts it too. `PROPTEST_CASES` raises the number of cases.

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use ordereddeployment_api::{OrderedDeployment, validate};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const PATH: &str = "/apis/ordereddeployment.io/v1alpha1/namespaces/default/ordereddeployments";

/// Fields where the schema might accept a value of another type, or one out of range.
const PLACES: &str = "\
/spec/replicas /spec/minReadySeconds /spec/progressDeadlineSeconds /spec/revisionHistoryLimit /spec/paused \
    /spec/podDeletion /spec/podReplacementPolicy /spec/strategy /spec/strategy/type \
    /spec/strategy/rollingUpdate /spec/strategy/rollingUpdate/maxSurge \
    /spec/strategy/rollingUpdate/maxUnavailable /spec/selector /spec/selector/matchLabels \
    /spec/selector/matchLabels/app /spec/selector/matchExpressions \
    /spec/selector/matchExpressions/0/operator /spec/template /spec/template/metadata \
    /spec/template/metadata/labels /spec/template/metadata/labels/app /spec/template/metadata/annotations \
    /spec/template/spec /spec/template/spec/containers /spec/template/spec/restartPolicy \
    /spec/template/spec/activeDeadlineSeconds /spec/deletionOrder /spec/deletionOrder/unavailablePods \
    /spec/deletionOrder/nodePriorities /spec/deletionOrder/nodePriorities/0 \
    /spec/deletionOrder/nodePriorities/0/priority /spec/deletionOrder/nodePriorities/0/deletionCost \
    /spec/deletionOrder/nodePriorities/0/nodeSelector /spec/deletionOrder/nodePriorities/0/taintKeys \
    /spec/deletionOrder/nodePriorities/0/unassigned /spec/deletionOrder/nodePriorities/0/unschedulable \
    /spec/odd /status /status/hold /status/hold/since /status/hold/until /status/hold/limit \
    /status/hold/left /status/hold/replicas /status/hold/revision /status/hold/point /status/hold/reason \
    /status/passed /status/passed/0/resumedAt /status/passed/0/id /status/rollout /status/rollout/points \
    /status/rollout/points/0/id /status/rollout/points/0/limit /status/rollout/scaling/reached \
    /status/rollout/pause /status/rollout/revision /status/resumeRequested /status/conditions \
    /status/conditions/0/status /status/conditions/0/lastUpdateTime /status/collisionCount /status/replicas \
    /status/observedGeneration /status/selector /status/odd";

fn value() -> impl Strategy<Value = Value> {
    let words = "x web Always Never RollingUpdate Recreate Delete Evict InOrder In Exists True Before \
                 PausePoint 5 -1 0% 100% 101% 2147483647% 99999999999% -5% % 5 +5% 1e3% 9999-12-31T23:59:59Z \
                 2030-01-01T00:00:00+99:99 2030-01-01T00:00:00,5z 0000-01-01T00:00:00Z 10000-01-01T00:00:00Z \
                 ٥%";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![
            0,
            1,
            -1,
            599,
            600,
            601,
            i64::from(i32::MAX),
            i64::from(i32::MIN),
            1 << 31,
            i64::MAX
        ])
        .prop_map(Value::from),
        prop::sample::select(vec![0.5, 3.0, -0.0, 1e300, 2_147_483_648.0]).prop_map(Value::from),
        prop::sample::select(words.split_whitespace().collect::<Vec<_>>()).prop_map(Value::from),
        ".{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let key = prop::sample::select(vec![
            "app",
            "matchLabels",
            "key",
            "operator",
            "values",
            "priority",
            "type",
            "x",
        ]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(key.prop_map(str::to_owned), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Changes of a valid object.
fn changes() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let place = prop::sample::select(PLACES.split_whitespace().collect::<Vec<_>>());
    proptest::collection::vec((place, value()), 1..4)
}

fn sound() -> Value {
    let time = "2030-01-01T00:00:00Z";
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app",
            "operator": "Exists"}]},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}},
            "deletionOrder": {"nodePriorities": [{"nodeSelector": {"matchLabels": {"pool": "x"}},
            "priority": 5}]},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c",
            "image": "i"}]}},
        },
        "status": {
            "hold": {"id": "p@1", "pod": "p", "podUID": "u", "point": "Before", "revision": 1,
            "reason": "PausePoint",
                     "since": time, "replicas": 3, "limit": 1},
            "passed": [{"id": "q@1", "by": "Resume", "podUID": "v", "resumedAt": time}],
            "rollout": {"revision": 1, "templateHash": "x", "scaling": {"reached": 3},
                        "points": [{"id": "p@1", "limit": 1, "replicas": 3, "side": "Before"}]},
            "conditions": [{"type": "Held", "status": "True", "reason": "x", "message": "",
                            "lastTransitionTime": time, "lastUpdateTime": time}],
        },
    })
}

fn child<'a>(value: &'a mut Value, step: &str) -> &'a mut Value {
    if value.is_array() && step == "0" {
        let list = value.as_array_mut().unwrap();
        if list.is_empty() {
            list.push(Value::Null);
        }
        return &mut list[0];
    }
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
}

fn set(object: &mut Value, place: &str, value: &Value) {
    let mut at = object;
    for step in place.split('/').skip(1) {
        at = child(at, step);
    }
    *at = value.clone();
}

async fn send(cluster: &Cluster, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response =
        cluster.client.send(request.body(Body::from(body.to_string().into_bytes())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

async fn play(all: &[Vec<(&'static str, Value)>]) -> Result<(), String> {
    let cluster = Cluster::without_controller().await;
    for changes in all {
        let mut object = sound();
        for (place, value) in changes {
            set(&mut object, place, value);
        }
        let (code, made) = send(&cluster, "POST", PATH, &object).await;
        if code != 201 {
            // An object that is refused only for its status is accepted: a create drops the status.
            if ![400, 422].contains(&code) {
                return Err(format!("{code} {made} to {object}"));
            }
            continue;
        }
        let decoded: OrderedDeployment =
            serde_json::from_value(made.clone()).map_err(|error| format!("{error}: {made}"))?;
        if !validate(&decoded.spec).is_empty() {
            return Err(format!("{:?}: {made}", validate(&decoded.spec)));
        }
        let mut with_status = made.clone();
        with_status["status"] = object["status"].clone();
        let one = format!("{PATH}/web");
        let (code, stored) = send(&cluster, "PUT", &format!("{one}/status"), &with_status).await;
        if code == 200 {
            serde_json::from_value::<OrderedDeployment>(stored.clone())
                .map_err(|error| format!("{error}: {stored}"))?;
        } else if ![400, 422].contains(&code) {
            return Err(format!("{code} {stored} to {with_status}"));
        }
        let (code, answer) = send(&cluster, "DELETE", &one, &json!({})).await;
        if code != 200 {
            return Err(format!("{code} {answer}"));
        }
    }
    Ok(())
}

fn config() -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(10);
    let default =
        ProptestConfig { failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_object_that_the_api_server_accepts_can_be_decoded_and_is_valid(
        all in proptest::collection::vec(changes(), 1..40)
    ) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let outcome = runtime.block_on(play(&all));
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
