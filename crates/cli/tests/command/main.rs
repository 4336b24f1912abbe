//! The command `fairlock` as its users run it: as a process of its own.

mod command;
mod demo;
mod hold;
mod hostile;
mod inspect;
mod line;
mod operations;
mod run;
mod shell;
mod terminal;
mod transport;
