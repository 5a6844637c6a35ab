//! Every oracle must be able to see: each has a mutant of the controller that it is to catch (`cargo xtask mutants` has it do so).

#![allow(clippy::unwrap_used, reason = "a mutant that cannot be read is none")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use faults::judge::oracles;

#[test]
fn every_oracle_has_a_mutant_that_names_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let patches =
        fs::read_dir(folder).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let named: BTreeSet<String> = patches
        .filter_map(|patch| {
            let line = patch.lines().next()?.strip_prefix("Caught by ")?.strip_suffix('.')?;
            Some(line.split(", ").map(str::to_owned).collect::<Vec<_>>())
        })
        .flatten()
        .collect();
    assert_eq!(named, oracles().map(str::to_owned).collect());
}
