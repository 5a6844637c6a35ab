//! The binary itself, over TLS, as it runs in a cluster.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed assumption fails the test")]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Stdio;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use ordereddeployment_api::crds;
use ordereddeployment_sandbox::{Config, Sandbox};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// A server, the program with its kubeconfig, and the folder of that.
async fn program(arguments: &[&str]) -> (Sandbox, Command, TempDir) {
    let sandbox = Sandbox::start(Config::default()).await.unwrap();
    let endpoint = sandbox.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, &endpoint.kubeconfig).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_ordered-controller-manager"));
    program
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("NO_COLOR");
    program.stderr(Stdio::piped()).kill_on_drop(true);
    (sandbox, program, folder)
}

#[tokio::test]
async fn the_program_works_from_a_kubeconfig_and_ends_on_sigterm() {
    let arguments = ["--metrics-bind-address=[::]:0", "--log-format=json"];
    let (sandbox, mut program, _folder) = program(&arguments).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(sandbox.client().unwrap());
    for crd in crds() {
        definitions.create(&PostParams::default(), &crd).await.unwrap();
    }
    let mut program = program.spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let mut address = None;
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, rest)) = line.split_once("http://") {
            address = rest.split_once('"').map(|(address, _)| address.parse().unwrap());
        }
        if line.contains("every watch has synced") {
            break;
        }
    }
    let address: SocketAddr = address.unwrap();
    if address.is_ipv6() {
        let address = (Ipv6Addr::LOCALHOST, address.port()).into();
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    }
    let address = (Ipv4Addr::LOCALHOST, address.port()).into();
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(get(address, "/metrics").await.contains("ordereddeployment_pod_creations_total 0"));

    let pid = program.id().unwrap().to_string();
    // The kill of the shell: a small machine has no program of that name.
    let sent = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &pid]).status().await;
    assert!(sent.unwrap().success());
    while lines.next_line().await.unwrap().is_some() {}
    assert!(program.wait().await.unwrap().success());
}

#[tokio::test]
async fn logs_have_no_colours_when_the_standard_error_is_no_terminal() {
    let (_sandbox, mut program, _folder) = program(&["--metrics-bind-address=127.0.0.1:0"]).await;
    let mut program = program.spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("INFO") && !line.contains('\x1b'), "{line:?}");
}

#[tokio::test]
async fn nodecosts_without_a_config_map_is_an_error() {
    for (more, error) in [
        ("--log-format=text", "needs --node-costs-config"),
        ("--node-costs-config=costs", "give NAMESPACE/NAME"),
        ("--node-costs-config=/costs", "give NAMESPACE/NAME"),
    ] {
        let arguments = ["--metrics-bind-address=127.0.0.1:0", "--controllers=nodecosts", more];
        let (_sandbox, mut program, _folder) = program(&arguments).await;
        let output = program.output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(error), "{more}: {said}");
    }
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_read_is_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, "users:\n- name: me\n  user: {token: secret-token, broken\n").unwrap();
    let program = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_ordered-controller-manager"));
        program.env_remove("RUST_LOG").env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        program
    };
    for command in [program().arg("--kubeconfig").arg(&kubeconfig), program().env("KUBECONFIG", &kubeconfig)]
    {
        let output = command.output().await.unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && !text.contains("secret-token") && text.contains("cannot"),
            "{text}"
        );
    }
}
