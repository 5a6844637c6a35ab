//! The recipes of the documentation: both servers accept every manifest, and every command is valid.

use std::process::Command;

use e2e::{Setting, TestCluster, side_by_side};
use serde_json::Value;

use crate::page::in_language;

const PAGES: [&str; 2] = ["docs/recipes.md", "docs/nodecosts.md"];

async fn the_server_accepts_every_manifest_of_the_recipes(cluster: TestCluster) {
    let mut count = 0;
    for page in PAGES {
        for block in in_language(page, "yaml") {
            let objects: Vec<Value> = serde_saphyr::from_multiple(&block).unwrap();
            for object in objects {
                // Values files of the chart have no kind.
                let Some(kind) = object["kind"].as_str() else { continue };
                let text = object.to_string();
                let said = cluster.kubectl.run_with(&["apply", "--dry-run=server", "-f", "-"], &text);
                let said = said.await.unwrap_or_else(|error| panic!("{page}: {error:#}\n{block}"));
                assert!(said.contains("created (server dry run)"), "{kind}: {said}");
                // The API server drops unknown fields without an error.
                let stored = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
                let stored = cluster.kubectl.run_with(&stored, &text).await.unwrap();
                let stored: Value = serde_json::from_str(&stored).unwrap();
                assert_part_of(&object["spec"], &stored["spec"], &format!("{page}: {kind}.spec"));
                count += 1;
            }
        }
    }
    assert!(count >= 7, "{count} manifests");
}

/// Whether the stored object contains everything in the manifest.
fn assert_part_of(asked: &Value, stored: &Value, path: &str) {
    match (asked, stored) {
        (Value::Object(asked), _) => {
            for (key, value) in asked {
                assert_part_of(value, &stored[key], &format!("{path}.{key}"));
            }
        }
        (Value::Array(asked), Value::Array(stored)) => {
            assert_eq!(asked.len(), stored.len(), "{path}");
            for (place, value) in asked.iter().enumerate() {
                assert_part_of(value, &stored[place], &format!("{path}[{place}]"));
            }
        }
        _ => assert_eq!(asked, stored, "{path}"),
    }
}

/// `kubectl ordered …` in the recipes: the command and its flags exist.
#[test]
fn every_command_and_flag_of_the_recipes_exists() {
    let program = e2e::beside_the_test("kubectl-ordered").unwrap();
    let mut count = 0;
    for page in PAGES {
        for line in in_language(page, "sh").iter().flat_map(|block| block.lines()) {
            let line = line.split(" #").next().unwrap_or_default();
            let Some(words) = line.trim().strip_prefix("kubectl ordered ") else { continue };
            let mut words = words.split_whitespace();
            let command = words.next().unwrap();
            let help = Command::new(&program).args([command, "--help"]).output().unwrap();
            assert!(help.status.success(), "{page}: {line}");
            let help = String::from_utf8(help.stdout).unwrap();
            for flag in words.filter(|word| word.starts_with("--")) {
                let flag = flag.split('=').next().unwrap();
                assert!(help.contains(flag), "{page}: {line}: {flag} is none of\n{help}");
            }
            count += 1;
        }
    }
    assert!(count >= 8, "{count} commands");
}

side_by_side!(
    Setting::default();
    the_server_accepts_every_manifest_of_the_recipes,
);
