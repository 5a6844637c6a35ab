//! `cargo xtask crd-check`: the answers of real servers to the generated CRDs, and to the manifests named on the command
//! line. It prints their answers literally and has no rules of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::crdcases;
use crate::process::{capture, top};
use crate::servers::{Server, Servers};

const CRDS: &str = "charts/ordered-deployment/crds";
const CRDS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a server may take to serve an accepted CRD.
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(30);

/// Posts the CRDs to both servers, then violations of their constraints and the manifests as dry runs. Fails unless both
/// servers accept and serve every CRD; returns how many answers were right, and how many were wrong.
pub(crate) fn run(manifests: &[PathBuf]) -> Result<(u32, u32)> {
    let files = crd_files()?;
    let servers = Servers::start()?;
    let mut crds = Vec::new();
    for file in &files {
        crds.extend(documents(&servers, file)?);
    }
    let mut refused = 0_u32;
    for server in [&servers.kube, &servers.crd] {
        println!("{}", server.name);
        for crd in &crds {
            refused += u32::from(!install(&servers, server, crd)?);
        }
    }
    if refused > 0 {
        bail!("{refused} of {} answers were not what a CRD needs", crds.len() * 2);
    }
    println!("Both servers accept and serve all {} CRDs.", crds.len());
    let (right, wrong) = crdcases::run(&servers)?;
    for file in manifests {
        for object in documents(&servers, file)? {
            for server in [&servers.kube, &servers.crd] {
                try_out(&servers, server, &crds, &object)?;
            }
        }
    }
    Ok((u32::try_from(crds.len() * 2)? + right, wrong))
}

fn crd_files() -> Result<Vec<PathBuf>> {
    let folder = top().join(CRDS);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{} holds no CRDs", folder.display());
    }
    Ok(files)
}

/// The objects in a file, as kubectl reads them: users get what it makes of YAML.
fn documents(servers: &Servers, file: &Path) -> Result<Vec<Value>> {
    let mut kubectl = servers.kube.kubectl();
    kubectl.args(["create", "--dry-run=client", "--validate=false", "--output=json", "--filename"]).arg(file);
    let json = capture(&mut kubectl).with_context(|| format!("kubectl cannot read {}", file.display()))?;
    serde_json::Deserializer::from_str(&json)
        .into_iter()
        .collect::<Result<_, _>>()
        .with_context(|| format!("kubectl printed no JSON for {}", file.display()))
}

/// Posts one CRD; true if it is accepted and served without a warning.
fn install(servers: &Servers, server: &Server, crd: &Value) -> Result<bool> {
    let name = text(crd, "/metadata/name");
    match post(servers, server, CRDS_PATH, crd)? {
        Answer::Refused(message) => {
            println!("  {name}: refused\n{}", indented(&message));
            return Ok(false);
        }
        Answer::Accepted(warnings) => {
            println!("  {name}: accepted");
            if !warnings.is_empty() {
                println!("{}", indented(&warnings));
            }
        }
    }
    let start = Instant::now();
    loop {
        let stored: Value = serde_json::from_str(&server.get(&format!("{CRDS_PATH}/{name}"))?)?;
        let none = Vec::new();
        let conditions = stored.pointer("/status/conditions").and_then(Value::as_array).unwrap_or(&none);
        let is = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
        // A refused name never becomes Established either; its condition says why.
        let has_result = is("Established") || start.elapsed() > ESTABLISHED_LIMIT;
        if has_result {
            for condition in conditions {
                println!(
                    "    {}={} ({}): {}",
                    text(condition, "/type"),
                    text(condition, "/status"),
                    text(condition, "/reason"),
                    text(condition, "/message")
                );
            }
            return Ok(is("Established") && !is("NonStructuralSchema"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Posts one object of a CRD's kind as a dry run and prints the answer.
fn try_out(servers: &Servers, server: &Server, crds: &[Value], object: &Value) -> Result<()> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let crd = crds
        .iter()
        .find(|crd| text(crd, "/spec/names/kind") == kind)
        .with_context(|| format!("{kind} {name} is of no kind that the CRDs define"))?;
    let path = format!(
        "/apis/{}/namespaces/{}/{}?dryRun=All",
        text(object, "/apiVersion"),
        object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default"),
        text(crd, "/spec/names/plural")
    );
    let (answer, said) = match post(servers, server, &path, object)? {
        Answer::Accepted(warnings) => ("accepted", warnings),
        Answer::Refused(message) => ("refused", message),
    };
    println!("{}: {kind} {name} {answer}", server.name);
    if !said.is_empty() {
        println!("{}", indented(&said));
    }
    Ok(())
}

enum Answer {
    /// With the warnings of the answer.
    Accepted(String),
    Refused(String),
}

/// A plain POST: the CRD server alone has no discovery, which `kubectl create -f` would need.
fn post(servers: &Servers, server: &Server, path: &str, object: &Value) -> Result<Answer> {
    let file = servers.folder().join("request.json");
    fs::write(&file, object.to_string())?;
    let output = server
        .kubectl()
        .args(["create", "--raw", path, "--filename"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .context("cannot start kubectl")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if output.status.success() { Answer::Accepted(said) } else { Answer::Refused(said) })
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn indented(message: &str) -> String {
    message.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
