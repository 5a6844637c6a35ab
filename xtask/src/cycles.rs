//! Import cycles between the modules of a crate, and between its folders. A file is a module, and a module
//! with children is a folder: a use of any file of it is a use of the folder. Every path from one module to
//! another counts as a use, outside `cfg(test)`; the `mod` and `pub use` of a parent do not. A path to a name
//! that a module re-exports is a use of the module that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

use crate::dependencies::manifests;
use crate::process::top;

/// A module, as the names from the crate's root; the root itself has none.
type Module = Vec<String>;

/// The uses between the modules of a crate.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// The names that modules import or re-export, with the path of each.
type Imports = BTreeMap<(Module, String), Vec<String>>;

/// The cycles of every crate of the workspace, each as a line of modules that use the next one.
pub(crate) fn find() -> Result<Vec<String>> {
    let mut found = Vec::new();
    let manifests = manifests("crates")?.into_iter().chain(manifests("e2e")?);
    for folder in
        manifests.chain([top().join("xtask/Cargo.toml")]).map(|manifest| manifest.with_file_name(""))
    {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for root in ["lib.rs", "main.rs"] {
            let file = folder.join("src").join(root);
            if file.exists() {
                let mut sources = BTreeMap::new();
                read(&file, &folder.join("src"), Module::new(), &mut sources)?;
                found.extend(
                    all_cycles(&uses(&sources)).iter().map(|cycle| format!("{name}: {}", line(cycle))),
                );
            }
        }
    }
    Ok(found)
}

fn line(cycle: &[Module]) -> String {
    let name = |module: &Module| if module.is_empty() { "crate".to_owned() } else { module.join("::") };
    let mut names: Vec<String> = cycle.iter().map(name).collect();
    names.extend(names.first().cloned());
    names.join(" -> ")
}

/// Reads a file and the files of its modules.
fn read(file: &Path, folder: &Path, module: Module, sources: &mut BTreeMap<Module, syn::File>) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let source = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
    for item in &source.items {
        let Item::Mod(child) = item else { continue };
        // A file with a `path` attribute belongs to another program too.
        let lies_elsewhere = child.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
        if child.content.is_some() || is_test(&child.attrs) || lies_elsewhere {
            continue;
        }
        let name = child.ident.to_string();
        let (beside, within) = (folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs"));
        let path: PathBuf = if beside.exists() { beside } else { within };
        let mut names = module.clone();
        names.push(name.clone());
        read(&path, &folder.join(name), names, sources)?;
    }
    sources.insert(module, source);
    Ok(())
}

/// Whether an item exists only in tests.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test")))
    })
}

fn uses(sources: &BTreeMap<Module, syn::File>) -> Uses {
    let modules: BTreeSet<Module> = sources.keys().cloned().collect();
    let imports = imports(sources);
    let paths = |(module, source): (&Module, &syn::File)| {
        let mut reader = Reader { module, modules: &modules, imports: &imports, used: BTreeSet::new() };
        reader.visit_file(source);
        (module.clone(), reader.used)
    };
    sources.iter().map(paths).collect()
}

/// The names that each module imports, private ones included: its children can use these too.
fn imports(sources: &BTreeMap<Module, syn::File>) -> Imports {
    let mut imports = Imports::new();
    for (module, source) in sources {
        for item in &source.items {
            let Item::Use(item) = item else { continue };
            if !is_test(&item.attrs) {
                names(&item.tree, &[], &mut |name, path| {
                    imports.insert((module.clone(), name), path);
                });
            }
        }
    }
    imports
}

