//! A plan and what the controller then does are the same list of deletions, on random clusters: one clock, one scheduler and
//! one model of kubelets. The plan is made of what the command reads, by what the command runs; then the change is
//! written, the controller does its work on the sandbox, and every halt is resumed as the plan assumed.
#![allow(clippy::panic, reason = "a test ends where its ground is missing")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{annotation, reason};
use ordereddeployment_controller::{Clock, Names};
use ordereddeployment_planner::{Purpose, whole_seconds};
use ordereddeployment_preview::{End, Preview, What};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config, NodeSpec, Taint};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::change::Change;
use super::{Given, plan};
use crate::embedded::Embedded;
use crate::observe::Reader;

const SECOND: Duration = Duration::from_secs(1);
const BASE: &str = "2030-01-01T00:00:00Z";

/// How a cluster is made, and what is then changed.
struct Scenario {
    rng: StdRng,
    seed: u64,
    ready: u64,
    gone: u64,
    resumed: u64,
    nodes: Vec<NodeSpec>,
}

/// One chance in so many.
fn one_in(rng: &mut StdRng, many: u32) -> bool {
    rng.random_ratio(1, many)
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (ready, gone, resumed) =
            (rng.random_range(1..4), rng.random_range(1..5), rng.random_range(1..30));
        let tight = one_in(&mut rng, 8);
        let nodes = (1..=rng.random_range(1..6))
            .map(|number| {
                let pool = ["inference", "hybrid", "spot"].choose(&mut rng).unwrap();
                let mut node = NodeSpec::in_pool(&format!("n{number}"), pool);
                node.unschedulable = number > 1 && one_in(&mut rng, 6);
                if number > 1 && one_in(&mut rng, 6) {
                    let effect = if one_in(&mut rng, 2) { "NoSchedule" } else { "PreferNoSchedule" };
                    node.taints.push(Taint {
                        key: "maintenance".into(),
                        value: String::new(),
                        effect: effect.into(),
                    });
                }
                if tight {
                    node.pods_capacity = rng.random_range(2..5);
                }
                node
            })
            .collect();
        Self { rng, seed, ready, gone, resumed, nodes }
    }

    fn bounds(&mut self) -> Value {
        let amount = |rng: &mut StdRng| {
            if one_in(rng, 2) {
                json!(rng.random_range(0..4))
            } else {
                json!(format!("{}%", rng.random_range(0..60)))
            }
        };
        let (surge, unavailable) = (amount(&mut self.rng), amount(&mut self.rng));
        let zero = |value: &Value| *value == json!(0) || *value == json!("0%");
        if zero(&surge) && zero(&unavailable) {
            json!({"maxSurge": 1, "maxUnavailable": 0})
        } else {
            json!({"maxSurge": surge, "maxUnavailable": unavailable})
        }
    }

    fn order(&mut self) -> Value {
        let rules: Vec<Value> = (0..self.rng.random_range(0..3))
            .map(|_| {
                let mut rule = match self.rng.random_range(0..5) {
                    0 => json!({"unschedulable": one_in(&mut self.rng, 2)}),
                    1 => json!({"taintKeys": ["maintenance"]}),
                    2 => json!({"unassigned": true}),
                    _ => {
                        let pool = ["inference", "hybrid", "spot"].choose(&mut self.rng).unwrap();
                        json!({"nodeSelector": {"matchLabels": {"node.usage": pool}}})
                    }
                };
                let grant = if one_in(&mut self.rng, 2) { "priority" } else { "deletionCost" };
                rule[grant] = json!(self.rng.random_range(-2..4));
                rule
            })
            .collect();
        let unavailable = if one_in(&mut self.rng, 5) { "InOrder" } else { "WhenBlocked" };
        json!({"nodePriorities": rules, "unavailablePods": unavailable})
    }

    fn spec(&mut self) -> Value {
        let strategy = if one_in(&mut self.rng, 7) {
            json!({"type": "Recreate"})
        } else {
            json!({"type": "RollingUpdate", "rollingUpdate": self.bounds()})
        };
        let complete = one_in(&mut self.rng, 4);
        let evict = one_in(&mut self.rng, 6);
        json!({
            "replicas": self.rng.random_range(1..=12),
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": strategy,
            "minReadySeconds": if one_in(&mut self.rng, 3) { self.rng.random_range(1..4) } else { 0 },
            "podReplacementPolicy": if complete { "TerminationComplete" } else { "TerminationStarted" },
            "podDeletion": if evict { "Evict" } else { "Delete" },
            "deletionOrder": self.order(),
            "template": template("web:1"),
        })
    }

    /// What happens to one pod, besides its template: annotations, and what its kubelet reports.
    fn treat(&mut self, now: Timestamp) -> (Value, Value) {
        let mut annotations = BTreeMap::new();
        if one_in(&mut self.rng, 2) {
            annotations.insert(annotation::DELETE_PRIORITY, self.rng.random_range(-2..4).to_string());
        }
        if one_in(&mut self.rng, 4) {
            annotations.insert(annotation::POD_DELETION_COST, self.rng.random_range(-2..3).to_string());
        }
        if one_in(&mut self.rng, 7) {
            let side = *["before", "after", "true", "sideways"].choose(&mut self.rng).unwrap();
            annotations.insert(annotation::PAUSE_POINT, side.to_owned());
            if one_in(&mut self.rng, 3) {
                annotations.insert(annotation::PAUSE_DURATION, format!("{}s", self.rng.random_range(1..40)));
            }
        }
        let ready = !one_in(&mut self.rng, 7);
        let age = 2f64.powf(self.rng.random_range(0.0..17.0));
        let since = whole_seconds(now - SignedDuration::from_secs_f64(age));
        let restarts = if one_in(&mut self.rng, 3) { self.rng.random_range(0..3) } else { 0 };
        let status = json!({
            "conditions": [{
                "type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": since.to_string(),
            }],
            "containerStatuses": [{
                "name": "main", "image": "web", "imageID": "", "ready": ready, "restartCount": restarts,
            }],
        });
        (json!({"metadata": {"annotations": annotations}}), status)
    }

    /// The change that the plan is about. `revision` is that of the template before.
    fn change(&mut self, replicas: i32, revision: u32, rolls: bool) -> Value {
        let image = json!({"template": template(&format!("web:{}", revision + 1))});
        let smaller = |rng: &mut StdRng| rng.random_range(0..=replicas);
        let mut spec = match self.rng.random_range(0..10) {
            0..5 => image,
            5 => json!({"replicas": smaller(&mut self.rng)}),
            6 => json!({"replicas": smaller(&mut self.rng), "deletionOrder": self.order()}),
            7 => {
                let mut both = image;
                both["replicas"] = json!(smaller(&mut self.rng));
                both
            }
            8 if rolls => json!({}),
            8 => json!({"template": template("web:1")}),
            _ => json!({"template": template("web:9"), "deletionOrder": self.order()}),
        };
        if one_in(&mut self.rng, 8) {
            spec["minReadySeconds"] = json!(self.rng.random_range(0..3));
        }
        spec
    }
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

