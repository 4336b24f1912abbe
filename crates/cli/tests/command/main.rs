//! The command `fairlock` as its users run it: as a process of its own.

mod command;
mod demo;
mod hostile;
mod line;
mod look;
mod operations;
mod run;
mod terminal;
mod transport;
