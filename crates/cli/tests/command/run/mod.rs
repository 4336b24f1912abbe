//! `fairlock run`: a command has its turn, ends as it would without a lock, and has ended before its lease does.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

mod alike;
mod bounds;
mod clock;
mod entrance;
mod files;
mod metrics;
mod promise;
mod reboot;
mod refused;
pub(crate) mod running;
mod several;
mod sharing;
mod strace;
mod wait;
