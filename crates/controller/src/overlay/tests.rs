//! A watch that lags, skips and relists, and what is known all the same.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Arc, BOUND, Entry, Index, Overlay, SignedDuration, Timestamp, merge};
use crate::cache::Seen;
use crate::entry::PodEntry;
use crate::testing::{pod, pod_of, terminating};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn shows(entry: PodEntry) -> Seen<PodEntry> {
    Seen::Applied { uid: Arc::clone(entry.uid()), version: entry.version(), entry: Some(entry) }
}

/// The merged view of the set `s1`: UID, version, whether it terminates.
fn view(index: &Index<PodEntry>, overlay: &Overlay<PodEntry>) -> Vec<(String, u64, bool)> {
    let merged = merge([&Arc::from("s1")], index, overlay);
    merged.iter().map(|entry| (entry.uid().to_string(), entry.version(), entry.is_terminating())).collect()
}

#[test]
fn an_own_create_is_known_before_the_watch_shows_it() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    overlay.present(pod("a", 5), at(0));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, false)]);
    index.see(shows(pod("a", 6)), at(1));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 6, false)]);
    assert!(!overlay.settle(&index, at(1)));
    assert!(overlay.is_empty());
}

#[test]
fn an_older_event_does_not_hide_what_was_read_live() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    overlay.present(pod("a", 9), at(0));
    index.see(shows(pod("a", 5)), at(1));
    overlay.settle(&index, at(1));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 9, false)]);
}

#[test]
fn a_pod_that_came_back_and_terminates_is_not_gone_by_having_been_given_away_before() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 5)), at(0));
    overlay.terminating(&pod("a", 7), at(1));
    index.see(Seen::Applied { uid: "a".into(), version: 6, entry: None }, at(2));
    assert!(!overlay.settle(&index, at(2)));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 7, true)]);
    index.see(shows(terminating(&pod("a", 8))), at(3));
    index.see(Seen::Deleted("a".into()), at(4));
    overlay.settle(&index, at(4));
    assert_eq!(view(&index, &overlay), []);
}

#[test]
fn a_pod_known_to_be_gone_does_not_come_back_when_the_watch_shows_how_it_went_to_and_fro_before() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod_of("s2", "a", 4)), at(0));
    overlay.present(pod("a", 6), at(1));
    overlay.gone(&"a".into(), at(1));
    for seen in [Seen::Applied { uid: "a".into(), version: 5, entry: None }, shows(pod("a", 6))] {
        index.see(seen, at(2));
        assert!(!overlay.settle(&index, at(2)));
        assert_eq!(view(&index, &overlay), []);
    }
    index.see(Seen::Deleted("a".into()), at(3));
    overlay.settle(&index, at(3));
    assert!(overlay.is_empty());
    assert_eq!(view(&index, &overlay), []);
}

#[test]
fn a_pod_read_live_as_nobodys_is_ours_no_more_until_it_comes_back() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 5)), at(0));
    overlay.away(&"a".into(), 6, at(1));
    assert_eq!(view(&index, &overlay), []);
    overlay.present(pod("a", 5), at(1));
    assert_eq!(view(&index, &overlay), []);
    overlay.present(pod("a", 7), at(2));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 7, false)]);
    overlay.away(&"a".into(), 6, at(2));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 7, false)]);
}

/// What a live read that begins at that time makes of this pod.
fn read_live(index: &mut Index<PodEntry>, overlay: &mut Overlay<PodEntry>, entry: PodEntry, second: i64) {
    let merged = merge([&Arc::from("s1")], index, overlay);
    let floors = overlay.floors(&merged, at(second));
    if floors.forbid(&entry, index) {
        overlay.rewind(entry.clone(), at(second));
        index.rewind(entry.clone(), at(second));
    }
    overlay.present(entry, at(second));
}

