//! Expectations under a watch that lags, skips events and relists.

use std::collections::{BTreeMap, BTreeSet};

use kube_runtime::watcher::Event;
use proptest::prelude::*;

use super::{BOUND, Entry, Expectations, Index, SignedDuration, merge};
use crate::cache::entry::PodEntry;
use crate::cache::index::Seen;
use crate::testing::{at, away, gone, key, pod, pod_of, shown, terminating};

/// The merged view of the set `s1`: UID, version, whether the pod terminates.
fn view(index: &Index<PodEntry>, expectations: &Expectations<PodEntry>) -> Vec<(String, u64, bool)> {
    let merged = merge([&key("s1")], index, expectations);
    merged.iter().map(|entry| (entry.uid().to_string(), entry.version(), entry.is_terminating())).collect()
}

#[test]
fn a_readopted_terminating_pod_is_not_hidden_by_its_old_tombstone() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 5)), at(0));
    expectations.terminating(&pod("a", 7), at(1));
    index.apply(away("a", 6), at(2));
    assert!(!expectations.observe(&index, at(2)));
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 7, true)]);
    index.apply(shown(terminating(&pod("a", 8))), at(3));
    index.apply(gone("a"), at(4));
    expectations.observe(&index, at(4));
    assert_eq!(view(&index, &expectations), []);
}

/// Applies a live read at that time that found this pod.
fn read_live(
    index: &mut Index<PodEntry>,
    expectations: &mut Expectations<PodEntry>,
    entry: PodEntry,
    second: i64,
) {
    let merged = merge([&key("s1")], index, expectations);
    let min_versions = expectations.min_versions(&merged, index.gone);
    if min_versions.is_older(&entry, index) {
        expectations.rewind(entry.clone(), at(second));
        index.rewind(entry.clone(), at(second));
    }
    expectations.present(entry, at(second));
}

#[test]
fn a_live_read_of_an_older_version_replaces_what_was_known() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 9)), at(0));
    expectations.present(pod("b", 9), at(0));
    expectations.terminating(&pod("c", 9), at(0));
    for uid in ["a", "b", "c"] {
        read_live(&mut index, &mut expectations, pod(uid, 5), 1);
    }
    let back = |uid: &str| (uid.to_owned(), 5, false);
    assert_eq!(view(&index, &expectations), [back("a"), back("b"), back("c")]);
    expectations.observe(&index, at(2));
    index.apply(shown(pod("a", 6)), at(2));
    assert_eq!(view(&index, &expectations)[0], ("a".to_owned(), 6, false));
}

#[test]
fn a_live_read_brings_a_deleted_pod_back() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 5)), at(0));
    // At the time of the read, and before it.
    index.apply(gone("a"), at(1));
    expectations.gone(&key("b"), at(0));
    for uid in ["a", "b"] {
        read_live(&mut index, &mut expectations, pod(uid, 5), 1);
    }
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 5, false), ("b".to_owned(), 5, false)]);
}

#[test]
fn a_pod_deleted_during_a_live_read_does_not_come_back() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 5)), at(0));
    let merged = merge([&key("s1")], &index, &expectations);
    let min_versions = expectations.min_versions(&merged, index.gone);
    index.apply(gone("a"), at(1));
    assert!(!min_versions.is_older(&pod("a", 5), &index));
    expectations.present(pod("a", 5), at(1));
    assert_eq!(view(&index, &expectations), []);
}

#[test]
fn an_accepted_deletion_stays_until_the_watch_shows_a_deletion_timestamp() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 5)), at(0));
    expectations.terminating(&pod("a", 5), at(0));
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 5, true)]);
    // An eviction writes a condition first: a later version without a deletionTimestamp.
    index.apply(shown(pod("a", 6)), at(1));
    expectations.observe(&index, at(1));
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 5, true)]);
    index.apply(shown(terminating(&pod("a", 7))), at(2));
    expectations.observe(&index, at(2));
    assert!(expectations.is_empty());
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 7, true)]);
}

