//! Managed fields and server-side apply, through the API.

use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use ordereddeployment_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::common::{define_gadgets, pod_value, sandbox, sandbox_with};

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const MAP: &str = "/api/v1/namespaces/default/configmaps/c";
const POD: &str = "/api/v1/namespaces/default/pods/p";
const GADGET: &str = "/apis/test.example/v1/namespaces/default/gadgets/g";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

async fn tracking() -> Sandbox {
    sandbox_with(|config| config.managed_fields = true).await
}

/// The code and the body of the response.
async fn send(client: &Client, method: &str, path: &str, form: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", form);
    let response = client.send(request.body(Body::from(body.as_bytes().to_vec())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

async fn apply(client: &Client, path: &str, query: &str, config: &Value) -> (u16, Value) {
    send(client, "PATCH", &format!("{path}?{query}"), APPLY, &config.to_string()).await
}

async fn get(client: &Client, path: &str) -> Value {
    send(client, "GET", path, JSON, "").await.1
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn gadget(spec: Value) -> Value {
    json!({"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_value("", json!({}))["spec"]}}})
}

/// The entry of a manager: `(operation, subresource, fields)`.
fn entry(object: &Value, manager: &str) -> Option<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let found = entries.iter().find(|entry| entry["manager"] == manager)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("operation"), text("subresource"), found["fieldsV1"].clone()))
}

fn fields(object: &Value, manager: &str) -> Value {
    entry(object, manager).map_or(Value::Null, |(_, _, fields)| fields)
}

#[tokio::test(start_paused = true)]
async fn without_managed_fields_apply_is_an_unknown_type_and_the_field_is_dropped() {
    let sandbox = sandbox().await;
    let client = sandbox.client().unwrap();
    let (code, status) = apply(&client, MAP, "fieldManager=a", &map(json!({}))).await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")));
    let mut given = map(json!({}));
    given["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {}}]);
    let collection = "/api/v1/namespaces/default/configmaps";
    let (_, created) = send(&client, "POST", collection, JSON, &given.to_string()).await;
    assert_eq!(created["metadata"].get("managedFields"), None);
}

#[tokio::test(start_paused = true)]
async fn an_applied_object_is_created_changed_and_left_alone() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let (code, created) = apply(&client, MAP, "fieldManager=a", &map(json!({"x": "1", "y": "2"}))).await;
    assert_eq!(code, 201);
    assert_eq!(fields(&created, "a"), json!({"f:data": {"f:x": {}, "f:y": {}}}));
    assert_eq!(created["metadata"]["managedFields"][0]["time"], created["metadata"]["creationTimestamp"]);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let (code, same) = apply(&client, MAP, "fieldManager=a", &map(json!({"x": "1", "y": "2"}))).await;
    assert_eq!((code, &same), (200, &created), "nothing changes, not even a time");
    let (_, changed) = apply(&client, MAP, "fieldManager=a", &map(json!({"x": "3"}))).await;
    assert_eq!(changed["data"], json!({"x": "3"}), "what is no longer applied is removed");
    assert_ne!(changed["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(changed["metadata"]["managedFields"][0]["time"], "2030-01-01T00:00:05Z");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_names_the_manager_and_the_field_and_force_takes_it() {
    let sandbox = tracking().await;
    let client = sandbox.connect("tool/v1.2 (linux)").unwrap();
    let collection = "/api/v1/namespaces/default/configmaps";
    send(&client, "POST", collection, JSON, &map(json!({"x": "1", "y": "1"})).to_string()).await;
    let (code, status) = apply(&client, MAP, "fieldManager=b", &map(json!({"x": "2"}))).await;
    let message = "Apply failed with 1 conflict: conflict with \"tool\" using v1: .data.x";
    assert_eq!((code, &status["reason"], &status["message"]), (409, &json!("Conflict"), &json!(message)));
    assert_eq!(
        status["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"tool\" using v1", "field": ".data.x"}])
    );
    let (code, forced) = apply(&client, MAP, "fieldManager=b&force=true", &map(json!({"x": "2"}))).await;
    assert_eq!((code, &forced["data"]), (200, &json!({"x": "2", "y": "1"})));
    assert_eq!(fields(&forced, "b"), json!({"f:data": {"f:x": {}}}));
    assert_eq!(fields(&forced, "tool"), json!({"f:data": {".": {}, "f:y": {}}}));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_nothing() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let (code, _) = apply(&client, MAP, "fieldManager=a&dryRun=All", &map(json!({"x": "1"}))).await;
    assert_eq!(code, 201);
    assert_eq!(send(&client, "GET", MAP, JSON, "").await.0, 404);
    let (_, created) = apply(&client, MAP, "fieldManager=a", &map(json!({"x": "1"}))).await;
    let (_, shown) = apply(&client, MAP, "fieldManager=a&dryRun=All", &map(json!({"x": "2"}))).await;
    assert_eq!(shown["data"], json!({"x": "2"}));
    assert_eq!(get(&client, MAP).await, created);
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_have_the_messages_of_the_server() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let refused = async |query: &str, body: &str| {
        let (code, status) = send(&client, "PATCH", &format!("{MAP}?{query}"), APPLY, body).await;
        (code, status["message"].as_str().unwrap().to_owned())
    };
    let good = map(json!({})).to_string();
    let (code, message) = refused("", &good).await;
    let wanted =
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    assert_eq!((code, message.as_str()), (422, wanted));
    let long = "m".repeat(129);
    let (code, message) = refused(&format!("fieldManager={long}"), &good).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("fieldManager: Too long: may not be more than 128 bytes"), "{message}");
    let (code, message) = refused("fieldManager=a%07", &good).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("invalid character U+0007 (at position 1)"), "{message}");
    let (code, message) =
        refused("fieldManager=a", &json!({"kind": "Pod", "apiVersion": "v1"}).to_string()).await;
    assert_eq!((code, message.as_str()), (400, "invalid object type: /v1, Kind=Pod"));
    let mut managed = map(json!({}));
    managed["metadata"]["managedFields"] = json!([{}]);
    let (code, message) = refused("fieldManager=a", &managed.to_string()).await;
    assert_eq!((code, message.as_str()), (400, "metadata.managedFields must be nil"));
    let mut unknown = map(json!({}));
    unknown["dta"] = json!({});
    let (code, message) = refused("fieldManager=a", &unknown.to_string()).await;
    let wanted =
        "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .dta: field not declared in schema";
    assert_eq!((code, message.as_str()), (500, wanted));
    for body in ["[]", ": :", "\u{1}"] {
        let (code, message) = refused("fieldManager=a", body).await;
        assert_eq!(code, 400, "{message}");
        assert!(message.starts_with("error decoding patch: "), "{message}");
    }
    let deep = format!("{}x{}", "[".repeat(500), "]".repeat(500));
    assert_eq!(refused("fieldManager=a", &deep).await.0, 400);
    let mut uid = map(json!({}));
    uid["metadata"]["uid"] = "u".into();
    let (code, message) = refused("fieldManager=a", &uid.to_string()).await;
    assert_eq!(code, 409);
    assert!(
        message.ends_with("the provided object specified uid u, and no existing object was found"),
        "{message}"
    );
    let (code, status) =
        send(&client, "PATCH", &format!("{MAP}?force=true"), MERGE, &json!({}).to_string()).await;
    assert_eq!(code, 422);
    assert_eq!(status["details"]["causes"][0]["field"], "force");
    let (code, _) = send(&client, "PATCH", MAP, "application/apply-patch+cbor", "x").await;
    assert_eq!(code, 415);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_may_be_yaml() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  x: \"1\" # a comment\n";
    let (code, created) = send(&client, "PATCH", &format!("{MAP}?fieldManager=a"), APPLY, yaml).await;
    assert_eq!((code, &created["data"]), (201, &json!({"x": "1"})));
}

#[tokio::test(start_paused = true)]
async fn defaults_belong_to_the_creator_but_not_to_the_applier() {
    let sandbox = tracking().await;
    let client = sandbox.connect("creator").unwrap();
    let collection = "/apis/apps/v1/namespaces/default/deployments";
    let (_, created) = send(&client, "POST", collection, JSON, &deployment().to_string()).await;
    let owned = fields(&created, "creator");
    assert_eq!(
        owned["f:spec"]["f:strategy"],
        json!({"f:type": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}})
    );
    assert_eq!(owned["f:spec"]["f:replicas"], json!({}));
    assert_eq!(owned["f:spec"].get("."), None, "the spec of a built-in kind always exists");
    send(&client, "DELETE", DEPLOYMENT, JSON, "").await;
    let (code, applied) = apply(&client, DEPLOYMENT, "fieldManager=a", &deployment()).await;
    assert_eq!((code, &applied["spec"]["replicas"]), (201, &json!(1)));
    let owned = fields(&applied, "a");
    assert_eq!(owned["f:spec"].as_object().unwrap().keys().collect::<Vec<_>>(), ["f:selector", "f:template"]);
}

