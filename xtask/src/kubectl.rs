//! A kubectl with `--subresource`. It sends no requests to a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::cache;
use crate::process::{capture, find_in_path};

/// The first version that reads OpenAPI v3. The sandbox's v2 is empty.
const OLDEST: (u32, u32) = (1, 27);
/// The oldest Debian suite whose kubectl is new enough.
const SUITE: &str = "trixie";
const ENTRY: &str = "kubectl-trixie";

/// What `find` will do, for the announcement; `None` if nothing needs to be fetched.
pub(crate) fn announcement() -> Result<Option<String>> {
    if std::env::var_os("KUBECTL").is_some()
        || usable_in_path().is_some()
        || cache::existing(ENTRY)?.is_some()
    {
        return Ok(None);
    }
    let place = cache::root()?.join(ENTRY);
    Ok(Some(format!("kubectl, out of Debian {SUITE}'s package, unpacked to {}", place.display())))
}

/// `KUBECTL`, else the one in PATH if new enough, else Debian's, unpacked into the cache.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os("KUBECTL") {
        let path = PathBuf::from(set);
        let (major, minor) =
            version(&path).context("KUBECTL is not a kubectl that runs; set it to one, or unset it")?;
        if (major, minor) < OLDEST {
            bail!("KUBECTL is kubectl {major}.{minor}; 1.27 or newer is needed: set it to one, or unset it");
        }
        return Ok(path);
    }
    if let Some(path) = usable_in_path() {
        return Ok(path);
    }
    let entry = cache::entry(ENTRY, |folder| {
        let scratch = cache::Scratch::new("kubectl-packages")?;
        let apt = Apt::new(scratch.path(), SUITE)?;
        let unpacked = scratch.path().join("unpacked");
        apt.unpack(&["kubectl".to_owned()], &unpacked)?;
        fs::copy(unpacked.join("usr/bin/kubectl"), folder.join("kubectl")).context("cannot copy kubectl")?;
        version(&folder.join("kubectl")).map(drop)
    })
    .context("no kubectl 1.27 or newer: install one, or set KUBECTL to one")?;
    Ok(entry.join("kubectl"))
}

fn usable_in_path() -> Option<PathBuf> {
    let path = find_in_path("kubectl")?;
    let found = version(&path).ok()?;
    (found >= OLDEST).then_some(path)
}

fn version(kubectl: &Path) -> Result<(u32, u32)> {
    let said = capture(Command::new(kubectl).args(["version", "--client", "--output=json"]))?;
    parse(&said).with_context(|| format!("{} printed no version", kubectl.display()))
}

/// Major and minor version from `"gitVersion": "v1.32.3"`.
fn parse(json: &str) -> Option<(u32, u32)> {
    let rest = json.split_once("\"gitVersion\"")?.1.split_once("\"v")?.1;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn major_and_minor_are_read_from_the_client_version() {
        let said = "{\n  \"clientVersion\": {\n    \"major\": \"1\",\n    \"gitVersion\": \"v1.32.4-dispatcher\"\n  }\n}";
        assert_eq!(parse(said), Some((1, 32)));
        assert_eq!(parse("{}"), None);
    }
}
