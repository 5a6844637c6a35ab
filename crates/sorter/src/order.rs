//! The order of many pods at once: each node is looked up and matched once, and only the bits in which the
//! pods differ are compared.
//!
//! It gives the order of the keys, and makes no key before it is asked for one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use rustc_hash::FxBuildHasher;

use crate::key::{cost_with, priority_with};
use crate::node::{Wanted, grant_on};
use crate::packed::{FIELDS, Field, Packed};
use crate::{Facts, Key, NodeRule, Nodes};

/// Active pods, to be ordered.
#[derive(Debug)]
pub struct Pods<'a> {
    now: Timestamp,
    /// Whether pods on the same node count.
    ranked: bool,
    rows: Vec<Row<'a>>,
    /// The first one stands for no node.
    nodes: Vec<NodePods<'a>>,
    by_name: HashMap<&'a str, usize, FxBuildHasher>,
}

/// Up to so many pods are compared rule by rule: to make integers would take longer.
const FEW: usize = 24;

/// A pod to be ordered.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    packed: Packed,
    /// The first bytes of its UID, which are different for most pods.
    uid: u64,
    pod: &'a Facts,
    node: usize,
}

/// What is counted of a node.
#[derive(Debug, Default)]
struct NodePods<'a> {
    name: Option<&'a Arc<str>>,
    rank: u32,
    /// Whether a node rule could grant something to one of its pods.
    wants_priority: bool,
    wants_cost: bool,
}

impl<'a> Pods<'a> {
    /// No pods yet, in the order as of that time: the buckets of rules 6 and 8 depend on it.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let nodes = vec![NodePods::default()];
        Self { now, ranked: true, rows: Vec::new(), nodes, by_name: HashMap::default() }
    }

    /// Reserves room for that many more pods.
    #[must_use]
    pub fn with_room_for(mut self, pods: usize) -> Self {
        self.rows.reserve(pods);
        self
    }

    /// The pods of a set without an owner: every rank is 0.
    ///
    /// Source: `getReplicaSetsWithSameController` in Kubernetes' `pkg/controller/replicaset/replica_set.go`.
    #[must_use]
    pub fn without_ranks(mut self) -> Self {
        self.ranked = false;
        self
    }

    /// Adds a pod to be ordered. Its index is the number of pods that were added before.
    pub fn add(&mut self, pod: &'a Facts) {
        let node = self.count(pod);
        let packed = Packed::of(pod, self.now);
        self.rows.push(Row { packed, uid: first_bytes(&pod.uid), pod, node });
    }

    /// Counts a pod for the ranks of the others, without a place in the order.
    pub fn add_related(&mut self, pod: &'a Facts) {
        self.count(pod);
    }

    fn count(&mut self, pod: &'a Facts) -> usize {
        let known = pod.node.as_ref().map(|name| (name, self.by_name.get(&**name)));
        let at = match known {
            None => 0,
            Some((_, Some(at))) => *at,
            Some((name, None)) => {
                self.by_name.insert(name, self.nodes.len());
                self.nodes.push(NodePods { name: Some(name), ..NodePods::default() });
                self.nodes.len() - 1
            }
        };
        let node = &mut self.nodes[at];
        // Unassigned pods share no node.
        node.rank += u32::from(at > 0 && self.ranked);
        node.wants_priority |= pod.priority.is_none();
        node.wants_cost |= pod.cost.is_none();
        at
    }

    /// The nodes that a rule needs for one of these pods and that are not known yet.
    ///
    /// Empty if no rule reads a node. A pod needs no node if its own annotations override everything that a
    /// rule could grant.
    #[must_use]
    pub fn missing_nodes(&self, rules: &[NodeRule], known: &Nodes) -> BTreeSet<Arc<str>> {
        let wanted = Wanted::of(rules);
        let wants = |node: &&NodePods<'_>| wanted.is_for(!node.wants_priority, !node.wants_cost);
        let names = self.nodes.iter().filter(wants).filter_map(|node| node.name);
        names.filter(|name| !known.contains_key(*name)).cloned().collect()
    }

    /// All of them in their order, with these node rules and known nodes.
    #[must_use]
    pub fn order(mut self, rules: &[NodeRule], nodes: &Nodes) -> Order<'a> {
        let differing = self.rank_and_grant(rules, nodes);
        let rows = self.rows;
        let fits = rows.len() > FEW && u32::try_from(rows.len()).is_ok();
        let squeezed = if fits { Squeezed::of(&rows, &differing) } else { None };
        let indices = if let Some(squeezed) = squeezed {
            squeezed.order(&rows)
        } else {
            let mut indices: Vec<usize> = (0..rows.len()).collect();
            indices.sort_unstable_by_key(|index| (rows[*index].packed, &rows[*index].pod.uid));
            indices
        };
        Order { rows, indices }
    }

    /// Completes the numbers of each pod. Returns the bits in which they differ.
    fn rank_and_grant(&mut self, rules: &[NodeRule], nodes: &Nodes) -> Packed {
        let grants: Vec<_> = match rules {
            [] => Vec::new(),
            rules => self.nodes.iter().map(|node| grant_on(node.name, rules, nodes)).collect(),
        };
        let mut first = None;
        let mut differing = Packed::default();
        for row in &mut self.rows {
            let grant = grants.get(row.node).copied().flatten();
            let (priority, cost) = (priority_with(row.pod, grant), cost_with(row.pod, grant));
            row.packed = row.packed.with(priority, cost, self.nodes[row.node].rank);
            let first = first.get_or_insert(row.packed);
            differing = differing.or(row.packed.differing(*first));
        }
        differing
    }
}