#[test]
fn a_pod_read_live_older_than_it_was_known_is_as_it_was_read() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 9)), at(0));
    overlay.present(pod("b", 9), at(0));
    overlay.terminating(&pod("c", 9), at(0));
    for uid in ["a", "b", "c"] {
        read_live(&mut index, &mut overlay, pod(uid, 5), 1);
    }
    let back = |uid: &str| (uid.to_owned(), 5, false);
    assert_eq!(view(&index, &overlay), [back("a"), back("b"), back("c")]);
    overlay.settle(&index, at(2));
    index.see(shows(pod("a", 6)), at(2));
    assert_eq!(view(&index, &overlay)[0], ("a".to_owned(), 6, false));
}

#[test]
fn a_pod_known_to_be_gone_that_is_read_live_later_is_back() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 5)), at(0));
    index.see(Seen::Deleted("a".into()), at(0));
    overlay.gone(&"b".into(), at(0));
    for uid in ["a", "b"] {
        read_live(&mut index, &mut overlay, pod(uid, 5), 1);
    }
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, false), ("b".to_owned(), 5, false)]);
}

#[test]
fn a_pod_that_goes_while_it_is_read_live_is_not_back() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 5)), at(0));
    let merged = merge([&Arc::from("s1")], &index, &overlay);
    let floors = overlay.floors(&merged, at(1));
    index.see(Seen::Deleted("a".into()), at(1));
    assert!(!floors.forbid(&pod("a", 5), &index));
    overlay.present(pod("a", 5), at(1));
    assert_eq!(view(&index, &overlay), []);
}

#[test]
fn a_create_deleted_before_the_watch_showed_it_stays_gone_when_the_watch_arrives() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    overlay.present(pod("a", 5), at(0));
    overlay.gone(&"a".into(), at(1));
    assert_eq!(view(&index, &overlay), []);
    overlay.settle(&index, at(2));
    index.see(shows(pod("a", 5)), at(2));
    overlay.settle(&index, at(2));
    assert_eq!(view(&index, &overlay), []);
    index.see(Seen::Deleted("a".into()), at(3));
    overlay.settle(&index, at(3));
    assert!(overlay.is_empty());
}

#[test]
fn an_accepted_deletion_holds_until_the_watch_shows_a_deletion_timestamp() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 5)), at(0));
    overlay.terminating(&pod("a", 5), at(0));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, true)]);
    // An eviction first writes a condition: a later version that terminates not yet.
    index.see(shows(pod("a", 6)), at(1));
    overlay.settle(&index, at(1));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, true)]);
    index.see(shows(terminating(&pod("a", 7))), at(2));
    overlay.settle(&index, at(2));
    assert!(overlay.is_empty());
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 7, true)]);
}

#[test]
fn a_relist_settles_what_it_shows_and_what_vanished() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    for uid in ["a", "b"] {
        index.see(shows(pod(uid, 1)), at(0));
        overlay.present(pod(uid, 3), at(0));
    }
    index.see(Seen::Begin, at(1));
    index.see(Seen::Listed { uid: "a".into(), version: 4, entry: Some(pod("a", 4)) }, at(1));
    index.see(Seen::End, at(1));
    assert!(!overlay.settle(&index, at(1)));
    assert!(overlay.is_empty());
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 4, false)]);
}

#[test]
fn a_recreated_name_is_another_pod() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    let named = |mut entry: PodEntry| {
        entry.pod.name = "web-1".to_owned();
        entry
    };
    index.see(shows(named(pod("a", 1))), at(0));
    overlay.gone(&"a".into(), at(0));
    overlay.present(named(pod("b", 7)), at(0));
    assert_eq!(view(&index, &overlay), [("b".to_owned(), 7, false)]);
}

#[test]
fn a_pod_read_live_with_another_owner_is_ours_no_more() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 1)), at(0));
    overlay.present(pod_of("s2", "a", 2), at(0));
    assert_eq!(view(&index, &overlay), []);
}

