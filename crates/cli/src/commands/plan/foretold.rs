//! A plan and what the controller then does are the same list of deletions, on random clusters: one clock, one scheduler and
//! one model of kubelets. The plan is made of what the command reads, by what the command runs; then the change is
//! written, the controller does its work on the sandbox, and every halt is resumed as the plan assumed.
#![allow(clippy::panic, reason = "a test ends where its ground is missing")]

mod bench;
mod scenario;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_planner::Purpose;
use ordereddeployment_preview::{End, Preview, What};
use rand::RngExt;
use serde_json::json;

use super::change::Change;
use super::forecast::{Given, plan};
use crate::observe::Reader;
use bench::{Bench, is_of_halts};
use scenario::{Scenario, one_in, template};

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Without the names of pods that are made meanwhile: nobody knows them beforehand.
fn unnamed(groups: Vec<Vec<String>>, known: &BTreeSet<String>) -> Vec<Vec<String>> {
    let name = |name: String| if known.contains(&name) { name } else { "new".to_owned() };
    groups.into_iter().map(|group| sorted(group.into_iter().map(name).collect())).collect()
}

/// The same of what is told of their deletion. Why the first of them goes may hang on their UIDs.
fn unexplained(told: &mut [String], known: &BTreeSet<String>) {
    for message in told {
        let name = message.strip_prefix("Deleted pod ").and_then(|rest| rest.split(' ').next());
        if name.is_some_and(|name| !known.contains(name)) {
            "Deleted a new pod".clone_into(message);
        }
    }
}

/// The same of a plan.
fn foretold_deletions(preview: &Preview) -> Vec<Vec<String>> {
    let steps = preview.steps.iter();
    let groups = steps.filter_map(|step| match &step.what {
        What::Delete { pods, .. } => Some(sorted(pods.iter().map(|pod| pod.name.clone()).collect())),
        _ => None,
    });
    groups.collect()
}

fn foretold_events(preview: &Preview) -> (Vec<String>, Vec<String>) {
    let (mut deletions, mut halts) = (Vec::new(), Vec::new());
    for step in &preview.steps {
        match &step.what {
            What::Told(event) if is_of_halts(event.reason) => halts.push(event.message.clone()),
            What::Delete { purpose, pods } => {
                let word = match purpose {
                    Purpose::Rollout => "rollout",
                    Purpose::Scale => "scale",
                };
                for pod in pods {
                    let why = pod.why.as_ref().map_or_else(|| "the last one".to_owned(), ToString::to_string);
                    deletions.push(format!("Deleted pod {} for the {word} ({why})", pod.name));
                }
            }
            _ => {}
        }
    }
    (deletions, halts)
}

/// What was seen, for the sum of all clusters.
#[derive(Default, Debug)]
struct Tally {
    clusters: usize,
    deletions: usize,
    halts: usize,
    complete: usize,
    made_up: usize,
}