#[test]
fn a_pod_read_live_with_another_owner_is_not_ours() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 1)), at(0));
    expectations.present(pod_of("s2", "a", 2), at(0));
    assert_eq!(view(&index, &expectations), []);
}

#[test]
fn an_unconfirmed_entry_is_valid_until_the_live_read_that_it_makes_due() {
    let (index, mut expectations) = (Index::default(), Expectations::default());
    for uid in ["a", "b"] {
        expectations.present(pod(uid, 5), at(0));
    }
    assert_eq!(expectations.expires(&index), Some(at(0) + BOUND));
    assert!(!expectations.observe(&index, at(0) + BOUND));
    let due = at(0) + BOUND + SignedDuration::from_secs(1);
    assert!(expectations.observe(&index, due));
    // The live read must look for the pod, whatever labels it has now.
    assert_eq!(view(&index, &expectations).len(), 2);
    let before = expectations.dates();
    expectations.present(pod("a", 5), due);
    expectations.confirm(&before, due, &index, due);
    assert!(!expectations.observe(&index, due));
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 5, false)]);
}

#[test]
fn a_slow_live_read_is_valid_from_its_end_on() {
    // The clock jumps during the read, or does not.
    for jump in [0, -3600, 3600] {
        let (index, mut expectations) = (Index::default(), Expectations::default());
        for uid in ["a", "b"] {
            expectations.present(pod(uid, 5), at(0));
        }
        let (before, began) = (expectations.dates(), at(100));
        expectations.present(pod("a", 5), at(101 + jump));
        let end = at(200 + jump);
        expectations.confirm(&before, began, &index, end);
        assert_eq!(view(&index, &expectations), [("a".to_owned(), 5, false)]);
        assert!(!expectations.observe(&index, end + BOUND));
        assert!(expectations.observe(&index, end + BOUND + SignedDuration::from_secs(1)));
    }
}

#[test]
fn entries_in_the_future_of_a_clock_that_was_set_back_are_read_again() {
    let (index, mut expectations) = (Index::default(), Expectations::default());
    expectations.present(pod("a", 5), at(3600));
    assert!(expectations.observe(&index, at(0)));
    let before = expectations.dates();
    expectations.present(pod("a", 5), at(0));
    expectations.confirm(&before, at(0), &index, at(0));
    assert!(!expectations.observe(&index, at(0)));
    assert_eq!(view(&index, &expectations), [("a".to_owned(), 5, false)]);
}

#[test]
fn a_deleted_pod_that_the_watch_still_shows_is_read_again() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    index.apply(shown(pod("a", 5)), at(0));
    expectations.gone(&key("a"), at(0));
    let due = at(0) + BOUND + SignedDuration::from_secs(1);
    assert!(expectations.observe(&index, due));
    assert_eq!(view(&index, &expectations).len(), 1);
    let before = expectations.dates();
    expectations.gone(&key("a"), due);
    expectations.confirm(&before, due, &index, due);
    assert!(!expectations.observe(&index, due));
    assert_eq!(view(&index, &expectations), []);
    // An entry that expires while others are looked for stays until it is looked for itself.
    let later = due + BOUND + SignedDuration::from_secs(1);
    expectations.confirm(&expectations.dates(), later, &index, later);
    assert_eq!(view(&index, &expectations), []);
}

#[test]
fn a_watch_that_was_silent_for_minutes_brings_no_deleted_pod_back() {
    let (mut index, mut expectations) = (Index::default(), Expectations::default());
    expectations.terminating(&pod("a", 5), at(0));
    // The live read that is due looks for it and does not find it.
    let read = at(0) + BOUND + SignedDuration::from_secs(1);
    assert!(expectations.observe(&index, read));
    let before = expectations.dates();
    expectations.gone(&key("a"), read);
    expectations.confirm(&before, read, &index, read);
    for minutes in 1..5 {
        assert!(!expectations.observe(&index, at(60 * minutes)), "nothing to read");
        assert_eq!(expectations.expires(&index), None);
    }
    // The watch continues where it was: a read comes before the next decision.
    index.apply(shown(pod("a", 4)), at(295));
    assert!(expectations.observe(&index, at(295)));
    let before = expectations.dates();
    expectations.gone(&key("a"), at(295));
    expectations.confirm(&before, at(295), &index, at(295));
    assert!(!expectations.observe(&index, at(295)));
    assert_eq!(view(&index, &expectations), []);
    index.apply(gone("a"), at(296));
    expectations.observe(&index, at(296));
    assert!(expectations.is_empty());
}

