//! Specs at the ends of every range, extreme times, and forged statuses: a decision never panics, stays
//! small, and follows the rules. `PROPTEST_CASES` raises the number of cases.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, PausePoint, validate};
use ordereddeployment_planner::{Decision, DryRun, Point, Snapshot, decide};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::Cluster;

pub(crate) fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(cases);
    let default =
        ProptestConfig { failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![
        3 => 0..12_i32,
        1 => prop::sample::select(vec![i32::MAX, i32::MAX - 1, i32::MIN, -1, 100, 1_000_000]),
        1 => any::<i32>(),
    ]
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => number().prop_map(Value::from),
        2 => (0..250_u32).prop_map(|percent| json!(format!("{percent}%"))),
        1 => prop::sample::select(vec!["2147483647%", "99999999999999999999%", "0%", "00%", "100%", "%",
        "-5%", "٥%"])
            .prop_map(Value::from),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn node_rule() -> impl Strategy<Value = Value> {
    let grant = prop_oneof![
        number().prop_map(|priority| json!({"priority": priority})),
        number().prop_map(|cost| json!({"deletionCost": cost})),
        Just(json!({})),
    ];
    let select = prop_oneof![
        (0_u8..4).prop_map(|pool| json!({"nodeSelector": {"matchLabels": {"pool": format!("n{pool}")}}})),
        Just(json!({"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "NotIn",
                "values": [""]}]}})),
        Just(json!({"nodeSelector": {"matchExpressions": [{"key": "", "operator": "Exists"}]}})),
        any::<bool>().prop_map(|cordoned| json!({"unschedulable": cordoned})),
        any::<bool>().prop_map(|unassigned| json!({"unassigned": unassigned})),
        any::<String>().prop_map(|key| json!({"taintKeys": [key]})),
    ];
    (select, grant).prop_map(|(mut rule, grant)| {
        rule.as_object_mut().unwrap().extend(grant.as_object().unwrap().clone());
        rule
    })
}

/// Fields of a spec; many of them are invalid.
fn spec() -> impl Strategy<Value = Value> {
    let strategy = prop_oneof![
        5 => (amount(), amount()).prop_map(|(surge, unavailable)| {
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge,
                "maxUnavailable": unavailable}})
        }),
        1 => Just(json!({"type": "Recreate"})),
        1 => Just(json!({})),
    ];
    let order = (proptest::collection::vec(node_rule(), 0..3), any::<bool>()).prop_map(|(rules, in_order)| {
        json!({"nodePriorities": rules, "unavailablePods": if in_order { "InOrder" } else { "WhenBlocked" }})
    });
    let odd = proptest::option::weighted(
        0.1,
        (prop::sample::select(vec!["template", "strategy", "replicas"]), any_json()),
    );
    ((number(), strategy, order, number()), (number(), number(), any::<[bool; 3]>(), odd)).prop_map(
        |((replicas, strategy, order, ready), (deadline, history, [paused, evict, complete], odd))| {
            let mut spec = json!({
                "replicas": replicas, "strategy": strategy, "deletionOrder": order, "minReadySeconds": ready,
                "progressDeadlineSeconds": deadline, "revisionHistoryLimit": history, "paused": paused,
                "podDeletion": if evict { "Evict" } else { "Delete" },
                "podReplacementPolicy": if complete { "TerminationComplete" } else { "TerminationStarted" },
            });
            if let Some((key, value)) = odd {
                spec[key] = value;
            }
            spec
        },
    )
}

/// The object with these fields, if they can be decoded.
fn with(deployment: &OrderedDeployment, fields: &Value) -> Option<OrderedDeployment> {
    let mut object = serde_json::to_value(deployment).unwrap();
    for (key, value) in fields.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).ok()
}

/// The counts of a status.
pub(crate) fn counts(status: &OrderedDeploymentStatus) -> Vec<i32> {
    let counts = [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.unavailable_replicas,
        status.terminating_replicas,
    ];
    counts.into_iter().flatten().collect()
}

/// Whether a decision names only existing pods, and only counts new ones.
fn is_small(snapshot: &Snapshot, decision: &Decision) -> bool {
    let Decision::Act(act) = decision else { return true };
    let targets: usize = act.deletes.iter().map(|group| group.targets.len()).sum();
    let things = snapshot.sets.len() + 1;
    targets <= snapshot.pods.len() && act.creates.len() <= things && act.sets.len() <= 2 * things
}

