//! Which cases are played: every crash of every scenario, and random faults by seed.

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::case::{Case, Fault, Moment};
use crate::run::{Error, run};
use crate::scenarios;

/// The three moments at which a write can be cut off.
pub const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Unanswered, Moment::Answered];

/// Every scenario as it is without faults.
#[must_use]
pub fn calm() -> Vec<Case> {
    scenarios::ALL.iter().map(|scenario| scenario(&mut StdRng::seed_from_u64(1))).collect()
}

/// A crash at each moment of every write of that case.
///
/// # Errors
/// Where the case cannot be played, to count its writes.
pub fn crashes(case: &Case, back: u64) -> Result<Vec<Case>, Error> {
    let writes = run(case)?.writes;
    let crashes = (1..=writes).flat_map(|write| MOMENTS.map(|moment| Fault::Crash { write, moment, back }));
    Ok(crashes.map(|crash| Case { faults: vec![crash], ..case.clone() }).collect())
}
