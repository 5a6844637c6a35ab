//! Packages of the npm registry that this machine uses. A package is accepted only with the hash that was
//! reviewed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::process::{find_in_path, run_logged};

/// A package without dependencies.
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The hash of the reviewed package. npm accepts no other one.
    pub(crate) integrity: &'static str,
}

impl Package {
    /// Fetches it into this empty folder, and returns the folder of its files. None of its scripts runs.
    pub(crate) fn fetch(&self, folder: &Path) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        if find_in_path("npm").is_none() {
            bail!("{name} is an npm package, and there is no npm here: install it (Debian's package npm)");
        }
        // A lock file tells npm the expected content. It names no registry: this machine's registry is used.
        let (manifest, lock) = self.manifests();
        fs::write(folder.join("package.json"), manifest)?;
        fs::write(folder.join("package-lock.json"), lock)?;
        let mut npm = Command::new("npm");
        npm.current_dir(folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        run_logged(&mut npm, &folder.join("npm.log"))
            .with_context(|| format!("npm cannot fetch {name} {version}"))?;
        Ok(folder.join("node_modules").join(name))
    }

    fn manifests(&self) -> (String, String) {
        let Self { name, version, integrity } = self;
        let wanted = json!({"name": "fetched", "version": "0.0.0", "dependencies": {*name: version}});
        let lock = json!({
            "name": "fetched", "version": "0.0.0", "lockfileVersion": 3, "requires": true,
            "packages": {
                "": wanted,
                format!("node_modules/{name}"): {"version": version, "integrity": integrity},
            },
        });
        (wanted.to_string(), lock.to_string())
    }
}
