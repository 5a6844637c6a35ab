//! Tables: an object as input, the kept and parsed fields as output.

use std::time::Duration;

use ordereddeployment_api::names::annotation;
use ordereddeployment_api::{OrderedReplicaSet, PausePoint};
use ordereddeployment_sorter::Phase;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Family, MalformedAnnotation, NodeView, PodView, set};
use ordereddeployment_planner::{Malformed, Point};

/// The malformed values, by key.
fn values_of(malformed: &[MalformedAnnotation]) -> Vec<(&'static str, &str)> {
    let value = |one| match one {
        &MalformedAnnotation::Value { key, ref value } => Some((key, value.as_str())),
        MalformedAnnotation::Key(_) | MalformedAnnotation::Points(_) => None,
    };
    malformed.iter().filter_map(value).collect()
}

fn view(object: Value) -> PodView {
    serde_json::from_value(object).unwrap()
}

fn malformed_of(view: &PodView) -> Vec<MalformedAnnotation> {
    view.read_in(Family::Ordered).1
}

fn pod(annotations: &[(&str, &str)]) -> PodView {
    let annotations: Value =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    view(json!({"metadata": {"name": "web-1", "annotations": annotations}}))
}

#[test]
fn a_pod_keeps_only_the_fields_that_are_read() {
    let full = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"},
            "managedFields": [{"manager": "kubelet"}], "generateName": "web-", "selfLink": "/x",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "OrderedReplicaSet", "name": "no", "uid": "no",
                "controller": false},
                {"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet", "name": "web-a",
                 "uid": "s1", "controller": true},
            ],
        },
        "spec": {
            "nodeName": "n1", "containers": [{"name": "c", "image": "i"}],
            "initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "once", "image": "i"}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z",
                "message": "m"},
            ],
            "containerStatuses": [{"name": "c", "restartCount": 2, "imageID": "x"}, {"name": "d",
            "restartCount": 5}],
            "initContainerStatuses": [{"name": "once", "restartCount": 9}, {"name": "side",
            "restartCount": 3}],
        },
    });
    let view = view(full);
    assert_eq!((&view.metadata.managed_fields, &view.metadata.generate_name), (&None, &None));
    let pod = view.pod();
    assert_eq!((pod.name.as_str(), &*pod.set, pod.resource_version.as_str()), ("web-1", "s1", "7"));
    assert_eq!(
        (&*pod.facts.uid, pod.facts.node.as_deref(), pod.facts.phase),
        ("u1", Some("n1"), Phase::Running)
    );
    assert!(pod.facts.ready && !pod.terminating && !pod.finished);
    assert_eq!(pod.facts.ready_since, Some("2026-01-01T00:00:09Z".parse().unwrap()));
    assert_eq!(pod.facts.created, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    assert_eq!((pod.facts.restarts, pod.facts.sidecar_restarts), (5, 3));
    assert_eq!(pod.point, Point::None);
}

#[test]
fn a_bare_pod_is_pending_unready_and_without_a_set() {
    let view = view(json!({
        "metadata": {"name": "web-1"}, "spec": {"nodeName": ""}, "status": {"conditions": null},
    }));
    let pod = view.pod();
    assert_eq!((pod.facts.phase, pod.facts.ready, pod.facts.node), (Phase::Pending, false, None));
    assert_eq!(crate::Family::Ordered.set_of(&view.metadata), None);
    assert_eq!(&*pod.set, "");
}

#[test]
fn a_failed_pod_has_its_reason_and_the_most_reliable_time() {
    let failed = |managed: Value, conditions: Value, start: Value, created: &str| {
        let view = view(json!({
            "metadata": {"name": "web-1", "creationTimestamp": created, "managedFields": managed},
            "status": {
                "phase": "Failed", "reason": "Evicted", "message": "low on memory", "startTime": start,
                "conditions": conditions,
            },
        }));
        let failed = *view.pod().failed.unwrap();
        assert_eq!((&*failed.reason, &*failed.message), ("Evicted", "low on memory"));
        failed.at.to_string()
    };
    let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
    let ready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(7)}]);
    let written = json!([
        {"manager": "ordered-controller-manager", "operation": "Update", "time": at(50)},
        {"manager": "kubelet", "operation": "Update", "time": at(9)},
    ]);
    let newer = json!([
        {"manager": "kubectl-annotate", "operation": "Update", "time": at(50)},
        {"manager": "agent", "operation": "Update", "subresource": "status", "time": at(8)},
    ]);
    assert_eq!(
        failed(written, ready.clone(), json!(at(5)), &at(1)),
        at(9),
        "the API server's time of the status"
    );
    assert_eq!(failed(newer, ready.clone(), json!(at(5)), &at(1)), at(8));
    assert_eq!(failed(json!(null), ready.clone(), json!(at(5)), &at(1)), at(7), "else a condition's");
    assert_eq!(failed(json!(null), json!(null), json!(at(5)), &at(1)), at(5), "else when it began");
    assert_eq!(failed(json!(null), json!(null), json!(null), &at(1)), at(1));
    assert_eq!(failed(json!(null), ready, json!(null), &at(30)), at(30), "a node's clock may be late");
    let running = view(json!({
        "metadata": {"name": "web-1", "managedFields": [{"manager": "kubelet", "time": at(1)}]},
        "status": {"phase": "Running", "reason": "x", "message": "y", "startTime": at(1)},
    }));
    let bare = view(json!({"metadata": {"name": "web-1"}, "status": {"phase": "Running"}}));
    assert_eq!((&running, running.pod().failed), (&bare, None), "kept of no other");
    // It should run, too: its replacement waits as long.
    let succeeded = view(json!({
        "metadata": {"name": "web-1", "creationTimestamp": at(1)}, "status": {"phase": "Succeeded",
        "startTime": at(2)},
    }));
    let ended = *succeeded.pod().failed.unwrap();
    assert_eq!((ended.at.to_string(), &*ended.reason), (at(2), "its containers have ended"));
}

