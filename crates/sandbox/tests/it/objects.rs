//! Reads and writes of objects and lists: generated names, schemas, patches, pagination.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{
    DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams, ValidationDirective, VersionMatch,
};
use kube::{Api, ResourceExt};
use ordereddeployment_sandbox::Fault;
use serde_json::json;

use crate::common::{
    create, define_gadgets, gadget, gadgets, pod, pod_with, pods, refusal, sandbox, seconds, started,
};

fn params() -> PostParams {
    PostParams::default()
}

#[tokio::test(start_paused = true)]
async fn generate_name_makes_unique_names() {
    let (_sandbox, client) = started().await;
    let api = pods(&client);
    let wanted = pod_with("", json!({"metadata": {"name": null, "generateName": "web-"}}));
    let (one, other) = (create(&api, &wanted).await, create(&api, &wanted).await);
    assert!(one.name_any().starts_with("web-") && one.name_any().len() == 9, "{}", one.name_any());
    assert_ne!(one.name_any(), other.name_any());
    assert_ne!(one.uid(), other.uid());
}

#[tokio::test(start_paused = true)]
async fn the_schema_and_its_rules_are_enforced() {
    let (_sandbox, client) = started().await;
    define_gadgets(&client).await;
    let api = gadgets(&client);
    let refused = refusal(api.create(&params(), &gadget("g", json!({"replicas": -1}))).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    let words = "Gadget.test.example \"g\" is invalid: [spec.replicas: Invalid value: -1";
    assert!(refused.message.starts_with(words), "{}", refused.message);
    let refused = refusal(api.create(&params(), &gadget("g", json!({"replicas": 5, "limit": 2}))).await);
    assert!(refused.message.contains("replicas must not exceed limit"), "{}", refused.message);
    let pruned = create(&api, &gadget("g", json!({"nonsense": true}))).await;
    assert!(pruned.data["spec"].get("nonsense").is_none());
    assert_eq!(pruned.data["spec"]["replicas"], 1, "the default is filled in");
    let refused = refusal(api.create(&params(), &gadget("whole", json!({"replicas": 3.0}))).await);
    assert!(refused.message.contains("spec.replicas in body must be of type int32"), "{}", refused.message);
    let strict =
        PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::default() };
    let refused = refusal(api.patch("g", &strict, &Patch::Merge(json!({"spec": {"nonsense": 1}}))).await);
    assert_eq!(refused.code, 422);
    let words = "strict decoding error: unknown field \"spec.nonsense\"";
    assert!(refused.message.contains(words), "{}", refused.message);
}

#[tokio::test(start_paused = true)]
async fn json_and_strategic_patches_change_pods_and_apply_is_refused() {
    let (_sandbox, client) = started().await;
    let api = pods(&client);
    create(&api, &pod("a")).await;
    let add = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    let add: Patch<()> = Patch::Json(serde_json::from_value(add).unwrap());
    let labelled = api.patch("a", &PatchParams::default(), &add).await.unwrap();
    assert_eq!(labelled.labels()["a"], "b");
    let image = json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}});
    let changed = api.patch("a", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    assert_eq!(changed.spec.unwrap().containers[0].image.as_deref(), Some("web:2"));
    let whole = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let refused = refusal(api.patch("a", &PatchParams::apply("test"), &Patch::Apply(whole)).await);
    assert_eq!(refused.code, 415);
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_have_one_version() {
    let (sandbox, client) = started().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let map =
        |name: &str| -> ConfigMap { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
    for index in 0..5 {
        create(&api, &map(&format!("m{index}"))).await;
    }
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    let names = |list: &ObjectList<ConfigMap>| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!(names(&first), ["m0", "m1"]);
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    api.delete("m3", &DeleteParams::default()).await.unwrap();
    create(&api, &map("m5")).await;
    let token = first.metadata.continue_.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(names(&rest), ["m2", "m3", "m4"]);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    sandbox.compact(u64::MAX);
    let expired = refusal(api.list(&ListParams::default().continue_token(&token)).await);
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn a_list_at_an_exact_version_shows_that_version_until_it_is_compacted() {
    let (sandbox, client) = started().await;
    let api = pods(&client);
    create(&api, &pod("a")).await;
    let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    create(&api, &pod("b")).await;
    let exact = ListParams::default().at(&version).matching(VersionMatch::Exact);
    assert_eq!(api.list(&exact).await.unwrap().items.len(), 1);
    assert_eq!(api.list(&ListParams::default().at(&version)).await.unwrap().items.len(), 2);
    let future = refusal(api.list(&ListParams::default().at("999999")).await);
    assert_eq!(future.code, 504);
    sandbox.compact(u64::MAX);
    assert_eq!(refusal(api.list(&exact).await).code, 410);
}

#[tokio::test(start_paused = true)]
async fn the_content_of_a_deleted_namespace_is_deleted() {
    let (_sandbox, client) = started().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let wanted: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    let made = create(&namespaces, &wanted).await;
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Active"));
    let inside: Api<Pod> = Api::namespaced(client, "team");
    create(&inside, &pod("a")).await;
    seconds(3).await;
    let marked = namespaces.delete("team", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(marked.status.unwrap().phase.as_deref(), Some("Terminating"));
    let refused = refusal(inside.create(&params(), &pod("b")).await);
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("because it is being terminated"), "{}", refused.message);
    seconds(3).await;
    assert_eq!(refusal(namespaces.get("team").await).code, 404);
    assert!(inside.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_injected_fault_rejects_exactly_its_number_of_requests() {
    let sandbox = sandbox().await;
    let api = pods(&sandbox.connect("tester").unwrap());
    sandbox.inject(Fault {
        verb: Some("create"),
        plural: Some("pods".into()),
        user_agent: Some("tester".into()),
        code: 503,
        times: 1,
    });
    assert_eq!(refusal(api.create(&params(), &pod("a")).await).code, 503);
    create(&api, &pod("a")).await;
    let codes: Vec<u16> =
        sandbox.requests().iter().filter(|one| one.user_agent == "tester").map(|one| one.code).collect();
    assert_eq!(codes, [503, 201]);
}

#[tokio::test(start_paused = true)]
async fn metadata_only_reads_return_only_metadata() {
    let sandbox = sandbox().await;
    let nodes: Api<Node> = Api::all(sandbox.client().unwrap());
    let list = nodes.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 6);
    assert_eq!(list.items[0].labels()["node.usage"], "inference");
}
