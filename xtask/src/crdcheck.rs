//! `cargo xtask crd-check`: the answers of real servers to the generated CRDs, and to violations of their constraints. It has no rules
//! of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::crdcases::{self, Asked};
use crate::process::{capture, top};
use crate::proxy::Proxy;
use crate::servers::{Server, Servers};

const CRDS: &str = "charts/ordered-deployment/crds";
const CRDS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a server may take to serve an accepted CRD.
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(30);

/// Posts the CRDs to both servers, then violations of their constraints as dry runs. Fails unless both servers accept and serve every
/// CRD; returns how many answers were right, and how many were wrong.
pub(crate) fn run() -> Result<(u32, u32)> {
    let files = crd_files()?;
    let servers = Servers::start()?;
    let mut crds = Vec::new();
    for file in &files {
        crds.extend(documents(&servers.kube, file)?);
    }
    let mut asked = Vec::new();
    for (server, current) in [(&servers.kube, false), (&servers.crd, true)] {
        let proxy = Proxy::start(server, servers.folder(), if current { "crd" } else { "kube" })?;
        asked.push(Asked { name: server.name.clone(), proxy, current });
    }
    let mut refused = 0_u32;
    for server in &asked {
        println!("{}", server.name);
        for crd in &crds {
            refused += u32::from(!install(&server.proxy, crd)?);
        }
    }
    if refused > 0 {
        bail!("{refused} of {} answers were not what a CRD needs", crds.len() * 2);
    }
    println!("Both servers accept and serve all {} CRDs.", crds.len());
    let (right, wrong) = crdcases::run(&asked)?;
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
fn documents(server: &Server, file: &Path) -> Result<Vec<Value>> {
    let mut kubectl = server.kubectl();
    kubectl.args(["create", "--dry-run=client", "--validate=false", "--output=json", "--filename"]).arg(file);
    let json = capture(&mut kubectl).with_context(|| format!("kubectl cannot read {}", file.display()))?;
    serde_json::Deserializer::from_str(&json)
        .into_iter()
        .collect::<Result<_, _>>()
        .with_context(|| format!("kubectl printed no JSON for {}", file.display()))
}

/// Posts one CRD; true if it is accepted and served.
fn install(proxy: &Proxy, crd: &Value) -> Result<bool> {
    let name = text(crd, "/metadata/name");
    let (code, answer) = proxy.send("POST", CRDS_PATH, Some(crd))?;
    if code != 201 {
        println!("  {name}: refused ({code}): {}", text(&answer, "/message"));
        return Ok(false);
    }
    println!("  {name}: accepted");
    let start = Instant::now();
    loop {
        let (_, stored) = proxy.send("GET", &format!("{CRDS_PATH}/{name}"), None)?;
        let none = Vec::new();
        let conditions = stored.pointer("/status/conditions").and_then(Value::as_array).unwrap_or(&none);
        let is = |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
        // A refused name never becomes Established either; its condition says why.
        if is("Established") || start.elapsed() > ESTABLISHED_LIMIT {
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

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