#[test]
fn a_pod_is_ready_by_its_first_ready_condition() {
    for (statuses, expected) in [(["False", "True"], false), (["True", "False"], true)] {
        let conditions = statuses.map(|status| json!({"type": "Ready", "status": status}));
        assert_eq!(view(json!({"status": {"conditions": conditions}})).pod().facts.ready, expected);
    }
}

#[test]
fn an_unschedulable_pod_has_its_message() {
    let unscheduled = |type_: &str, status: &str| {
        let condition = json!({"type": type_, "status": status, "message": "0/6 nodes are available"});
        view(json!({"status": {"conditions": [condition]}})).pod().unscheduled
    };
    assert_eq!(unscheduled("PodScheduled", "False").as_deref(), Some("0/6 nodes are available"));
    assert_eq!(unscheduled("PodScheduled", "True"), None);
    assert_eq!(unscheduled("Ready", "False"), None);
}

#[test]
fn finished_and_terminating_pods_are_marked() {
    for (phase, finished) in [("Succeeded", true), ("Failed", true), ("Running", false), ("Unknown", false)] {
        let view = view(json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": phase},
        }));
        assert_eq!(view.pod().finished, finished, "{phase}");
        assert!(view.pod().terminating);
    }
}

#[test]
fn the_first_well_formed_priority_key_wins() {
    let own = annotation::DELETE_PRIORITY;
    let alias = annotation::DELETE_PRIORITY_ALIAS;
    let table = [
        (Vec::new(), None),
        (vec![(own, "5")], Some(5)),
        (vec![(alias, "6")], Some(6)),
        (vec![(own, "5"), (alias, "6")], Some(5)),
        (vec![(own, "high"), (alias, "6")], Some(6)),
        (vec![(own, "05"), (alias, "+6")], None),
        (vec![(own, "0"), (alias, "6")], Some(0)),
        (vec![(own, "-3")], Some(-3)),
        (vec![(own, "2147483648")], None),
    ];
    for (annotations, expected) in table {
        assert_eq!(pod(&annotations).pod().facts.priority, expected, "{annotations:?}");
    }
    assert_eq!(pod(&[(annotation::POD_DELETION_COST, "-10")]).pod().facts.cost, Some(-10));
}

#[test]
fn pause_points_are_exact_words() {
    let at = |side, duration| Point::At { side, duration };
    let table = [
        ("before", at(PausePoint::Before, Ok(None))),
        ("true", at(PausePoint::Before, Ok(None))),
        ("after", at(PausePoint::After, Ok(None))),
        ("Before", Point::Malformed),
        (" before", Point::Malformed),
        ("false", Point::Malformed),
        ("", Point::Malformed),
    ];
    for (text, expected) in table {
        assert_eq!(pod(&[(annotation::PAUSE_POINT, text)]).pod().point, expected, "{text:?}");
    }
}

#[test]
fn a_duration_needs_a_point_and_a_malformed_one_differs_from_none() {
    let point = |duration| {
        pod(&[(annotation::PAUSE_POINT, "after"), (annotation::PAUSE_DURATION, duration)]).pod().point
    };
    let after = |duration| Point::At { side: PausePoint::After, duration };
    assert_eq!(point("10m"), after(Ok(Some(Duration::from_secs(600)))));
    assert_eq!(point("soon"), after(Err(Malformed)));
    assert_eq!(point("-1s"), after(Err(Malformed)));
    assert_eq!(pod(&[(annotation::PAUSE_DURATION, "10m")]).pod().point, Point::None);
}

