//! An index of the log: every object at any moment, every write of a controller with the decision that it
//! carries out.
//!
//! It checks nothing.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use jiff::Timestamp;
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_planner::{Act, Decision};
use ordereddeployment_sandbox::{Commit, Record};
use serde_json::Value;

use crate::log::{DELAYED, DecisionRecord, NO_RESPONSE, RunEventKind, instance};
use crate::{Case, Log};

/// The kinds that an instance watches before it takes part in the leader election.
pub(super) const WATCHED: [&str; 4] = ["nodes", "pods", "ordereddeployments", "orderedreplicasets"];

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    CreatePod,
    DeletePod,
    PatchPod,
    CreateSet,
    PatchSet,
    SetStatus,
    DeleteSet,
    Status,
    Event,
    Lease,
    /// A write that the controllers never send.
    Other,
}

/// A write of a controller that the server received. Dry runs are not writes.
#[derive(Debug)]
pub(super) struct Write<'a> {
    /// Its place in the log of requests.
    pub(super) place: usize,
    pub(super) record: &'a Record,
    pub(super) instance: u32,
    pub(super) kind: Kind,
    /// The UID of the OrderedDeployment that it is about, if known.
    pub(super) owner: Option<&'a str>,
    /// The decision that it carries out: the last one of that instance about that object, if it carries out
    /// any.
    pub(super) decision: Option<usize>,
    /// Whether a fault delayed it: then the decision that it carries out is unknown.
    pub(super) is_delayed: bool,
    /// Whether it was carried out and the controller did not receive the response.
    pub(super) lost_response: bool,
}

impl Write<'_> {
    /// Whether the server accepted it.
    pub(super) fn is_accepted(&self) -> bool {
        (200..300).contains(&self.record.code)
    }

    /// The UID that a delete or an eviction names.
    pub(super) fn precondition(&self, field: &str) -> Option<&str> {
        let body = self.record.body.as_ref()?;
        let options = body.get("deleteOptions").unwrap_or(body);
        options["preconditions"][field].as_str()
    }

    pub(super) fn is_rollout(&self) -> bool {
        self.record.user_agent.ends_with("/rollout")
    }
}

/// An indexed log.
pub(super) struct History<'a> {
    pub(super) case: &'a Case,
    pub(super) log: &'a Log,
    pub(super) writes: Vec<Write<'a>>,
    /// Places in `writes`, by the decision they carry out.
    pub(super) by_decision: BTreeMap<usize, Vec<usize>>,
    /// Places of commits, by UID of the object.
    objects: BTreeMap<&'a str, Vec<usize>>,
    /// How many commits were made before each request; the last entry is their total number.
    before: Vec<usize>,
    /// Places of decisions, by instance and UID of their object.
    decisions: BTreeMap<(u32, &'a str), Vec<usize>>,
}

