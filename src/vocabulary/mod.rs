//! The words of the library: names, settings, errors, and what a reader sees of a lock. They send nothing.

pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod hold_bounds;
pub(crate) mod holder;
pub(crate) mod name;
pub(crate) mod place_id;
pub(crate) mod reserved;
pub(crate) mod state;
pub(crate) mod wait;
