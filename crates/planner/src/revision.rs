//! The current revision: which sets have the spec's template. Only this module decides that.
//!
//! A set has the template if both are written alike, or if it stores that the API server found them equal. If
//! no set has it, the API server is asked before a rollout starts. This module compares templates only by
//! their canonical text.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_api::{Template, equality_hash, template_hash};

use crate::{ComparisonResult, Set, Snapshot};

/// The current template, compared with those of the sets.
#[derive(Debug)]
pub(crate) struct Revision<'a> {
    /// Its set; the oldest of several (after a collision that was undone by hand). Until the template is
    /// known to be new, the set of the rollout so far.
    pub(crate) current: Option<&'a Set>,
    /// The `pod-template-hash` of the current set, or of the one to create.
    pub(crate) hash: String,
    pub(crate) template: Template,
    /// The sets to compare with, in order; none once the template is known to equal theirs, or to be new.
    pub(crate) candidates: Vec<&'a Set>,
}

impl<'a> Revision<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let template = snapshot.deployment.spec.template.without_hash();
        let mut revision = Self { current: None, hash: String::new(), template, candidates: Vec::new() };
        let begun = begun(snapshot);
        let same = || snapshot.sets.iter().filter(|set| revision.is_of(set));
        let current = same().filter(|set| !set.terminating);
        let current = current.min_by(|first, second| first.seniority().cmp(&second.seniority()));
        // A rollout keeps its identity while its set is being deleted.
        let going = same().find(|set| begun == Some(set.hash.as_str()));
        let (hash, is_known) = match (current, going) {
            (Some(set), _) | (None, Some(set)) => (set.hash.clone(), true),
            (None, None) => {
                let hash = hash_without_set(snapshot);
                // A set with this hash and another text has another spelling, or another template.
                let is_taken = snapshot.sets.iter().any(|set| set.hash == hash);
                let is_begun = begun == Some(hash.as_str()) && !is_taken;
                let is_known = is_begun || snapshot.comparison == ComparisonResult::New;
                (hash, is_known || same().next().is_some())
            }
        };
        (revision.current, revision.hash) = (current, hash);
        if !is_known {
            revision.candidates = candidates(snapshot, begun);
            if let Some(stand_in) = revision.candidates.first() {
                (revision.current, revision.hash) = (Some(*stand_in), stand_in.hash.clone());
            }
        }
        revision
    }

    /// Whether the pods of that set are of the current template.
    pub(crate) fn has(&self, set: &Set) -> bool {
        let is_like = |current: &Set| current.uid == set.uid || current.template.same_as(&set.template);
        (!self.needs_comparison() && self.is_of(set)) || self.current.is_some_and(is_like)
    }

    /// Whether it is unknown if the template equals that of a set.
    pub(crate) fn needs_comparison(&self) -> bool {
        !self.candidates.is_empty()
    }

    fn is_of(&self, set: &Set) -> bool {
        set.template.same_as(&self.template) || remembers(set, &self.template)
    }
}

/// Whether that set is known to have that template.
#[must_use]
pub fn is_of(set: &Set, template: &Template) -> bool {
    let template = template.without_hash();
    set.template.same_as(&template) || remembers(set, &template)
}

/// UIDs of the sets that the template must be compared with before any other decision, in that order.
#[must_use]
pub fn to_compare(snapshot: &Snapshot) -> Vec<Arc<str>> {
    uids(&Revision::of(snapshot).candidates)
}

fn remembers(set: &Set, template: &Template) -> bool {
    !set.equal_templates.is_empty() && set.equal_templates.contains(&equality_hash(&set.template, template))
}

/// The set of the rollout so far comes first, then the one that served last, then the newest.
fn candidates<'a>(snapshot: &'a Snapshot, begun: Option<&str>) -> Vec<&'a Set> {
    let mut sets: Vec<_> = snapshot.sets.iter().filter(|set| !set.terminating).collect();
    sets.sort_by(|one, other| {
        let rank = |set: &Set| (begun == Some(set.hash.as_str()), set.served, set.revision);
        rank(other).cmp(&rank(one)).then_with(|| one.seniority().cmp(&other.seniority()))
    });
    sets
}

pub(crate) fn uids(sets: &[&Set]) -> Vec<Arc<str>> {
    sets.iter().map(|set| Arc::clone(&set.uid)).collect()
}

/// The hash with which the rollout began.
fn begun(snapshot: &Snapshot) -> Option<&str> {
    Some(snapshot.deployment.status.as_ref()?.rollout.as_ref()?.template_hash.as_str())
}

/// The hash of the current template without a set. It stays the hash with which the rollout began if a user
/// deletes the set: another hash would be another rollout.
fn hash_without_set(snapshot: &Snapshot) -> String {
    let template = &snapshot.deployment.spec.template;
    let collisions =
        snapshot.deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let begun = begun(snapshot);
    let earlier =
        (collisions.saturating_sub(8).max(0)..collisions).map(|count| template_hash(template, count));
    let mut hashes = std::iter::once(template_hash(template, collisions)).chain(earlier);
    hashes.find(|hash| begun == Some(hash)).unwrap_or_else(|| template_hash(template, collisions))
}

/// Gives each set a unique hash, by which sets are distinguished. Two sets have the same hash if one of them
/// was adopted from another deployment; the oldest set that is not terminating keeps it.
pub fn make_hashes_unique<'a>(sets: impl IntoIterator<Item = &'a mut Set>) {
    let mut sets: Vec<&mut Set> = sets.into_iter().collect();
    if sets.iter().map(|set| set.hash.as_str()).collect::<BTreeSet<_>>().len() == sets.len() {
        return;
    }
    sets.sort_by(|one, other| one.seniority().cmp(&other.seniority()));
    let mut seen = BTreeSet::new();
    for set in sets {
        if !seen.insert(set.hash.clone()) {
            set.hash = format!("{}-{}", set.hash, set.uid);
        }
    }
}
