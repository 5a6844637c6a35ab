//! The servers' processes: started here, ended by id, whatever becomes of the test.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::assets::Assets;

/// Reads process ids until nobody writes any more, which is when the test's own process is gone without having cleaned
/// up (killed, say); then it ends those and removes the folder. Ctrl-C in a terminal reaches it too: it stays.
const GUARD: &str = "trap '' INT TERM HUP; ids=; while read -r id; do ids=\"$ids $id\"; done; \
                     kill -9 $ids 2>/dev/null; sleep 1; rm -rf -- \"$0\"";

/// Processes that end with this value, the youngest first.
pub(super) struct Children {
    assets: Assets,
    folder: PathBuf,
    guard: Child,
    running: Mutex<Vec<(&'static str, Child)>>,
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
        let running = Mutex::default();
        Ok(Self { assets: assets.clone(), folder: folder.to_owned(), guard, running })
    }

    /// One of the servers' programs.
    pub(super) fn command(&self, program: &str) -> Command {
        Command::new(self.assets.folder.join(program))
    }

    /// Starts it with its output in a file.
    pub(super) fn start(&mut self, name: &'static str, mut command: Command) -> Result<()> {
        let log = File::create(self.log(name)).with_context(|| format!("cannot write a log for {name}"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("cannot share the log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let id = child.id();
        self.running.get_mut().unwrap_or_else(PoisonError::into_inner).push((name, child));
        let guard = self.guard.stdin.as_mut().context("the guard has no input")?;
        writeln!(guard, "{id}").context("the guard is gone")
    }

    /// Fails if one has ended by itself.
    pub(super) fn check(&self) -> Result<()> {
        for (name, child) in self.running.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if let Some(status) = child.try_wait()? {
                let log = fs::read_to_string(self.log(name)).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(15)..].join("\n");
                bail!("{name} has ended ({status}):\n{end}");
            }
        }
        Ok(())
    }

    /// The minor version, 20 for `v1.20.2`.
    pub(super) fn minor(&self) -> u32 {
        self.assets.version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or_default()
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in self.running.get_mut().unwrap_or_else(PoisonError::into_inner).iter_mut().rev() {
            // It may have ended already. Its data dies with it, so nothing is lost by force.
            drop(child.kill());
            drop(child.wait());
        }
        // Before its input ends: those ids may be somebody else's by then.
        drop(self.guard.kill());
        drop(self.guard.wait());
        if let (true, Some(keep)) = (std::thread::panicking(), std::env::var_os("E2E_KEEP_LOGS")) {
            keep_logs(&self.folder, Path::new(&keep));
        }
    }
}

/// Copies logs of a failed scenario to where they outlive it.
fn keep_logs(from: &Path, to: &Path) {
    let into = to.join(from.file_name().unwrap_or_default());
    // Best effort: the test fails anyway, for a better reason.
    drop(fs::create_dir_all(&into));
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            drop(fs::copy(entry.path(), into.join(entry.file_name())));
        }
    }
}
