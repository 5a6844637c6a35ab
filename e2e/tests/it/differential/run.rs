//! Plays one sequence on both servers, request by request, and compares.

use std::time::Duration;

use e2e::World;
use serde_json::{Value, json};

use super::events::events;
use super::normal;
use super::operations::Operation;
use super::play::{in_order_of_making, play};
use super::side::{Kind, Side};

/// Ends every watch.
pub const MARKER: &str = "zz-the-end";

/// Both servers.
pub struct Pair {
    sides: [Side; 2],
    sequences: usize,
    _worlds: [World; 2],
}

impl Pair {
    pub async fn new(sandbox: World, real: World) -> Self {
        let mut sides =
            [Side::new("sandbox", sandbox.client.clone()), Side::new("real", real.client.clone())];
        for side in &mut sides {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "silent"}});
            let answer = side.send("POST", "/api/v1/nodes", "application/json", Some(&node)).await;
            assert!(answer.succeeded(), "{answer:?}");
        }
        Self { sides, sequences: 0, _worlds: [sandbox, real] }
    }

    /// Plays the sequence in a fresh namespace; says where the servers differ. What follows from an earlier difference is
    /// left out: it ends with the first that leaves another object behind.
    pub async fn differences(&mut self, operations: &[Operation]) -> Vec<String> {
        let starts = self.open().await;
        let mut found = Vec::new();
        let mut parted = false;
        for operation in operations {
            let mut shown = Vec::new();
            for side in &mut self.sides {
                shown.push(play(side, operation).await);
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
            found.extend(self.difference_of_events(&starts).await);
        }
        // The namespaces stay: emptying them would keep the controllers busy with what no one looks at any more.
        found
    }

    /// A namespace for the next sequence; the versions from which its events count.
    async fn open(&mut self) -> Vec<Vec<String>> {
        self.sequences += 1;
        let namespace = format!("sequence-{}", self.sequences);
        let mut starts = Vec::new();
        for side in &mut self.sides {
            open_namespace(side, &namespace).await;
            let mut versions = Vec::new();
            for kind in Kind::ALL {
                versions.push(collection_version(side, kind).await);
            }
            starts.push(versions);
        }
        starts
    }

    async fn mark_the_end(&mut self) {
        for side in &mut self.sides {
            for kind in Kind::ALL {
                let marker = kind.named(MARKER);
                let path = side.collection(kind);
                let answer = side.send("POST", &path, "application/json", Some(&marker)).await;
                assert!(answer.succeeded(), "{}: {answer:?}", side.label);
            }
        }
    }

    /// Compares what watches from the start of the sequence announce.
    async fn difference_of_events(&mut self, starts: &[Vec<String>]) -> Option<String> {
        // Selected watches turn changes into additions and deletions.
        for selector in ["", "&labelSelector=a%3D1", "&fieldSelector=metadata.name%21%3Db"] {
            for (place, kind) in Kind::ALL.into_iter().enumerate() {
                let mut shown = Vec::new();
                for (side, versions) in self.sides.iter_mut().zip(starts) {
                    shown.push(events(side, kind, &versions[place], selector).await);
                }
                if let Some(found) = compare(&shown) {
                    let list = |events: &Value| {
                        let lines = events.as_array().into_iter().flatten().map(summary);
                        lines.collect::<Vec<_>>().join("\n    ")
                    };
                    return Some(format!(
                        "watch of {kind:?}{selector}:\n  {found}\n  sandbox\n    {}\n  real\n    {}",
                        list(&shown[0]),
                        list(&shown[1])
                    ));
                }
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

/// Every object there is.
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
    let answer = side.send("POST", "/api/v1/namespaces", "application/json", Some(&object)).await;
    assert!(answer.succeeded(), "{answer:?}");
    // A real server takes pods only once a controller has made the service account.
    let pod = Kind::Pod.named("readiness");
    let path = format!("{}?dryRun=All", side.collection(Kind::Pod));
    for _ in 0..1000 {
        if side.send("POST", &path, "application/json", Some(&pod)).await.succeeded() {
            side.turn_to(namespace);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} takes no pods in {namespace}", side.label);
}

async fn collection_version(side: &mut Side, kind: Kind) -> String {
    let path = side.collection(kind);
    let list = side.get(&path).await;
    list.body.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}
