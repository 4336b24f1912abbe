//! A command behaves at a terminal as it does without a lock: in the foreground, stopped, in the background, in a pipe. And it never
//! outlives its turn.
//!
//! Whatever can be compared is compared with what the same shell shows without `fairlock run`.

mod ends;
mod jobs;
mod keys;
pub(crate) mod processes;
mod pty;
mod questions;
mod scenario;
mod signals;
#[cfg(feature = "top")]
mod top;
