//! What fairlock decides, and what it writes on which condition: the protocol, without I/O.
//!
//! Nothing here knows time, requests or tasks: who is dead, and which gap has outlived its grace, is told to it. The library
//! runs these functions, and the models in `tests/` explore them exhaustively.
//!
//! This crate is a part of [fairlock](https://docs.rs/fairlock), which names its exact version, and makes no promise of its
//! own.

pub mod codec;
pub mod doorway;
pub mod entry;
pub mod gaps;
pub mod item;
pub mod lease;
pub mod moment;
pub mod numeral;
pub mod pace;
pub mod place;
pub mod problem;
pub mod stagger;
pub mod step;
pub mod sweep;
pub mod ticket;
pub mod told;
pub mod value;
pub mod witness;
pub mod write;
