//! Compares plans with rollouts on random clusters in the sandbox: the deletions must be the same. Both use
//! one clock, one scheduler and one model of kubelets. The test computes the plan as the command does, then
//! writes the change, runs the controller, and resumes each pause after the time that the plan assumes.
#![allow(clippy::panic, reason = "a test fails if its setup fails")]

mod fixture;
mod scenario;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_planner::Purpose;
use ordereddeployment_preview::{Action, End, Preview};
use ordereddeployment_wire::Family;
use rand::RngExt;
use serde_json::json;

use crate::client::reader;
use crate::commands::plan::forecast::{AssumptionFlags, plan};
use crate::commands::plan::spec_change::SpecChange;
use fixture::{Fixture, is_pause_event};
use scenario::{Scenario, one_in, template};

/// The number of clusters, unless `PLAN_CLUSTERS` sets another one. Each takes about a second without
/// optimizations.
const CLUSTERS: u64 = 120;

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Replaces the names of pods that are created during the rollout, which a plan cannot know.
fn without_new_names(groups: Vec<Vec<String>>, known: &BTreeSet<String>) -> Vec<Vec<String>> {
    let name = |name: String| if known.contains(&name) { name } else { "new".to_owned() };
    groups.into_iter().map(|group| sorted(group.into_iter().map(name).collect())).collect()
}

/// Replaces the messages about their deletion. The reason for the first of them can depend on UIDs.
fn without_new_messages(messages: &mut [String], known: &BTreeSet<String>) {
    for message in messages {
        let name = message.strip_prefix("Deleted pod ").and_then(|rest| rest.split(' ').next());
        if name.is_some_and(|name| !known.contains(name)) {
            "Deleted a new pod".clone_into(message);
        }
    }
}

/// The deletions of a plan.
fn planned_deletions(preview: &Preview) -> Vec<Vec<String>> {
    let steps = preview.steps.iter();
    let groups = steps.filter_map(|step| match &step.action {
        Action::Delete { pods, .. } => Some(sorted(pods.iter().map(|pod| pod.name.clone()).collect())),
        _ => None,
    });
    groups.collect()
}

fn planned_events(preview: &Preview) -> (Vec<String>, Vec<String>) {
    let (mut deletions, mut pauses) = (Vec::new(), Vec::new());
    for step in &preview.steps {
        match &step.action {
            Action::Event(event) if is_pause_event(event.reason) => pauses.push(event.message.clone()),
            Action::Delete { purpose, pods } => {
                let word = match purpose {
                    Purpose::Rollout => "rollout",
                    Purpose::Scale => "scale",
                };
                for pod in pods {
                    deletions.push(format!("Deleted pod {} for the {word} ({})", pod.name, pod.why));
                }
            }
            _ => {}
        }
    }
    (deletions, pauses)
}

/// Totals over all clusters.
#[derive(Default, Debug)]
struct Totals {
    clusters: usize,
    deletions: usize,
    pauses: usize,
    /// The pauses at declared pause points.
    declared: usize,
    /// The rollbacks of aborted rollouts.
    aborted: usize,
    complete: usize,
    simulated: usize,
}

