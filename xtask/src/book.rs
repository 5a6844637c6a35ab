//! The documentation as a site, by mdBook. Its pages are the README and those that the README's tables list.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{run, top};
use crate::tools::MDBOOK;

/// Where links lead that leave the documentation.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

const CONFIG: &str = "\
[book]
title = \"OrderedDeployment\"
language = \"en\"

[output.html]
git-repository-url = \"{}\"
";

/// Builds the site into `target/book/html`.
pub(crate) fn build() -> Result<()> {
    let folder = top().join("target/book");
    let pages = folder.join("src");
    if pages.exists() {
        fs::remove_dir_all(&pages).with_context(|| format!("cannot remove {}", pages.display()))?;
    }
    copy(&top().join("docs"), &pages)?;
    let readme = fs::read_to_string(top().join("README.md")).context("cannot read README.md")?;
    fs::write(pages.join("introduction.md"), of_readme(&readme))?;
    fs::write(pages.join("SUMMARY.md"), summary(&readme, |page| title(&pages.join(page)))?)?;
    fs::write(folder.join("book.toml"), CONFIG.replace("{}", REPOSITORY))?;
    // mdBook takes a relative folder from the current one, not from that of the book.
    let html = folder.join("html");
    run(Command::new(MDBOOK.find()?).arg("build").arg(&folder).arg("--dest-dir").arg(&html))?;
    println!("{}", html.join("index.html").display());
    Ok(())
}

/// Copies the pages and the files that they link to. Links to files outside lead to the repository.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else if is_page(&path) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            fs::write(&target, text.replace("](../", &format!("]({REPOSITORY}/blob/main/")))?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// The README as the first page.
fn of_readme(readme: &str) -> String {
    let mut page = String::new();
    let mut rest = readme;
    while let Some((before, after)) = rest.split_once("](") {
        let (link, tail) = after.split_once(')').unwrap_or((after, ""));
        let link = match link.strip_prefix("docs/") {
            Some(inside) => inside.to_owned(),
            None if link.contains("://") || link.starts_with('#') => link.to_owned(),
            None => format!("{REPOSITORY}/blob/main/{link}"),
        };
        // Writing to a String cannot fail.
        let _ = write!(page, "{before}]({link})");
        rest = tail;
    }
    page.push_str(rest);
    page.replace("\"docs/images/", "\"images/")
}

/// The table of contents: the headings and pages of the README's tables.
fn summary(readme: &str, title: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut text = "# Summary\n\n[OrderedDeployment](introduction.md)\n".to_owned();
    for line in readme.lines() {
        if let Some(heading) = line.strip_prefix("**").and_then(|line| line.strip_suffix("**")) {
            let _ = write!(text, "\n# {heading}\n\n");
        }
        if line.starts_with('|') {
            for page in pages(line) {
                let _ = writeln!(text, "- [{}]({page})", title(page)?);
            }
        }
    }
    Ok(text)
}

/// The pages of `docs` that a line links to.
fn pages(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter_map(|link| link.strip_prefix("docs/")).filter(|page| is_page(Path::new(page)))
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// The first heading of a page.
fn title(page: &Path) -> Result<String> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    match text.lines().find_map(|line| line.strip_prefix("# ")) {
        Some(title) => Ok(title.to_owned()),
        None => bail!("{} has no heading", page.display()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use std::path::Path;

    use super::{REPOSITORY, is_page, of_readme, pages, summary};
    use crate::process::top;

    #[test]
    fn the_readme_lists_every_page() {
        let readme = fs::read_to_string(top().join("README.md")).unwrap();
        let listed: BTreeSet<String> = readme.lines().flat_map(pages).map(str::to_owned).collect();
        let entries = fs::read_dir(top().join("docs")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = names.filter(|name| is_page(Path::new(name))).collect();
        let missing: Vec<&String> = there.iter().filter(|page| !listed.contains(*page)).collect();
        assert!(missing.is_empty(), "the README's tables list no {missing:?}");
    }

    #[test]
    fn links_lead_to_pages_of_the_site_or_to_the_repository() {
        let readme = "[a](docs/a.md) [b](LICENSE) [c](https://example.org) <img src=\"docs/images/x.svg\">";
        let expected = format!(
            "[a](a.md) [b]({REPOSITORY}/blob/main/LICENSE) [c](https://example.org) <img src=\"images/x.svg\">"
        );
        assert_eq!(of_readme(readme), expected);
        let text =
            summary("**Start**\n| x | [docs/a.md](docs/a.md) |\n", |page| Ok(page.to_uppercase())).unwrap();
        assert!(text.ends_with("\n# Start\n\n- [A.MD](a.md)\n"), "{text}");
    }
}
