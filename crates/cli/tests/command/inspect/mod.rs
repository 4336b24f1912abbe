//! The command creates and checks tables. It shows locks as they are, to people and, by a documented schema, to programs. Whatever is in
//! the way, it says what to do.

pub(crate) mod cloud;
mod files;
mod hosts;
mod intervene;
mod people;
mod programs;
pub(crate) mod schema;
mod tables;

/// The commands for a table.
const ALL: [&str; 5] = ["table create", "table check", "show a", "ls", "ls --json"];