impl<'a> History<'a> {
    pub(super) fn of(case: &'a Case, log: &'a Log) -> Self {
        let mut objects: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, commit) in log.commits.iter().enumerate() {
            objects.entry(uid(&commit.object)).or_default().push(place);
        }
        let mut decisions: BTreeMap<(u32, &str), Vec<usize>> = BTreeMap::new();
        for (place, decided) in log.decisions.iter().enumerate() {
            decisions.entry((decided.instance, deployment(decided))).or_default().push(place);
        }
        let before = before(log);
        let mut history =
            Self { case, log, writes: Vec::new(), by_decision: BTreeMap::new(), objects, before, decisions };
        history.writes = history.join();
        for (place, write) in history.writes.iter().enumerate() {
            if let Some(decision) = write.decision {
                history.by_decision.entry(decision).or_default().push(place);
            }
        }
        history
    }

    fn join(&self) -> Vec<Write<'a>> {
        let mut writes = Vec::new();
        for (place, record) in self.log.requests.iter().enumerate() {
            let Some(instance) = instance(&record.user_agent) else { continue };
            let Some(kind) = kind(record) else { continue };
            let owner = self.owner_of(place, record, kind);
            let decision = owner.filter(|_| is_decided(kind)).and_then(|owner| {
                let of_owner = self.decisions.get(&(instance, owner))?;
                let after = of_owner.partition_point(|one| self.log.decisions[*one].requests <= place);
                of_owner.get(after.checked_sub(1)?).copied()
            });
            let signed = |word: &str| {
                record.user_agent.split_once(' ').is_some_and(|(_, rest)| rest.starts_with(word.trim_start()))
            };
            let (is_delayed, lost_response) = (signed(DELAYED), signed(NO_RESPONSE));
            writes.push(Write { place, record, instance, kind, owner, decision, is_delayed, lost_response });
        }
        writes
    }

    /// The UID of the OrderedDeployment that this write is about.
    fn owner_of(&self, place: usize, record: &'a Record, kind: Kind) -> Option<&'a str> {
        let body = record.body.as_ref();
        let name = record.name.as_deref().unwrap_or_default();
        match kind {
            Kind::Status => self.named(place, "ordereddeployments", name).map(|commit| uid(&commit.object)),
            Kind::CreateSet => controller(body?),
            Kind::CreatePod => self.controller_of(controller(body?)?, place),
            Kind::PatchSet | Kind::SetStatus | Kind::DeleteSet => {
                self.controller_of(uid(&self.named(place, "orderedreplicasets", name)?.object), place)
            }
            Kind::DeletePod => {
                let options = body.map(|body| body.get("deleteOptions").unwrap_or(body));
                let named = options.and_then(|options| options["preconditions"]["uid"].as_str());
                let last = || Some(uid(&self.named(place, "pods", name)?.object));
                self.controller_of(self.controller_of(named.or_else(last)?, place)?, place)
            }
            Kind::PatchPod => {
                let pod = uid(&self.named(place, "pods", name)?.object);
                self.controller_of(self.controller_of(pod, place)?, place)
            }
            Kind::Event | Kind::Lease | Kind::Other => None,
        }
    }

    /// The last controller reference of an object by the time that many requests were answered, also if the
    /// object is deleted.
    pub(super) fn controller_of(&self, uid: &str, requests: usize) -> Option<&'a str> {
        let until = self.until(uid, requests);
        until.iter().rev().find_map(|commit| controller(&commit.object))
    }

    /// Whether that pod has a set that exists and has that controller by the time that many requests were
    /// answered.
    pub(super) fn is_pod_of(&self, pod: &Value, owner: &str, requests: usize) -> bool {
        controller(pod).and_then(|set| self.at(set, requests)).and_then(controller) == Some(owner)
    }

    /// The last change before that request of the object with that name.
    fn named(&self, place: usize, plural: &str, name: &str) -> Option<&'a Commit> {
        let earlier = self.log.commits[..self.before[place]].iter().rev();
        earlier
            .filter(|commit| commit.plural == plural)
            .find(|commit| commit.object["metadata"]["name"].as_str() == Some(name))
    }

    /// All changes of an object.
    pub(super) fn changes(&self, uid: &str) -> impl DoubleEndedIterator<Item = &'a Commit> + '_ {
        self.objects.get(uid).into_iter().flatten().map(|place| &self.log.commits[*place])
    }

    /// An object by the time that many requests were answered, if it existed.
    pub(super) fn at(&self, uid: &str, requests: usize) -> Option<&'a Value> {
        let until = self.before.get(requests).or(self.before.last()).copied().unwrap_or_default();
        let places = self.objects.get(uid)?;
        let after = places.partition_point(|place| *place < until);
        let commit = &self.log.commits[*places.get(after.checked_sub(1)?)?];
        (!commit.deleted).then_some(&*commit.object)
    }

    /// All changes of an object by the time that many requests were answered.
    pub(super) fn until(&self, uid: &str, requests: usize) -> Vec<&'a Commit> {
        let until = self.before.get(requests).or(self.before.last()).copied().unwrap_or_default();
        let places = self.objects.get(uid).into_iter().flatten();
        places.take_while(|place| **place < until).map(|place| &self.log.commits[*place]).collect()
    }

    /// The version of the last change by the time that many requests were answered.
    pub(super) fn last_before(&self, requests: usize) -> Option<u64> {
        let until = self.before.get(requests).or(self.before.last()).copied()?;
        Some(self.log.commits[until.checked_sub(1)?].version)
    }

    /// All objects of that resource that existed by the time that many requests were answered.
    pub(super) fn all_at(&self, plural: &'a str, requests: usize) -> impl Iterator<Item = &'a Value> + '_ {
        self.objects.iter().filter_map(move |(uid, places)| {
            let first = &self.log.commits[*places.first()?];
            if first.plural == plural { self.at(uid, requests) } else { None }
        })
    }

    pub(super) fn decided(&self, decision: usize) -> &'a DecisionRecord {
        &self.log.decisions[decision]
    }

    /// The writes that carry out a decision, in the order of their responses.
    pub(super) fn sent(&self, decision: usize) -> impl Iterator<Item = &Write<'a>> {
        self.by_decision.get(&decision).into_iter().flatten().map(|place| &self.writes[*place])
    }

    /// Whether a controller may take that pod for deleted: its delete was carried out and the response was
    /// lost.
    pub(super) fn may_seem_deleted(&self, uid: &str) -> bool {
        self.writes.iter().any(|write| {
            write.kind == Kind::DeletePod && write.lost_response && write.precondition("uid") == Some(uid)
        })
    }

    /// Every act with a write that was sent, with its place.
    pub(super) fn acts(&self) -> impl Iterator<Item = (usize, &'a DecisionRecord, &'a Act)> + '_ {
        self.by_decision.keys().filter_map(|place| {
            let decided = self.decided(*place);
            match &decided.decision {
                Decision::Act(act) => Some((*place, decided, act)),
                _ => None,
            }
        })
    }

    /// Every commit that a controller's write made, with that write.
    pub(super) fn committed(&self) -> impl Iterator<Item = (&'a Commit, &Write<'a>)> {
        let writes: BTreeMap<usize, &Write<'a>> =
            self.writes.iter().map(|write| (write.place, write)).collect();
        self.log.commits.iter().filter_map(move |commit| Some((commit, *writes.get(&commit.request?)?)))
    }

    /// A violation for each write for which there is a reason.
    pub(super) fn wrong<M: Display>(
        &self,
        rule: &'static str,
        why: impl Fn(&Write<'a>) -> Option<M>,
    ) -> Vec<Violation> {
        let wrong = self.writes.iter().filter_map(|write| {
            let Record { verb, path, at, .. } = write.record;
            Some(found(rule, *at, format!("{verb} {path}: {}", why(write)?)))
        });
        wrong.collect()
    }

    /// How often that instance had been started by then.
    pub(super) fn starts(&self, instance: u32, requests: usize, at: Timestamp) -> usize {
        let starts =
            self.log.events.iter().filter(|event| event.kind == RunEventKind::InstanceStarted(instance));
        starts.filter(|event| (event.at, event.requests) <= (at, requests)).count()
    }
}

