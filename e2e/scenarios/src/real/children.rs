//! The processes of the servers: started here and ended by process ID, even if the test is killed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::assets::{Assets, minor};
use crate::lock;

/// A shell script that reads process IDs, `+7` for a running process and `-7` for an ended one, until its
/// input closes. The input closes without a cleanup only if the process of the test was killed, for example
/// with SIGKILL. The script then kills the remaining processes and removes the folder. It ignores the signals
/// of Ctrl-C in a terminal.
const GUARD: &str = "trap '' INT TERM HUP; ids=; while read -r id; do case $id in +*) ids=\"$ids ${id#+}\";; \
                     *) left=; for one in $ids; do [ \"$one\" = \"${id#-}\" ] || left=\"$left $one\"; done; \
                     ids=$left;; esac; done; kill -9 $ids 2>/dev/null; sleep 1; rm -rf -- \"$0\"";

/// One of the servers.
struct Server {
    name: &'static str,
    command: Command,
    /// `None` while the scenario has killed it.
    process: Option<Child>,
}

/// Processes that end when this value is dropped, newest first.
pub(super) struct Children {
    assets: Assets,
    folder: PathBuf,
    guard: Mutex<Child>,
    servers: Mutex<Vec<Server>>,
}

impl Children {
    pub(super) fn new(assets: &Assets, folder: &Path) -> Result<Self> {
        let guard = Command::new("sh")
            .args(["-c", GUARD])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start sh")?;
        let (guard, servers) = (Mutex::new(guard), Mutex::default());
        Ok(Self { assets: assets.clone(), folder: folder.to_owned(), guard, servers })
    }

    /// A command for one of the server binaries.
    pub(super) fn command(&self, program: &str) -> Command {
        Command::new(self.assets.folder.join(program))
    }

    /// Starts a server with its output in a file.
    pub(super) fn start(&mut self, name: &'static str, mut command: Command) -> Result<()> {
        let log = File::create(self.log(name)).with_context(|| format!("cannot write a log for {name}"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone().context("cannot share the log")?).stderr(log);
        let mut server = Server { name, command, process: None };
        self.spawn(&mut server)?;
        lock(&self.servers).push(server);
        Ok(())
    }

    fn spawn(&self, server: &mut Server) -> Result<()> {
        let child = server
            .command
            .spawn()
            .with_context(|| format!("cannot start {}", server.command.get_program().to_string_lossy()))?;
        let id = child.id();
        server.process = Some(child);
        self.write_to_guard(&format!("+{id}"))
    }

    fn write_to_guard(&self, word: &str) -> Result<()> {
        let mut guard = lock(&self.guard);
        writeln!(guard.stdin.as_mut().context("the guard has no input")?, "{word}")
            .context("the guard is gone")
    }

    /// Kills a server with SIGKILL, like a crash. Returns after it has ended.
    pub(super) fn kill(&self, name: &str) -> Result<()> {
        let mut servers = lock(&self.servers);
        let server = named(&mut servers, name)?;
        let mut process = server.process.take().with_context(|| format!("{name} does not run"))?;
        process.kill().with_context(|| format!("cannot kill {name}"))?;
        process.wait().with_context(|| format!("cannot wait for {name}"))?;
        self.write_to_guard(&format!("-{}", process.id()))
    }

    /// Restarts a server with the same command. It appends to the same log.
    pub(super) fn start_again(&self, name: &str) -> Result<()> {
        let mut servers = lock(&self.servers);
        let server = named(&mut servers, name)?;
        if server.process.is_some() {
            bail!("{name} runs already");
        }
        self.spawn(server)
    }

    /// The process ID of a server that runs.
    pub(super) fn id(&self, name: &str) -> Result<u32> {
        let mut servers = lock(&self.servers);
        let process = named(&mut servers, name)?.process.as_ref();
        Ok(process.with_context(|| format!("{name} does not run"))?.id())
    }

    /// Fails if a server has ended by itself.
    pub(super) fn check(&self) -> Result<()> {
        for server in lock(&self.servers).iter_mut() {
            let Some(status) = server.process.as_mut().map(Child::try_wait).transpose()?.flatten() else {
                continue;
            };
            let name = server.name;
            let log = fs::read_to_string(self.log(name)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(15)..].join("\n");
            bail!("{name} has ended ({status}):\n{end}");
        }
        Ok(())
    }

    /// The minor version, 20 for `v1.20.2`.
    pub(super) fn minor(&self) -> u32 {
        minor(&self.assets.version)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

fn named<'a>(servers: &'a mut [Server], name: &str) -> Result<&'a mut Server> {
    servers.iter_mut().find(|server| server.name == name).with_context(|| format!("there is no {name}"))
}

impl Drop for Children {
    fn drop(&mut self) {
        for server in lock(&self.servers).iter_mut().rev() {
            let Some(process) = &mut server.process else { continue };
            // It may have ended already. SIGKILL is safe, since its data is deleted too.
            drop(process.kill());
            drop(process.wait());
        }
        // Before its input closes: other processes may have these IDs by then.
        let mut guard = lock(&self.guard);
        drop(guard.kill());
        drop(guard.wait());
    }
}
