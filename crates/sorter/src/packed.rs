//! The rules as integers: comparing two pods is comparing a few numbers.
//!
//! Every rule has its bits in one of four words, the earlier rule in the earlier word or the higher bits, so
//! that the smaller words are first.

use jiff::Timestamp;

use crate::{Facts, Phase, Rule};

/// Where the number of a rule is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) rule: Rule,
    word: usize,
    shift: u32,
    bits: u32,
}

impl Field {
    const fn new(rule: Rule, word: usize, shift: u32, bits: u32) -> Self {
        Self { rule, word, shift, bits }
    }

    /// The number of the rule.
    pub(crate) fn of(self, packed: &Packed) -> u64 {
        (packed.0[self.word] >> self.shift) & ((1 << self.bits) - 1)
    }

    fn put(self, packed: &mut Packed, number: impl Into<u64>) {
        packed.0[self.word] |= number.into() << self.shift;
    }

    /// The number that [`signed`] packed.
    fn signed(self, packed: &Packed) -> i32 {
        (self.u32(packed) ^ SIGN).cast_signed()
    }

    fn u32(self, packed: &Packed) -> u32 {
        u32::try_from(self.of(packed)).unwrap_or(u32::MAX)
    }
}

const PRIORITY: Field = Field::new(Rule::DeletePriority, 0, 4, 32);
const ASSIGNED: Field = Field::new(Rule::Unassigned, 0, 3, 1);
const PHASE: Field = Field::new(Rule::Phase, 0, 1, 2);
const READY: Field = Field::new(Rule::NotReady, 0, 0, 1);
const COST: Field = Field::new(Rule::DeletionCost, 1, 32, 32);
const RANK: Field = Field::new(Rule::Rank, 1, 0, 32);
const READY_TIME: Field = Field::new(Rule::ReadyTime, 2, 32, 8);
const RESTARTS: Field = Field::new(Rule::Restarts, 2, 0, 32);
const SIDECAR_RESTARTS: Field = Field::new(Rule::SidecarRestarts, 3, 8, 32);
const CREATION_TIME: Field = Field::new(Rule::CreationTime, 3, 0, 8);

/// All fields, in the order of their rules.
pub(crate) const FIELDS: [Field; 10] =
    [PRIORITY, ASSIGNED, PHASE, READY, COST, RANK, READY_TIME, RESTARTS, SIDECAR_RESTARTS, CREATION_TIME];

/// The sign bit: negative numbers get the smaller half of the unsigned ones.
const SIGN: u32 = 1 << 31;

fn signed(number: i32) -> u32 {
    number.cast_unsigned() ^ SIGN
}

/// The number of an event without a time: it is before every time.
const NO_TIME: u8 = 0;
/// The number of an event now or in the future.
const NO_AGE: u8 = 1;
/// The number of an age of 1 ns; every power of two is one more.
const FIRST_BUCKET: u32 = 2;

/// Larger ages in seconds do not fit into 63 bits of nanoseconds.
const MAX_SECONDS: i64 = i64::MAX / 1_000_000_000 - 2;

/// The age of an event in coarse steps; a smaller age is a smaller number.
///
/// Buckets of doubling width, as in the standard order, so that young pods are distinguished by their age and
/// old ones are not: floor(log2(age in ns)), and one less for now and the future.
fn bucket(time: Option<Timestamp>, now: Timestamp) -> u8 {
    let Some(time) = time else { return NO_TIME };
    let seconds = now.as_second() - time.as_second();
    let log = if (0..=MAX_SECONDS).contains(&seconds) {
        let rest = i64::from(now.subsec_nanosecond()) - i64::from(time.subsec_nanosecond());
        (seconds * 1_000_000_000 + rest).checked_ilog2()
    } else {
        // The span between two timestamps does not fit into 64 bits of nanoseconds.
        (now.as_nanosecond() - time.as_nanosecond()).checked_ilog2()
    };
    log.map_or(NO_AGE, |log| u8::try_from(FIRST_BUCKET + log).unwrap_or(u8::MAX))
}

/// The rules of one pod, except its UID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Packed([u64; 4]);

impl Packed {
    /// What the pod itself says; its priority, cost and rank are 0 until they are set.
    pub(crate) fn of(pod: &Facts, now: Timestamp) -> Self {
        let phase: u8 = match pod.phase {
            Phase::Pending => 0,
            Phase::Unknown => 1,
            Phase::Running => 2,
        };
        let mut packed = Self::default();
        ASSIGNED.put(&mut packed, pod.node.is_some());
        PHASE.put(&mut packed, phase);
        READY.put(&mut packed, pod.ready);
        // Rule 3 separates ready pods from others, which are compared only with each other.
        READY_TIME.put(&mut packed, if pod.ready { bucket(pod.ready_since, now) } else { NO_TIME });
        RESTARTS.put(&mut packed, !signed(pod.restarts));
        SIDECAR_RESTARTS.put(&mut packed, !signed(pod.sidecar_restarts));
        CREATION_TIME.put(&mut packed, bucket(pod.created, now));
        packed
    }

    /// With this priority, cost and rank.
    pub(crate) fn with(mut self, priority: i32, cost: i32, rank: u32) -> Self {
        PRIORITY.put(&mut self, !signed(priority));
        COST.put(&mut self, signed(cost));
        RANK.put(&mut self, !rank);
        self
    }

    /// The bits in which they differ.
    pub(crate) fn differing(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] ^ other.0[at]))
    }

    pub(crate) fn priority(self) -> i32 {
        !PRIORITY.signed(&self)
    }

    pub(crate) fn phase(self) -> Phase {
        match PHASE.of(&self) {
            0 => Phase::Pending,
            1 => Phase::Unknown,
            _ => Phase::Running,
        }
    }

    pub(crate) fn cost(self) -> i32 {
        COST.signed(&self)
    }

    pub(crate) fn rank(self) -> u32 {
        !RANK.u32(&self)
    }

    pub(crate) fn restarts(self) -> i32 {
        !RESTARTS.signed(&self)
    }

    pub(crate) fn sidecar_restarts(self) -> i32 {
        !SIDECAR_RESTARTS.signed(&self)
    }

    pub(crate) fn has_ready_time(self) -> bool {
        READY_TIME.of(&self) != u64::from(NO_TIME)
    }

    pub(crate) fn has_creation_time(self) -> bool {
        CREATION_TIME.of(&self) != u64::from(NO_TIME)
    }
}