#[allow(clippy::too_many_lines, reason = "one cluster, from its start to the comparison")]
async fn compare_plan_with_rollout(seed: u64, totals: &mut Totals) {
    let mut scenario = Scenario::new(seed);
    let fixture = Fixture::start(&scenario).await;
    let mut spec = scenario.spec();
    let replicas = i32::try_from(spec["replicas"].as_i64().unwrap()).unwrap();
    // In two steps, so that ages differ.
    let first = scenario.rng.random_range(1..=replicas);
    let whole = json!({"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"}, "spec": spec});
    let mut object: OrderedDeployment = serde_json::from_value(whole).unwrap();
    object.spec.replicas = first;
    fixture.deployments().create(&PostParams::default(), &object).await.unwrap();
    fixture.pass(12).await;
    if first < replicas {
        fixture.pass(scenario.rng.random_range(0..200)).await;
        fixture.patch(&json!({"replicas": replicas})).await;
        fixture.pass(12).await;
    }
    fixture.change_pods(&mut scenario).await;
    fixture.pass(1).await;
    let mut revision = 1;
    if one_in(&mut scenario.rng, 3) {
        // A rollout before, which is complete, stuck or paused when the plan is computed.
        revision = 2;
        spec["template"] = template("web:2");
        fixture.patch(&json!({"template": template("web:2")})).await;
        fixture.pass(120).await;
        if one_in(&mut scenario.rng, 2) {
            fixture.change_pods(&mut scenario).await;
            fixture.pass(40).await;
        }
        if one_in(&mut scenario.rng, 2) {
            // Ignored if the rollout is complete.
            fixture.patch_status(&json!({"abortRequested": revision})).await;
            fixture.pass(scenario.rng.random_range(1..3)).await;
        }
    }
    fixture.pass(scenario.rng.random_range(0..4)).await;

    let now = fixture.clock.now();
    let found = reader::one(&fixture.client, Family::Ordered, ("default", "web"), now).await.unwrap();
    let status = found.deployment.status.clone().unwrap_or_default();
    let mut change = scenario.change(replicas, revision, status.hold.is_some());
    if status.aborted.is_some() && one_in(&mut scenario.rng, 2) {
        // The plan is the rollback.
        change = json!({});
    }
    let given = AssumptionFlags {
        ready: Some(Duration::from_secs(scenario.ready)),
        gone: Some(Duration::from_secs(scenario.gone)),
        resumed: Some(Duration::from_secs(scenario.resumed)),
    };
    let manifest = json!({"spec": change});
    let spec_change = SpecChange { manifest: Some(manifest), ..SpecChange::default() };
    let before = fixture.cluster.sandbox.requests().len();
    let plan = plan(&fixture.client, &found, &spec_change, given).await.unwrap();
    let asked = fixture.cluster.sandbox.requests();
    let asked = asked.iter().skip(before).filter(|record| record.user_agent == "test");
    // Templates are compared, and tried, by dry runs.
    let mut writes = asked.filter(|record| !["get", "list"].contains(&record.verb));
    assert!(writes.all(|record| record.path.contains("dryRun=All")), "a plan writes nothing");
    let preview = plan.preview;

    let mark = fixture.cluster.sandbox.requests().len();
    let events: u64 = {
        let api: Api<Event> = Api::default_namespaced(fixture.client.clone());
        let list = api.list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap_or_default().parse().unwrap()
    };
    if change.as_object().is_some_and(|change| !change.is_empty()) {
        fixture.patch(&change).await;
    }
    fixture.run_to_the_end(&preview, scenario.resumed).await;
    let known: BTreeSet<String> = found.pods.iter().map(ResourceExt::name_any).collect();
    let deletions = without_new_names(fixture.deletions(mark), &known);
    let mut messages = fixture.messages(events).await;
    // Events of deletions before the plan can be published after it.
    let deleted = found.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    let deleted: Vec<String> = deleted.map(|pod| format!("Deleted pod {} ", pod.name_any())).collect();
    messages.0.retain(|message| !deleted.iter().any(|start| message.starts_with(start)));
    let (mut planned, pauses) = planned_events(&preview);
    without_new_messages(&mut messages.0, &known);
    without_new_messages(&mut planned, &known);
    // Which new pods a pause keeps as surge can depend on their UIDs, and with them the ranks of all others.
    // Then only the pauses and the pods are compared, not the order within a priority.
    let takes_new_ones = preview.deleted().any(|pod| !known.contains(&pod.name));
    let mut planned_groups = without_new_names(planned_deletions(&preview), &known);
    let mut groups = deletions.clone();
    if takes_new_ones {
        planned_groups = vec![sorted(planned_groups.concat())];
        groups = vec![sorted(groups.concat())];
        messages.0.clear();
        planned.clear();
    }
    if groups != planned_groups || messages != (planned, pauses) {
        let requests = fixture.cluster.sandbox.requests();
        let requests: Vec<String> = requests
            .iter()
            .skip(mark)
            .filter(|record| record.plural != "events" && record.verb != "get" && record.verb != "watch")
            .map(|record| {
                format!("{} {} {} {} {}", record.at, record.user_agent, record.verb, record.path, record.code)
            })
            .collect();
        panic!(
            "seed {seed}: change {change}\nspec {spec}\nnodes {:?}\nplanned {:#?}\nactual \
             {:#?}\n{:#?}\nsteps {:#?}\nstatus {:#?}\nrequests {:#?}\npods {:#?}",
            scenario
                .nodes
                .iter()
                .map(|node| (&node.name, &node.labels, node.unschedulable, node.pods_capacity))
                .collect::<Vec<_>>(),
            planned_events(&preview),
            messages,
            deletions,
            preview.steps.iter().map(|step| format!("{} {:?}", step.at, step.action)).collect::<Vec<_>>(),
            preview.end,
            requests,
            found.observed().pods,
        );
    }
    let status = fixture.deployments().get("web").await.unwrap().status.unwrap_or_default();
    let complete = status
        .condition(ordereddeployment_api::names::condition::COMPLETE)
        .is_some_and(|found| found.status == ordereddeployment_api::ConditionStatus::True);
    assert_eq!(complete, preview.end == End::Complete, "seed {seed}: {:?}", preview.end);
    totals.clusters += 1;
    totals.deletions += preview.deleted().count();
    totals.pauses += preview.holds().count();
    totals.aborted += usize::from(matches!(preview.end, End::RolledBack { .. }));
    totals.declared += preview.holds().filter(|hold| hold.declared.is_some()).count();
    totals.complete += usize::from(complete);
    totals.simulated += preview.deleted().filter(|pod| !known.contains(&pod.name)).count();
    fixture.cluster.stop().await.unwrap();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Half of the clusters, or the one of `SEED`.
async fn clusters(half: u64) {
    let count = number("PLAN_CLUSTERS").unwrap_or(CLUSTERS);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => half * count / 2..(half + 1) * count / 2,
    };
    let mut totals = Totals::default();
    for seed in seeds {
        compare_plan_with_rollout(seed, &mut totals).await;
    }
    crate::terminal::escape::print_stderr(format_args!("{totals:?}"));
    let is_small = totals.clusters < 20;
    assert!(is_small || (totals.declared > 0 && totals.pauses > totals.declared), "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_matches_the_rollout_on_the_first_random_clusters() {
    clusters(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_matches_the_rollout_on_the_next_random_clusters() {
    clusters(1).await;
}