#[tokio::test(start_paused = true)]
async fn a_value_in_another_form_changes_nothing_not_even_a_time() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let mut config = deployment();
    config["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "0.5"}});
    let (_, created) = apply(&client, DEPLOYMENT, "fieldManager=a", &config).await;
    let stored = &created["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(*stored, json!({"limits": {"cpu": "500m"}}));
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let (code, same) = apply(&client, DEPLOYMENT, "fieldManager=a", &config).await;
    assert_eq!((code, same), (200, created));
}

#[tokio::test(start_paused = true)]
async fn a_write_to_the_status_cannot_reset_the_managers() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let (_, created) = apply(&client, DEPLOYMENT, "fieldManager=a", &deployment()).await;
    let patch = json!({"metadata": {"managedFields": []}, "status": {"replicas": 1}}).to_string();
    let (code, patched) = send(&client, "PATCH", &format!("{DEPLOYMENT}/status"), MERGE, &patch).await;
    assert_eq!((code, &patched["status"]["replicas"]), (200, &json!(1)));
    assert_eq!(fields(&patched, "a"), fields(&created, "a"));
}

#[tokio::test(start_paused = true)]
async fn the_status_has_its_own_managers() {
    let sandbox = tracking().await;
    let client = sandbox.connect("tester").unwrap();
    define_gadgets(&client).await;
    let mut config = gadget(json!({"colour": "red"}));
    config["status"] = json!({"note": "ignored"});
    let (_, created) = apply(&client, GADGET, "fieldManager=a", &config).await;
    assert_eq!(fields(&created, "a"), json!({"f:spec": {"f:colour": {}}}));
    let status = json!({"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g", "labels": {"l": "1"}},
        "spec": {"colour": "ignored"}, "status": {"note": "n"}});
    let path = format!("{GADGET}/status");
    let (code, changed) = apply(&client, &path, "fieldManager=s", &status).await;
    assert_eq!(
        (code, &changed["status"], &changed["spec"]["colour"]),
        (200, &json!({"note": "n"}), &json!("red"))
    );
    let wanted = json!({"f:status": {"f:note": {}}});
    assert_eq!(entry(&changed, "s").unwrap(), ("Apply".into(), "status".into(), wanted.clone()));
    let (_, merged) =
        send(&client, "PATCH", &path, MERGE, &json!({"status": {"note": "other"}}).to_string()).await;
    assert_eq!(entry(&merged, "tester").unwrap(), ("Update".into(), "status".into(), wanted));
    assert_eq!(entry(&merged, "s"), None);
    let (code, refused) = apply(&client, &path, "fieldManager=s", &status).await;
    assert_eq!(code, 409);
    let message = "Apply failed with 1 conflict: conflict with \"tester\" with subresource \"status\" using test.example/v1: .status.note";
    assert_eq!(refused["message"], message);
    let absent = GADGET.replace("/g", "/absent") + "/status";
    assert_eq!(apply(&client, &absent, "fieldManager=s", &status).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn replicas_have_the_manager_of_the_scale() {
    let sandbox = tracking().await;
    let client = sandbox.connect("scaler").unwrap();
    define_gadgets(&client).await;
    apply(&client, GADGET, "fieldManager=a", &gadget(json!({"replicas": 2, "colour": "red"}))).await;
    let path = format!("{GADGET}/scale");
    send(&client, "PATCH", &path, MERGE, &json!({"spec": {"replicas": 5}}).to_string()).await;
    let scaled = get(&client, GADGET).await;
    let wanted = json!({"f:spec": {"f:replicas": {}}});
    assert_eq!(entry(&scaled, "scaler").unwrap(), ("Update".into(), "scale".into(), wanted.clone()));
    assert_eq!(fields(&scaled, "a"), json!({"f:spec": {"f:colour": {}}}));
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "g"}, "spec": {"replicas": 7}});
    let (code, refused) = apply(&client, &path, "fieldManager=h", &scale).await;
    assert_eq!((code, &refused["details"]["causes"][0]["field"]), (409, &json!(".spec.replicas")));
    let (code, shown) = apply(&client, &path, "fieldManager=h&force=true&dryRun=All", &scale).await;
    assert_eq!((code, &shown["spec"]["replicas"]), (200, &json!(7)));
    assert_eq!(get(&client, GADGET).await, scaled);
    let (code, shown) = apply(&client, &path, "fieldManager=h&force=true", &scale).await;
    assert_eq!((code, &shown["kind"], &shown["spec"]["replicas"]), (200, &json!("Scale"), &json!(7)));
    let applied = get(&client, GADGET).await;
    assert_eq!(entry(&applied, "h").unwrap(), ("Apply".into(), "scale".into(), wanted));
    assert_eq!(entry(&applied, "scaler"), None);
}

