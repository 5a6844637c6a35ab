//! The folder for what the tasks fetch and build, outside the checkout. Entries are created atomically, are
//! named by version and never change afterwards, so that two checkouts can share them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// `${XDG_CACHE_HOME:-$HOME/.cache}/ordereddeployment`.
pub(crate) fn root() -> Result<PathBuf> {
    // The specification of XDG_CACHE_HOME says to ignore relative paths.
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = match set {
        Some(path) => path,
        None => PathBuf::from(
            std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set; set one")?,
        )
        .join(".cache"),
    };
    Ok(base.join("ordereddeployment"))
}

/// The entry with this name; if it does not exist, `build` fills an empty folder that becomes the entry.
pub(crate) fn entry(name: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let entry = root()?.join(name);
    if entry.is_dir() {
        return Ok(entry);
    }
    eprintln!("To be fetched or built: {name}, into {}.", entry.display());
    let scratch = Scratch::new(name)?;
    build(scratch.path())?;
    if let Err(error) = fs::rename(scratch.path(), &entry)
        && !entry.is_dir()
    {
        return Err(error).with_context(|| format!("cannot move the finished {name} to {}", entry.display()));
    }
    Ok(entry)
}

/// An entry that a function fetches or builds.
pub(crate) struct Download {
    /// Its name.
    pub(crate) entry: &'static str,
    /// Fills an empty folder.
    pub(crate) fetch: fn(&Path) -> Result<()>,
    /// What a user can do if that fails.
    pub(crate) hint: &'static str,
}

impl Download {
    /// The folder of the entry.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        entry(self.entry, self.fetch).context(self.hint)
    }
}

/// A folder of this process inside the cache, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let folder = root()?.join("tmp");
        clear_leftovers(&folder);
        let path = folder.join(format!("{name}-{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot clear {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| {
            format!("cannot create {}; set XDG_CACHE_HOME to a folder that you can write to", path.display())
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: a leftover costs space, not correctness, and the next process with this id removes it.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Removes what interrupted processes left: the folder of a build has gigabytes.
fn clear_leftovers(folder: &Path) {
    if !Path::new("/proc/self").exists() {
        return; // Cannot tell which processes still run.
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let id = name.rsplit_once('-').and_then(|(_, id)| id.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            // Best effort, as in `Drop`.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}
