//! The command creates and checks tables. It shows locks as they are, to people and, by a documented schema, to programs. Whatever is in
//! the way, it says what to do.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

pub(crate) mod cloud;
mod files;
pub(crate) mod home;
mod hosts;
mod intervene;
mod output;
mod people;
mod programs;
pub(crate) mod schema;
mod tables;