#[test]
fn a_long_malformed_value_is_truncated() {
    let malformed = malformed_of(&pod(&[(annotation::PAUSE_POINT, &"é".repeat(100_000))]));
    assert_eq!(values_of(&malformed), [(annotation::PAUSE_POINT, &*"é".repeat(64))]);
}

#[test]
fn every_malformed_value_is_named_once() {
    let view = pod(&[
        (annotation::DELETE_PRIORITY, "high"),
        (annotation::DELETE_PRIORITY_ALIAS, "3"),
        (annotation::POD_DELETION_COST, "1.5"),
        (annotation::PAUSE_POINT, "yes"),
        (annotation::PAUSE_DURATION, "0s"),
        ("example.com/other", "high"),
    ]);
    let malformed = malformed_of(&view);
    assert_eq!(
        values_of(&malformed),
        [
            (annotation::DELETE_PRIORITY, "high"),
            (annotation::POD_DELETION_COST, "1.5"),
            (annotation::PAUSE_POINT, "yes"),
            (annotation::PAUSE_DURATION, "0s"),
        ]
    );
}

#[test]
fn an_unknown_key_of_the_group_is_named_with_the_nearest_known_one() {
    let said = |key: &str| -> Vec<String> {
        malformed_of(&pod(&[(key, "before")])).iter().map(ToString::to_string).collect()
    };
    for (key, known) in [
        ("ordereddeployment.io/pausepoint", annotation::PAUSE_POINT),
        ("ordereddeployment.io/Pause-Point", annotation::PAUSE_POINT),
        ("ordereddeployment.io/delete-prioritiy", annotation::DELETE_PRIORITY),
        ("ordereddeployment.io/deletion-priority", annotation::DELETE_PRIORITY),
        ("ordereddeployment.io/pauseduration", annotation::PAUSE_DURATION),
    ] {
        assert_eq!(
            said(key),
            [format!("the annotation {key} is unknown and has no effect: did you mean {known}?")]
        );
    }
    for key in ["ordereddeployment.io/owner", "ordereddeployment.io/delete-cost", "ordereddeployment.io/"] {
        assert_eq!(said(key), [format!("the annotation {key} is unknown and has no effect")]);
    }
    for key in annotation::OF_GROUP {
        let known = malformed_of(&pod(&[(key, "")]));
        assert!(!known.iter().any(|one| matches!(one, MalformedAnnotation::Key(_))), "{known:?}");
    }
    for key in
        ["example.com/pausepoint", "ordereddeployment.iox/pausepoint", "ordereddeployment.io", "a", "z"]
    {
        assert_eq!(said(key), [""; 0], "{key}");
    }
}

#[test]
fn an_object_with_many_unknown_keys_takes_little_memory() {
    let keys: Vec<String> = (0..1000).map(|index| format!("ordereddeployment.io/x{index}")).collect();
    let given: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "1")).collect();
    assert_eq!(malformed_of(&pod(&given)).len(), 5);
    // Without one, nothing is allocated.
    assert_eq!(malformed_of(&pod(&[(annotation::DELETE_PRIORITY, "1"), ("z", "1")])).capacity(), 0);
}

#[test]
fn a_node_keeps_labels_cordon_and_taint_keys() {
    let view: NodeView = serde_json::from_value(json!({
        "metadata": {"name": "n1", "labels": {"pool": "hybrid"}, "annotations": {"a": "b"}},
        "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24",
                 "taints": [{"key": "spot", "value": "x", "effect": "NoSchedule"}]},
        "status": {"images": []},
    }))
    .unwrap();
    let facts = view.facts();
    assert_eq!(facts.labels.get("pool").map(String::as_str), Some("hybrid"));
    assert!(facts.unschedulable);
    assert!(facts.taint_keys.contains("spot"));
    assert_eq!(view.metadata.annotations, None);
    assert!(!NodeView::default().facts().unschedulable);
}

#[test]
fn a_set_has_its_template_without_the_hash() {
    let object: OrderedReplicaSet = serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedReplicaSet",
        "metadata": {"name": "web-h", "uid": "s1", "labels": {"app": "web", "pod-template-hash": "h"},
                     "annotations": {"ordereddeployment.io/revision": "3"}},
        "spec": {
            "replicas": 4, "minReadySeconds": 5,
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": "h"}},
            "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "h"}}, "spec": {"x": 1}},
        },
    }))
    .unwrap();
    let set = set(&object);
    assert_eq!((set.name.as_str(), &*set.uid, set.hash.as_str(), set.revision), ("web-h", "s1", "h", 3));
    assert_eq!((set.replicas, set.min_ready_seconds, set.terminating), (4, 5, false));
    assert_eq!(set.template.value(), json!({"metadata": {"labels": {"app": "web"}}, "spec": {"x": 1}}));
}

