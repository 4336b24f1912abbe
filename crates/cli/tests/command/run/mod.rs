//! `fairlock run`: a command has its turn, ends as it would without a lock, and is over before its lease is.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

mod alike;
mod entrance;
mod files;
mod promise;
mod running;
mod wait;
