//! L6: how old the view of a decision may be.
//!
//! The other oracles rely on the view of a decision; these check it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_planner::Pod;
use ordereddeployment_wire::PodView;
use serde_json::Value;

use super::history::Violation;
use super::history::{History, Kind, controller, deployment, found, name, number, uid, version};
use crate::case::{Fault, Millis, RequestFault, WatchFault};
use crate::log::{DecisionRecord, RunEventKind};
use crate::{Case, Log};

/// The maximum without faults: the time until a watch that ended is opened again.
const WITHOUT_FAULTS: SignedDuration = SignedDuration::from_secs(12);
/// The longest back-off of a watch.
const BACKOFF: Millis = 35_000;
/// The time until a watch without events times out and is opened again.
const WATCH_TIMEOUT: Millis = 330_000;

/// The maximum number of consecutive requests of a reconcile in these scenarios.
const MAX_REQUESTS: u64 = 30;
/// The maximum number of batches of writes of a reconcile in these scenarios.
const MAX_BATCHES: u32 = 10;

/// An object in a view.
#[derive(Clone, Copy)]
enum Observation {
    Version(u64),
    Terminating,
    Missing,
}

fn seen(pods: &BTreeMap<&str, &Pod>, uid: &str) -> Observation {
    match pods.get(uid) {
        None => Observation::Missing,
        Some(pod) if pod.terminating => Observation::Terminating,
        Some(pod) => Observation::Version(number(&pod.resource_version)),
    }
}

fn by_uid(decided: &DecisionRecord) -> BTreeMap<&str, &Pod> {
    decided.snapshot.pods.iter().map(|pod| (&*pod.facts.uid, &**pod)).collect()
}

/// The UIDs of all pods that sets of that object ever controlled.
fn pods_of<'a>(history: &History<'a>, owner: &str) -> BTreeSet<&'a str> {
    let commits = || history.log.commits.iter();
    let of_owner = commits()
        .filter(|commit| commit.plural == "orderedreplicasets" && controller(&commit.object) == Some(owner));
    let sets: BTreeSet<&str> = of_owner.map(|commit| uid(&commit.object)).collect();
    let pods = commits().filter(|commit| {
        commit.plural == "pods" && controller(&commit.object).is_some_and(|set| sets.contains(set))
    });
    pods.map(|commit| uid(&commit.object)).collect()
}

/// Whether that pod belongs to the object of that decision, and the controller can know it.
fn is_owned(history: &History<'_>, decided: &DecisionRecord, pod: &Value) -> bool {
    !history.may_seem_deleted(uid(pod)) && history.is_pod_of(pod, deployment(decided), decided.requests)
}

/// L6: the view of no decision is older than the faults explain.
pub(super) fn views(history: &History<'_>) -> Vec<Violation> {
    let mut of_owner: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut found_all = Vec::new();
    for decided in &history.log.decisions {
        let owner = deployment(decided);
        let pods = of_owner.entry(owner).or_insert_with(|| pods_of(history, owner));
        let known = by_uid(decided);
        let mut oldest: Option<(Timestamp, String)> = None;
        let mut note = |since: Option<Timestamp>, what: String| {
            if let Some(since) = since
                && oldest.as_ref().is_none_or(|(other, _)| since < *other)
            {
                oldest = Some((since, what));
            }
        };
        for pod in pods.iter().copied() {
            note(behind(history, decided, pod, seen(&known, pod)), format!("pod {pod}"));
        }
        let seen = decided.snapshot.deployment.metadata.resource_version.as_deref().unwrap_or_default();
        note(behind(history, decided, owner, Observation::Version(number(seen))), "the object".to_owned());
        let bound = max_staleness(history.case, history.log, decided.at);
        if let Some((since, what)) = oldest.filter(|(since, _)| decided.at.duration_since(*since) > bound) {
            let message =
                format!("instance {} makes a decision on {what} as of before {since}", decided.instance);
            found_all.push(found("L6", decided.at, message));
        }
    }
    found_all
}

/// Since when the view of an object is outdated.
fn behind(
    history: &History<'_>,
    decided: &DecisionRecord,
    uid: &str,
    seen: Observation,
) -> Option<Timestamp> {
    let made = history.until(uid, decided.requests);
    match seen {
        Observation::Version(seen) => {
            made.iter().find(|commit| version(&commit.object) > seen).map(|commit| commit.at)
        }
        Observation::Terminating => made.iter().find(|commit| commit.deleted).map(|commit| commit.at),
        Observation::Missing => {
            let last = made.last().filter(|commit| !commit.deleted)?;
            is_owned(history, decided, &last.object).then(|| made.first().map(|commit| commit.at)).flatten()
        }
    }
}

