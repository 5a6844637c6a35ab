//! The lines of the tracked Rust files: of the product, of its tests, and of what proves it. Blank lines and
//! comments count.

use std::fs;
use std::ops::AddAssign;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{top, tracked};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    product: usize,
    tests: usize,
    proof: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.product += other.product;
        self.tests += other.tests;
        self.proof += other.proof;
    }
}

impl Lines {
    fn print(self, name: &str) {
        let Self { product, tests, proof } = self;
        println!("{name:<22}{product:>9}{tests:>9}{proof:>9}{:>9}", product + tests + proof);
    }
}

/// `cargo xtask lines`: prints them for each crate and in all.
pub(crate) fn print() -> Result<()> {
    let mut all = Lines::default();
    let mut crates: Vec<(String, Lines)> = Vec::new();
    for file in tracked()?.iter().filter(|file| Path::new(file).extension().is_some_and(|it| it == "rs")) {
        let text = fs::read_to_string(top().join(file)).with_context(|| format!("cannot read {file}"))?;
        let lines = of(file, &text);
        let name = file.split('/').take(if file.starts_with("crates/") { 2 } else { 1 });
        let name = name.collect::<Vec<_>>().join("/");
        all += lines;
        match crates.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += lines,
            None => crates.push((name, lines)),
        }
    }
    println!("{:<22}{:>9}{:>9}{:>9}{:>9}", "", "product", "tests", "proof", "all");
    for (name, lines) in crates {
        lines.print(&name);
    }
    all.print("all");
    Ok(())
}

/// The lines of this file. What lies in `crates` is the product, except for tests.
fn of(file: &str, text: &str) -> Lines {
    let all = text.lines().count();
    if !file.starts_with("crates/") {
        return Lines { proof: all, ..Lines::default() };
    }
    let is_test = Path::new(file).iter().any(|part| {
        let name = part.to_string_lossy();
        ["tests", "benches", "tests.rs", "testing.rs", "testing"].contains(&&*name)
    });
    let tests = if is_test { all } else { in_tests(text) };
    Lines { product: all - tests, tests, proof: 0 }
}

/// The lines of the modules that only tests have. rustfmt ends a module of a file with a brace at the start
/// of a line.
fn in_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines.windows(2).enumerate().filter(|(_, pair)| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    });
    let length = |begin: usize| lines[begin..].iter().position(|line| *line == "}").map_or(0, |end| end + 1);
    begins.map(|(begin, _)| length(begin)).sum()
}

#[cfg(test)]
mod tests {
    use super::{Lines, of};

    #[test]
    fn a_module_of_tests_is_no_product() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let lines = |file| of(file, text);
        assert_eq!(lines("crates/api/src/a.rs"), Lines { product: 2, tests: 4, proof: 0 });
        assert_eq!(lines("crates/api/tests/it/a.rs"), Lines { product: 0, tests: 6, proof: 0 });
        assert_eq!(lines("e2e/scenarios/src/a.rs"), Lines { product: 0, tests: 0, proof: 6 });
    }
}
