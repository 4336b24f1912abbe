//! The protocol of fairlock without I/O: its decisions, and its writes with their conditions.
//!
//! Nothing here has a clock, requests or tasks: the caller says what time it is, and what answers told. The library runs these functions, and
//! the models in `tests/` explore them exhaustively.
//!
//! This crate is a part of [fairlock](https://docs.rs/fairlock), which depends on its exact version. The crate makes no promise of its own.

pub mod agent;
pub mod bytes;
pub mod clearing;
pub mod clocks;
pub mod codec;
pub mod doorway;
pub mod entry;
pub mod failure;
mod gaps;
pub mod item;
pub mod judge;
pub mod lease;
pub mod moment;
pub mod notification;
#[cfg(feature = "serde")]
mod numeral;
pub mod outage;
pub mod pace;
pub mod place;
pub mod problem;
pub mod redating;
pub mod snapshot;
pub mod stagger;
pub mod stamps;
pub mod step;
pub mod sweep;
pub mod ticket;
pub mod told;
pub mod value;
pub mod write;
