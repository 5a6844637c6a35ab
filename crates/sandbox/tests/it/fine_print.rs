//! Regression tests for differences that the random comparison with a real API server found: which of two
//! errors a response contains, what each endpoint writes, and the last state that a watch shows.

use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{WatchEvent, WatchParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::common::{define_gadgets, gadget, pod_value, sandbox};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const GADGETS: &str = "/apis/test.example/v1/namespaces/default/gadgets";

async fn ask(client: &Client, method: &str, path: &str, form: &str, body: Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", form);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let response = client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

fn one(collection: &str, rest: &str) -> String {
    format!("{collection}/{rest}")
}

fn map(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn set(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_value("", json!({}))["spec"]},
        },
    })
}

fn fields(status: &Value) -> Vec<&str> {
    let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    causes.filter_map(|cause| cause["field"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_body_of_the_wrong_type_is_rejected_before_the_object_is_read() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let mut wrong = map(json!({"name": "absent"}));
    wrong["data"] = json!({"k": 1});
    assert_eq!(ask(&client, "PUT", &one(MAPS, "absent"), JSON, wrong).await.0, 400);
    for scale in [
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "absent"}}),
        json!({"metadata": {"name": "other"}}),
        json!({"metadata": {"name": "absent", "namespace": "other"}}),
    ] {
        assert_eq!(ask(&client, "PUT", &one(SETS, "absent/scale"), JSON, scale).await.0, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_with_a_result_of_the_wrong_type_is_unprocessable() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    ask(&client, "POST", MAPS, JSON, map(json!({"name": "m"}))).await;
    ask(&client, "POST", SETS, JSON, set(1)).await;
    for (path, patch) in [
        (one(MAPS, "m"), json!({"data": {"k": 1}})),
        (one(MAPS, "m"), json!({"kind": "Other"})),
        (one(MAPS, "m"), json!({"apiVersion": "v7"})),
        (one(SETS, "s/scale"), json!({"spec": {"replicas": "x"}})),
        (one(SETS, "s/scale"), json!({"kind": "Other"})),
    ] {
        let (code, status) = ask(&client, "PATCH", &path, MERGE, patch.clone()).await;
        assert_eq!((code, fields(&status)), (422, vec!["patch"]), "{path} {patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_cannot_change_kind_or_version() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    ask(&client, "POST", SETS, JSON, set(1)).await;
    for path in ["s", "s/scale"] {
        let (code, body) =
            ask(&client, "PATCH", &one(SETS, path), STRATEGIC, json!({"kind": "Other", "apiVersion": "v7"}))
                .await;
        assert_eq!(code, 200, "{body}");
        assert_ne!(body["kind"], "Other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_of_an_absent_list_keeps_items_without_keys() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    ask(&client, "POST", PODS, JSON, pod_value("p", json!({}))).await;
    let patch =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]}});
    let (code, status) = ask(&client, "PATCH", &one(PODS, "p"), STRATEGIC, patch).await;
    assert_eq!((code, fields(&status)), (422, vec!["metadata.ownerReferences.uid"]));
    // If the list exists, the API server reports an item without a merge key as an internal error without a
    // reason.
    let patch = json!({"spec": {"containers": [{"image": "web:2"}]}});
    let (code, status) = ask(&client, "PATCH", &one(PODS, "p"), STRATEGIC, patch).await;
    assert_eq!((code, &status["reason"]), (500, &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn only_endpoints_that_write_the_kind_reject_another_kind() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let made = serde_json::to_value(gadget("g", json!({}))).unwrap();
    ask(&client, "POST", GADGETS, JSON, made).await;
    let (code, status) = ask(&client, "PATCH", &one(GADGETS, "g"), MERGE, json!({"kind": "Other"})).await;
    assert_eq!((code, fields(&status)), (422, vec!["kind"]));
    let patch = json!({"metadata": {"labels": {"a": 1}}});
    let (code, status) = ask(&client, "PATCH", &one(GADGETS, "g"), MERGE, patch).await;
    assert_eq!((code, fields(&status)), (422, vec!["patch"]));
    assert_eq!(ask(&client, "PATCH", &one(GADGETS, "g"), MERGE, json!({"apiVersion": "v7"})).await.0, 400);
    // The status endpoint writes only the status.
    let metadata = json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5});
    let patch = json!({"kind": "Other", "metadata": metadata, "status": {"note": "x"}});
    let (code, body) = ask(&client, "PATCH", &one(GADGETS, "g/status"), MERGE, patch).await;
    assert_eq!((code, &body["kind"], &body["status"]["note"]), (200, &json!("Gadget"), &json!("x")));
}

#[tokio::test(start_paused = true)]
async fn an_update_with_another_uid_is_a_conflict_even_for_a_missing_object() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let named = map(json!({"name": "absent", "uid": "00000000-0000-0000-0000-000000000000"}));
    assert_eq!(ask(&client, "PUT", &one(MAPS, "absent"), JSON, named).await.0, 409);
    assert_eq!(ask(&client, "PUT", &one(MAPS, "absent"), JSON, map(json!({"name": "absent"}))).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn kinds_without_generations_keep_the_generation_and_prefix_of_the_client() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let (_, made) = ask(&client, "POST", MAPS, JSON, map(json!({"name": "m", "generation": 7}))).await;
    assert_eq!(made["metadata"]["generation"], 7);
    let patch = json!({"metadata": {"generateName": "q-"}});
    let (_, patched) = ask(&client, "PATCH", &one(MAPS, "m"), MERGE, patch).await;
    assert_eq!(patched["metadata"]["generateName"], "q-");
    let mut counted = set(1);
    counted["metadata"]["generation"] = 7.into();
    let (_, made) = ask(&client, "POST", SETS, JSON, counted).await;
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn errors_in_metadata_have_the_path_of_the_field() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    ask(&client, "POST", MAPS, JSON, map(json!({"name": "m"}))).await;
    for (metadata, field) in [
        (json!({"finalizers": ["test.example/one", "bad"]}), "metadata.finalizers[1]"),
        (json!({"deletionGracePeriodSeconds": 5}), "metadata.deletionGracePeriodSeconds"),
    ] {
        let patch = json!({"metadata": metadata});
        let (code, status) = ask(&client, "PATCH", &one(MAPS, "m"), MERGE, patch).await;
        assert_eq!((code, fields(&status)), (422, vec![field]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_endpoint_of_a_builtin_writes_metadata_except_protected_fields() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let (_, made) = ask(&client, "POST", SETS, JSON, set(1)).await;
    assert_eq!(made["status"], json!({"replicas": 0}), "a count that is never left out");
    let metadata = json!({"labels": {"x": "y"}, "finalizers": ["test.example/one"]});
    let patch = json!({"metadata": metadata, "spec": {"replicas": 5}, "status": {"replicas": 3}});
    let (code, body) = ask(&client, "PATCH", &one(SETS, "s/status"), MERGE, patch).await;
    assert_eq!((code, &body["spec"]["replicas"], &body["status"]["replicas"]), (200, &json!(1), &json!(3)));
    assert_eq!(
        (&body["metadata"]["labels"]["x"], &body["metadata"]["finalizers"][0]),
        (&json!("y"), &json!("test.example/one"))
    );

    ask(&client, "POST", PODS, JSON, pod_value("p", json!({}))).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"});
    let patch = json!({"metadata": {"annotations": {"x": "y"}, "ownerReferences": [owner],
        "deletionTimestamp": "2020-01-01T00:00:00Z"}});
    let (code, body) = ask(&client, "PATCH", &one(PODS, "p/status"), MERGE, patch).await;
    assert_eq!((code, &body["metadata"]["annotations"]["x"]), (200, &json!("y")));
    assert!(body["metadata"]["ownerReferences"].is_null() && body["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn counts_of_a_replica_set_cannot_contradict_each_other() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    ask(&client, "POST", SETS, JSON, set(1)).await;
    for (status, field) in [
        (json!({"replicas": -1}), "status.replicas"),
        (json!({"replicas": 1, "readyReplicas": 2}), "status.readyReplicas"),
        (json!({"replicas": 1, "availableReplicas": 1}), "status.availableReplicas"),
    ] {
        let patch = json!({"status": status});
        let (code, refused) = ask(&client, "PATCH", &one(SETS, "s/status"), MERGE, patch).await;
        assert_eq!(code, 422);
        assert!(fields(&refused).contains(&field), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_omits_zero_and_its_not_found_error_has_the_subresource() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    ask(&client, "POST", SETS, JSON, set(0)).await;
    let (_, scale) = ask(&client, "GET", &one(SETS, "s/scale"), JSON, Value::Null).await;
    assert_eq!((&scale["spec"], &scale["status"]["replicas"]), (&json!({}), &json!(0)));
    let (code, status) = ask(&client, "GET", &one(SETS, "absent/scale"), JSON, Value::Null).await;
    assert_eq!((code, &status["details"]["kind"]), (404, &json!("replicasets/scale")));
    let bad = json!({"metadata": {"labels": {"bad key!": "x"}}, "spec": {"replicas": -1}});
    let (code, status) = ask(&client, "PATCH", &one(SETS, "s/scale"), MERGE, bad).await;
    assert_eq!((code, fields(&status)), (422, vec!["metadata.labels", "spec.replicas"]));
}

#[tokio::test(start_paused = true)]
async fn a_custom_object_without_replicas_has_no_scale() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let made = json!({"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    ask(&client, "POST", GADGETS, JSON, made).await;
    let path = one(GADGETS, "g/scale");
    let (code, status) = ask(&client, "GET", &path, JSON, Value::Null).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    assert_eq!(ask(&client, "PATCH", &path, MERGE, json!({"spec": {"replicas": 0}})).await.0, 400);
    let (code, scale) = ask(&client, "PATCH", &path, MERGE, json!({"spec": {"replicas": 2}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(2)));
    assert_eq!(ask(&client, "GET", &path, JSON, Value::Null).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_the_last_stored_state_of_a_removed_object() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let held = map(json!({"name": "m", "finalizers": ["test.example/one"]}));
    let (_, made) = ask(&client, "POST", MAPS, JSON, held).await;
    ask(&client, "DELETE", &one(MAPS, "m"), JSON, Value::Null).await;
    let patch = json!({"metadata": {"finalizers": null}});
    let (code, answer) = ask(&client, "PATCH", &one(MAPS, "m"), MERGE, patch).await;
    assert_eq!(code, 200);
    assert!(answer["metadata"]["finalizers"].is_null(), "the client gets what it made: {answer}");

    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let events: Vec<_> = api.watch(&WatchParams::default(), version).await.unwrap().take(2).collect().await;
    let Some(Ok(WatchEvent::Deleted(last))) = events.last() else { unreachable!("{events:?}") };
    assert_eq!(last.metadata.finalizers.as_deref(), Some(&["test.example/one".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn a_whole_number_of_a_custom_object_is_stored_without_its_fraction() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    define_gadgets(&client).await;
    let made = r#"{"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g"},
        "spec": {"replicas": 3.0}}"#;
    let made: Value = serde_json::from_str(made).unwrap();
    assert!(made["spec"]["replicas"].is_f64());
    let (code, stored) = ask(&client, "POST", GADGETS, JSON, made).await;
    assert_eq!((code, &stored["spec"]["replicas"]), (201, &json!(3)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_timeout_beyond_the_range_of_the_clock_is_accepted() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    for seconds in ["9223372036854775807", "4000000000000", "-9223372036854775808"] {
        let path = format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds={seconds}");
        let response = client.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200, "{seconds}");
    }
}
