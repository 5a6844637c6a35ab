//! Random clusters: the oracle checks every step, and without further interference the cluster settles.
//! Somebody may spell the template differently, and write the status. `PROPTEST_CASES` sets the number of
//! cases.

use std::time::Duration;

use ordereddeployment_api::{
    OrderedDeploymentSpec, OrderedDeploymentStatus, PausePoint, ProgressDeadlineAction, StrategyType,
    template_hash,
};
use ordereddeployment_planner::{Failed, Malformed, Point, whole_seconds};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::extremes::{config, counts, forged, status};
use crate::model::{Cluster, Compares};

/// An event from outside.
#[derive(Clone, Debug)]
enum Happening {
    Step,
    Tick(i64),
    Image(u8),
    Replicas(i32),
    Paused(bool),
    Priority(usize, Option<i32>),
    Point(usize, Point),
    Unready(usize),
    Ready(usize),
    Lost(usize),
    Failed(usize),
    Points(Value),
    Abort(bool),
    Retry(bool),
    AbortsAtDeadline(bool),
    Resume,
    ResumeAll,
    ResumeWrong,
    Bounds(Value, Value),
    Recreate(bool),
    Order(Value),
    MinReady(i32),
    Cordon(usize, bool),
    SetDeleted(usize),
    Taken(u8),
    Restart,
    Quota(Option<usize>),
    Breaks(Option<usize>),
    /// The same template is spelled differently.
    Respell(u32),
    /// The API server compares no templates for a while.
    Silence(bool),
    /// The sets lose the spellings that they know.
    Forget,
    /// Somebody replaces the status, or these fields of it: the bits say which.
    Forge(Value, Option<u32>),
    /// Somebody writes a status of before.
    Restore(usize),
}

fn point() -> impl Strategy<Value = Point> {
    let side = prop_oneof![Just(PausePoint::Before), Just(PausePoint::After)];
    let duration = prop_oneof![
        Just(Ok(None)),
        (1u64..20).prop_map(|seconds| Ok(Some(Duration::from_secs(seconds)))),
        Just(Err(Malformed)),
    ];
    prop_oneof![
        6 => (side, duration).prop_map(|(side, duration)| Point::At { side, duration }),
        1 => Just(Point::None),
        1 => Just(Point::Malformed),
    ]
}

/// Declared pause points: up to four, the numbers mostly in ascending order; others are invalid.
fn declared() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        2 => (1i32..8).prop_map(|number| json!({"afterUpdated": number})),
        2 => (1u32..100).prop_map(|percent| json!({"afterUpdated": format!("{percent}%")})),
        1 => (-3i32..4).prop_map(|priority| json!({"beforePriority": priority})),
        1 => (0u8..4).prop_map(|pool| json!({"beforeNodes": {"matchLabels": {"pool": format!("n{pool}")}}})),
        1 => Just(json!({"betweenNodeGroups": "pool"})),
    ];
    let duration = proptest::option::of((1u64..20).prop_map(|seconds| json!(format!("{seconds}s"))));
    let points = proptest::collection::vec((kind, duration), 0..4);
    (points, prop::bool::weighted(0.1)).prop_map(|(points, is_unsorted)| {
        let number = |point: &Value| point["afterUpdated"].as_i64();
        let percent = |point: &Value| {
            point["afterUpdated"].as_str().and_then(|text| text.trim_end_matches('%').parse::<i64>().ok())
        };
        let mut numbers: Vec<i64> = points.iter().filter_map(|(point, _)| number(point)).collect();
        let mut percents: Vec<i64> = points.iter().filter_map(|(point, _)| percent(point)).collect();
        if !is_unsorted {
            numbers.sort_by_key(|number| -number);
            percents.sort_by_key(|number| -number);
        }
        let mut has_groups = false;
        let mut list = Vec::new();
        for (index, (mut point, duration)) in points.into_iter().enumerate() {
            if number(&point).is_some() {
                point["afterUpdated"] = json!(numbers.pop());
            } else if percent(&point).is_some() {
                point["afterUpdated"] = json!(percents.pop().map(|percent| format!("{percent}%")));
            }
            let groups = point.get("betweenNodeGroups").is_some();
            if groups && std::mem::replace(&mut has_groups, true) {
                continue;
            }
            point["name"] = json!(format!("point-{index}"));
            if let Some(duration) = duration {
                point["duration"] = duration;
            }
            list.push(point);
        }
        json!(list)
    })
}

/// Declares these pause points, as far as the strategy allows.
fn declare(strategy: &mut ordereddeployment_api::Strategy, points: &Value) {
    let mut points: Vec<ordereddeployment_api::DeclaredPausePoint> =
        serde_json::from_value(points.clone()).unwrap();
    points.retain(|point| strategy.type_ == StrategyType::RollingUpdate || point.after_updated.is_none());
    strategy.pause_points = Some(points);
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0i32..4).prop_map(|number| json!(number)),
        (0u32..60).prop_map(|percent| json!(format!("{percent}%")))
    ]
}

