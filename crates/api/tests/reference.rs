//! `docs/api.md` is what the definitions and the names in the code say, and `docs/troubleshooting.md` speaks
//! of every reason.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fmt::Write;
use std::path::PathBuf;

use ordereddeployment_api::crds;
use serde_json::Value;

const NAMES: &str = include_str!("../src/names.rs");

const HEAD: &str = "\
# The API

Made from the code by `cargo xtask crds`; a test compares it. `kubectl explain od.spec` says the same of the \
version that is
installed. What the fields are for, with examples: [concepts.md](concepts.md), [order.md](order.md), \
[recipes.md](recipes.md).
";

/// A constant of `names.rs`: what it is called, its value, and what it is for.
struct Name {
    constant: String,
    value: String,
    meaning: String,
}

/// The constants of one module of `names.rs` that are single texts.
fn names(module: &str) -> Vec<Name> {
    let from = NAMES.split_once(&format!("pub mod {module} {{\n")).unwrap().1;
    let body = from.split_once("\n}\n").unwrap().0;
    let mut found = Vec::new();
    let mut meaning = Vec::new();
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            meaning.push(text);
        } else if let Some(constant) = line.strip_prefix("pub const ") {
            if let Some((constant, value)) = constant.split_once(": &str = \"") {
                let value = value.trim_end_matches("\";").to_owned();
                found.push(Name { constant: constant.to_owned(), value, meaning: meaning.join(" ") });
            }
            meaning.clear();
        }
    }
    found
}

/// A key that is missing there would be warned of as a misspelt one.
#[test]
fn the_annotations_of_the_group_are_listed() {
    let all: Vec<String> = names("annotation").into_iter().map(|name| name.value).collect();
    let of_group = all.iter().filter(|key| key.starts_with(ordereddeployment_api::names::GROUP));
    let of_group: Vec<&str> = of_group.map(String::as_str).collect();
    assert_eq!(of_group, ordereddeployment_api::names::annotation::OF_GROUP);
}

/// Doc comments name constants; readers know their values.
fn plain(text: &str) -> String {
    let constants = ["annotation", "condition", "pause_point"].into_iter().flat_map(names);
    constants.fold(text.to_owned(), |text, name| {
        text.replace(&format!("[`{}`]", name.constant), &format!("`{}`", name.value))
    })
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node[key].as_str().unwrap_or_default()
}

fn type_of(node: &Value) -> String {
    let kind = text(node, "type");
    if node["x-kubernetes-int-or-string"] == true {
        return "integer or percentage".to_owned();
    }
    match kind {
        "array" => format!("list of {}", type_of(&node["items"])),
        "object" if node["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&node["additionalProperties"]))
        }
        _ => match node["enum"].as_array() {
            Some(values) => values
                .iter()
                .filter_map(Value::as_str)
                .map(|it| format!("`{it}`"))
                .collect::<Vec<_>>()
                .join(", "),
            None => kind.to_owned(),
        },
    }
}

/// Adds the fields below `node`, depth first.
fn fields(page: &mut String, path: &str, node: &Value) {
    let required: Vec<_> =
        node["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in node["properties"].as_object().into_iter().flatten() {
        let here = format!("{path}{name}");
        let mut meaning = cell(text(field, "description"));
        let rules = [field, &field["items"]].map(|node| node["x-kubernetes-validations"].as_array());
        for rule in rules.into_iter().flatten().flatten() {
            write!(meaning, " *Refused otherwise: {}.*", cell(text(rule, "message"))).unwrap();
        }
        let default = match &field["default"] {
            Value::Null if required.contains(&name.as_str()) => "required".to_owned(),
            Value::Null => String::new(),
            value => format!("`{value}`").replace('"', ""),
        };
        writeln!(page, "| `{here}` | {} | {default} | {meaning} |", type_of(field)).unwrap();
        if name != "template" {
            fields(page, &format!("{here}."), field);
            fields(page, &format!("{here}[]."), &field["items"]);
        }
    }
}

fn kind(page: &mut String, crd: &Value) {
    let names = &crd["spec"]["names"];
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let short = names["shortNames"][0].as_str().unwrap();
    writeln!(page, "\n## {}\n\n{}\n", text(names, "kind"), cell(text(schema, "description"))).unwrap();
    writeln!(
        page,
        "`apiVersion: {}/{}`, `kind: {}`; `kubectl get {}`, for short `{short}`. Subresources: {}.\n",
        text(&crd["spec"], "group"),
        text(version, "name"),
        text(names, "kind"),
        text(names, "plural"),
        version["subresources"]
            .as_object()
            .unwrap()
            .keys()
            .map(|key| format!("`/{key}`"))
            .collect::<Vec<_>>()
            .join(", ")
    )
    .unwrap();
    page.push_str("| field | type | default | meaning |\n|---|---|---|---|\n");
    for part in ["spec", "status"] {
        fields(page, &format!("{part}."), &schema["properties"][part]);
    }
    let rules =
        schema["properties"]["spec"]["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
    if !rules.is_empty() {
        page.push_str("\nThe spec as a whole is refused with these messages:\n\n");
        let mut messages: Vec<_> = rules.iter().map(|rule| cell(text(rule, "message"))).collect();
        messages.dedup();
        for message in messages {
            writeln!(page, "- {message}").unwrap();
        }
    }
}

fn table(page: &mut String, title: &str, head: &str, rows: &[Name]) {
    writeln!(page, "\n## {title}\n\n| {head} | meaning |\n|---|---|").unwrap();
    for row in rows {
        writeln!(page, "| `{}` | {} |", row.value, cell(&plain(&row.meaning))).unwrap();
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for crd in crds() {
        kind(&mut page, &serde_json::to_value(crd).unwrap());
    }
    table(&mut page, "Annotations", "annotation", &names("annotation"));
    table(&mut page, "Values of the pause point", "value", &names("pause_point"));
    table(&mut page, "Labels", "label", &names("label"));
    table(&mut page, "Conditions", "condition", &names("condition"));
    table(&mut page, "Reasons of conditions and events", "reason", &names("reason"));
    page
}

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn the_reference_of_the_api_is_that_of_the_code() {
    let path = docs("api.md");
    if std::env::var_os("UPDATE_CRDS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page(), "docs/api.md is not what the code says: run `cargo xtask crds`");
}

#[test]
fn the_troubleshooting_page_speaks_of_every_condition_and_reason() {
    let page = std::fs::read_to_string(docs("troubleshooting.md")).unwrap();
    let missing: Vec<_> = ["condition", "reason"]
        .into_iter()
        .flat_map(names)
        .map(|name| name.value)
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md says nothing of {missing:?}");
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let mut pages = vec![docs("../charts/ordered-deployment/README.md")];
    for folder in [docs(".."), docs("")] {
        pages.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|it| it == "md"));
    let mut broken = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let found = std::fs::read_to_string(&target).ok();
            let there = target.exists()
                && (fragment.is_empty()
                    || found.is_some_and(|found| {
                        found.lines().any(|line| line.starts_with('#') && anchor(line) == fragment)
                    }));
            if !there {
                broken.push(format!("{}: {link}", page.file_name().unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