/// L6, causality: a decision that deletes pods observes everything that was committed before the generation,
/// the request of a user, the start and the election that precede it.
pub(super) fn causality(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, decided, _) in history.acts() {
        if !history.sent(place).any(|write| write.kind == Kind::DeletePod && !write.is_delayed) {
            continue;
        }
        let known = by_uid(decided);
        let (since, cause) = must_know(history, decided);
        for pod in pods_of(history, deployment(decided)) {
            let made = history.until(pod, decided.requests);
            let Some(then) = made.iter().rfind(|commit| version(&commit.object) <= since) else { continue };
            let is_deleted = then.deleted || made.last().is_some_and(|commit| commit.deleted);
            let misses = match seen(&known, pod) {
                Observation::Version(seen) => seen < version(&then.object),
                Observation::Terminating => false,
                Observation::Missing => {
                    !is_deleted && made.last().is_some_and(|last| is_owned(history, decided, &last.object))
                }
            };
            if misses {
                let what = name(&then.object);
                let message = format!("a deletion was decided on a version of {what} before {cause}");
                found_all.push(found("L6", decided.at, message));
                break;
            }
        }
    }
    found_all
}

/// A decision that deletes must know all pods as of this version. The text names the cause.
fn must_know(history: &History<'_>, decided: &DecisionRecord) -> (u64, &'static str) {
    let owner = deployment(decided);
    let metadata = &decided.snapshot.deployment.metadata;
    let generation = metadata.generation.unwrap_or(0);
    let seen = number(metadata.resource_version.as_deref().unwrap_or_default());
    let changes = || history.changes(owner).filter(|commit| version(&commit.object) <= seen);
    let requested = changes().rfind(|commit| {
        ["resumeRequested", "abortRequested", "retryRequested"].iter().any(|field| {
            let now = &commit.object["status"][*field];
            let before = commit.previous.as_ref().map(|before| &before["status"][*field]);
            !now.is_null() && before != Some(now)
        })
    });
    let generation =
        changes().find(|commit| commit.object["metadata"]["generation"].as_i64() == Some(generation));
    let start = history.log.events.iter().rfind(|event| {
        event.kind == RunEventKind::InstanceStarted(decided.instance)
            && (event.at, event.requests) <= (decided.at, decided.requests)
    });
    let start = start.and_then(|event| history.last_before(event.requests));
    let elected = history.log.commits.iter().rfind(|commit| {
        let holder = commit.object["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let before = commit.previous.as_ref().and_then(|before| before["spec"]["holderIdentity"].as_str());
        commit.plural == "leases"
            && commit.at <= decided.at
            && holder.starts_with(&format!("instance-{}-", decided.instance))
            && before != Some(holder)
    });
    let version = |commit: Option<&ordereddeployment_sandbox::Commit>| commit.map_or(0, |one| one.version);
    let causes = [
        (version(generation), "a new generation"),
        (version(requested), "a request"),
        (start.unwrap_or(0), "its start"),
        (version(elected), "its election"),
    ];
    causes.into_iter().max_by_key(|(version, _)| *version).unwrap_or_default()
}

/// L6: the view of an object at a version is what the server stored at that version.
pub(super) fn as_stored(history: &History<'_>) -> Vec<Violation> {
    let mut pods: BTreeMap<(&str, u64), Option<Pod>> = BTreeMap::new();
    let mut deployments: BTreeMap<(&str, u64), Option<OrderedDeployment>> = BTreeMap::new();
    for commit in &history.log.commits {
        let key = (uid(&commit.object), version(&commit.object));
        match &*commit.plural {
            "pods" => {
                let view: Option<PodView> = serde_json::from_value((*commit.object).clone()).ok();
                pods.insert(key, view.map(|view| view.pod()));
            }
            "ordereddeployments" => {
                deployments.insert(key, serde_json::from_value((*commit.object).clone()).ok());
            }
            _ => {}
        }
    }
    let mut found_all = Vec::new();
    for decided in &history.log.decisions {
        let snapshot = &decided.snapshot;
        let metadata = &snapshot.deployment.metadata;
        let seen = number(metadata.resource_version.as_deref().unwrap_or_default());
        // Objects that cannot be decoded are not compared.
        let differs = deployments.get(&(deployment(decided), seen)).is_none_or(|stored| {
            stored.as_ref().is_some_and(|stored| {
                let facts = |of: &ObjectMeta| {
                    (of.generation, of.deletion_timestamp.clone(), of.annotations.clone(), of.labels.clone())
                };
                stored.status != snapshot.deployment.status
                    || stored.spec != snapshot.deployment.spec
                    || facts(&stored.metadata) != facts(metadata)
            })
        });
        if differs {
            found_all.push(found(
                "L6",
                decided.at,
                format!("the object is not as it was stored at version {seen}"),
            ));
        }
        let wrong = snapshot.pods.iter().find(|pod| {
            pods.get(&(&*pod.facts.uid, number(&pod.resource_version))).is_none_or(|stored| {
                stored.as_ref().is_some_and(|stored| {
                    // The controller knows from the response that it was deleted, before the version that
                    // says so.
                    (&stored.name, &stored.set, &stored.facts, &stored.point, stored.finished)
                        != (&pod.name, &pod.set, &pod.facts, &pod.point, pod.finished)
                        || stored.terminating && !pod.terminating
                })
            })
        });
        if let Some(pod) = wrong {
            let message = format!("{} is not as it was stored at version {}", pod.name, pod.resource_version);
            found_all.push(found("L6", decided.at, message));
        }
    }
    found_all
}

/// L6: an instance observes its own writes in its next decision.
pub(super) fn own_writes(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for decided in &history.log.decisions {
        let owner = deployment(decided);
        let known = by_uid(decided);
        let starts = |requests, at| history.starts(decided.instance, requests, at);
        let now = starts(decided.requests, decided.at);
        let own = history.writes.iter().take_while(|write| write.place < decided.requests).filter(|write| {
            write.instance == decided.instance
                && write.owner == Some(owner)
                && write.is_accepted()
                && !write.is_delayed
                && !write.lost_response
                && starts(write.place, write.record.at) == now
        });
        for write in own {
            let unknown = match write.kind {
                Kind::CreatePod => {
                    let mut made = history.log.commits.iter();
                    let made =
                        made.find(|commit| commit.request == Some(write.place) && commit.plural == "pods");
                    made.map(|commit| uid(&commit.object)).filter(|uid| !known.contains_key(uid)).is_some_and(
                        |uid| {
                            history
                                .at(uid, decided.requests)
                                .is_some_and(|pod| is_owned(history, decided, pod))
                        },
                    )
                }
                Kind::DeletePod => {
                    let pod = write.precondition("uid").and_then(|uid| known.get(uid));
                    pod.is_some_and(|pod| !pod.terminating)
                }
                Kind::Status => {
                    let seen = decided.snapshot.deployment.metadata.resource_version.as_deref();
                    let mut made = history.log.commits.iter();
                    let made = made.find(|commit| commit.request == Some(write.place));
                    made.is_some_and(|commit| number(seen.unwrap_or_default()) < commit.version)
                }
                _ => false,
            };
            if unknown {
                let message = format!("{} {} is not in the view", write.record.verb, write.record.path);
                found_all.push(found("L6", decided.at, message));
                break;
            }
        }
    }
    found_all
}

/// How old the view of a decision at that moment may be.
pub(super) fn max_staleness(case: &Case, log: &Log, at: Timestamp) -> SignedDuration {
    let Some(start) = log.events.first().map(|event| event.at) else { return WITHOUT_FAULTS };
    let healed = log.event(&RunEventKind::FaultsEnded).map_or(Timestamp::MAX, |event| event.at);
    let delays = case.faults.iter().map(|fault| {
        let delay = match fault {
            Fault::Freeze { span, .. } => span.duration,
            Fault::Watch { effect: WatchFault::Delay(delay), span, .. } => span.duration.max(*delay) + *delay,
            Fault::Watch { effect: WatchFault::HalfOpen, span, .. } => span.duration + WATCH_TIMEOUT,
            Fault::Partition { span, .. } | Fault::Watch { span, .. } => span.duration + BACKOFF,
            // A reconcile keeps the object of its start, and its batches of writes are sent one after the
            // other.
            Fault::Request { effect: RequestFault::Delay(delay), times, .. } => {
                *delay * u64::from((*times).min(MAX_BATCHES))
            }
            // Each request of a reconcile may take that time.
            Fault::Latency { before, after, .. } => (*before + *after) * MAX_REQUESTS,
            Fault::Request { matcher, .. } if matches!(matcher.verb.as_str(), "" | "list" | "watch") => {
                WATCH_TIMEOUT
            }
            _ => 0,
        };
        let delay = SignedDuration::from_millis(i64::try_from(delay).unwrap_or(i64::MAX));
        let time = |millis: Millis| {
            let after = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
            start.checked_add(after).unwrap_or(Timestamp::MAX)
        };
        let (begin, end) =
            fault.span().map_or((start, healed), |span| (time(span.start), time(span.end()).min(healed)));
        if at < begin || at > end + delay + WITHOUT_FAULTS { SignedDuration::ZERO } else { delay }
    });
    delays.fold(WITHOUT_FAULTS, SignedDuration::saturating_add)
}
