//! A command behaves at a terminal as it does without a lock: in the foreground, stopped, in the background, in a pipe.
//! And it never outlives its turn.
//!
//! What can be is compared with what the same shell shows without `fairlock run`.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

#[path = "command_terminal/ends.rs"]
mod ends;
#[path = "command_terminal/jobs.rs"]
mod jobs;
#[path = "command_terminal/keys.rs"]
mod keys;
#[path = "command_terminal/scenario.rs"]
mod scenario;
#[path = "command_terminal/signals.rs"]
mod signals;
#[path = "common/terminal.rs"]
mod terminal;
