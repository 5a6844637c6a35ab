//! Draws from the seed.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::case::Millis;

/// Scenarios take so long, in milliseconds: the most of them, most of them, and the longer ones.
const LONG: &[Millis] = &[5000, 15_000, 40_000, 150_000];

/// One of these.
pub(super) fn one<T: Clone>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())].clone()
}

/// A moment of the run, sooner rather than later.
pub(super) fn moment(rng: &mut StdRng) -> Millis {
    let long = one(rng, LONG);
    rng.random_range(0..long)
}