/// One event, of a pod or of the watch.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    Touch(usize),
    /// Another client releases or adopts the pod.
    Give(usize, Owner),
    MarkDeleted(usize),
    Delete(usize),
    /// The controller reads or writes this pod in its current state.
    Know(usize),
    /// The watch shows one more event.
    Watch,
    /// The watch breaks and lists again, as of now.
    Relist,
}

/// The set that controls a pod, if any.
type Owner = Option<&'static str>;

const OURS: Owner = Some("s1");

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pick = 0_usize..6;
    let owner = prop_oneof![2 => Just(OURS), 1 => Just(Some("s2")), 1 => Just(None)];
    let step = prop_oneof![
        2 => Just(Step::Create),
        2 => pick.clone().prop_map(Step::Touch),
        2 => (pick.clone(), owner).prop_map(|(pick, owner)| Step::Give(pick, owner)),
        1 => pick.clone().prop_map(Step::MarkDeleted),
        2 => pick.clone().prop_map(Step::Delete),
        4 => pick.prop_map(Step::Know),
        4 => Just(Step::Watch),
        1 => Just(Step::Relist),
    ];
    proptest::collection::vec(step, 0..60)
}

/// The state of a pod, current or past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    version: u64,
    is_terminating: bool,
    owner: Owner,
}

impl State {
    /// `None` if none of our sets controls it.
    fn entry(self, uid: &str) -> Option<PodEntry> {
        let entry = pod_of(self.owner?, uid, self.version);
        Some(if self.is_terminating { terminating(&entry) } else { entry })
    }
}

/// The pods on the server, their history, and what the controller knows of them.
#[derive(Default)]
struct Simulation {
    version: u64,
    pods: BTreeMap<String, State>,
    created: Vec<String>,
    history: Vec<(String, u64, Option<State>)>,
    shown: usize,
    index: Index<PodEntry>,
    expectations: Expectations<PodEntry>,
    /// The latest state that the controller was shown of each pod; `None` for a deleted one.
    told: BTreeMap<String, Option<State>>,
}

impl Simulation {
    fn write(&mut self, uid: String, state: Option<(bool, Owner)>) {
        self.version += 1;
        let version = self.version;
        let state = state.map(|(is_terminating, owner)| State { version, is_terminating, owner });
        match state {
            Some(state) => self.pods.insert(uid.clone(), state),
            None => self.pods.remove(&uid),
        };
        self.history.push((uid, version, state));
    }

    fn change(&mut self, pick: usize, change: impl FnOnce(State) -> Option<(bool, Owner)>) {
        let Some(uid) = self.created.get(pick).cloned() else { return };
        if let Some(state) = self.pods.get(&uid).copied() {
            self.write(uid, change(state));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create => {
                let uid = format!("u{}", self.created.len());
                self.created.push(uid.clone());
                self.write(uid, Some((false, OURS)));
            }
            Step::Touch(pick) => self.change(pick, |state| Some((state.is_terminating, state.owner))),
            Step::Give(pick, owner) => self.change(pick, |state| Some((state.is_terminating, owner))),
            Step::MarkDeleted(pick) => self.change(pick, |state| Some((true, state.owner))),
            Step::Delete(pick) => self.change(pick, |_| None),
            Step::Know(pick) => self.know(pick),
            Step::Watch => {
                if let Some((uid, version, state)) = self.history.get(self.shown).cloned() {
                    self.shown += 1;
                    let event = match state {
                        Some(state) => {
                            let entry = state.entry(&uid);
                            Event::Apply(Seen { key: key(&uid), version, entry })
                        }
                        None => gone(&uid),
                    };
                    self.index.apply(event, at(0));
                }
            }
            Step::Relist => {
                self.shown = self.history.len();
                self.index.apply(Event::Init, at(0));
                for (uid, state) in &self.pods {
                    let (listed, version) = (key(uid), state.version);
                    let entry = state.entry(uid);
                    self.index.apply(Event::InitApply(Seen { key: listed, version, entry }), at(0));
                }
                self.index.apply(Event::InitDone, at(0));
                // The live read that follows every relist shows what the watch skipped.
                for pick in 0..self.created.len() {
                    self.know(pick);
                }
            }
        }
    }

