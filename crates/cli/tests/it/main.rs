//! Tests of the binary as a process: its help and errors, its commands on a server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails if its setup fails")]

mod command_line;
mod sandbox_command;

use std::path::Path;
use std::process::{Command, Stdio};

use ordereddeployment_api::OrderedDeployment;
use serde_json::json;

/// The program with this home directory, and no other variables.
fn program(home: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-ordered"));
    program.env_clear().env("HOME", home).env("LANG", "C.UTF-8").current_dir(home).stdin(Stdio::null());
    program
}

/// `web`, with one container `app`.
fn web() -> OrderedDeployment {
    serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "web:1"}]},
        }},
    }))
    .unwrap()
}
