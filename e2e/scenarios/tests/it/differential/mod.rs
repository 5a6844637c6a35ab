//! Sends the same random requests to the sandbox and to a real server, and compares the responses, the stored
//! objects and the watch events.
//!
//! The module `known` lists allowed differences with their reasons, as does `docs/sandbox.md`. Any other
//! difference is a bug of the sandbox.

mod edits;
mod events;
mod garbage;
mod known;
mod normal;
mod operations;
mod play;
mod run;
mod script;
mod side;

use std::collections::BTreeSet;

use operations::Operation;
use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use run::Pair;
use scenarios::{Server, Setting, TestCluster};

/// The number of sequences, unless `E2E_DIFFERENTIAL_CASES` is set.
const CASES: usize = 60;
/// The maximum number of requests in a sequence.
const LENGTH: usize = 40;
/// How many shorter sequences to try to make a difference readable.
const SHRINKS: usize = 100;
/// How many differences to print with such a sequence; the others are only listed.
const SHRUNK: usize = 1;

fn number(variable: &str, default: usize) -> usize {
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
        let mut pair = Pair::new(start(Server::Sandbox).await, start(Server::Real).await).await;
        let seed = u8::try_from(number("E2E_DIFFERENTIAL_SEED", 1) % 256).unwrap();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let sequences = vec(operations::any(), 1..=LENGTH);
        let mut reports = pair.differences_of_the_script().await;
        let (mut differences, mut requests, mut shrinks) = (BTreeSet::new(), 0, SHRUNK);
        for _ in 0..number("E2E_DIFFERENTIAL_CASES", CASES) {
            let mut tree = sequences.new_tree(&mut runner).unwrap();
            let operations = tree.current();
            requests += operations.len();
            for found in pair.differences(&operations).await {
                if differences.insert(found.clone()) {
                    let is_shrunk = shrinks > 0;
                    shrinks = shrinks.saturating_sub(1);
                    reports.push(if is_shrunk { shrunk(&mut pair, &mut tree, &found).await } else { found });
                }
            }
        }
        println!("differential: {requests} requests to each server");
        assert!(reports.is_empty(), "{} differences\n{}", reports.len(), reports.join("\n\n"));
    });
}

/// The difference with the shortest sequence that was found for it.
async fn shrunk<T>(pair: &mut Pair, tree: &mut T, wanted: &String) -> String
where
    T: ValueTree<Value = Vec<Operation>>,
{
    let mut shortest = tree.current();
    let mut go_on = tree.simplify();
    for _ in 0..SHRINKS {
        if !go_on {
            break;
        }
        let tried = tree.current();
        if pair.differences(&tried).await.contains(wanted) {
            shortest = tried;
            go_on = tree.simplify();
        } else {
            go_on = tree.complicate();
        }
    }
    format!("{wanted}\nafter {shortest:#?}")
}
