//! Each oracle has a mutant of the controller that it must catch. `cargo xtask mutants` checks that it does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use faults::names;

#[test]
fn every_oracle_has_a_mutant_that_names_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let patches = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mutants = patches.filter(|path| !path.ends_with("switch.patch"));
    let named: BTreeSet<String> = mutants
        .map(|path| (fs::read_to_string(&path).unwrap(), path))
        // Mutants of the exploration, and of the test with random users.
        .filter(|(patch, _)| !patch.starts_with("Found by "))
        .flat_map(|(patch, path)| {
            let line =
                patch.lines().next().and_then(|line| line.strip_prefix("Caught by ")?.strip_suffix('.'));
            let line = line.unwrap_or_else(|| panic!("{} does not say who catches it", path.display()));
            line.split(", ").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let unnamed: Vec<&str> = names().filter(|oracle| !named.contains(*oracle)).collect();
    assert_eq!(unnamed, Vec::<&str>::new(), "no mutant names these oracles");
    let known: BTreeSet<&str> = names().chain(ordereddeployment_oracle::names()).collect();
    let unknown: Vec<&String> = named.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "there are no such oracles");
}