#[allow(clippy::too_many_lines, reason = "one cluster, from its start to the comparison")]
async fn hold_the_plan_against_what_happens(seed: u64, tally: &mut Tally) {
    let mut scenario = Scenario::new(seed);
    let bench = Bench::start(&scenario).await;
    let mut spec = scenario.spec();
    let replicas = i32::try_from(spec["replicas"].as_i64().unwrap()).unwrap();
    // In two steps, so that ages differ.
    let first = scenario.rng.random_range(1..=replicas);
    let whole = json!({"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"}, "spec": spec});
    let mut object: OrderedDeployment = serde_json::from_value(whole).unwrap();
    object.spec.replicas = first;
    bench.deployments().create(&PostParams::default(), &object).await.unwrap();
    bench.pass(12).await;
    if first < replicas {
        bench.pass(scenario.rng.random_range(0..200)).await;
        bench.patch(&json!({"replicas": replicas})).await;
        bench.pass(12).await;
    }
    bench.treat_pods(&mut scenario).await;
    bench.pass(1).await;
    let mut revision = 1;
    if one_in(&mut scenario.rng, 3) {
        // Another rollout before, which is complete, stuck or held when the plan is made.
        revision = 2;
        spec["template"] = template("web:2");
        bench.patch(&json!({"template": template("web:2")})).await;
        bench.pass(120).await;
        if one_in(&mut scenario.rng, 2) {
            bench.treat_pods(&mut scenario).await;
            bench.pass(40).await;
        }
    }
    bench.pass(scenario.rng.random_range(0..4)).await;

    let reader = Reader::new(&bench.client, "default");
    let found = reader.one("web", bench.clock.now()).await.unwrap();
    let rolls = found.deployment.status.as_ref().is_some_and(|status| status.hold.is_some());
    let change = scenario.change(replicas, revision, rolls);
    let given = Given {
        ready: Some(Duration::from_secs(scenario.ready)),
        gone: Some(Duration::from_secs(scenario.gone)),
        resumed: Some(Duration::from_secs(scenario.resumed)),
    };
    let manifest = json!({"spec": change});
    let wanted = Change { manifest: Some(manifest), ..Change::default() };
    let before = bench.cluster.sandbox.requests().len();
    let plan = plan(&bench.client, &found, &wanted, given).await.unwrap();
    let asked = bench.cluster.sandbox.requests();
    let mut asked = asked.iter().skip(before).filter(|record| record.user_agent == "test");
    // Templates are compared by dry runs.
    let only_asks = |verb: &str, plural: &str| ["get", "list"].contains(&verb) || plural == "podtemplates";
    assert!(asked.all(|record| only_asks(record.verb, &record.plural)), "a plan writes nothing");
    let preview = plan.preview;

    let mark = bench.cluster.sandbox.requests().len();
    let events: u64 = {
        let api: Api<Event> = Api::default_namespaced(bench.client.clone());
        let list = api.list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap_or_default().parse().unwrap()
    };
    if change.as_object().is_some_and(|change| !change.is_empty()) {
        bench.patch(&change).await;
    }
    bench.see_it_through(&preview, scenario.resumed).await;
    let known: BTreeSet<String> = found.pods.iter().map(ResourceExt::name_any).collect();
    let deletions = unnamed(bench.deletions(mark), &known);
    let mut told = bench.told(events).await;
    let (mut foretold, halts) = foretold_events(&preview);
    unexplained(&mut told.0, &known);
    unexplained(&mut foretold, &known);
    // Which of the new pods a hold takes as surge can hang on their UIDs, and the ranks of all others on that. Then the halts and
    // the pods are foretold, not the order within a priority.
    let takes_new_ones = preview.deleted().any(|pod| !known.contains(&pod.name));
    let mut foretold_groups = unnamed(foretold_deletions(&preview), &known);
    let mut groups = deletions.clone();
    if takes_new_ones {
        foretold_groups = vec![sorted(foretold_groups.concat())];
        groups = vec![sorted(groups.concat())];
        told.0.clear();
        foretold.clear();
    }
    if groups != foretold_groups || told != (foretold, halts) {
        let requests = bench.cluster.sandbox.requests();
        let requests: Vec<String> = requests
            .iter()
            .skip(mark)
            .filter(|record| record.plural != "events" && record.verb != "get" && record.verb != "watch")
            .map(|record| {
                format!("{} {} {} {} {}", record.at, record.user_agent, record.verb, record.path, record.code)
            })
            .collect();
        panic!(
            "seed {seed}: change {change}\nspec {spec}\nnodes {:?}\nforetold {:#?}\nhappened {:#?}\n{:#?}\nsteps {:#?}\nstatus {:#?}\nrequests {:#?}\npods {:#?}",
            scenario
                .nodes
                .iter()
                .map(|node| (&node.name, &node.labels, node.unschedulable, node.pods_capacity))
                .collect::<Vec<_>>(),
            foretold_events(&preview),
            told,
            deletions,
            preview.steps.iter().map(|step| format!("{} {:?}", step.at, step.what)).collect::<Vec<_>>(),
            preview.end,
            requests,
            found.observed().pods,
        );
    }
    let status = bench.deployments().get("web").await.unwrap().status.unwrap_or_default();
    let complete = status
        .condition(ordereddeployment_api::names::condition::COMPLETE)
        .is_some_and(|found| found.status == ordereddeployment_api::ConditionStatus::True);
    assert_eq!(complete, preview.end == End::Complete, "seed {seed}: {:?}", preview.end);
    tally.clusters += 1;
    tally.deletions += preview.deleted().count();
    tally.halts += preview.holds().count();
    tally.complete += usize::from(complete);
    tally.made_up += preview.deleted().filter(|pod| !known.contains(&pod.name)).count();
    bench.cluster.stop().await.unwrap();
}

async fn clusters(seeds: std::ops::Range<u64>) {
    let mut tally = Tally::default();
    let chosen = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    for seed in seeds.filter(|seed| chosen.is_none_or(|chosen: u64| chosen == *seed)) {
        hold_the_plan_against_what_happens(seed, &mut tally).await;
    }
    crate::escape::tell(format_args!("{tally:?}"));
}

#[tokio::test(start_paused = true)]
async fn a_plan_and_what_then_happens_are_the_same_on_the_first_random_clusters() {
    clusters(0..150).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_and_what_then_happens_are_the_same_on_the_next_random_clusters() {
    clusters(150..300).await;
}