fn bounds() -> impl Strategy<Value = (Value, Value)> {
    (amount(), amount()).prop_map(|(surge, unavailable)| {
        let zero = |value: &Value| *value == json!(0) || *value == json!("0%");
        if zero(&surge) && zero(&unavailable) { (json!(1), json!(0)) } else { (surge, unavailable) }
    })
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        30 => Just(Happening::Step),
        10 => (1i64..5).prop_map(Happening::Tick),
        2 => (1u8..5).prop_map(Happening::Image),
        2 => (0i32..15).prop_map(Happening::Replicas),
        1 => any::<bool>().prop_map(Happening::Paused),
        4 => (0usize..15, proptest::option::of(-3i32..4)).prop_map(|(pod, value)| Happening::Priority(pod,
        value)),
        4 => (0usize..15, point()).prop_map(|(pod, point)| Happening::Point(pod, point)),
        2 => (0usize..15).prop_map(Happening::Unready),
        2 => (0usize..15).prop_map(Happening::Ready),
        2 => (0usize..15).prop_map(Happening::Lost),
        2 => (0usize..15).prop_map(Happening::Failed),
        2 => declared().prop_map(Happening::Points),
        1 => any::<bool>().prop_map(Happening::Abort),
        1 => any::<bool>().prop_map(Happening::Retry),
        1 => any::<bool>().prop_map(Happening::AbortsAtDeadline),
        3 => Just(Happening::Resume),
        1 => Just(Happening::ResumeAll),
        1 => Just(Happening::ResumeWrong),
        1 => bounds().prop_map(|(surge, unavailable)| Happening::Bounds(surge, unavailable)),
        1 => any::<bool>().prop_map(Happening::Recreate),
        1 => deletion_order().prop_map(Happening::Order),
        1 => (0i32..4).prop_map(Happening::MinReady),
        1 => (0usize..3, any::<bool>()).prop_map(|(node, cordoned)| Happening::Cordon(node, cordoned)),
        1 => (0usize..4).prop_map(Happening::SetDeleted),
        1 => (1u8..5).prop_map(Happening::Taken),
        1 => Just(Happening::Restart),
        1 => proptest::option::of(0usize..20).prop_map(Happening::Quota),
        1 => proptest::option::of(1usize..6).prop_map(Happening::Breaks),
        2 => (0u32..12).prop_map(Happening::Respell),
        1 => prop::bool::weighted(0.3).prop_map(Happening::Silence),
        1 => Just(Happening::Forget),
        6 => (status(), proptest::option::weighted(0.75, any::<u32>()))
            .prop_map(|(status, bits)| Happening::Forge(status, bits)),
        2 => any::<usize>().prop_map(Happening::Restore),
    ]
}

fn deletion_order() -> impl Strategy<Value = Value> {
    let grant = prop_oneof![
        (-2i32..3).prop_map(|priority| json!({"priority": priority})),
        (-2i32..3).prop_map(|cost| json!({"deletionCost": cost})),
    ];
    let select = prop_oneof![
        (0u8..4).prop_map(|pool| json!({"nodeSelector": {"matchLabels": {"pool": format!("n{pool}")}}})),
        any::<bool>().prop_map(|cordoned| json!({"unschedulable": cordoned})),
        Just(json!({"unassigned": true})),
    ];
    let rule = (select, grant).prop_map(|(mut rule, grant)| {
        rule.as_object_mut().unwrap().extend(grant.as_object().unwrap().clone());
        rule
    });
    (proptest::collection::vec(rule, 0..3), prop::bool::weighted(0.2)).prop_map(|(rules, in_order)| {
        json!({"nodePriorities": rules, "unavailablePods": if in_order { "InOrder" } else { "WhenBlocked" }})
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let points = proptest::option::of(declared());
    let rest = (prop::bool::weighted(0.15), deletion_order(), prop::bool::weighted(0.2), 0i32..3, points);
    (0i32..15, bounds(), rest).prop_map(
        |(replicas, (surge, unavailable), (recreate, order, complete, min_ready, points))| {
            let strategy = if recreate {
                json!({"type": "Recreate"})
            } else {
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge,
                    "maxUnavailable": unavailable}})
            };
            let mut strategy = serde_json::from_value(strategy).unwrap();
            if let Some(points) = points {
                declare(&mut strategy, &points);
            }
            json!({
                "replicas": replicas,
                "strategy": strategy,
                "minReadySeconds": min_ready,
                "deletionOrder": order,
                "podReplacementPolicy": if complete { "TerminationComplete" } else { "TerminationStarted" },
            })
        },
    )
}

