//! The order, rule by rule and as a whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic, and its helpers are part of it")]

mod generate;
mod grammar;
mod node_rules;
mod random;
mod reference;
mod rules;
