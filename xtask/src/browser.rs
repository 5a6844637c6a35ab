//! Chromium with its driver, and an accessibility checker, for the tests of the dashboard of the command
//! line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::cache::{Download, Scratch};
use crate::npm::Package;
use crate::process::{capture, find_in_path};
use crate::programs::{is_set, write_script};

/// The oldest Debian suite in use: its programs run on newer ones too.
const SUITE: &str = "bookworm";
const BROWSER: Download = Download {
    entry: "chromium-bookworm",
    fetch,
    hint: "no Chromium: set CHROMIUM to it and CHROMEDRIVER to its driver",
};
const PROGRAMS: [&str; 3] = ["chromium", "chromium-common", "chromium-driver"];
/// Minimal machines have no font.
const FONT: &str = "fonts-dejavu-core";
/// Checks pages for accessibility. A test runs it; it is no part of a program.
const AXE: Package = Package {
    name: "axe-core",
    version: "4.14.1",
    integrity: "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
};

const CHECKER: Download = Download {
    entry: "axe-core-4.14.1",
    fetch: |folder| {
        let scratch = Scratch::new("axe-package")?;
        let script = AXE.fetch(scratch.path())?.join("axe.min.js");
        fs::copy(script, folder.join("axe.min.js")).map(drop).context("the package has no axe.min.js")
    },
    hint: "no axe-core: set AXE to its script",
};

/// The unpacked programs find their libraries and fonts by these variables.
const CHROMIUM: &str = "#!/bin/sh
root=$(dirname \"$0\")/../root
libraries=$(echo \"$root\"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH=$libraries:$libraries/pulseaudio:$(echo \"$root\"/lib/*-linux-gnu)
export FONTCONFIG_FILE=\"$root/../fonts.conf\"
exec \"$root/usr/lib/chromium/chromium\" \"$@\"
";
const DRIVER: &str = "#!/bin/sh
root=$(dirname \"$0\")/../root
export LD_LIBRARY_PATH=$(echo \"$root\"/usr/lib/*-linux-gnu):$(echo \"$root\"/lib/*-linux-gnu)
exec \"$root/usr/bin/chromedriver\" \"$@\"
";
const FONTS: &str = "<?xml version=\"1.0\"?>
<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">
<fontconfig>
  <dir prefix=\"relative\">root/usr/share/fonts</dir>
  <cachedir prefix=\"xdg\">fontconfig</cachedir>
</fontconfig>
";

/// The variables of the tests, in the order of their names.
type Variables = Vec<(&'static str, PathBuf)>;

/// The browser as variables of the tests: `CHROMIUM`, `CHROMEDRIVER` and `AXE`. Variables that are set stay.
/// Without a browser and without apt-get there are none, and the tests leave the page out.
pub(crate) fn find() -> Result<Variables> {
    let mut variables = Vec::new();
    if can_fetch() {
        let bin = BROWSER.find()?.join("bin");
        variables.extend([("CHROMIUM", bin.join("chromium")), ("CHROMEDRIVER", bin.join("chromedriver"))]);
    }
    if can_check() {
        variables.push(("AXE", CHECKER.find()?.join("axe.min.js")));
    }
    Ok(variables)
}

/// Prints the variables for a shell.
pub(crate) fn print() -> Result<()> {
    for (variable, path) in find()? {
        println!("export {variable}={}", path.display());
    }
    Ok(())
}

/// Whether the browser comes from the packages.
fn can_fetch() -> bool {
    !(is_set("CHROMIUM") && is_set("CHROMEDRIVER")) && find_in_path("apt-get").is_some()
}

fn can_check() -> bool {
    !is_set("AXE") && find_in_path("npm").is_some()
}

/// Not the runtime of C, which must be that of the machine, and not the desktop, which a browser without a
/// window does not load.
fn is_used(library: &str) -> bool {
    !matches!(library, "libc6" | "libgcc-s1" | "libgtk-3-0")
}

fn fetch(folder: &Path) -> Result<()> {
    let scratch = Scratch::new("chromium-packages")?;
    let apt = Apt::new(scratch.path(), SUITE)?;
    let mut packages = apt.libraries(&PROGRAMS, is_used)?;
    packages.extend(PROGRAMS.iter().chain([&FONT]).map(|name| (*name).to_owned()));
    apt.unpack(&packages, &folder.join("root"))?;
    fs::write(folder.join("fonts.conf"), FONTS)?;
    let bin = folder.join("bin");
    fs::create_dir(&bin)?;
    for (name, text) in [("chromium", CHROMIUM), ("chromedriver", DRIVER)] {
        let script = bin.join(name);
        write_script(&script, text)?;
        capture(Command::new(&script).arg("--version"))?;
    }
    Ok(())
}
