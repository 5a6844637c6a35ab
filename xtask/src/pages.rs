//! The README lists every page of the documentation.

use std::fs;

use crate::process::top;

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