#[test]
fn an_unconfirmed_entry_is_believed_until_a_live_read_that_becomes_due() {
    let (index, mut overlay) = (Index::default(), Overlay::default());
    for uid in ["a", "b"] {
        overlay.present(pod(uid, 5), at(0));
    }
    assert_eq!(overlay.expires(), Some(at(0) + BOUND));
    assert!(!overlay.settle(&index, at(0) + BOUND));
    let due = at(0) + BOUND + SignedDuration::from_secs(1);
    assert!(overlay.settle(&index, due));
    // The read has to know what to look for, whatever labels it has by now.
    assert_eq!(view(&index, &overlay).len(), 2);
    let before = overlay.dates();
    overlay.present(pod("a", 5), due);
    overlay.confirm(&before, due, &index, due);
    assert!(!overlay.settle(&index, due));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, false)]);
}

#[test]
fn what_a_long_read_found_at_its_beginning_is_believed_from_its_end_on() {
    // The clock jumps meanwhile, or does not.
    for jump in [0, -3600, 3600] {
        let (index, mut overlay) = (Index::default(), Overlay::default());
        for uid in ["a", "b"] {
            overlay.present(pod(uid, 5), at(0));
        }
        let (before, began) = (overlay.dates(), at(100));
        overlay.present(pod("a", 5), at(101 + jump));
        let end = at(200 + jump);
        overlay.confirm(&before, began, &index, end);
        assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, false)]);
        assert!(!overlay.settle(&index, end + BOUND));
        assert!(overlay.settle(&index, end + BOUND + SignedDuration::from_secs(1)));
    }
}

#[test]
fn what_lies_ahead_of_a_clock_that_was_set_back_is_read_again() {
    let (index, mut overlay) = (Index::default(), Overlay::default());
    overlay.present(pod("a", 5), at(3600));
    assert!(overlay.settle(&index, at(0)));
    let before = overlay.dates();
    overlay.present(pod("a", 5), at(0));
    overlay.confirm(&before, at(0), &index, at(0));
    assert!(!overlay.settle(&index, at(0)));
    assert_eq!(view(&index, &overlay), [("a".to_owned(), 5, false)]);
}

#[test]
fn a_pod_known_to_be_gone_is_looked_for_again_where_the_watch_still_shows_it() {
    let (mut index, mut overlay) = (Index::default(), Overlay::default());
    index.see(shows(pod("a", 5)), at(0));
    overlay.gone(&"a".into(), at(0));
    let due = at(0) + BOUND + SignedDuration::from_secs(1);
    assert!(overlay.settle(&index, due));
    assert_eq!(view(&index, &overlay).len(), 1);
    let before = overlay.dates();
    overlay.gone(&"a".into(), due);
    overlay.confirm(&before, due, &index, due);
    assert!(!overlay.settle(&index, due));
    assert_eq!(view(&index, &overlay), []);
    // One that becomes old while others are looked for stays until it is looked for itself.
    let later = due + BOUND + SignedDuration::from_secs(1);
    overlay.confirm(&overlay.dates(), later, &index, later);
    assert_eq!(view(&index, &overlay), []);
}

/// One thing that happens: to a pod, or to the watch.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    Touch(usize),
    /// Somebody lets go of it, or takes it.
    Give(usize, Owner),
    MarkDeleted(usize),
    Delete(usize),
    /// The controller reads or writes this pod, whatever it is now.
    Know(usize),
    /// The watch shows one more event.
    Watch,
    /// The watch breaks and lists anew, as of now.
    Relist,
}

/// The set that controls a pod, if one does.
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

/// A pod as it is, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    version: u64,
    is_terminating: bool,
    owner: Owner,
}

impl State {
    /// `None`: nobody of ours controls it.
    fn entry(self, uid: &str) -> Option<PodEntry> {
        let entry = pod_of(self.owner?, uid, self.version);
        Some(if self.is_terminating { terminating(&entry) } else { entry })
    }
}