#[tokio::test(start_paused = true)]
async fn a_client_can_replace_reset_and_never_lose_the_managers() {
    let sandbox = tracking().await;
    let client = sandbox.connect("tester").unwrap();
    let (_, created) = apply(&client, MAP, "fieldManager=a", &map(json!({"x": "1"}))).await;
    let kept = created["metadata"]["managedFields"].clone();
    // A client that does not know the field sends the object without it.
    let mut known = created.clone();
    known["metadata"].as_object_mut().unwrap().remove("managedFields");
    known["metadata"]["labels"] = json!({"l": "1"});
    let (_, updated) = send(&client, "PUT", MAP, JSON, &known.to_string()).await;
    assert_eq!(updated["metadata"]["managedFields"][0], kept[0]);
    assert_eq!(fields(&updated, "tester"), json!({"f:metadata": {"f:labels": {".": {}, "f:l": {}}}}));
    // As kubectl migrates an object from client-side apply.
    let mut migrated = kept.clone();
    migrated[0]["manager"] = "b".into();
    let patch = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": migrated},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": updated["metadata"]["resourceVersion"]},
    ]);
    let (code, patched) = send(&client, "PATCH", MAP, JSON_PATCH, &patch.to_string()).await;
    assert_eq!((code, &patched["metadata"]["managedFields"]), (200, &migrated));
    let (code, _) = send(&client, "PATCH", MAP, JSON_PATCH, &patch.to_string()).await;
    assert_eq!(code, 409, "the version is outdated");
    let wrong = json!({"metadata": {"managedFields": [{"manager": "c", "operation": "Nothing"}]}});
    let (_, same) = send(&client, "PATCH", MAP, MERGE, &wrong.to_string()).await;
    assert_eq!(same["metadata"]["managedFields"], migrated, "an invalid value counts as none");
    for reset in [json!([{}]), json!([])] {
        let patch = json!({"metadata": {"managedFields": reset}});
        let (_, gone) = send(&client, "PATCH", MAP, MERGE, &patch.to_string()).await;
        assert_eq!(gone["metadata"].get("managedFields"), None);
        let (_, again) = apply(&client, MAP, "fieldManager=d&force=true", &map(json!({"x": "1"}))).await;
        assert_eq!(
            fields(&again, "before-first-apply")["f:metadata"],
            json!({"f:labels": {".": {}, "f:l": {}}})
        );
        assert_eq!(fields(&again, "d"), json!({"f:data": {"f:x": {}}}));
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_the_agents_are_tracked_and_keep_the_fields_of_the_applier() {
    let sandbox = tracking().await;
    let client = sandbox.client().unwrap();
    let mut pod = pod_value("p", json!({"app": "a"}));
    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    apply(&client, POD, "fieldManager=a", &pod).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let running = get(&client, POD).await;
    let (operation, subresource, owned) = entry(&running, "sandbox-kubelet").unwrap();
    assert_eq!((operation.as_str(), subresource.as_str()), ("Update", "status"));
    assert_eq!(owned["f:status"]["f:phase"], json!({}));
    let port = "k:{\"containerPort\":80,\"protocol\":\"TCP\"}";
    let container = &fields(&running, "a")["f:spec"]["f:containers"]["k:{\"name\":\"main\"}"];
    assert_eq!(container["f:ports"], json!({port: {".": {}, "f:containerPort": {}}}));
    let (code, same) = apply(&client, POD, "fieldManager=a", &pod).await;
    assert_eq!((code, same), (200, running));
}

#[tokio::test(start_paused = true)]
async fn the_managers_of_a_version_that_is_not_served_are_forgotten() {
    let sandbox = tracking().await;
    let client = sandbox.connect("tester").unwrap();
    apply(&client, MAP, "fieldManager=a", &map(json!({"x": "1"}))).await;
    let old = json!([{"manager": "o", "operation": "Apply", "apiVersion": "v0", "fieldsType": "FieldsV1",
                      "fieldsV1": {"f:data": {"f:x": {}}}}]);
    let patch = json!({"metadata": {"managedFields": old}, "data": {"y": "1"}});
    let (_, patched) = send(&client, "PATCH", MAP, MERGE, &patch.to_string()).await;
    assert_eq!(entry(&patched, "o"), None);
    assert_eq!(fields(&patched, "tester"), json!({"f:data": {"f:y": {}}}));
}

#[tokio::test(start_paused = true)]
async fn an_applied_create_is_refused_like_a_create() {
    let sandbox = tracking().await;
    sandbox.refuse_creates("configmaps", "none here");
    let client = sandbox.client().unwrap();
    let (code, status) = apply(&client, MAP, "fieldManager=a", &map(json!({}))).await;
    assert_eq!((code, &status["message"]), (403, &json!("none here")));
}