fn apply(cluster: &mut Cluster, happening: Happening, before: &[Option<OrderedDeploymentStatus>]) {
    let count = cluster.active().count();
    let at = |index: usize| (count > 0).then(|| index % count.max(1));
    match happening {
        Happening::Step => {
            cluster.step();
        }
        Happening::Tick(seconds) => cluster.tick(seconds),
        Happening::Image(number) => cluster.set_image(&format!("v{number}")),
        Happening::Replicas(replicas) => cluster.edit(|spec| spec.replicas = replicas),
        Happening::Paused(paused) => cluster.edit(|spec| spec.paused = paused),
        Happening::Priority(index, value) => {
            if let Some(index) = at(index) {
                cluster.pod(index).facts.priority = value;
            }
        }
        Happening::Point(index, point) => {
            if let Some(index) = at(index) {
                cluster.pod(index).point = point;
            }
        }
        Happening::Unready(index) => {
            if let Some(index) = at(index) {
                cluster.pod(index).facts.ready = false;
            }
        }
        Happening::Ready(index) => {
            let now = cluster.now;
            if let Some(index) = at(index) {
                let facts = &mut cluster.pod(index).facts;
                if !facts.ready {
                    facts.ready = true;
                    facts.ready_since = Some(now);
                }
            }
        }
        Happening::Lost(index) => {
            if let Some(index) = at(index) {
                let uid = cluster.pod(index).facts.uid.clone();
                cluster.delete(&uid);
            }
        }
        Happening::Failed(index) => {
            if let Some(index) = at(index) {
                let at = whole_seconds(cluster.now);
                let pod = cluster.pod(index);
                pod.finished = true;
                pod.failed =
                    Some(Box::new(Failed { at, seen: at, reason: "Evicted".into(), message: "".into() }));
            }
        }
        Happening::Points(points) => cluster.edit(|spec| declare(&mut spec.strategy, &points)),
        Happening::Abort(_)
        | Happening::Retry(_)
        | Happening::Resume
        | Happening::ResumeAll
        | Happening::ResumeWrong => request(cluster, &happening),
        Happening::AbortsAtDeadline(aborts) => cluster.edit(|spec| set_deadline(spec, aborts)),
        Happening::Bounds(surge, unavailable) => cluster.edit(|spec| {
            if let Some(bounds) = &mut spec.strategy.rolling_update {
                bounds.max_surge = serde_json::from_value(surge).unwrap();
                bounds.max_unavailable = serde_json::from_value(unavailable).unwrap();
            }
        }),
        Happening::Recreate(recreate) => cluster.edit(|spec| {
            let strategy = if recreate {
                json!({"type": "Recreate"})
            } else {
                json!({"type": "RollingUpdate", "rollingUpdate": {}})
            };
            let points = spec.strategy.pause_points.take();
            spec.strategy = serde_json::from_value(strategy).unwrap();
            declare(&mut spec.strategy, &json!(points.unwrap_or_default()));
        }),
        Happening::Order(order) => {
            cluster.edit(|spec| spec.deletion_order = Some(serde_json::from_value(order).unwrap()));
        }
        Happening::MinReady(seconds) => cluster.edit(|spec| spec.min_ready_seconds = seconds),
        Happening::Cordon(node, cordoned) => {
            cluster.nodes.values_mut().nth(node).unwrap().unschedulable = cordoned;
        }
        Happening::SetDeleted(index) => {
            if index < cluster.sets.len() {
                cluster.delete_set(index);
            }
        }
        Happening::Taken(number) => {
            let mut template = cluster.deployment.spec.template.clone();
            template
                .edit(|template| template["spec"]["containers"][0]["image"] = json!(format!("v{number}")));
            let hash = template_hash(&template, cluster.status().collision_count.unwrap_or(0));
            if cluster.sets.iter().all(|set| set.hash != hash) {
                cluster.taken_names.insert(format!("web-{hash}"));
            }
        }
        Happening::Restart => cluster.restart(),
        Happening::Quota(quota) => cluster.quota = quota,
        Happening::Breaks(after) => cluster.breaks_after = after,
        Happening::Respell(how) if cluster.compares.is_some() => cluster.respell(how),
        Happening::Silence(silent) if cluster.compares.is_some() => cluster.silence(silent),
        Happening::Forget => cluster.sets.iter_mut().for_each(|set| set.equal_templates.clear()),
        Happening::Forge(value, bits) if cluster.forged => {
            let forged = forged(cluster, &value);
            let mixed = bits.and_then(|bits| {
                let own = serde_json::to_value(cluster.status()).unwrap();
                serde_json::from_value(mixed(own, &serde_json::to_value(&forged).unwrap(), bits)).ok()
            });
            cluster.deployment.status = Some(mixed.unwrap_or(forged));
        }
        Happening::Restore(at) if cluster.forged => {
            cluster.deployment.status.clone_from(&before[at % before.len()]);
        }
        Happening::Respell(_) | Happening::Silence(_) | Happening::Forge(..) | Happening::Restore(_) => {}
    }
}

