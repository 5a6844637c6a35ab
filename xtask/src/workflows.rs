//! The rules of the workflows in `.github/workflows`: what they run is pinned, and only a tested commit is
//! published.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::process::top;

/// The texts of the workflows, by the names of their files.
type Workflows = BTreeMap<String, String>;

/// Nobody without the right to push can set off another event with a token that writes.
const TRIGGERS: [&str; 4] = ["pull_request", "push", "schedule", "workflow_call"];
const CI: &str = "ci.yaml";
const RELEASE: &str = "release.yaml";
/// The jobs that a release waits for.
const GATES: [&str; 2] = ["protection", "tests"];
const ATTEST: &str = "actions/attest@";

fn read() -> Workflows {
    let files = fs::read_dir(top().join(".github/workflows")).unwrap().map(|file| file.unwrap());
    files
        .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
        .collect()
}

/// The violated rules.
fn violations(workflows: &Workflows) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in workflows {
        let workflow: Value = serde_saphyr::from_str(text).unwrap();
        let mut violated = |what: String| found.push(format!("{file}: {what}"));
        for (event, _) in entries(&workflow["on"]).filter(|(event, _)| !TRIGGERS.contains(event)) {
            violated(format!("is started by {event}"));
        }
        if workflow["permissions"] != json!({"contents": "read"}) {
            violated("grants more than to read".to_owned());
        }
        if text.contains("secrets") {
            violated("uses secrets".to_owned());
        }
        for line in text.lines().filter(|line| line.contains(" uses: ") && !line.contains(" ./")) {
            if !line.contains(" # v") {
                violated(format!("no version in `{}`", line.trim()));
            }
        }
        for (name, job) in entries(&workflow["jobs"]) {
            for what in job_rules(file, job) {
                violated(format!("{name}: {what}"));
            }
            if file == RELEASE && !GATES.contains(&name) {
                for gate in GATES.iter().filter(|gate| !waits_for(&workflow, name, gate)) {
                    violated(format!("{name}: does not wait for {gate}"));
                }
            }
        }
        if file == RELEASE
            && workflow["jobs"]["tests"] != json!({"uses": format!("./.github/workflows/{CI}")})
        {
            violated("does not run the tests".to_owned());
        }
    }
    found
}

fn job_rules(file: &str, job: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let steps = job["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let image = &job["container"];
    if !image.is_null() && !image.as_str().is_some_and(|image| is_pinned(image, "@sha256:", 64)) {
        found.push(format!("the container {image} has no digest"));
    }
    let written: Vec<&str> = entries(&job["permissions"])
        .filter(|(_, granted)| *granted != "read")
        .map(|(permission, _)| permission)
        .collect();
    let attests = steps.iter().any(|step| text(step, "uses").starts_with(ATTEST));
    for permission in &written {
        if file != RELEASE || job["environment"] != "release" {
            found.push(format!("{permission} without the protected environment"));
        }
        if matches!(*permission, "id-token" | "attestations") && !attests {
            found.push(format!("{permission} without an attestation"));
        }
    }
    if job["permissions"].is_string() {
        found.push("grants everything".to_owned());
    }
    for (at, step) in [job].into_iter().chain(steps).enumerate() {
        let (action, command) = (text(step, "uses"), text(step, "run"));
        let with = &step["with"];
        if !action.is_empty() && !action.starts_with("./") && !is_pinned(action, "@", 40) {
            found.push(format!("{action} is not pinned to a commit"));
        }
        if command.contains("${{") {
            found.push(format!("an expression is part of the script `{command}`"));
        }
        if !step["if"].is_null() || !step["continue-on-error"].is_null() {
            found.push("goes on after a failure, or leaves something out".to_owned());
        }
        if action.starts_with("actions/checkout@") && with["persist-credentials"] != false {
            found.push("a checkout leaves its token behind".to_owned());
        }
        let cached = action.starts_with("docker/setup-qemu-") && with["cache-image"] != false
            || action.starts_with("docker/setup-buildx-") && with["cache-binary"] != false;
        // What the tests' cache holds is not published.
        if cached || action.starts_with("actions/cache") && file != CI {
            found.push(format!("{action} uses a cache"));
        }
        // Step `at` of the job is `steps[at - 1]`.
        let attested = |key: &str, subject: &str, steps: &[Value]| {
            steps.iter().any(|step| text(step, "uses").starts_with(ATTEST) && step["with"][key] == subject)
        };
        if command.starts_with("gh release create") {
            let files = command.rsplit(' ').next().unwrap_or_default();
            // Directly before it: no other step adds a file.
            if !attested("subject-path", files, &steps[(at - 1).saturating_sub(1)..at - 1]) {
                found.push(format!("{files} is published without an attestation"));
            }
        }
        if ["image", "chart"].iter().any(|kind| command.starts_with(&format!("cargo xtask release {kind}"))) {
            let digest = format!("${{{{ steps.{}.outputs.digest }}}}", text(step, "id"));
            if !attested("subject-digest", &digest, &steps[at..]) {
                found.push(format!("`{command}` publishes without an attestation"));
            }
        }
    }
    found
}

fn entries(map: &Value) -> impl Iterator<Item = (&str, &Value)> {
    map.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

fn text<'a>(step: &'a Value, key: &str) -> &'a str {
    step[key].as_str().unwrap_or_default()
}

