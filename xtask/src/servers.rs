//! Real servers on loopback, for the lifetime of a value: etcd, kube-apiserver and the current CRD server, which uses
//! kube-apiserver as its authorizer. No schedulers, no kubelets, nothing on another address.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cache::Scratch;
use crate::process::{capture, tail};
use crate::{crdserver, kubernetes, programs};

/// How long a server may take to become ready.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// A running server.
pub(crate) struct Server {
    /// Its name in messages.
    pub(crate) name: String,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    process: Process,
}

impl Server {
    /// A kubectl command for this server.
    pub(crate) fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// The answer to a GET.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        capture(self.kubectl().args(["get", "--raw", path]))
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.get("/readyz").is_err() {
            if let Some(status) = self.process.child.try_wait()? {
                bail!("{} ended ({status}):\n{}", self.name, tail(&self.process.log, 20));
            }
            if start.elapsed() > READY_LIMIT {
                bail!("{} is not ready after 90 s:\n{}", self.name, tail(&self.process.log, 20));
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        Ok(())
    }
}

/// The servers of one check. Fields are dropped in order: clients before their servers, the folder last.
pub(crate) struct Servers {
    /// Kubernetes' current server of custom resources, and nothing else.
    pub(crate) crd: Server,
    /// A complete kube-apiserver, usually 1.20.
    pub(crate) kube: Server,
    _etcd: Process,
    scratch: Scratch,
}

impl Servers {
    /// Starts all of them and waits until they are ready.
    pub(crate) fn start() -> Result<Self> {
        let kubectl = programs::kubectl()?;
        let assets = kubernetes::find()?;
        let (crd_program, crd_version) = crdserver::find()?;
        let kube_version = capture(Command::new(assets.join("kube-apiserver")).arg("--version"))?;

        let scratch = Scratch::new("servers")?;
        let folder = scratch.path();
        let token = token()?;
        fs::write(folder.join("tokens.csv"), format!("{token},admin,admin,\"system:masters\"\n"))?;

        let (etcd, etcd_url) = etcd(&assets, folder)?;

        let port = free_port()?;
        let kubeconfig = kubeconfig(folder, "kube", port, &token)?;
        let process = kube_apiserver(&assets, folder, port, &etcd_url)?;
        let name = format!("kube-apiserver {}", kube_version.trim().trim_start_matches("Kubernetes "));
        let mut kube = Server { name, kubectl: kubectl.clone(), kubeconfig, process };
        kube.wait_until_ready()?;

        let port = free_port()?;
        let process = crd_server(&crd_program, folder, port, &etcd_url, &kube.kubeconfig)?;
        let kubeconfig = self::kubeconfig(folder, "crd", port, &token)?;
        let mut crd = Server { name: format!("CRD server {crd_version}"), kubectl, kubeconfig, process };
        crd.wait_until_ready()?;
        Ok(Self { crd, kube, _etcd: etcd, scratch })
    }

    /// A folder for the caller's own files.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }
}

/// A child process that ends when the value is dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        Ok(Self { child, log })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // By id, and only our own child; it may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn etcd(assets: &Path, folder: &Path) -> Result<(Process, String)> {
    let client = format!("http://127.0.0.1:{}", free_port()?);
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let process = Process::start(
        Command::new(assets.join("etcd"))
            .arg(format!("--data-dir={}", folder.join("etcd").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .arg("--unsafe-no-fsync"),
        folder.join("etcd.log"),
    )?;
    Ok((process, client))
}

fn kube_apiserver(assets: &Path, folder: &Path, port: u16, etcd: &str) -> Result<Process> {
    let certificates = folder.join("kube-certificates");
    // The server creates its key at start; the same key signs service account tokens, so that openssl is not needed.
    let key = certificates.join("apiserver.key");
    Process::start(
        Command::new(assets.join("kube-apiserver"))
            .arg(format!("--etcd-servers={etcd}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", certificates.display()))
            .arg(format!("--token-auth-file={}", folder.join("tokens.csv").display()))
            .arg("--authorization-mode=RBAC")
            .arg("--service-cluster-ip-range=10.0.0.0/24")
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--service-account-key-file={}", key.display()))
            .arg(format!("--service-account-signing-key-file={}", key.display())),
        folder.join("kube.log"),
    )
}

fn crd_server(program: &Path, folder: &Path, port: u16, etcd: &str, kubeconfig: &Path) -> Result<Process> {
    let kubeconfig = kubeconfig.display();
    Process::start(
        Command::new(program)
            .arg(format!("--etcd-servers={etcd}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", folder.join("crd-certificates").display()))
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--authentication-kubeconfig={kubeconfig}"))
            .arg(format!("--authorization-kubeconfig={kubeconfig}"))
            // These watch resources that a server as old as 1.20 does not have, and would never become ready.
            .arg("--enable-priority-and-fairness=false")
            .arg(
                "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook,\
                 MutatingAdmissionPolicy,ValidatingAdmissionPolicy",
            ),
        folder.join("crd.log"),
    )
}

fn kubeconfig(folder: &Path, name: &str, port: u16, token: &str) -> Result<PathBuf> {
    let file = folder.join(format!("{name}.kubeconfig"));
    // The certificate is the server's own and new: on loopback there is nothing to verify it against.
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
         clusters: [{{name: it, cluster: {{server: \"https://127.0.0.1:{port}\", insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: it, user: {{token: \"{token}\"}}}}]\n\
         contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n"
    );
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// A port that is free now, and that no other call in this process returned. It is below those that Linux gives to connections (32768
/// and above). The servers take ports as numbers, so that a race with servers of other processes of this machine remains.
fn free_port() -> Result<u16> {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Two processes begin at different ports.
    let first = 10_000 + u16::try_from(std::process::id() % 400)? * 10;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = (0..1_000).map(|_| first + TAKEN.fetch_add(1, Ordering::Relaxed));
    ports.find(is_free).context("no port is free on loopback")
}

/// Other users of this machine can reach loopback too.
fn token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot make a token")?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}
