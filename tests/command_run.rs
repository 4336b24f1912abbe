//! `fairlock run`: a command has its turn, ends as it would without a lock, and is over before its lease is.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

#[path = "command_run/alike.rs"]
mod alike;
#[path = "common/command.rs"]
mod command;
#[path = "command_run/entrance.rs"]
mod entrance;
#[path = "command_run/files.rs"]
mod files;
#[path = "command_run/promise.rs"]
mod promise;
#[path = "command_run/running.rs"]
mod running;
#[path = "command_run/wait.rs"]
mod wait;
