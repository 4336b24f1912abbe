//! The command creates and checks tables and shows locks as they are, to people and, by a documented schema, to
//! programs; and whatever is in the way, it says what to do.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

#[path = "command_look/cloud.rs"]
mod cloud;
#[path = "common/command.rs"]
mod command;
#[path = "command_look/files.rs"]
mod files;
#[path = "command_look/home.rs"]
mod home;
#[path = "command_look/output.rs"]
mod output;
#[path = "command_look/people.rs"]
mod people;
#[path = "command_look/programs.rs"]
mod programs;
#[path = "command_look/schema.rs"]
mod schema;
#[path = "command_look/tables.rs"]
mod tables;
