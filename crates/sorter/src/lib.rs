//! The total order over pods, and why each pod stands where it does. Pure: no I/O, no clock, no randomness.