    fn know(&mut self, pick: usize) {
        let Some(uid) = self.created.get(pick).cloned() else { return };
        let state = self.pods.get(&uid).copied();
        let known = key(&uid);
        match state {
            Some(state) if state.owner == OURS => {
                self.expectations.present(state.entry(&uid).unwrap(), at(0));
            }
            Some(state) => self.expectations.away(&known, state.version, at(0)),
            None => self.expectations.gone(&known, at(0)),
        }
        self.told.insert(uid, state);
    }

    fn merged(&self) -> BTreeMap<String, (u64, bool)> {
        view(&self.index, &self.expectations)
            .into_iter()
            .map(|(uid, version, end)| (uid, (version, end)))
            .collect()
    }

    /// The expected content of `merged` in the end.
    fn ours(&self) -> BTreeMap<String, (u64, bool)> {
        let ours = self.pods.iter().filter(|(_, state)| state.owner == OURS);
        ours.map(|(uid, state)| (uid.clone(), (state.version, state.is_terminating))).collect()
    }

    /// Whether the pod was ours after that version, whether or not the watch has shown it.
    fn came_back(&self, uid: &str, after: u64) -> bool {
        self.history.iter().any(|(other, version, state)| {
            other == uid && *version > after && state.is_some_and(|state| state.owner == OURS)
        })
    }

    fn went_away(&self, uid: &str, after: u64) -> bool {
        self.history.iter().any(|(other, version, state)| {
            other == uid && *version > after && state.is_none_or(|state| state.owner != OURS)
        })
    }
}

proptest! {
    #[test]
    fn the_merged_view_never_falls_behind_what_was_known_and_converges_to_the_server(steps in steps()) {
        let mut simulation = Simulation::default();
        for step in steps {
            simulation.step(step);
            simulation.expectations.observe(&simulation.index, at(0));
            let merged = simulation.merged();
            for (uid, told) in &simulation.told {
                match (told, merged.get(uid)) {
                    (None, shown) => prop_assert_eq!(shown, None, "{} came back", uid),
                    (Some(told), Some((shown, _))) if told.owner == OURS => {
                        prop_assert!(*shown >= told.version, "{} went back", uid);
                    }
                    (Some(told), Some(_)) => {
                        prop_assert!(simulation.came_back(uid, told.version), "{} belongs to another owner",
                        uid);
                    }
                    // A pod may be missing only if it is deleted by now, or was released since.
                    (Some(told), None) => prop_assert!(
                        told.owner != OURS || simulation.went_away(uid, told.version), "{} was lost", uid),
                }
            }
        }
        while simulation.shown < simulation.history.len() {
            simulation.step(Step::Watch);
        }
        prop_assert!(!simulation.expectations.observe(&simulation.index, at(1)));
        prop_assert_eq!(simulation.merged(), simulation.ours());
        // Only changes that a relist skipped, or pods that were never seen to be ours, cannot be
        // confirmed: their entries stay until the next list.
        let known = simulation.expectations.known.keys();
            let unconfirmed: BTreeSet<_> = known.map(|key| key.uid().to_string()).collect();
        for uid in unconfirmed {
            prop_assert!(!simulation.ours().contains_key(&uid), "{} is still unconfirmed", uid);
        }
    }
}