fn times() -> impl Strategy<Value = Timestamp> {
    let ends = [Timestamp::MIN, Timestamp::MAX, Timestamp::UNIX_EPOCH];
    let near = Timestamp::from_second(1_700_000_000).unwrap();
    prop_oneof![
        prop::sample::select(ends.to_vec()),
        (-100_i64..100).prop_map(move |seconds| near + jiff::SignedDuration::from_secs(seconds)),
        (Timestamp::MIN.as_second()..Timestamp::MAX.as_second())
            .prop_map(|second| Timestamp::from_second(second).unwrap()),
    ]
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn every_valid_spec_is_handled_and_an_invalid_one_moves_no_pod(
        specs in proptest::collection::vec(spec(), 1..4), present in 0_i32..5, breaks in 1_usize..8,
    ) {
        let mut cluster = Cluster::running(&json!({"replicas": present}));
        cluster.breaks_after = Some(breaks);
        for (number, spec) in specs.iter().enumerate() {
            let Some(changed) = with(&cluster.deployment, spec) else { continue };
            cluster.deployment = changed;
            let template = cluster.deployment.spec.template.value();
                let template_is_plain = template.pointer("/spec/containers/0/image").is_some();
            if validate(&cluster.deployment.spec).is_empty() && template_is_plain {
                cluster.set_image(&format!("v{number}"));
                for _ in 0..12 {
                    cluster.step();
                    cluster.tick(1);
                    prop_assert!(counts(&cluster.status()).into_iter().all(|count| count >= 0));
                }
            } else {
                let snapshot = cluster.observed();
                let decision = decide(&Snapshot { live: true, dry_run: DryRun::Accepted,
                    ..snapshot.clone() });
                prop_assert!(is_small(&snapshot, &decision));
            }
        }
    }

    #[test]
    fn a_decision_never_panics_at_any_time(
        spec in spec(), now in times(), all in proptest::collection::vec(times(), 8), side in any::<bool>(),
        status in proptest::option::of(status()),
    ) {
        let mut cluster = Cluster::running(&json!({"replicas": 4}));
        cluster.set_image("v2");
        cluster.step();
        if let Some(changed) = with(&cluster.deployment, &spec) {
            cluster.deployment = changed;
        }
        if let Some(status) = status {
            cluster.deployment.status = Some(forged(&cluster, &status));
        }
        cluster.now = now;
        let mut all = all.into_iter().cycle();
        let side = if side { PausePoint::Before } else { PausePoint::After };
        for pod in &mut cluster.pods {
            pod.facts.created = all.next();
            pod.facts.ready_since = all.next();
            pod.ends = all.next();
            pod.point = Point::At { side, duration: Ok(Some(std::time::Duration::from_secs(3_000_000_000))) };
        }
        for set in &mut cluster.sets {
            set.created = all.next();
        }
        for _ in 0..20 {
            let snapshot = Snapshot { live: true, dry_run: DryRun::Accepted, ..cluster.observed() };
            let decision = decide(&snapshot);
            prop_assert!(is_small(&snapshot, &decision));
            match decision {
                Decision::Record(record) => _ = cluster.store(&record.status),
                Decision::Act(act) => {
                    cluster.store(&act.status);
                    break;
                }
                Decision::Read(_) => break,
            }
        }
    }
}

