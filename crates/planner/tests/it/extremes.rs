//! Specs at the ends of every range, extreme times, and forged statuses: a decision never panics, stays
//! small, and follows the rules. `PROPTEST_CASES` sets the number of cases.

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, PausePoint, validate};
use ordereddeployment_planner::{Act, Decision, DryRun, Point, Snapshot, decide};
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
pub(crate) fn with(deployment: &OrderedDeployment, fields: &Value) -> Option<OrderedDeployment> {
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
    #![proptest_config(config(200))]

    #[test]
    fn a_decision_on_any_spec_at_any_time_never_panics_and_stays_small(
        specs in proptest::collection::vec(spec(), 1..4), present in 0_i32..5, breaks in 1_usize..8,
        now in times(), all in proptest::collection::vec(times(), 8), side in any::<bool>(),
        status in proptest::option::of(status()),
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
            }
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
    let hash = prop::sample::select(vec!["HASH0", "HASH1", "HASH2", "HASH3", "other"]);
    let revision = prop_oneof![3 => 1..4_i64, 1 => any::<i64>()].boxed();
    let share = (number(), number()).prop_map(|(limit, of)| json!({"limit": limit, "replicas": of})).boxed();
    let scaling =
        (number(), proptest::option::of((number(), number(), number()))).prop_map(|(reached, to)| {
            let mut scaling = json!({"reached": reached});
            if let Some((replicas, updated, old)) = to {
                (scaling["replicas"], scaling["updated"], scaling["old"]) =
                    (json!(replicas), json!(updated), json!(old));
            }
            scaling
        });
    let hold =
        ((pod.clone(), any::<bool>(), revision.clone()), (time.clone(), proptest::option::of(time.clone())))
            .prop_flat_map(|((pod, before, revision), (since, until))| {
                (proptest::option::of(number()), number()).prop_map(move |(limit, replicas)| {
                    json!({
                        "id": format!("POD{pod}@{revision}"), "pod": format!("POD{pod}"),
                        "podUID": format!("UID{pod}"), "point": if before { "Before" } else { "After" },
                        "revision": revision, "since": since, "until": until, "limit": limit,
                        "replicas": replicas,
                    })
                })
            });
    let from = (revision.clone(), hash.clone())
        .prop_map(|(revision, hash)| json!({"revision": revision, "templateHash": hash}));
    let rollout = (
        (revision.clone(), hash.clone(), number(), any::<bool>()),
        (proptest::option::of(from), proptest::option::of(share), proptest::option::of(scaling)),
    )
        .prop_map(|((revision, hash, replicas, completed), (from, pause, scaling))| {
            json!({"revision": revision, "templateHash": hash, "replicas": replicas, "completed": completed,
                   "from": from, "pause": pause, "scaling": scaling})
        });
    let aborted = (revision.clone(), revision.clone(), hash, time.clone());
    let aborted = aborted.prop_map(|(revision, to, hash, at)| {
        json!({"revision": revision, "to": to, "templateHash": hash, "at": at, "reason": "x"})
    });
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
    let often = |strategy: BoxedStrategy<Value>| proptest::option::of(strategy);
    (
        (often(hold.boxed()), often(rollout.boxed()), proptest::collection::vec(passed, 0..2)),
        (often(aborted.boxed()), often(blocked.boxed()), often(history.boxed())),
        (
            often(resume.prop_map(Value::from).boxed()),
            proptest::option::weighted(0.2, revision.clone()),
            proptest::option::weighted(0.2, revision),
        ),
        (
            proptest::collection::vec(condition(time), 0..3),
            proptest::collection::vec(proptest::option::of(number()), 7),
        ),
    )
        .prop_map(|((hold, rollout, passed), (aborted, blocked, history), requests, (conditions, counts))| {
            let (resume, abort, retry) = requests;
            json!({
                "hold": hold, "rollout": rollout, "passed": passed,
                "aborted": aborted, "blocked": blocked, "history": history,
                "resumeRequested": resume, "abortRequested": abort, "retryRequested": retry,
                "conditions": conditions, "replicas": counts[0], "updatedReplicas": counts[1],
                "readyReplicas": counts[2], "availableReplicas": counts[3], "unavailableReplicas": counts[4],
                "terminatingReplicas": counts[5], "collisionCount": counts[6],
                "observedGeneration": counts[0],
            })
        })
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

/// The act for the current state of a deployment, after everything that must be stored is stored.
fn act(cluster: &mut Cluster) -> Act {
    loop {
        match decide(&Snapshot { live: true, dry_run: DryRun::Accepted, ..cluster.observed() }) {
            Decision::Act(act) => return act,
            Decision::Record(record) => cluster.deployment.status = Some(record.status),
            Decision::Read(read) => panic!("{read:?}"),
        }
    }
}

fn bounds() -> impl Iterator<Item = (Value, Value)> {
    let surges = [json!(0), json!(i32::MAX), json!("100%"), json!("2147483647%"), json!("99999999999999%")];
    let unavailable = [json!(1), json!(i32::MAX), json!("100%")];
    surges.into_iter().flat_map(move |surge| unavailable.clone().map(|value| (surge.clone(), value)))
}

#[test]
fn the_largest_numbers_are_counted_without_overflow() {
    let most = usize::try_from(i32::MAX).unwrap();
    for (surge, unavailable) in bounds() {
        let strategy = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let mut cluster = Cluster::new(&json!({"replicas": i32::MAX, "strategy": strategy}));
        let created = act(&mut cluster).creates;
        assert_eq!(created.iter().map(|create| create.count).sum::<usize>(), most);
        // Scaled, paused and rolled out from a few pods to the maximum.
        let mut cluster = Cluster::running(&json!({"replicas": 3, "strategy": strategy}));
        cluster.set_image("v2");
        cluster.edit(|spec| spec.replicas = i32::MAX);
        let created = act(&mut cluster).creates;
        assert!(created.iter().map(|create| create.count).sum::<usize>() >= most - 3, "{created:?}");
        cluster.edit(|spec| spec.paused = true);
        act(&mut cluster);
        cluster.edit(|spec| spec.replicas = 0);
        assert_eq!(act(&mut cluster).deletes.iter().map(|group| group.targets.len()).sum::<usize>(), 3);
    }
}