/// Passes on each name of a `use` with its path.
fn names(tree: &UseTree, before: &[String], found: &mut impl FnMut(String, Vec<String>)) {
    let with = |name: String| before.iter().cloned().chain([name]).collect::<Vec<_>>();
    match tree {
        UseTree::Path(path) => names(&path.tree, &with(path.ident.to_string()), found),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, before, found)),
        UseTree::Name(name) if name.ident == "self" => {
            found(before.last().cloned().unwrap_or_default(), before.to_vec());
        }
        UseTree::Name(name) => found(name.ident.to_string(), with(name.ident.to_string())),
        UseTree::Rename(name) => found(name.rename.to_string(), with(name.ident.to_string())),
        UseTree::Glob(_) => found("*".to_owned(), before.to_vec()),
    }
}

struct Reader<'a> {
    module: &'a Module,
    modules: &'a BTreeSet<Module>,
    imports: &'a Imports,
    used: BTreeSet<Module>,
}

impl Reader<'_> {
    /// Records the module that a path leads to.
    fn note(&mut self, path: &[String]) {
        if let Some(module) = self.resolve(self.module, path, 0).filter(|module| module != self.module) {
            self.used.insert(module);
        }
    }

    /// The module of this crate that defines what a path in `from` leads to.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let mut at = match path.first().map(String::as_str)? {
            "crate" => Module::new(),
            "self" => from.clone(),
            "super" => from[..from.len().saturating_sub(1)].to_vec(),
            first => {
                let mut child = from.clone();
                child.push(first.to_owned());
                if !self.modules.contains(&child) {
                    return None;
                }
                child
            }
        };
        for (index, name) in path.iter().enumerate().skip(1) {
            if name == "super" {
                at.pop();
                continue;
            }
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains(&child) {
                at = child;
                continue;
            }
            if let Some(import) = self.imports.get(&(at.clone(), name.clone())).filter(|_| depth < 8) {
                let whole: Vec<String> = import.iter().chain(&path[index + 1..]).cloned().collect();
                // A name of another crate that the module imports leads out of this one.
                return self.resolve(&at, &whole, depth + 1);
            }
            break;
        }
        Some(at)
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        // A parent re-exports items of its children.
        if matches!(item.vis, Visibility::Inherited) {
            names(&item.tree, &[], &mut |_, path| self.note(&path));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.note(&names);
        }
        visit::visit_path(self, path);
    }
}

/// One cycle for each group of modules that use each other, the shortest one through its first module.
fn cycles(uses: &Uses) -> Vec<Vec<Module>> {
    let mut found = Vec::new();
    let mut done: BTreeSet<&Module> = BTreeSet::new();
    for start in uses.keys() {
        let Some(cycle) = shortest(uses, start, &done) else { continue };
        done.insert(start);
        found.push(cycle);
    }
    found
}

/// The cycles of files, and those of folders.
fn all_cycles(uses: &Uses) -> Vec<Vec<Module>> {
    let files = cycles(uses);
    let folders = cycles_of_folders(uses, &files);
    files.into_iter().chain(folders).collect()
}

/// The cycles between modules with one parent that have files which use files of each other, but for those
/// that a cycle of files is.
fn cycles_of_folders(uses: &Uses, files: &[Vec<Module>]) -> Vec<Vec<Module>> {
    let parents: BTreeSet<&[String]> =
        uses.keys().flat_map(|module| (0..module.len()).map(|at| &module[..at])).collect();
    let mut found = Vec::new();
    for parent in parents {
        let depth = parent.len();
        let mut between = Uses::new();
        for (from, used) in uses.iter().filter(|(from, _)| from.len() > depth && from.starts_with(parent)) {
            let to = used
                .iter()
                .filter(|to| to.len() > depth && to.starts_with(parent) && to[depth] != from[depth]);
            between.entry(from[..=depth].to_vec()).or_default().extend(to.map(|to| to[..=depth].to_vec()));
        }
        found.extend(cycles(&between));
    }
    found.retain(|cycle| {
        let of = |module: &Module| cycle.iter().find(|folder| module.starts_with(folder));
        let is_same = |files: &Vec<Module>| {
            let folders: Option<BTreeSet<&Module>> = files.iter().map(of).collect();
            folders.is_some_and(|folders| folders.len() == cycle.len())
        };
        !files.iter().any(is_same)
    });
    found
}