/// A sandbox whose agents keep the beat, with a controller on it.
struct Bench {
    cluster: Embedded,
    client: Client,
    clock: Clock,
}

impl Bench {
    async fn start(scenario: &Scenario) -> Self {
        let ticking = SandboxClock::simulated(BASE.parse().unwrap()).with_beat(SECOND);
        let config = Config {
            seed: scenario.seed,
            nodes: scenario.nodes.clone(),
            ready_delay: Duration::from_secs(scenario.ready),
            termination_delay: Duration::from_secs(scenario.gone),
            clock: ticking.clone(),
            ..Config::default()
        };
        let mut cluster = Embedded::start(config).await.unwrap();
        // Decisions of one beat are made at one time, as on the model: what requests take is none of the order's business.
        let clock = Clock::from_fn(move || whole_seconds(ticking.now()));
        let client = cluster.sandbox.connect("test").unwrap();
        let bench = Self {
            cluster: {
                cluster.control(clock.clone(), Names::seeded(scenario.seed)).unwrap();
                cluster
            },
            client,
            clock,
        };
        bench.pass(1).await;
        bench
    }

    /// Lets that many beats pass, to the middle between two of them.
    async fn pass(&self, beats: u64) {
        let now = self.cluster.sandbox.now();
        let to = whole_seconds(now)
            + SignedDuration::from_millis(500)
            + SignedDuration::from_secs(i64::try_from(beats).unwrap());
        tokio::time::sleep(Duration::try_from(to.duration_since(now)).unwrap_or_default()).await;
    }

