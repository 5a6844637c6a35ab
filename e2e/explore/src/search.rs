//! The search: every reachable state of a cluster, breadth first, and cycles of expected events.

use std::collections::{BTreeMap, VecDeque};

use anyhow::Result;
use ordereddeployment_oracle::Violation;
use rustc_hash::FxHashMap;

use crate::case::Case;
use crate::events::{Event, successors};
use crate::setup::Setup;
use crate::state::State;

/// The results of one cluster.
#[derive(Debug, Default)]
pub struct Outcome {
    pub states: u64,
    pub transitions: u64,
    /// The length of the longest shortest path.
    pub depth: u32,
    /// Whether the limit of states ended the search.
    pub is_cut: bool,
    /// By oracle: the first finding, which has the shortest trace.
    pub findings: BTreeMap<&'static str, Finding>,
}

/// A violation, and how it is reached.
#[derive(Debug)]
pub struct Finding {
    /// The number of states with it.
    pub count: u64,
    pub violation: Violation,
    /// The events and states that lead to it.
    pub trace: Vec<String>,
}

/// All states of one case, by their number.
struct Graph {
    /// Of each state: the state before, and the place of the transition there.
    parents: Vec<(u32, u32)>,
    depths: Vec<u32>,
    /// The expected successors of all states one after the other, and where those of each state begin.
    edges: Vec<u32>,
    begins: Vec<usize>,
}

/// Explores one cluster.
pub fn explore(case: Case, limit: usize) -> Result<Outcome> {
    let setup = Setup::of(case)?;
    let first = State::first(&setup)?;
    let mut known: FxHashMap<u128, u32> = FxHashMap::from_iter([(first.key(), 0)]);
    let mut graph = Graph { parents: vec![(0, 0)], depths: vec![0], edges: Vec::new(), begins: Vec::new() };
    let mut frontier = VecDeque::from([first]);
    let mut outcome = Outcome::default();
    let mut found: BTreeMap<&'static str, (u64, Violation, u32)> = BTreeMap::new();
    let mut at = 0_u32;
    while let Some(state) = frontier.pop_front() {
        let followed = successors(&state, &setup)?;
        for violation in followed.violations {
            found.entry(violation.oracle).or_insert((0, violation, at)).0 += 1;
        }
        graph.begins.push(graph.edges.len());
        outcome.transitions += followed.transitions.len() as u64;
        let depth = graph.depths[at as usize];
        outcome.depth = outcome.depth.max(depth);
        for (place, next) in (0..).zip(followed.transitions) {
            let key = next.state.key();
            let number = match known.get(&key) {
                Some(number) => *number,
                None if known.len() >= limit => {
                    outcome.is_cut = true;
                    continue;
                }
                None => {
                    let number = u32::try_from(known.len())?;
                    known.insert(key, number);
                    graph.parents.push((at, place));
                    graph.depths.push(depth + 1);
                    frontier.push_back(next.state);
                    number
                }
            };
            if next.is_expected && number != at {
                graph.edges.push(number);
            }
        }
        at += 1;
    }
    graph.begins.push(graph.edges.len());
    outcome.states = u64::from(at);
    if let Some(state) = graph.cycle() {
        let message = "without faults, this state is reached again and again".to_owned();
        let violation = Violation { rule: "L1", oracle: "explore::cycle", message };
        found.insert("explore::cycle", (1, violation, state));
    }
    for (oracle, (count, violation, state)) in found {
        let mut trace = graph.trace(state, &setup)?;
        if oracle == "explore::cycle" {
            trace.push("repeated from here:".to_owned());
        }
        outcome.findings.insert(oracle, Finding { count, violation, trace });
    }
    Ok(outcome)
}

impl Graph {
    /// A state on a cycle of expected events, if there is one.
    fn cycle(&self) -> Option<u32> {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Visit {
            Unvisited,
            OnPath,
            Done,
        }
        let mut visits = vec![Visit::Unvisited; self.begins.len() - 1];
        for start in 0..visits.len() {
            if visits[start] != Visit::Unvisited {
                continue;
            }
            visits[start] = Visit::OnPath;
            let mut path = vec![(start, self.begins[start])];
            while let Some((state, edge)) = path.last_mut() {
                if *edge == self.begins[*state + 1] {
                    visits[*state] = Visit::Done;
                    path.pop();
                    continue;
                }
                let next = self.edges[*edge] as usize;
                *edge += 1;
                match visits[next] {
                    Visit::Unvisited => {
                        visits[next] = Visit::OnPath;
                        path.push((next, self.begins[next]));
                    }
                    Visit::OnPath => return u32::try_from(next).ok(),
                    Visit::Done => {}
                }
            }
        }
        None
    }

    /// The events and states on the path to a state.
    fn trace(&self, state: u32, setup: &Setup) -> Result<Vec<String>> {
        let mut places = Vec::new();
        let mut at = state;
        while at != 0 {
            let (parent, place) = self.parents[at as usize];
            places.push(place);
            at = parent;
        }
        let mut state = State::first(setup)?;
        let mut lines = vec![format!("{state}")];
        for place in places.into_iter().rev() {
            let next = successors(&state, setup)?.transitions.into_iter().nth(place as usize);
            let Some(next) = next else { break };
            lines.push(format!("{:?}:", next.event));
            state = next.state;
            lines.push(format!("    {state}"));
            debug_assert!(next.event != Event::Restart || state.failure.is_none());
        }
        Ok(lines)
    }
}
