//! The command `fairlock` as its users run it: as a process of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

mod bench;
mod clients;
mod command;
mod crash;
mod credentials;
mod data;
mod demo;
mod doctor;
mod hold;
mod home;
mod hostile;
mod infrastructure;
mod inspect;
mod lease;
mod line;
mod operations;
mod outages;
mod output;
mod resize;
mod run;
mod running;
mod serve;
mod served;
mod shell;
mod sweep;
mod terminal;
#[cfg(feature = "top")]
mod top;