    fn deployments(&self) -> Api<OrderedDeployment> {
        Api::default_namespaced(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn patch(&self, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.deployments().patch("web", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn treat_pods(&self, scenario: &mut Scenario) {
        let mut pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        pods.sort_by_key(ResourceExt::name_any);
        for pod in &pods {
            let (annotations, status) = scenario.treat(self.clock.now());
            let name = pod.name_any();
            let params = PatchParams::default();
            self.pods().patch(&name, &params, &Patch::Merge(annotations)).await.unwrap();
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
                let patch = Patch::Strategic(json!({"status": status}));
                self.pods().patch_status(&name, &params, &patch).await.unwrap();
            }
        }
    }

    /// Waits for the end that was foretold, and longer; resumes each halt when the plan says so.
    async fn see_it_through(&self, preview: &Preview, resumed_after: u64) {
        let last = preview.steps.last().map_or(preview.start, |step| step.at);
        let end = last + SignedDuration::from_secs(45);
        let after = SignedDuration::from_secs(i64::try_from(resumed_after).unwrap());
        while self.clock.now() < end {
            let now = self.clock.now();
            let status = self.deployments().get("web").await.unwrap().status.unwrap_or_default();
            let hold = status.hold.filter(|hold| hold.deleted != Some(false));
            let due = hold.as_ref().map(|hold| hold.since.0.max(preview.start) + after);
            let mut wait = SignedDuration::from_secs(1);
            match (hold, due) {
                (Some(hold), Some(due)) if due <= now => {
                    let patch = Patch::Merge(json!({"status": {"resumeRequested": hold.id}}));
                    let api = self.deployments();
                    api.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
                }
                (_, Some(due)) => wait = due.duration_since(now),
                // One that begins meanwhile is not due before.
                (_, None) => wait = after,
            }
            self.pass(u64::try_from(wait.as_secs()).unwrap()).await;
        }
    }

    /// The deletions since, those of one moment together and by name, as the server was asked.
    fn deletions(&self, from: usize) -> Vec<Vec<String>> {
        let requests = self.cluster.sandbox.requests().into_iter().skip(from);
        let own = requests.filter(|record| {
            record.user_agent.starts_with("ordered-controller-manager")
                && record.plural == "pods"
                && record.code < 300
                && (record.verb == "delete" || record.subresource.as_deref() == Some("eviction"))
        });
        let mut groups: Vec<(Timestamp, Vec<String>)> = Vec::new();
        for record in own {
            let name = record.name.unwrap_or_default();
            match groups.last_mut() {
                Some((at, group)) if *at == record.at => group.push(name),
                _ => groups.push((record.at, vec![name])),
            }
        }
        groups.into_iter().map(|(_, group)| sorted(group)).collect()
    }

    /// What the controller told since, in its order: of the deletions, and of halts and resumes.
    async fn told(&self, from: u64) -> (Vec<String>, Vec<String>) {
        let api: Api<Event> = Api::default_namespaced(self.client.clone());
        let events = api.list(&ListParams::default()).await.unwrap().items;
        let version = |event: &Event| event.resource_version().unwrap_or_default().parse().unwrap_or(0);
        let mut events: Vec<(u64, Event)> =
            events.into_iter().map(|event| (version(&event), event)).collect();
        events.retain(|(version, _)| *version > from);
        events.sort_by_key(|(version, _)| *version);
        let (mut deletions, mut halts) = (Vec::new(), Vec::new());
        for (_, event) in events {
            let (told, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            if told == reason::SUCCESSFUL_DELETE {
                // Those that come together are told together.
                deletions.extend(message.split("; ").map(str::to_owned));
            } else if is_of_halts(&told) {
                halts.push(message);
            }
        }
        (deletions, halts)
    }
}

fn is_of_halts(told: &str) -> bool {
    [reason::PAUSE_POINT_REACHED, reason::PAUSE_POINT_RESUMED].contains(&told)
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// The same of a plan.
fn foretold_deletions(preview: &Preview) -> Vec<Vec<String>> {
    let steps = preview.steps.iter();
    let groups = steps.filter_map(|step| match &step.what {
        What::Delete { pods, .. } => Some(sorted(pods.iter().map(|pod| pod.name.clone()).collect())),
        _ => None,
    });
    groups.collect()
}

fn foretold_events(preview: &Preview) -> (Vec<String>, Vec<String>) {
    let (mut deletions, mut halts) = (Vec::new(), Vec::new());
    for step in &preview.steps {
        match &step.what {
            What::Told(event) if is_of_halts(event.reason) => halts.push(event.message.clone()),
            What::Delete { purpose, pods } => {
                let word = match purpose {
                    Purpose::Rollout => "rollout",
                    Purpose::Scale => "scale",
                };
                for pod in pods {
                    let why = pod.why.as_ref().map_or_else(|| "the last one".to_owned(), ToString::to_string);
                    deletions.push(format!("Deleted pod {} for the {word} ({why})", pod.name));
                }
            }
            _ => {}
        }
    }
    (deletions, halts)
}

/// What was seen, for the sum of all clusters.
#[derive(Default, Debug)]
struct Tally {
    clusters: usize,
    deletions: usize,
    halts: usize,
    complete: usize,
    made_up: usize,
}

async fn hold_the_plan_against_what_happens(seed: u64, tally: &mut Tally) {
    let mut scenario = Scenario::new(seed);
    let bench = Bench::start(&scenario).await;
    let mut spec = scenario.spec();
    let replicas = i32::try_from(spec["replicas"].as_i64().unwrap()).unwrap();
    // In two steps, so that ages differ.
    let first = scenario.rng.random_range(1..=replicas);
    let whole = json!({"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"}, "spec": spec});
    let mut object: OrderedDeployment = serde_json::from_value(whole).unwrap();
    object.spec.replicas = first;
    bench.deployments().create(&PostParams::default(), &object).await.unwrap();
    bench.pass(12).await;
    if first < replicas {
        bench.pass(scenario.rng.random_range(0..200)).await;
        bench.patch(&json!({"replicas": replicas})).await;
        bench.pass(12).await;
    }
    bench.treat_pods(&mut scenario).await;
    bench.pass(1).await;
    let mut revision = 1;
    if one_in(&mut scenario.rng, 3) {
        // Another rollout before, which is complete, stuck or held when the plan is made.
        revision = 2;
        spec["template"] = template("web:2");
        bench.patch(&json!({"template": template("web:2")})).await;
        bench.pass(120).await;
        if one_in(&mut scenario.rng, 2) {
            bench.treat_pods(&mut scenario).await;
            bench.pass(40).await;
        }
    }
    bench.pass(scenario.rng.random_range(0..4)).await;

    let reader = Reader::new(&bench.client, "default");
    let found = reader.one("web", bench.clock.now()).await.unwrap();
    let rolls = found.deployment.status.as_ref().is_some_and(|status| status.hold.is_some());
    let change = scenario.change(replicas, revision, rolls);
    let given = Given {
        ready: Some(Duration::from_secs(scenario.ready)),
        gone: Some(Duration::from_secs(scenario.gone)),
        resumed: Some(Duration::from_secs(scenario.resumed)),
    };
    let manifest = json!({"spec": change});
    let wanted = Change { manifest: Some(manifest), ..Change::default() };
    let before = bench.cluster.sandbox.requests().len();
    let plan = plan(&bench.client, &found, &wanted, given).await.unwrap();
    let asked = bench.cluster.sandbox.requests();
    let mut asked = asked.iter().skip(before).filter(|record| record.user_agent == "test");
    assert!(asked.all(|record| ["get", "list"].contains(&record.verb)), "a plan writes nothing");
    let preview = plan.preview;

    let mark = bench.cluster.sandbox.requests().len();
    let events: u64 = {
        let api: Api<Event> = Api::default_namespaced(bench.client.clone());
        let list = api.list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap_or_default().parse().unwrap()
    };
    if change.as_object().is_some_and(|change| !change.is_empty()) {
        bench.patch(&change).await;
    }
    bench.see_it_through(&preview, scenario.resumed).await;
    let known: BTreeSet<String> = found.pods.iter().map(ResourceExt::name_any).collect();
    let deletions = bench.deletions(mark);
    let told = bench.told(events).await;
    if deletions != foretold_deletions(&preview) || told != foretold_events(&preview) {
        let requests = bench.cluster.sandbox.requests();
        let requests: Vec<String> = requests
            .iter()
            .skip(mark)
            .filter(|record| record.plural != "events" && record.verb != "get" && record.verb != "watch")
            .map(|record| {
                format!("{} {} {} {} {}", record.at, record.user_agent, record.verb, record.path, record.code)
            })
            .collect();
        panic!(
            "seed {seed}: change {change}\nspec {spec}\nnodes {:?}\nforetold {:#?}\nhappened {:#?}\n{:#?}\nsteps {:#?}\nstatus {:#?}\nrequests {:#?}\npods {:#?}",
            scenario
                .nodes
                .iter()
                .map(|node| (&node.name, &node.labels, node.unschedulable, node.pods_capacity))
                .collect::<Vec<_>>(),
            foretold_events(&preview),
            told,
            deletions,
            preview.steps.iter().map(|step| format!("{} {:?}", step.at, step.what)).collect::<Vec<_>>(),
            preview.end,
            requests,
            found.observed().pods,
        );
    }
    let status = bench.deployments().get("web").await.unwrap().status.unwrap_or_default();
    let complete = status
        .condition(ordereddeployment_api::names::condition::COMPLETE)
        .is_some_and(|found| found.status == ordereddeployment_api::ConditionStatus::True);
    assert_eq!(complete, preview.end == End::Complete, "seed {seed}: {:?}", preview.end);
    tally.clusters += 1;
    tally.deletions += preview.deleted().count();
    tally.halts += preview.holds().count();
    tally.complete += usize::from(complete);
    tally.made_up += preview.deleted().filter(|pod| !known.contains(&pod.name)).count();
    bench.cluster.stop().await.unwrap();
}

async fn clusters(seeds: std::ops::Range<u64>) {
    let mut tally = Tally::default();
    let chosen = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    for seed in seeds.filter(|seed| chosen.is_none_or(|chosen: u64| chosen == *seed)) {
        hold_the_plan_against_what_happens(seed, &mut tally).await;
    }
    eprintln!("{tally:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_and_what_then_happens_are_the_same_on_the_first_five_hundred_clusters() {
    clusters(0..500).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_and_what_then_happens_are_the_same_on_the_next_five_hundred_clusters() {
    clusters(500..1000).await;
}
