//! Every case that once broke a promise, each in a file of its own, named by what the controller did there.

#![allow(clippy::unwrap_used, reason = "a case that cannot be read or played proves nothing")]

use std::fs;
use std::path::Path;

use faults::judge::judge;
use faults::{Case, run};

#[test]
fn no_case_that_once_broke_a_promise_breaks_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let case: Case = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let log = run(&case).unwrap();
        let violations = judge(&case, &log);
        wrong.extend(violations.iter().map(|violation| format!("{}: {violation}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
