//! Decoding of objects that no client should write and every client can.

use kube::api::ObjectList;
use kube::core::WatchEvent;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_wire::{Family, NodeView, PodView};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Bytes, DEPTH, Decoded, DepthLimit, Event, Resource, STREAM_DEPTH, decoded};

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "5"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}},
                 "spec": {"containers": [{"name": "c"}]}}},
    })
}

fn nested(levels: usize) -> Value {
    (0..levels)
        .fold(json!(1), |value, level| if level % 2 == 0 { json!([value]) } else { json!({"a": value}) })
}

/// The text after the depth limit, sent in chunks.
fn sent(text: &str, size: usize) -> String {
    let mut cut = DepthLimit::default();
    let pieces = text.as_bytes().chunks(size.max(1)).map(|piece| cut.piece(Bytes::copy_from_slice(piece)));
    String::from_utf8(pieces.flat_map(|piece| piece.to_vec()).collect()).unwrap()
}

fn listed(items: &[Value]) -> ObjectList<Decoded<OrderedDeployment>> {
    let list =
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "9"}, "items": items});
    serde_json::from_str(&sent(&list.to_string(), 4096)).unwrap()
}

fn read(list: ObjectList<Decoded<OrderedDeployment>>) -> Vec<String> {
    let events = list.items.into_iter().map(Event::InitApply);
    let whole = events.filter_map(decoded);
    whole.filter_map(|event| if let Event::InitApply(it) = event { it.metadata.name } else { None }).collect()
}

#[test]
fn a_managed_field_that_any_client_may_write_hides_no_deployment() {
    let mut odd = deployment("odd");
    odd["metadata"]["managedFields"] =
        json!([{"manager": "x", "operation": "Update", "time": "9999-12-31T23:59:59Z"}]);
    odd["metadata"]["deletionTimestamp"] = json!("10000-01-01T00:00:00Z");
    let listed = listed(&[odd, deployment("web")]);
    assert!(listed.items[0].meta().deletion_timestamp.is_some());
    assert_eq!(read(listed), ["odd", "web"]);
}

#[test]
fn the_last_applied_annotation_of_kubectl_is_not_cached() {
    let mut applied = deployment("web");
    applied["metadata"]["annotations"] = json!({
        "kubectl.kubernetes.io/last-applied-configuration": deployment("web").to_string(),
        "kubernetes.io/change-cause": "kubectl apply",
    });
    let annotations = listed(&[applied]).items[0].meta().annotations.clone().unwrap();
    assert_eq!(annotations.into_keys().collect::<Vec<_>>(), ["kubernetes.io/change-cause"]);
}

#[test]
fn labels_and_owners_of_an_object_that_cannot_be_decoded_are_kept() {
    let mut odd = deployment("odd");
    odd["spec"]["replicas"] = json!("many");
    odd["metadata"]["labels"] = json!({"app": "web"});
    odd["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]);
    let listed = listed(&[odd]);
    assert!(matches!(&*listed.items, [Decoded::Undecodable(..)]), "{listed:?}");
    let metadata = listed.items[0].meta();
    assert_eq!(metadata.labels.iter().flatten().collect::<Vec<_>>(), [(&"app".into(), &"web".into())]);
    assert_eq!(metadata.owner_references.iter().flatten().count(), 1);
    // Labels that are not labels do not hide the object either.
    let mut odd = deployment("odd");
    odd["spec"]["replicas"] = json!("many");
    odd["metadata"]["labels"] = json!({"app": 1});
    assert_eq!(self::listed(&[odd]).items[0].meta().name.as_deref(), Some("odd"));
}

#[test]
fn a_deployment_that_cannot_be_decoded_hides_no_other() {
    let mut old = deployment("old");
    old["spec"]["replicas"] = json!("many");
    assert_eq!(
        read(listed(&[deployment("a"), old.clone(), json!({}), json!(null), deployment("b")])),
        ["a", "b"]
    );
    // If it was known before, it is gone: the controller does not act on an outdated spec.
    let event: WatchEvent<Decoded<OrderedDeployment>> =
        serde_json::from_value(json!({"type": "MODIFIED", "object": old})).unwrap();
    let WatchEvent::Modified(old) = event else { panic!("{event:?}") };
    match decoded(Event::Apply(old)) {
        Some(Event::Delete(metadata_only)) => assert_eq!(metadata_only.metadata.uid.as_deref(), Some("old")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_template_nested_beyond_decoding_hides_no_other_deployment() {
    for levels in [DEPTH, STREAM_DEPTH - 2, STREAM_DEPTH, 126, 127, 128, 129, 5000] {
        let mut text = deployment("deep").to_string();
        let deep = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        text = text.replace("\"containers\"", &format!("\"deep\":{deep},\"containers\""));
        let list = format!("{{\"metadata\":{{}},\"items\":[{text},{}]}}", deployment("web"));
        let list = serde_json::from_str(&sent(&list, 100)).unwrap();
        assert_eq!(read(list), ["web"], "{levels}");
    }
    let mut fair = deployment("fair");
    fair["spec"]["template"]["spec"]["deep"] = nested(DEPTH - 10);
    assert_eq!(read(listed(&[fair])), ["fair"]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec!["9999-12-31T23:59:59Z", "2030-01-01T00:00:00Z", "-1", "1e400", ""])
            .prop_map(Value::from),
    ];
    let keys = "metadata spec status name uid resourceVersion managedFields deletionTimestamp \
                ownerReferences selector template replicas labels time";
    let key = prop_oneof![
        prop::sample::select(keys.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned),
        any::<String>(),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn config() -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(500);
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_event_of_a_watch_decodes(value in any_json(), size in 1_usize..50) {
        let text = sent(&value.to_string(), size);
        prop_assert!(serde_json::from_str::<Decoded<OrderedDeployment>>(&text).is_ok());
        prop_assert!(serde_json::from_str::<Decoded<OrderedReplicaSet>>(&text).is_ok());
        prop_assert!(serde_json::from_str::<PodView>(&text).unwrap().read_in(Family::Ordered).1.len() <= 10);
        prop_assert!(serde_json::from_str::<NodeView>(&text).unwrap().facts().labels.len() <= 6);
    }

    #[test]
    fn the_depth_limit_keeps_everything_that_can_be_decoded(value in any_json(), size in 1_usize..50) {
        let text = value.to_string();
        prop_assert_eq!(sent(&text, size), text);
    }

    #[test]
    fn a_stream_cut_at_the_depth_limit_can_be_decoded(
        levels in proptest::collection::vec((0_usize..300, any::<bool>()), 1..5), size in 1_usize..50,
    ) {
        let deep = |(levels, list): &(usize, bool)| {
            let (open, close) = if *list { ("[", "]") } else { ("{\"\\\"[{\":", "}") };
            format!("{}\"]}}\\\\\"{}", open.repeat(*levels), close.repeat(*levels))
        };
        let items: Vec<_> = levels.iter().map(deep).collect();
        let text = format!("{{\"items\":[{}]}}", items.join(","));
        let read: Value = serde_json::from_str(&sent(&text, size)).unwrap();
        prop_assert_eq!(read["items"].as_array().unwrap().len(), levels.len());
    }
}
