//! Sends the same fixed and random requests to the sandbox and to a real server, and compares the responses,
//! the stored objects and the watch events.
//!
//! The module `normal` lists allowed differences with their reasons, as does `docs/sandbox.md`. Any other
//! difference is a bug of the sandbox.

mod garbage;
mod normal;
mod random;
mod script;
mod side;

use std::time::Duration;

use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use scenarios::{Server, Setting, TestCluster};
use serde_json::{Value, json};

use side::{Kind, Side, Step};

/// The number of random sequences, unless `E2E_DIFFERENTIAL_CASES` is set.
const CASES: u64 = 60;
/// The number of requests in a sequence.
const LENGTH: usize = 30;
/// After how many sequences a family of owners and dependents follows.
const FAMILIES: u64 = 3;
/// How often both must have settled before a difference counts: a real collector watches a new kind late.
const PATIENCE: usize = 30;
/// The selectors of the watches. They turn changes into additions and deletions.
const SELECTORS: [&str; 3] = ["", "&labelSelector=a=1", "&fieldSelector=metadata.name!=b"];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn start(server: Server) -> TestCluster {
    let setting = Setting {
        // Without kubelets, only the requests change pods.
        nodes: Vec::new(),
        // Without the controllers that would write to the objects of the test.
        built_in_controllers: "*,-replicaset,-deployment,-root-ca-cert-publisher,-nodelifecycle,-podgc"
            .to_owned(),
        // Otherwise a write that changes only the field managers creates a new version; the sandbox does not
        // track field managers.
        api_server_arguments: vec!["--feature-gates=ServerSideApply=false".to_owned()],
        definitions: vec![side::gadget_definition()],
        ..Setting::default()
    };
    TestCluster::with(server, setting).await.unwrap()
}

#[test]
fn both_servers_respond_alike_on_a_real_server() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let _machine = scenarios::share_the_machine().await;
        let clusters = [start(Server::Sandbox).await, start(Server::Real).await];
        let [sandbox, real] = &clusters;
        let mut sides =
            [Side::new("sandbox", sandbox.client.clone(), ""), Side::new("real", real.client.clone(), "")];
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "silent"}});
        let node = Step::new("node", Kind::Pod, "POST", "").at("/api/v1/nodes").with(node);
        for side in &mut sides {
            assert_eq!(side.take(&node).await["code"], 201);
        }
        let mut reports = the_script(&sides).await;
        let seed = number("E2E_DIFFERENTIAL_SEED", 1);
        for case in 0..number("E2E_DIFFERENTIAL_CASES", CASES) {
            let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_000) + case);
            reports.extend(a_sequence(&sides, case, &mut rng).await);
            if case % FAMILIES == 0 {
                reports.extend(a_family(&sides, case, &mut rng).await);
            }
        }
        assert!(reports.is_empty(), "{} differences\n{}", reports.len(), reports.join("\n\n"));
    });
}

/// Takes the fixed steps. Returns the differences of the servers.
async fn the_script(sides: &[Side; 2]) -> Vec<String> {
    let mut sides = in_namespace(sides, "script").await;
    let mut reports = Vec::new();
    for step in script::steps() {
        let found = if step.path.contains("watch=1") {
            let step = [step.clone()];
            compare(&join_all(sides.iter_mut().map(|side| side.watch(&step))).await)
        } else {
            differences(&mut sides, &step).await
        };
        reports.extend((!found.is_empty()).then(|| format!("{}\n  {}", step.label, found.join("\n  "))));
    }
    reports
}

/// Sends random requests, then compares the watches of their events. Ends at the first difference, since
/// later ones would be consequences.
async fn a_sequence(sides: &[Side; 2], case: u64, rng: &mut StdRng) -> Option<String> {
    let mut sides = in_namespace(sides, &format!("sequence-{case}")).await;
    let mut sent = Vec::new();
    let report = |sent: &[String], found: &[String]| {
        Some(format!("case {case}\n  {}\nafter\n  {}", found.join("\n  "), sent.join("\n  ")))
    };
    for _ in 0..LENGTH {
        let step = random::step(rng);
        sent.push(step.line());
        let found = differences(&mut sides, &step).await;
        if !found.is_empty() {
            return report(&sent, &found);
        }
    }
    let watches: Vec<Step> = SELECTORS
        .iter()
        .flat_map(|selector| {
            let rest =
                format!("?watch=1&timeoutSeconds=1&resourceVersion={{resourceVersion:start}}{selector}");
            Kind::ALL.map(|kind| Step::new("watch", kind, "GET", &rest))
        })
        .collect();
    let found = compare(&join_all(sides.iter_mut().map(|side| side.watch(&watches))).await);
    if !found.is_empty() {
        return report(&sent, &found);
    }
    None
}

/// Makes a family, deletes its owner, removes all finalizers, and compares what is left each time.
async fn a_family(sides: &[Side; 2], case: u64, rng: &mut StdRng) -> Option<String> {
    let mut sides = in_namespace(sides, &format!("family-{case}")).await;
    let mut sent = Vec::new();
    for part in garbage::family(rng) {
        for step in &part {
            sent.push(step.line());
            // The collectors may be at work: the states that follow are compared, not the responses.
            join_all(sides.iter_mut().map(|side| side.take(step))).await;
        }
        let mut found = Vec::new();
        for _ in 0..PATIENCE {
            found = compare(&join_all(sides.iter_mut().map(garbage::settled)).await);
            if found.is_empty() {
                break;
            }
        }
        if !found.is_empty() {
            let (found, sent) = (found.join("\n  "), sent.join("\n  "));
            return Some(format!("family {case}\n  {found}\nafter\n  {sent}"));
        }
    }
    None
}

/// Sends a step to both servers. Returns the differences of their responses.
async fn differences(sides: &mut [Side; 2], step: &Step) -> Vec<String> {
    compare(&join_all(sides.iter_mut().map(|side| side.take(step))).await)
}

fn compare(shown: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    normal::difference("", &shown[0], &shown[1], &mut found);
    found.truncate(8);
    found
}

/// Both servers in a new namespace.
async fn in_namespace(sides: &[Side; 2], namespace: &str) -> [Side; 2] {
    let mut sides = sides.each_ref().map(|side| side.elsewhere(namespace));
    for side in &mut sides {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let made = Step::new("namespace", Kind::Pod, "POST", "").at("/api/v1/namespaces").with(object);
        assert_eq!(side.take(&made).await["code"], 201);
        // A real server accepts pods only after a controller has created the service account.
        let pod = Step::new("pod", Kind::Pod, "POST", "?dryRun=All").with(Kind::Pod.named("readiness"));
        while side.take(&pod).await["code"] != 201 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        *side = side.elsewhere(namespace);
        side.take(&Step::new("start", Kind::ConfigMap, "GET", "")).await;
    }
    sides
}
