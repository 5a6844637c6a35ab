//! Every oracle must be able to see: each has a mutant of the controller that it is to catch (`cargo xtask mutants` has it do so).

#![allow(clippy::unwrap_used, reason = "a mutant that cannot be read is none")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use faults::judge::oracles;

#[test]
fn every_oracle_has_a_mutant_that_names_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let patches = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mutants = patches.filter(|path| !path.ends_with("switch.patch"));
    let named: BTreeSet<String> = mutants
        .map(|path| (fs::read_to_string(&path).unwrap(), path))
        // The exploration's own.
        .filter(|(patch, _)| !patch.starts_with("Found by exploring, by "))
        .flat_map(|(patch, path)| {
            let line =
                patch.lines().next().and_then(|line| line.strip_prefix("Caught by ")?.strip_suffix('.'));
            let line = line.unwrap_or_else(|| panic!("{} does not say who catches it", path.display()));
            line.split(", ").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(named, oracles().map(str::to_owned).collect());
}