#[test]
fn a_pod_that_ends_beyond_the_year_9999_is_read_and_terminates() {
    for end in ["9999-12-31T23:59:59Z", "33658-09-27T01:46:40Z", "292277026596-12-04T15:30:07Z", "soon"] {
        let view = view(json!({"metadata": {"deletionTimestamp": end}}));
        let pod = view.pod();
        assert!(pod.terminating, "{end}");
        assert_eq!(pod.ends, Some(jiff::Timestamp::MAX), "{end}");
    }
}

#[test]
fn an_extreme_time_of_another_client_hides_no_pod() {
    // An API server keeps managed fields as clients send them.
    for time in ["9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "2030-01-01T00:00:00+99:99"] {
        let view = view(json!({
            "metadata": {"name": "p", "managedFields": [{"manager": "x", "time": time}],
            "creationTimestamp": time},
            "status": {"phase": "Failed", "startTime": time,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}]},
        }));
        let pod = view.pod();
        assert_eq!((pod.name.as_str(), pod.facts.ready, pod.finished), ("p", true, true));
    }
}

#[test]
fn a_field_of_an_unexpected_type_counts_as_absent_and_affects_no_other() {
    let odd = view(json!({
        "metadata": {"name": "p", "labels": {"a": "b", "n": 5, "o": null}, "annotations": [],
                     "ownerReferences": [null, 5, {"uid": 7}], "managedFields": {}},
        "spec": {"nodeName": "n1", "initContainers": [{}, "x"]},
        "status": {"phase": "Running", "conditions": [null, {"type": "Ready", "status": true}],
                   "containerStatuses": [{"name": "c", "restartCount": "many"},
                   {"restartCount": 99_999_999_999_i64}]},
    }));
    let pod = odd.pod();
    assert_eq!((pod.name.as_str(), pod.facts.node.as_deref(), pod.facts.ready), ("p", Some("n1"), false));
    assert_eq!(pod.facts.restarts, i32::MAX);
    assert_eq!(odd.metadata.labels.unwrap(), [("a".to_owned(), "b".to_owned())].into());
    for nothing in
        [json!(null), json!(5), json!([{}]), json!("pod"), json!({"metadata": null, "status": [1]})]
    {
        assert_eq!(
            serde_json::from_value::<PodView>(nothing.clone()).unwrap(),
            PodView::default(),
            "{nothing}"
        );
        assert_eq!(
            serde_json::from_value::<NodeView>(nothing.clone()).unwrap(),
            NodeView::default(),
            "{nothing}"
        );
    }
}

/// Annotations composed of pieces that break parsers.
fn annotation_value() -> impl Strategy<Value = String> {
    let odd = "before|after|true|10m|1h-30m|5|-0|-008|+1|00|1e3|0x10|2147483647|2147483648|-2147483648|-| |\n|\
        \u{0}|٣|３|²|.|s|";
    let piece = prop_oneof![
        prop::sample::select(odd.split('|').collect::<Vec<_>>()).prop_map(str::to_owned),
        any::<String>(),
        any::<char>().prop_map(|c| c.to_string().repeat(256 * 1024 / c.len_utf8())),
    ];
    proptest::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_malformed_annotation_counts_as_absent_and_is_named_once(
        values in proptest::collection::vec(proptest::option::of(annotation_value()), 5)
    ) {
        let keys = [
            annotation::DELETE_PRIORITY, annotation::DELETE_PRIORITY_ALIAS, annotation::POD_DELETION_COST,
            annotation::PAUSE_POINT, annotation::PAUSE_DURATION,
        ];
        let given: Vec<(&str, &str)> =
            keys.iter().zip(&values).filter_map(|(key, value)| Some((*key, value.as_deref()?))).collect();
        let view = pod(&given);
        let malformed = malformed_of(&view);
        let named = values_of(&malformed);
        let kept: Vec<_> =
            given.iter().copied().filter(|(key, _)| named.iter().all(|(other, _)| other != key)).collect();
        let (all, sound) = (view.pod(), pod(&kept).pod());
        prop_assert!(malformed_of(&pod(&kept)).is_empty());
        prop_assert_eq!((all.facts.priority, all.facts.cost), (sound.facts.priority, sound.facts.cost));
        let is_named = |key: &str| named.iter().any(|(other, _)| *other == key);
        match all.point {
            Point::Malformed => prop_assert!(is_named(annotation::PAUSE_POINT)),
            Point::At { duration: Err(Malformed), .. } => prop_assert!(is_named(annotation::PAUSE_DURATION)),
            point => prop_assert_eq!(point, sound.point),
        }
        let stands = |key: &str, value: &str| given.iter().any(|(other,
            text)| *other == key && text.starts_with(value));
        let is_absent = named.iter().all(|(key, value)| stands(key, value));
        prop_assert!(is_absent, "only what is there is named");
    }
}
