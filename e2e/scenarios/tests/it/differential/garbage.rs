//! Random families of owners and dependents: an owner is deleted, and what is left when the garbage
//! collectors have settled is compared.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::side::{Kind, MERGE, Side, Step};

/// How long a state must last.
const SETTLED: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

fn kind(rng: &mut StdRng) -> Kind {
    Kind::ALL[rng.random_range(0..Kind::ALL.len())]
}

/// The steps of a family, in parts: the garbage collectors settle after each.
pub fn family(rng: &mut StdRng) -> [Vec<Step>; 3] {
    let mut known: Vec<(Kind, String)> = Vec::new();
    let mut made = Vec::new();
    for name in ["owner", "second", "c", "d", "e", "f"] {
        let kind = kind(rng);
        let mut object = kind.named(name);
        // Mostly the owner, sometimes also one that stays, or only another dependent. An object of two owners
        // that end at different times is released or deleted, depending on the order.
        let of: Vec<&(Kind, String)> = match known.get(2..).filter(|_| rng.random_bool(0.3)) {
            Some(dependents) if !dependents.is_empty() => {
                vec![&dependents[rng.random_range(0..dependents.len())]]
            }
            _ if known.len() < 2 => Vec::new(),
            _ => known[..2].iter().filter(|(_, name)| name == "owner" || rng.random_bool(0.3)).collect(),
        };
        let mut owners = Vec::new();
        for (of, label) in of {
            let uid = if rng.random_bool(0.9) { format!("{{uid:{label}}}") } else { "gone".to_owned() };
            let (version, _) = of.names();
            owners.push(json!({"apiVersion": version, "kind": format!("{of:?}"), "name": label, "uid": uid,
                "blockOwnerDeletion": rng.random_bool(0.7)}));
        }
        object["metadata"]["ownerReferences"] = owners.into();
        if rng.random_bool(0.2) {
            object["metadata"]["finalizers"] = json!(["test.example/hold"]);
        }
        made.push(Step::new(name, kind, "POST", "").with(object));
        known.push((kind, name.to_owned()));
    }
    let policy = ["Background", "Foreground", "Orphan"][rng.random_range(0..3)];
    let deleted =
        Step::new("delete", known[0].0, "DELETE", "/owner").with(json!({"propagationPolicy": policy}));
    let released = known.iter().map(|(kind, name)| {
        let none = json!({"metadata": {"finalizers": null}});
        Step::new("release", *kind, "PATCH", &format!("/{name}")).of(MERGE).with(none)
    });
    [made, vec![deleted], released.collect()]
}

/// Every object, once nothing changes any more.
pub async fn settled(side: &mut Side) -> Value {
    let (mut last, mut looks) = (side.everything().await, 0);
    while looks < SETTLED {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        // How many versions each side has seen meanwhile differs.
        side.versions.clear();
        let now = side.everything().await;
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
    last
}
