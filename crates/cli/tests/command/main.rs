//! The command `fairlock` as its users run it: as a process of its own.

mod bench;
mod command;
mod credentials;
mod data;
mod demo;
mod doctor;
mod hold;
mod hostile;
mod infrastructure;
mod inspect;
mod lease;
mod line;
mod operations;
mod resize;
mod run;
mod serve;
mod shell;
mod sweep;
mod terminal;
#[cfg(feature = "top")]
mod top;
mod transport;
