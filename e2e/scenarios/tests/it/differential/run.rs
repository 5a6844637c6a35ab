//! Runs one sequence on both servers, request by request, and compares the results.

use std::time::Duration;

use scenarios::TestCluster;
use serde_json::{Value, json};

use super::events::{Watch, events};
use super::operations::Operation;
use super::play::{in_order_of_making, play};
use super::side::{JSON, Kind, Side};
use super::{garbage, known, normal, script};

/// The name of the last object, which ends every watch.
pub const MARKER: &str = "zz-the-end";

/// The interval, in requests, of the versions that are kept for reads of earlier states.
const MOMENTS: usize = 6;

/// Both servers.
pub struct Pair {
    sides: [Side; 2],
    sequences: usize,
    _clusters: [TestCluster; 2],
}

impl Pair {
    pub async fn new(sandbox: TestCluster, real: TestCluster) -> Self {
        let mut sides =
            [Side::new("sandbox", sandbox.client.clone()), Side::new("real", real.client.clone())];
        for side in &mut sides {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "silent"}});
            let answer = side.send("POST", "/api/v1/nodes", JSON, Some(&node)).await;
            assert!(answer.succeeded(), "{answer:?}");
            open_namespace(side, garbage::CANARIES).await;
        }
        Self { sides, sequences: 0, _clusters: [sandbox, real] }
    }

    /// Runs the fixed steps. Returns the differences of the servers.
    pub async fn differences_of_the_script(&mut self) -> Vec<String> {
        self.open().await;
        let mut found = Vec::new();
        let mut answers = [script::Answers::new(), script::Answers::new()];
        for step in script::steps() {
            let mut shown = Vec::new();
            for (side, answers) in self.sides.iter_mut().zip(&mut answers) {
                shown.push(script::take(side, answers, &step).await);
            }
            for shown in &mut shown {
                known::strip_words(step.label, shown);
            }
            found.extend(compare(&shown).map(|difference| format!("{}:\n  {difference}", step.label)));
        }
        found
    }

    /// Runs the sequence in a new namespace. Returns the differences of the servers. It ends at the first
    /// difference that leaves different objects, since later differences would be consequences.
    pub async fn differences(&mut self, operations: &[Operation]) -> Vec<String> {
        self.open().await;
        let mut found = Vec::new();
        let mut parted = false;
        for (place, operation) in operations.iter().enumerate() {
            let mut shown = Vec::new();
            for side in &mut self.sides {
                if place % MOMENTS == 0 {
                    side.remember_the_moment().await;
                }
                shown.push(play(side, operation).await);
                garbage::is_collected(side, operation).await;
            }
            if let Some(difference) = compare(&shown) {
                found.push(format!("{}:\n  {difference}", operation.title()));
                let mut left = Vec::new();
                for side in &mut self.sides {
                    left.push(everything(side).await);
                }
                if compare(&left).is_some() {
                    parted = true;
                    break;
                }
            }
        }
        if !parted {
            self.mark_the_end().await;
            found.extend(self.difference_of_events().await);
        }
        // The namespaces remain: their deletion would only keep the controllers busy.
        found
    }

    /// Creates the namespaces of the next sequence.
    async fn open(&mut self) {
        self.sequences += 1;
        let namespace = format!("sequence-{}", self.sequences);
        for side in &mut self.sides {
            open_namespace(side, &namespace).await;
        }
    }

    async fn mark_the_end(&mut self) {
        for side in &mut self.sides {
            for kind in Kind::ALL {
                let marker = kind.named(MARKER);
                let path = side.collection(kind);
                let answer = side.send("POST", &path, JSON, Some(&marker)).await;
                assert!(answer.succeeded(), "{}: {answer:?}", side.label);
            }
        }
    }

    /// Compares the events of watches from the start and from the middle of the sequence.
    async fn difference_of_events(&mut self) -> Option<String> {
        let middle = self.sides[0].moments.len() / 2;
        let mut watches = Vec::new();
        // Watches with selectors turn changes into additions and deletions.
        for (moment, selector) in
            [(0, ""), (0, "&labelSelector=a%3D1"), (0, "&fieldSelector=metadata.name%21%3Db"), (middle, "")]
        {
            watches.extend(Kind::ALL.map(|kind| Watch { kind, moment, selector }));
        }
        let [sandbox, real] = &mut self.sides;
        let (ours, theirs) = (events(sandbox, &watches).await, events(real, &watches).await);
        for ((watch, ours), theirs) in watches.iter().zip(ours).zip(theirs) {
            if let Some(found) = compare(&[ours.clone(), theirs.clone()]) {
                let list = |events: &Value| {
                    let lines = events.as_array().into_iter().flatten().map(summary);
                    lines.collect::<Vec<_>>().join("\n    ")
                };
                return Some(format!(
                    "{watch:?}:\n  {found}\n  sandbox\n    {}\n  real\n    {}",
                    list(&ours),
                    list(&theirs)
                ));
            }
        }
        None
    }
}

fn summary(event: &Value) -> String {
    let object = event.get("object").cloned().unwrap_or_default();
    let of = |key: &str| object.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default();
    format!(
        "{} {} {} generation {} {} finalizers {}",
        event["type"],
        of("name"),
        of("resourceVersion"),
        of("generation"),
        of("deletionTimestamp"),
        of("finalizers")
    )
}

fn compare(shown: &[Value]) -> Option<String> {
    let mut found = Vec::new();
    normal::difference("", &shown[0], &shown[1], &mut found);
    found.truncate(8);
    (!found.is_empty()).then(|| found.join("\n  "))
}

/// Every object.
async fn everything(side: &mut Side) -> Value {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let path = side.collection(kind);
        let answer = side.get(&path).await;
        let mut shown = normal::answer(side, kind, &answer);
        in_order_of_making(&mut shown);
        all.push(shown);
    }
    json!(all)
}

async fn open_namespace(side: &mut Side, namespace: &str) {
    side.turn_to(namespace);
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let answer = side.send("POST", "/api/v1/namespaces", JSON, Some(&object)).await;
    assert!(answer.succeeded(), "{answer:?}");
    // A real server accepts pods only after a controller has created the service account.
    let pod = Kind::Pod.named("readiness");
    let path = format!("{}?dryRun=All", side.collection(Kind::Pod));
    for _ in 0..1000 {
        if side.send("POST", &path, JSON, Some(&pod)).await.succeeded() {
            side.turn_to(namespace);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} takes no pods in {namespace}", side.label);
}
