//! `kubectl ordered`: see, order and resume OrderedDeployments.
fn main() {}
