//! Tests of the binary as a process: its help and errors, its commands on a server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails if its setup fails")]

mod command_line;
mod sandbox_command;