/// Whether a reference ends in a hash of that many digits.
fn is_pinned(reference: &str, before: &str, digits: usize) -> bool {
    let hash = reference.split_once(before).map_or("", |(_, hash)| hash);
    hash.len() == digits && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Whether a job starts only after another one, through any number of jobs.
fn waits_for(workflow: &Value, job: &str, other: &str) -> bool {
    let needs = &workflow["jobs"][job]["needs"];
    let needs = needs.as_array().map_or(std::slice::from_ref(needs), Vec::as_slice);
    needs.iter().filter_map(Value::as_str).any(|need| need == other || waits_for(workflow, need, other))
}

#[test]
fn the_workflows_keep_the_rules() {
    let workflows = read();
    assert!(workflows.contains_key(CI) && workflows.contains_key(RELEASE), "{:?}", workflows.keys());
    assert_eq!(violations(&workflows), Vec::<String>::new());
}

#[test]
fn the_page_on_verification_names_what_the_release_publishes() {
    let page = fs::read_to_string(top().join("docs/installation.md")).unwrap();
    let repository = env!("CARGO_PKG_REPOSITORY").trim_start_matches("https://github.com/");
    for name in [
        format!("repository={repository}\n"),
        format!("/.github/workflows/{RELEASE}@refs/tags/v$version\n"),
        format!("/{}:$version\n", crate::image::PROGRAM),
        "/charts/ordered-deployment:$version\"".to_owned(),
    ] {
        assert!(page.contains(&name), "{name}");
    }
}

#[test]
fn each_broken_rule_is_found() {
    const SHA: &str = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1";
    let cases = [
        (CI, "  pull_request:", "  pull_request_target:", "is started by pull_request_target"),
        (CI, "permissions: {contents: read}", "permissions: write-all", "grants more than to read"),
        (CI, "    - run: .ci/run", "    - run: .ci/run ${{ github.event.number }}", "part of the script"),
        (CI, SHA, "actions/checkout@v7", "actions/checkout@v7 is not pinned"),
        (CI, " # v7.0.1", "", "no version in"),
        (CI, "{persist-credentials: false}", "{fetch-depth: 0}", "leaves its token behind"),
        (CI, "@sha256:", ":", "has no digest"),
        (CI, "    - run: .ci/run", "    - run: .ci/run\n      continue-on-error: true", "after a failure"),
        (CI, "  doc:\n", "  doc:\n    permissions: {contents: write}\n", "contents without the protected"),
        (CI, "  doc:\n", "  doc:\n    permissions: write-all\n", "grants everything"),
        (CI, "cargo xtask doc", "echo ${{ secrets.KEY }}", "uses secrets"),
        (RELEASE, "needs: [tests, protection]", "needs: protection", "image: does not wait for tests"),
        (RELEASE, "needs: [tests, protection]", "needs: tests", "publish: does not wait for protection"),
        (RELEASE, "needs: image", "needs: image\n    if: always()", "after a failure"),
        (RELEASE, "    uses: ./.github/workflows/ci.yaml", "    steps: []", "does not run the tests"),
        (RELEASE, "    environment: release\n", "", "packages without the protected environment"),
        (RELEASE, "cache-binary: false", "cache-binary: true", "uses a cache"),
        (RELEASE, "cache-image: false", "cache-image: true", "uses a cache"),
        (
            RELEASE,
            "subject-path: target/package/*",
            "subject-path: target/package/*.gz",
            "is published without",
        ),
        (
            RELEASE,
            "steps.image.outputs.digest",
            "steps.chart.outputs.digest",
            "image \"$TAG\" \"$REGISTRY\"` publ",
        ),
        (
            RELEASE,
            "steps.chart.outputs.digest",
            "steps.image.outputs.digest",
            "chart \"$TAG\" \"$REGISTRY\"` publ",
        ),
        (RELEASE, "actions/attest@", "actions/other@", "id-token without an attestation"),
    ];
    for (file, from, to, expected) in cases {
        let mut workflows = read();
        let text = workflows.get_mut(file).unwrap();
        assert!(text.contains(from), "{file} has no `{from}`");
        *text = text.replace(from, to);
        let found = violations(&workflows);
        assert!(found.iter().any(|what| what.contains(expected)), "`{to}`: {expected} is not in {found:#?}");
    }
}
