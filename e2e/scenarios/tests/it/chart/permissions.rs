//! The permissions of the controller in `docs/security.md` are those that Helm renders, with the comments of
//! the chart.

use std::fmt::Write;

use scenarios::Helm;
use serde_json::Value;

use super::CHART;

/// The page, and the lines around what this test writes.
const PAGE: &str = "docs/security.md";
const START: &str =
    "<!-- Made by `UPDATE_PERMISSIONS=1 cargo test -p scenarios permissions`; a test compares it. -->\n";
const END: &str = "<!-- The end of it. -->\n";

/// The namespaces of the release and of `watchNamespace`.
const RELEASE: &str = "ordered-system";
const WATCHED: &str = "shop";

/// One rule of a role that is bound to the controller.
struct Rule {
    place: String,
    /// A row without place and reason.
    what: String,
    reason: String,
}

/// The rules that the controller has with these values.
async fn rules(values: &str) -> Vec<Rule> {
    let helm = Helm::without_server().unwrap();
    let values = format!("--set=image.repository=example.com/a,{values}");
    let text =
        helm.run(&["template", "ordered-deployment", CHART, "--namespace", RELEASE, &values]).await.unwrap();
    let objects: Vec<(&str, Value)> = text
        .split("\n---\n")
        .filter_map(|text| Some((text, serde_saphyr::from_str::<Value>(text).ok()?)))
        .collect();
    let bindings = objects.iter().map(|(_, object)| object);
    let bindings = bindings.filter(|object| object["subjects"][0]["kind"] == "ServiceAccount");
    let mut rules = Vec::new();
    for role in bindings.map(|binding| &binding["roleRef"]) {
        let (text, role) = objects
            .iter()
            .find(|(_, object)| object["kind"] == role["kind"] && object["metadata"]["name"] == role["name"])
            .unwrap();
        let place = match role["metadata"]["namespace"].as_str() {
            None => "cluster".to_owned(),
            Some(RELEASE) => "release".to_owned(),
            Some(WATCHED) => "`watchNamespace`".to_owned(),
            Some(other) => format!("`{other}`"),
        };
        let reasons = reasons(text);
        let found = role["rules"].as_array().unwrap();
        assert_eq!(found.len(), reasons.len(), "{text}");
        rules.extend(found.iter().zip(reasons).map(|(rule, reason)| Rule {
            place: place.clone(),
            what: format!("{} | {} | {}", group(rule), resources(rule), list(&rule["verbs"], "")),
            reason,
        }));
    }
    rules
}

/// The comment ahead of each rule, or that of the role.
fn reasons(role: &str) -> Vec<String> {
    let (mut comment, mut of_role, mut reasons) = (Vec::new(), String::new(), Vec::new());
    for line in role.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("# ").filter(|text| !text.starts_with("Source: ")) {
            comment.push(text);
            continue;
        }
        let text = comment.join(" ").replace('|', "\\|");
        if line.starts_with("apiVersion: ") {
            of_role = text;
        } else if line.starts_with("- apiGroups:") {
            reasons.push(if text.is_empty() { of_role.clone() } else { text });
        }
        comment.clear();
    }
    reasons
}

fn group(rule: &Value) -> String {
    let groups = list(&rule["apiGroups"], "");
    if groups.is_empty() { "core".to_owned() } else { groups }
}

fn resources(rule: &Value) -> String {
    let resources = list(&rule["resources"], "`");
    match rule.get("resourceNames") {
        Some(names) => format!("{resources}, only {}", list(names, "`")),
        None => resources,
    }
}

fn list(values: &Value, quote: &str) -> String {
    let values = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap());
    values.map(|value| format!("{quote}{value}{quote}")).collect::<Vec<_>>().join(", ")
}

fn table<'r>(rules: impl Iterator<Item = &'r Rule>) -> String {
    let mut table = "| where | API group | resources | verbs | reason |\n|---|---|---|---|---|\n".to_owned();
    for Rule { place, what, reason } in rules {
        writeln!(table, "| {place} | {what} | {reason} |").unwrap();
    }
    table
}

async fn expected() -> String {
    let base = rules("replicaCount=2").await;
    let is_new = |rule: &&Rule| !base.iter().any(|one| (&one.place, &one.what) == (&rule.place, &rule.what));
    let mut text = format!("\n### By default\n\n{}", table(base.iter()));
    for mode in ["replicaSets.enabled", "nodeCosts.enabled"] {
        let rules = rules(&format!("{mode}=true")).await;
        let rows = table(rules.iter().filter(is_new));
        write!(text, "\n### In addition with `{mode}`\n\n{rows}").unwrap();
    }
    let watched = rules(&format!("watchNamespace={WATCHED}")).await;
    let (everywhere, elsewhere): (Vec<_>, Vec<_>) = watched.iter().partition(|rule| rule.place == "cluster");
    let mut inside = elsewhere.iter().map(|rule| &rule.what).chain(everywhere.iter().map(|rule| &rule.what));
    assert!(
        inside.all(|what| base.iter().any(|rule| rule.what == *what)),
        "another rule with watchNamespace"
    );
    assert_eq!(watched.len(), base.len());
    text += "\n### With `watchNamespace`\n\nThe same rules, in a Role of that namespace. Only these stay for \
             the ";
    text + "cluster:\n\n" + &table(everywhere.into_iter()) + "\n"
}

#[tokio::test]
async fn the_permissions_in_the_documentation_are_those_of_the_chart_by_helm() {
    let path = scenarios::top().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(START).unwrap();
    let (found, tail) = rest.split_once(END).unwrap();
    let expected = expected().await;
    if std::env::var_os("UPDATE_PERMISSIONS").is_some() {
        std::fs::write(&path, format!("{head}{START}{expected}{END}{tail}")).unwrap();
    } else {
        assert!(
            found == expected,
            "{PAGE} is not what the chart says: run the command in its comment\n{expected}"
        );
    }
}
