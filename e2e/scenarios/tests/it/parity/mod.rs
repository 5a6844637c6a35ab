//! The behavior of a Deployment, row by row as in `docs/parity.md`: tested here for an OrderedDeployment and,
//! if possible, for a Deployment next to it. Rows with a separate test file are not repeated here.

mod conditions;
mod fields;
mod revisions;
mod sizes;

use std::fs;
use std::path::Path;

use scenarios::{Setting, side_by_side};

#[cfg(feature = "real-servers")]
use conditions::a_deployment_has_the_same_conditions;
use conditions::conditions_and_their_reasons_are_those_of_a_deployment;
use fields::fields_of_newer_servers_start_no_second_rollout;
#[cfg(feature = "real-servers")]
use revisions::a_deployment_numbers_its_revisions_the_same;
use revisions::undo_and_revision_numbers_are_those_of_a_deployment;
#[cfg(feature = "real-servers")]
use sizes::a_deployment_is_scaled_the_same;
use sizes::a_stuck_rollout_is_scaled_in_proportion;

#[test]
fn every_documented_scenario_exists() {
    let table = include_str!("../../../../../docs/parity.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let source = |file: &str| {
        let (flat, parts) = (folder.join(file).with_extension("rs"), folder.join(file));
        let parts = fs::read_dir(parts).into_iter().flatten().map(|entry| entry.unwrap().path());
        parts.chain([flat]).filter_map(|path| fs::read_to_string(path).ok()).collect::<String>()
    };
    let (mut text, mut found) = (String::new(), 0);
    for word in table.split('`').skip(1).step_by(2) {
        if folder.join(word).with_extension("rs").exists() || folder.join(word).is_dir() {
            text = source(word);
        } else if word.matches('_').count() > 2 {
            assert!(text.contains(&format!("async fn {word}(")), "{word} is not in the file named before it");
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

side_by_side!(
    Setting::default();
    a_stuck_rollout_is_scaled_in_proportion,
    conditions_and_their_reasons_are_those_of_a_deployment,
    fields_of_newer_servers_start_no_second_rollout,
    undo_and_revision_numbers_are_those_of_a_deployment;
    only on a real server:
    a_deployment_has_the_same_conditions,
    a_deployment_is_scaled_the_same,
    a_deployment_numbers_its_revisions_the_same,
);
