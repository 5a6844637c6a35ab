//! Random clusters: the oracle checks every step, and without further interference the cluster settles.
//! Somebody may spell the template differently, and write the status. `PROPTEST_CASES` sets the number of
//! cases.

use ordereddeployment_api::{OrderedDeploymentStatus, ProgressDeadlineAction};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::extremes::{config, counts, forged, status, with};
use crate::model::{Cluster, Compares};
use crate::play::points_of;

/// An event from outside.
#[derive(Clone, Debug)]
enum Happening {
    /// A deed of a history. The number of a pod is that of any pod.
    Deed(String),
    /// A user sets this field of the spec.
    Edit(&'static str, Value),
    /// Somebody replaces the status, or these fields of it: the bits say which.
    Forge(Value, Option<u32>),
    /// Somebody writes a status of before.
    Restore(usize),
}

/// Declared pause points, as in a history. Few lists are invalid: those with two groups of nodes.
fn declared() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        2 => "after [1-3]",
        2 => "after [1-4][0-9]%",
        1 => "before priority (-[1-3]|[0-3])",
        1 => "before pool n[0-3]",
        1 => Just("between pool".to_owned()),
    ];
    let points = proptest::collection::vec((kind, "( for 1?[1-9]s)?"), 0..4);
    points.prop_map(|points| {
        let (mut number, mut percent) = (0, 0);
        let points = points.into_iter().enumerate().map(|(index, (mut kind, duration))| {
            if let Some(more) = kind.strip_prefix("after ") {
                // Numbers must not decrease.
                let (sum, unit) = if more.ends_with('%') { (&mut percent, "%") } else { (&mut number, "") };
                *sum += more.trim_end_matches('%').parse::<i32>().unwrap();
                kind = format!("after {}{unit}", (*sum).min(100));
            }
            format!("point-{index} {kind}{duration}")
        });
        points.collect::<Vec<_>>().join("; ")
    })
}

fn happening() -> impl Strategy<Value = Happening> {
    let deed = prop_oneof![
        30 => "step",
        10 => "wait [1-4]",
        2 => "image v[1-4]",
        2 => "scale ([0-9]|1[0-4])",
        1 => "(un)?pause",
        4 => "priority (-[1-3]|[0-3]) #1?[0-9]",
        // Some are malformed.
        4 => "mark (before|after|oddly) #1?[0-9]( for (1?[1-9]|soon))?",
        1 => "unmark #1?[0-9]",
        8 => "(unready|ready|lose|fail) #1?[0-9]",
        2 => declared().prop_map(|points| format!("points {points}")),
        2 => "(abort|retry)( 9)?",
        5 => "resume( all| all| unknown@7)?",
        1 => "deadline (5 aborts|600)",
        1 => "bounds ([1-3]|[1-5][0-9]%) ([0-3]|[1-5]?[0-9]%)",
        1 => "(bounds 0 [1-3]|recreate)",
        1 => "(un)?cordon n[0-2]",
        2 => "(delete set|taken) v[1-4]",
        1 => "restart",
        1 => "quota (none|1?[0-9])",
        1 => "breaks (none|[1-5])",
        2 => "respell 1?[0-9]",
        1 => "(silent|answers|answers|forget)",
    ];
    prop_oneof![
        85 => deed.prop_map(Happening::Deed),
        1 => deletion_order().prop_map(|order| Happening::Edit("deletionOrder", order)),
        1 => (0i32..4).prop_map(|seconds| Happening::Edit("minReadySeconds", json!(seconds))),
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
    let bounds = (1i32..4, 0i32..4, any::<bool>());
    let rest = (deletion_order(), prop::bool::weighted(0.2), 0i32..3, declared());
    (0i32..15, bounds, prop::bool::weighted(0.15), rest).prop_map(
        |(replicas, (surge, unavailable, is_swapped), recreate, (order, complete, min_ready, points))| {
            let (surge, unavailable) = if is_swapped { (unavailable, surge) } else { (surge, unavailable) };
            let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let points = points_of(&points);
            json!({
                "replicas": replicas,
                "strategy": if recreate {
                    json!({"type": "Recreate"})
                } else {
                    json!({"type": "RollingUpdate", "rollingUpdate": bounds, "pausePoints": points})
                },
                "minReadySeconds": min_ready,
                "deletionOrder": order,
                "podReplacementPolicy": if complete { "TerminationComplete" } else { "TerminationStarted" },
            })
        },
    )
}

fn apply(cluster: &mut Cluster, happening: Happening, before: &[Option<OrderedDeploymentStatus>]) {
    match happening {
        Happening::Deed(deed) => play(cluster, &deed),
        Happening::Edit(field, value) => {
            let changed = with(&cluster.deployment, &json!({field: value})).unwrap();
            cluster.edit(|spec| *spec = changed.spec);
        }
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
        Happening::Forge(..) | Happening::Restore(_) => {}
    }
}

/// Plays a deed, if there is what it is about.
fn play(cluster: &mut Cluster, deed: &str) {
    let compares = cluster.compares.is_some();
    let mut deed = deed.to_owned();
    if let Some((words, rest)) = deed.split_once('#') {
        let count = cluster.active().count();
        let (number, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        if count == 0 {
            return;
        }
        deed = format!("{words}#{}{rest}", number.parse::<usize>().unwrap() % count);
    }
    let is_possible = match deed.split(' ').collect::<Vec<_>>()[..] {
        ["resume"] => cluster.status().hold.is_some() || cluster.stands_at().is_some(),
        ["respell" | "silent" | "answers", ..] => compares,
        ["delete", "set", image] => {
            cluster.sets.iter().any(|set| !set.terminating && cluster.image_of(set) == image)
        }
        _ => true,
    };
    if is_possible {
        cluster.play(&format!("{deed}, unseen"));
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
            (pod.facts.ready, pod.facts.ready_since) = (true, Some(now));
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