fn set_deadline(spec: &mut OrderedDeploymentSpec, aborts: bool) {
    spec.progress_deadline_action =
        if aborts { ProgressDeadlineAction::Abort } else { ProgressDeadlineAction::Continue };
    spec.progress_deadline_seconds = if aborts { 5 } else { 600 };
}

/// Requests of users in the status.
fn request(cluster: &mut Cluster, happening: &Happening) {
    let revision = cluster.status().rollout.map_or(0, |rollout| rollout.revision);
    match happening {
        Happening::Abort(right) => cluster.request_abort(revision + i64::from(!right)),
        Happening::Retry(right) => cluster.request_retry(revision + i64::from(!right)),
        Happening::Resume if cluster.status().hold.is_some() => cluster.resume(),
        Happening::ResumeAll => cluster.request_resume(&format!("*@{revision}")),
        Happening::ResumeWrong => cluster.request_resume("unknown@7"),
        _ => {}
    }
}

/// Ends the interference: pods become ready, and every hold is resumed.
fn finish(cluster: &mut Cluster, when_asked: bool) {
    cluster.edit(|spec| {
        spec.paused = false;
        if !ordereddeployment_api::validate(spec).is_empty() {
            spec.strategy.pause_points = None;
        }
        spec.progress_deadline_action = ProgressDeadlineAction::Continue;
    });
    cluster.quota = None;
    if cluster.compares.is_some() {
        cluster.silence(false);
    }
    if !when_asked {
        // Replacements of failed pods have waited long enough; with requeue times the planner asks for them.
        cluster.tick(300);
    }
    for _ in 0..100 {
        let now = cluster.now;
        for pod in cluster.pods.iter_mut().filter(|pod| !pod.facts.ready) {
            pod.facts.ready = true;
            pod.facts.ready_since = Some(now);
        }
        if when_asked {
            cluster.settle_when_asked();
        } else {
            cluster.settle();
        }
        let status = cluster.status();
        if status.hold.is_some() {
            cluster.resume();
        } else if let Some(aborted) = &status.aborted {
            cluster.request_retry(aborted.revision);
        } else if let Some(id) = cluster.stands_at() {
            cluster.request_resume(&id);
        } else if cluster.deployment.spec.replicas == 0 && !cluster.is_complete() {
            cluster.edit(|spec| spec.replicas = 3);
        } else {
            break;
        }
    }
}

/// The status with some of these fields; one field in two where it is an object.
fn mixed(status: Value, forged: &Value, bits: u32) -> Value {
    let (Value::Object(mut status), Value::Object(forged)) = (status, forged) else { return forged.clone() };
    for (at, (key, value)) in forged.iter().enumerate() {
        if bits.rotate_right(u32::try_from(at).unwrap()) & 1 == 0 {
            continue;
        }
        let own = status.remove(key).filter(Value::is_object);
        let value = match own {
            Some(own) if value.is_object() => mixed(own, value, bits.rotate_right(7)),
            _ => value.clone(),
        };
        status.insert(key.clone(), value);
    }
    Value::Object(status)
}

proptest! {
    #![proptest_config(config(700))]

    #[test]
    fn every_step_keeps_the_contract_and_the_cluster_settles_without_interference(
        spec in spec(),
        happenings in proptest::collection::vec(happening(), 0..80),
        compares in prop::bool::weighted(0.2),
        forges in prop::bool::weighted(0.4),
        when_asked in any::<bool>(),
    ) {
        let mut cluster = Cluster::new(&spec);
        cluster.compares = compares.then(Compares::default);
        cluster.forged = forges;
        let mut before = Vec::new();
        for happening in happenings {
            before.push(cluster.deployment.status.clone());
            apply(&mut cluster, happening, &before);
        }
        finish(&mut cluster, when_asked && !forges);
        prop_assert!(cluster.is_complete(), "{:#?}", cluster.status());
        prop_assert_eq!(cluster.active().count(), usize::try_from(cluster.deployment.spec.replicas).unwrap());
        prop_assert!(counts(&cluster.status()).into_iter().all(|count| count >= 0));
        prop_assert!(!cluster.status().limit(), "{:#?}", cluster.status());
        let steps = cluster.steps;
        cluster.rest();
        prop_assert_eq!(cluster.steps, steps + 1, "at rest nothing is written");
    }
}