/// The truth, its history, and what the controller knows of it.
#[derive(Default)]
struct World {
    version: u64,
    pods: BTreeMap<String, State>,
    created: Vec<String>,
    history: Vec<(String, u64, Option<State>)>,
    shown: usize,
    index: Index<PodEntry>,
    overlay: Overlay<PodEntry>,
    /// The latest that the controller was told of each pod; `None` for gone.
    told: BTreeMap<String, Option<State>>,
}

impl World {
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
                    let uid = Arc::<str>::from(uid);
                    let seen = match state {
                        Some(state) => {
                            let entry = state.entry(&uid);
                            Seen::Applied { uid, version, entry }
                        }
                        None => Seen::Deleted(uid),
                    };
                    self.index.see(seen, at(0));
                }
            }
            Step::Relist => {
                self.shown = self.history.len();
                self.index.see(Seen::Begin, at(0));
                for (uid, state) in &self.pods {
                    let (uid, version) = (Arc::from(&**uid), state.version);
                    let entry = state.entry(&uid);
                    self.index.see(Seen::Listed { uid, version, entry }, at(0));
                }
                self.index.see(Seen::End, at(0));
                // What came and went unseen is told by the live read that follows every relist.
                for pick in 0..self.created.len() {
                    self.know(pick);
                }
            }
        }
    }

    fn know(&mut self, pick: usize) {
        let Some(uid) = self.created.get(pick).cloned() else { return };
        let state = self.pods.get(&uid).copied();
        let known = Arc::from(&*uid);
        match state {
            Some(state) if state.owner == OURS => {
                self.overlay.present(state.entry(&uid).unwrap(), at(0));
            }
            Some(state) => self.overlay.away(&known, state.version, at(0)),
            None => self.overlay.gone(&known, at(0)),
        }
        self.told.insert(uid, state);
    }

    fn merged(&self) -> BTreeMap<String, (u64, bool)> {
        view(&self.index, &self.overlay)
            .into_iter()
            .map(|(uid, version, end)| (uid, (version, end)))
            .collect()
    }

    /// What `merged` should be in the end.
    fn ours(&self) -> BTreeMap<String, (u64, bool)> {
        let ours = self.pods.iter().filter(|(_, state)| state.owner == OURS);
        ours.map(|(uid, state)| (uid.clone(), (state.version, state.is_terminating))).collect()
    }

    /// Whether it was ours after that version, as far as the watch has shown or not.
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
    fn the_merged_view_never_falls_behind_what_was_known_and_ends_at_the_truth(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            world.step(step);
            world.overlay.settle(&world.index, at(0));
            let merged = world.merged();
            for (uid, told) in &world.told {
                match (told, merged.get(uid)) {
                    (None, shown) => prop_assert_eq!(shown, None, "{} came back", uid),
                    (Some(told), Some((shown, _))) if told.owner == OURS => {
                        prop_assert!(*shown >= told.version, "{} went back", uid);
                    }
                    (Some(told), Some(_)) => {
                        prop_assert!(world.came_back(uid, told.version), "{} is somebody else's", uid);
                    }
                    // Unseen only if it really is gone by now, or was given away since.
                    (Some(told), None) => prop_assert!(
                        told.owner != OURS || world.went_away(uid, told.version), "{} was lost", uid),
                }
            }
        }
        while world.shown < world.history.len() {
            world.step(Step::Watch);
        }
        prop_assert!(!world.overlay.settle(&world.index, at(1)));
        prop_assert_eq!(world.merged(), world.ours());
        // Only what a relist skipped over, or what was never seen to be ours, can never be confirmed: it is waited for
        // until the bound.
        let unconfirmed: BTreeSet<_> = world.overlay.0.keys().map(ToString::to_string).collect();
        for uid in unconfirmed {
            prop_assert!(!world.ours().contains_key(&uid), "{} is still unconfirmed", uid);
        }
    }
}
