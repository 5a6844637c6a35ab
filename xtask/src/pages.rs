//! The README lists every page of the documentation, and the tests that a page names exist.

use std::fs;
use std::process::Command;

use crate::process::{capture, top};

#[test]
fn the_readme_lists_every_page() {
    let readme = fs::read_to_string(top().join("README.md")).unwrap();
    let tables: String = readme.lines().filter(|line| line.starts_with('|')).collect();
    let entries = fs::read_dir(top().join("docs")).unwrap();
    let pages = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"));
    let names = pages.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    let missing: Vec<String> = names.filter(|name| !tables.contains(&format!("](docs/{name})"))).collect();
    assert_eq!(missing, [""; 0], "the README's tables do not list these");
}

#[test]
fn every_test_and_case_that_the_page_about_reliability_names_exists() {
    let page = fs::read_to_string(top().join("docs/reliability.md")).unwrap();
    let names = page.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2);
    let git = |arguments: &[&str]| capture(Command::new("git").current_dir(top()).args(arguments));
    let is_there = |name: &str| {
        git(&["grep", "-lw", name, "--", "*.rs"]).is_ok()
            || git(&["ls-files", &format!("*{name}")]).is_ok_and(|found| !found.is_empty())
    };
    let missing: Vec<&str> = names.filter(|name| !is_there(name)).collect();
    assert_eq!(missing, [""; 0]);
}