/// A forged status, with placeholders for names of the cluster: `POD0` for a name, `UID0`, `HASH0`.
pub(crate) fn status() -> impl Strategy<Value = Value> {
    let time = prop::sample::select(vec![
        "0000-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:25.5Z",
        "2024-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2023-11-14T22:13:20+99:99",
    ]);
    let pod = prop::sample::select(vec!["0", "1", "2", "3", "9"]);
    let sizes = proptest::collection::btree_map(
        prop::sample::select(vec!["HASH0", "HASH1", "HASH2", "HASH3", "other", ""]).prop_map(str::to_owned),
        number(),
        0..4,
    );
    let sizes = sizes.prop_map(|sizes: BTreeMap<String, i32>| json!(sizes)).boxed();
    let revision = prop_oneof![3 => 1..4_i64, 1 => any::<i64>()].boxed();
    let hold = hold(&time, &pod, &revision, &sizes);
    let hash = prop::sample::select(vec!["HASH0", "HASH1", "HASH2", "HASH3", "other"]);
    let pause = (number(), sizes.clone())
        .prop_map(|(replicas, sizes)| json!({"replicas": replicas, "sizes": sizes}))
        .boxed();
    let from = (revision.clone(), hash.clone())
        .prop_map(|(revision, hash)| json!({"revision": revision, "templateHash": hash}));
    let rollout = (
        (revision.clone(), hash.clone(), number(), any::<bool>()),
        proptest::option::of(sizes.clone()),
        proptest::option::of(from),
        proptest::option::weighted(0.3, pause.clone()),
    )
        .prop_map(|((revision, hash, replicas, completed), scaled_from, from, suspended)| {
            json!({"revision": revision, "templateHash": hash, "replicas": replicas,
                "scaledFrom": scaled_from,
                   "from": from, "suspended": suspended, "completed": completed})
        });
    let aborted = (revision.clone(), revision.clone(), hash, time.clone());
    let aborted = aborted.prop_map(|(revision, to, hash, at)| {
        json!({"revision": revision, "to": to, "templateHash": hash, "at": at, "reason": "x"})
    });
    let point =
        (prop::sample::select(vec!["point-0", "point-1", "point-2", "x"]), proptest::option::of(Just("n0")));
    let points = proptest::collection::vec(
        (point, time.clone())
            .prop_map(|((name, group), at)| json!({"name": name, "group": group, "resumedAt": at})),
        0..3,
    );
    let blocked =
        (pod.clone(), time.clone()).prop_map(|(pod, at)| json!({"id": format!("POD{pod}@2"), "since": at}));
    let history = (0..70_usize, time.clone(), revision.clone()).prop_map(|(count, at, revision)| {
        json!(vec![
            json!({"action": "Held", "revision": revision, "at": at, "reason": "x".repeat(count * 40)});
            count
        ])
    });
    let passed =
        (pod, time.clone()).prop_map(|(pod, at)| json!({"podUID": format!("UID{pod}"), "resumedAt": at}));
    let resume =
        prop::sample::select(vec!["POD0@2", "POD1@2", "*@2", "*@9223372036854775807", "*", "@", "", "UID0"]);
    let condition = condition(time);
    let often = |strategy: BoxedStrategy<Value>| proptest::option::of(strategy);
    (
        (often(hold), often(rollout.boxed()), proptest::collection::vec(passed, 0..2)),
        (often(resume.prop_map(Value::from).boxed()), often(pause.boxed())),
        (
            often(aborted.boxed()),
            often(points.prop_map(Value::from).boxed()),
            often(blocked.boxed()),
            often(history.boxed()),
        ),
        (proptest::option::weighted(0.2, revision.clone()), proptest::option::weighted(0.2, revision)),
        (
            proptest::collection::vec(condition, 0..3),
            proptest::collection::vec(proptest::option::of(number()), 7),
        ),
    )
        .prop_map(|(begun, (resume, pause), ended, (abort, retry), (conditions, counts))| {
            let ((hold, rollout, passed), (aborted, points, blocked, history)) = (begun, ended);
            json!({
                "aborted": aborted, "passedPoints": points, "blocked": blocked, "history": history,
                "abortRequested": abort, "retryRequested": retry,
                "hold": hold, "rollout": rollout, "passed": passed, "resumeRequested": resume, "pause": pause,
                "conditions": conditions, "replicas": counts[0], "updatedReplicas": counts[1],
                "readyReplicas": counts[2], "availableReplicas": counts[3], "unavailableReplicas": counts[4],
                "terminatingReplicas": counts[5], "collisionCount": counts[6],
                "observedGeneration": counts[0],
            })
        })
}

/// A forged hold, with the fields of earlier versions.
fn hold(
    time: &(impl Strategy<Value = &'static str> + Clone + 'static),
    pod: &(impl Strategy<Value = &'static str> + Clone + 'static),
    revision: &BoxedStrategy<i64>,
    sizes: &BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    (
        (pod.clone(), any::<bool>(), revision.clone()),
        (
            time.clone(),
            proptest::option::of(time.clone()),
            proptest::option::of(any::<bool>()),
            number(),
            sizes.clone(),
        ),
        proptest::option::weighted(0.3, (prop::sample::select(vec!["point-0", "point-1", "x"]), amount())),
    )
        .prop_map(|((pod, before, revision), (since, until, deleted, replicas, sizes), declared)| {
            json!({
                "declared": declared.map(|(name, number)| json!({"name": name, "afterUpdated": number})),
                "id": format!("POD{pod}@{revision}"), "pod": format!("POD{pod}"),
                "podUID": format!("UID{pod}"),
                "point": if before { "Before" } else { "After" }, "revision": revision,
                "since": since, "until": until,
                "deleted": deleted, "replicas": replicas, "sizes": sizes,
            })
        })
        .boxed()
}

/// A forged condition.
fn condition(time: impl Strategy<Value = &'static str>) -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec!["Progressing", "Available", "Held", "Stalled", "Complete", "Odd"]),
        prop::sample::select(vec!["True", "False", "Unknown"]),
        prop::sample::select(vec![
            "ProgressDeadlineExceeded",
            "RolloutHeld",
            "NewReplicaSetAvailable",
            "x",
            "",
        ]),
        time,
    )
        .prop_map(|(type_, status, reason, time)| {
            json!({"type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": time, "lastUpdateTime": time})
        })
}

/// The status, with the names of the cluster.
pub(crate) fn forged(cluster: &Cluster, status: &Value) -> OrderedDeploymentStatus {
    let mut text = status.to_string();
    for (index, pod) in cluster.pods.iter().take(9).enumerate() {
        text =
            text.replace(&format!("POD{index}"), &pod.name).replace(&format!("UID{index}"), &pod.facts.uid);
    }
    for (index, set) in cluster.sets.iter().enumerate() {
        text = text.replace(&format!("HASH{index}"), &set.hash);
    }
    let mut status: Value = serde_json::from_str(&text).unwrap();
    // A server accepts one condition per type.
    let mut seen = std::collections::BTreeSet::new();
    status["conditions"]
        .as_array_mut()
        .unwrap()
        .retain(|condition| seen.insert(condition["type"].to_string()));
    serde_json::from_value(status).unwrap()
}