/// So few bits are not worth a look at all numbers.
const FEW_BITS: u32 = 8;

/// How many bits a number takes.
fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// A field in which the pods differ: its numbers from the smallest on, and how many bits these take.
struct Narrow {
    field: Field,
    least: u64,
    bits: u32,
}

impl Narrow {
    /// `None` if the field is the same in all rows.
    fn of(field: Field, differing: &Packed, rows: &[Row<'_>]) -> Option<Self> {
        let bits = bits(field.of(differing));
        let mut numbers = rows.iter().map(|row| field.of(&row.packed));
        let first = numbers.next().filter(|_| bits > 0)?;
        if bits <= FEW_BITS {
            return Some(Self { field, least: first >> bits << bits, bits });
        }
        // Two numbers on both sides of 0 differ in all bits, however close they are.
        let (least, most) =
            numbers.fold((first, first), |(least, most), number| (least.min(number), most.max(number)));
        Some(Self { field, least, bits: self::bits(most - least) })
    }
}

/// The fields in which the pods differ, in as few bits as they take.
///
/// With the begin of the UID and the index of the pod they make one integer, and integers are sorted without
/// a branch for each comparison.
struct Squeezed {
    fields: Vec<Narrow>,
    bits: u32,
}

/// The lowest bits of an integer have the index of the pod.
const INDEX_BITS: u32 = u32::BITS;

impl Squeezed {
    /// `None` if they leave less than half of an integer for the UID and the index.
    fn of(rows: &[Row<'_>], differing: &Packed) -> Option<Self> {
        let fields = FIELDS.into_iter();
        let fields: Vec<_> = fields.filter_map(|field| Narrow::of(field, differing, rows)).collect();
        let bits = fields.iter().map(|narrow| narrow.bits).sum();
        (bits <= u64::BITS).then_some(Self { fields, bits })
    }

    /// The indices of the rows in their order.
    fn order(&self, rows: &[Row<'_>]) -> Vec<usize> {
        let mut integers: Vec<u128> = (0..).zip(rows).map(|(index, row)| self.integer(row, index)).collect();
        integers.sort_unstable();
        let index = |integer: u128| usize::try_from(integer & u128::from(u32::MAX)).unwrap_or_default();
        for ties in integers.chunk_by_mut(|one, other| is_tie(*one, *other)).filter(|ties| ties.len() > 1) {
            ties.sort_unstable_by(|one, other| rows[index(*one)].pod.uid.cmp(&rows[index(*other)].pod.uid));
        }
        integers.into_iter().map(index).collect()
    }

    fn integer(&self, row: &Row<'_>, index: u32) -> u128 {
        let append = |number: u64, Narrow { field, least, bits }: &Narrow| {
            (number << bits) | (field.of(&row.packed) - least)
        };
        let rules = self.fields.iter().fold(0, append);
        // Without a bit, there is nothing to shift.
        let rules = u128::from(rules).checked_shl(u128::BITS - self.bits).unwrap_or(0);
        let uid = u128::from(row.uid) << (u128::BITS - u64::BITS) >> self.bits;
        rules | (uid >> INDEX_BITS << INDEX_BITS) | u128::from(index)
    }
}

/// Whether two integers differ only in their indices.
fn is_tie(one: u128, other: u128) -> bool {
    (one ^ other) >> INDEX_BITS == 0
}

/// The first 8 bytes as a number that is ordered as they are.
fn first_bytes(uid: &str) -> u64 {
    let uid = uid.as_bytes();
    let bytes = uid.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; 8];
        for (byte, of) in bytes.iter_mut().zip(uid) {
            *byte = *of;
        }
        bytes
    });
    u64::from_be_bytes(bytes)
}

/// Pods in their order.
#[derive(Debug, Default)]
pub struct Order<'a> {
    rows: Vec<Row<'a>>,
    indices: Vec<usize>,
}

impl Order<'_> {
    /// The indices of the pods, the first to be deleted first.
    #[must_use]
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The delete priority of the pod with that index, from its annotation or a node rule.
    #[must_use]
    pub fn priority(&self, index: usize) -> i32 {
        self.rows[index].packed.priority()
    }

    /// The key of the pod with that index.
    #[must_use]
    pub fn key(&self, index: usize) -> Key {
        let row = &self.rows[index];
        Key { packed: row.packed, uid: Arc::clone(&row.pod.uid) }
    }
}
