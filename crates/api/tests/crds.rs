//! The committed definitions are those of the code.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::PathBuf;

use ordereddeployment_api::{crds, to_yaml};

/// Where the chart keeps the definition named `name`.
fn committed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../charts/ordered-deployment/crds/{name}.yaml"))
}

#[test]
fn the_committed_definitions_are_those_of_the_code() {
    for crd in crds() {
        let path = committed(crd.metadata.name.as_deref().unwrap());
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::write(&path, to_yaml(&crd)).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == to_yaml(&crd),
            "{} is not what the code says: run `cargo xtask crds`",
            path.display()
        );
    }
}

#[test]
fn the_definitions_are_small_enough_for_client_side_apply() {
    for crd in crds() {
        assert!(serde_json::to_string(&crd).unwrap().len() < 262_144 / 2);
    }
}