/// A violation.
pub(super) fn found(rule: &'static str, at: Timestamp, message: impl Into<String>) -> Violation {
    Violation { rule, oracle: "", at, message: message.into() }
}

/// How many commits were made before each request; the last entry is their total number.
fn before(log: &Log) -> Vec<usize> {
    let mut before = Vec::with_capacity(log.requests.len() + 1);
    let mut commits = 0;
    for (place, record) in log.requests.iter().enumerate() {
        let is_earlier = |commit: &Commit| match commit.request {
            Some(request) => request < place,
            None => commit.at <= record.at,
        };
        while log.commits.get(commits).is_some_and(is_earlier) {
            commits += 1;
        }
        before.push(commits);
    }
    before.push(log.commits.len());
    before
}

/// The kind of a write; none for reads and dry runs.
fn kind(record: &Record) -> Option<Kind> {
    if matches!(record.verb, "get" | "list" | "watch") || record.path.contains("dryRun=") {
        return None;
    }
    let subresource = record.subresource.as_deref();
    Some(match (record.plural.as_str(), record.verb, subresource) {
        ("events", "create" | "patch", None) => Kind::Event,
        ("leases", "create" | "update", None) => Kind::Lease,
        ("pods", "create", None) => Kind::CreatePod,
        ("pods", "create", Some("eviction")) | ("pods", "delete", None) => Kind::DeletePod,
        ("pods", "patch", None) => Kind::PatchPod,
        ("orderedreplicasets", "create", None) => Kind::CreateSet,
        ("orderedreplicasets", "patch", None) => Kind::PatchSet,
        ("orderedreplicasets", "patch", Some("status")) => Kind::SetStatus,
        ("orderedreplicasets", "delete", None) => Kind::DeleteSet,
        ("ordereddeployments", "patch", Some("status")) => Kind::Status,
        _ => Kind::Other,
    })
}

/// Whether writes of that kind carry out decisions.
fn is_decided(kind: Kind) -> bool {
    !matches!(kind, Kind::Event | Kind::Lease | Kind::Other | Kind::PatchPod)
}

pub(super) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn version(object: &Value) -> u64 {
    number(object["metadata"]["resourceVersion"].as_str().unwrap_or_default())
}

pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

pub(super) fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// The status of an OrderedDeployment.
pub(super) fn status(object: &Value) -> OrderedDeploymentStatus {
    serde_json::from_value(object["status"].clone()).unwrap_or_default()
}

/// The UID of the controller of an object.
pub(super) fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == Value::Bool(true))?["uid"].as_str()
}

/// The UID of the object of a decision.
pub(super) fn deployment(decided: &DecisionRecord) -> &str {
    decided.snapshot.deployment.metadata.uid.as_deref().unwrap_or_default()
}

/// The write of a controller at that place of the log of requests.
pub(super) fn write_at<'h, 'a>(history: &'h History<'a>, place: usize) -> Option<&'h Write<'a>> {
    let at = history.writes.binary_search_by_key(&place, |write| write.place).ok()?;
    Some(&history.writes[at])
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, as `docs/reliability.md` numbers it.
    pub rule: &'static str,
    /// The oracle that found it.
    pub oracle: &'static str,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What happened.
    pub message: String,
}

impl Violation {
    /// Whether that oracle found it, or that rule for decisions.
    pub fn is_of(&self, oracle: &str) -> bool {
        self.oracle == oracle || self.message.ends_with(&format!("({oracle})"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {} ({})", self.rule, self.at, self.message, self.oracle)
    }
}
