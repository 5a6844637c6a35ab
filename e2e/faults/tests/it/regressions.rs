//! Cases that broke a promise in the past. The name of each file says what must hold.

use std::fs;
use std::path::Path;

use faults::{Case, check, run};

#[test]
fn no_regression_breaks_a_promise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let case: Case = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let log = run(&case).unwrap();
        let violations = check(&case, &log);
        wrong.extend(violations.iter().map(|violation| format!("{}: {violation}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