/// The shortest path from a module back to itself, without modules whose cycles are known.
fn shortest(uses: &Uses, start: &Module, done: &BTreeSet<&Module>) -> Option<Vec<Module>> {
    let mut ways: Vec<Vec<&Module>> = vec![vec![start]];
    let mut seen: BTreeSet<&Module> = BTreeSet::new();
    let mut at = 0;
    while let Some(way) = ways.get(at).cloned() {
        at += 1;
        for next in uses.get(*way.last()?)? {
            if next == start {
                return Some(way.into_iter().cloned().collect());
            }
            if !done.contains(next) && seen.insert(next) {
                ways.push(way.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_modules_use_each_other_in_a_cycle() {
        assert_eq!(find().unwrap(), [""; 0]);
    }

    fn module(name: &str) -> Module {
        name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let parsed = files.iter().map(|(name, text)| (module(name), syn::parse_file(text).unwrap()));
        all_cycles(&uses(&parsed.collect())).iter().map(|cycle| line(cycle)).collect()
    }

    #[test]
    fn folders_whose_files_use_each_other_are_a_cycle() {
        let folders = [
            ("a", "mod one; mod two;"),
            ("a::one", "use crate::b::one::B;"),
            ("a::two", ""),
            ("b", "mod one; mod two;"),
        ];
        let files = |of_b| [&folders[..], &[("b::one", ""), ("b::two", of_b)]].concat();
        assert_eq!(found(&files("use crate::a::two::A;")), ["a -> b -> a"]);
        assert_eq!(found(&files("use super::one::B;")), [""; 0]);
    }

    #[test]
    fn modules_that_use_each_other_are_found_for_every_form_of_path() {
        for (one, two) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use crate::{b::{self}};", "fn f(x: crate::a::A) {}"),
            ("use super::b::*;", "impl super::a::T for B {}"),
        ] {
            assert_eq!(found(&[("a", one), ("b", two)]), ["a -> b -> a"], "{one} {two}");
        }
        let ring = [("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", "use crate::a::A;")];
        assert_eq!(found(&ring), ["a -> b -> c -> a"]);
    }

    #[test]
    fn a_child_that_uses_its_parent_is_a_cycle_only_if_the_parent_uses_it() {
        let child = ("a::b", "use super::A;");
        assert_eq!(found(&[("a", "mod b; pub(crate) use b::B; pub struct A;"), child]), [""; 0]);
        assert_eq!(found(&[("a", "mod b; use b::B; pub struct A;"), child]), ["a -> a::b -> a"]);
        assert_eq!(found(&[("a", "mod b; pub struct A(b::B);"), child]), ["a -> a::b -> a"]);
    }

    #[test]
    fn a_path_to_a_name_that_is_exported_again_leads_to_its_module() {
        let root = ("", "mod a; mod b; pub use b::{self, B}; pub use c::C as D; mod c;");
        assert_eq!(found(&[root, ("a", "use crate::B;"), ("b", "use crate::a::A;")]), ["a -> b -> a"]);
        assert_eq!(found(&[root, ("a", "use crate::D;"), ("c", "use super::a::A;")]), ["a -> c -> a"]);
        let facade = ("d", "pub(crate) use e::E;");
        let child = ("d::e", "use crate::a::A;");
        assert_eq!(found(&[("a", "fn f(e: &crate::d::E) {}"), facade, child]), ["a -> d::e -> a"]);
        assert_eq!(found(&[("a", "use crate::E;"), ("", "use serde::E; use a::A;")]), [""; 0]);
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let tests = "#[cfg(test)] mod tests { use crate::a::A; } #[test] fn t() { crate::a::a() }";
        assert_eq!(found(&[("a", "use crate::b::B;"), ("b", tests)]), [""; 0]);
        assert_eq!(found(&[("a", "use std::b::B; use b::B;"), ("b", "use crate::a::A;")]), [""; 0]);
    }
}
