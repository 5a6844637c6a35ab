//! Random values.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::case::Millis;

/// The lengths of scenarios in milliseconds, from short to long.
const LENGTHS: &[Millis] = &[5000, 15_000, 40_000, 150_000];

/// One of these.
pub(super) fn one<T: Clone>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())].clone()
}

/// A moment of the run. Early moments are more likely.
pub(super) fn moment(rng: &mut StdRng) -> Millis {
    let length = one(rng, LENGTHS);
    rng.random_range(0..length)
}
