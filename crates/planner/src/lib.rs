//! Observed state and a time in, a plan out. Pure: no I/O, no clock, no randomness.
