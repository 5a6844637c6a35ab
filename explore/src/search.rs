//! The search: every state that a cluster can come to, breadth first, and whether each order of what is waited for ends well.

use std::collections::{BTreeMap, HashMap, VecDeque};

use anyhow::Result;
use ordereddeployment_oracle::{Wrong, rest};

use crate::case::{Case, Fixed};
use crate::events::{Event, successors};
use crate::state::{State, Statuses};

/// What was found in one cluster.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many states there are.
    pub states: u64,
    /// How many transitions.
    pub transitions: u64,
    /// How many steps the farthest state is away.
    pub depth: u32,
    /// Whether the limit of states ended the search.
    pub is_cut: bool,
    /// By oracle: how many states break a rule, and the first, which is the nearest.
    pub broken: BTreeMap<&'static str, Broken>,
}

/// A rule that is broken.
#[derive(Debug)]
pub struct Broken {
    /// In how many states.
    pub count: u64,
    /// What is wrong.
    pub wrong: Wrong,
    /// How it comes to that.
    pub trace: Vec<String>,
}

/// All states of one case, by their number.
struct Graph {
    /// From which state, and which of its successors.
    parents: Vec<(u32, u32)>,
    depths: Vec<u32>,
    /// The natural successors of all states one after the other, and where those of each begin.
    edges: Vec<u32>,
    begins: Vec<usize>,
}

/// Explores one cluster.
pub fn explore(case: Case, limit: usize) -> Result<Outcome> {
    let fixed = Fixed::of(case)?;
    let mut statuses = Statuses::default();
    let first = State::first(&fixed, &mut statuses)?;
    let mut known: HashMap<u128, u32> = HashMap::from([(first.key(), 0)]);
    let mut graph = Graph { parents: vec![(0, 0)], depths: vec![0], edges: Vec::new(), begins: Vec::new() };
    let mut frontier = VecDeque::from([first]);
    let mut outcome = Outcome::default();
    let mut found: BTreeMap<&'static str, (u64, Wrong, u32)> = BTreeMap::new();
    let mut at = 0_u32;
    while let Some(state) = frontier.pop_front() {
        let followed = successors(&state, &fixed, &mut statuses)?;
        let natural = followed.next.iter().filter(|next| next.is_natural).count();
        let mut wrong = followed.wrong;
        if let Some(snapshot) = &followed.rest {
            wrong.extend(rest(snapshot, natural == 0, state.failure.is_some()));
        }
        for wrong in wrong {
            found.entry(wrong.oracle).or_insert((0, wrong, at)).0 += 1;
        }
        graph.begins.push(graph.edges.len());
        outcome.transitions += followed.next.len() as u64;
        let depth = graph.depths[at as usize];
        outcome.depth = outcome.depth.max(depth);
        for (place, next) in (0..).zip(followed.next) {
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
            if next.is_natural && number != at {
                graph.edges.push(number);
            }
        }
        at += 1;
    }
    graph.begins.push(graph.edges.len());
    outcome.states = u64::from(at);
    if let Some(state) = graph.cycle() {
        let words = "nothing disturbs, and yet it comes back here for ever".to_owned();
        found.insert("explore::cycle", (1, Wrong { rule: "L1", oracle: "explore::cycle", words }, state));
    }
    for (oracle, (count, wrong, state)) in found {
        let mut trace = graph.trace(state, &fixed)?;
        if oracle == "explore::cycle" {
            trace.push("and then, again and again:".to_owned());
        }
        outcome.broken.insert(oracle, Broken { count, wrong, trace });
    }
    Ok(outcome)
}

impl Graph {
    /// A state on a cycle of natural successors, if there is one.
    fn cycle(&self) -> Option<u32> {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Seen {
            Not,
            Open,
            Done,
        }
        let mut seen = vec![Seen::Not; self.begins.len() - 1];
        for start in 0..seen.len() {
            if seen[start] != Seen::Not {
                continue;
            }
            seen[start] = Seen::Open;
            let mut path = vec![(start, self.begins[start])];
            while let Some((state, edge)) = path.last_mut() {
                if *edge == self.begins[*state + 1] {
                    seen[*state] = Seen::Done;
                    path.pop();
                    continue;
                }
                let next = self.edges[*edge] as usize;
                *edge += 1;
                match seen[next] {
                    Seen::Not => {
                        seen[next] = Seen::Open;
                        path.push((next, self.begins[next]));
                    }
                    Seen::Open => return u32::try_from(next).ok(),
                    Seen::Done => {}
                }
            }
        }
        None
    }

    /// How it comes to a state, in words.
    fn trace(&self, state: u32, fixed: &Fixed) -> Result<Vec<String>> {
        let mut places = Vec::new();
        let mut at = state;
        while at != 0 {
            let (parent, place) = self.parents[at as usize];
            places.push(place);
            at = parent;
        }
        let mut statuses = Statuses::default();
        let mut state = State::first(fixed, &mut statuses)?;
        let mut lines = vec![format!("{state}")];
        for place in places.into_iter().rev() {
            let next = successors(&state, fixed, &mut statuses)?.next.into_iter().nth(place as usize);
            let Some(next) = next else { break };
            lines.push(format!("{}:", next.event));
            state = next.state;
            lines.push(format!("    {state}"));
            debug_assert!(next.event != Event::Restart || state.failure.is_none());
        }
        Ok(lines)
    }
}
