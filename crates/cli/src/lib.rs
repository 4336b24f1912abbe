//! What `fairlock demo` shares with other programs in which processes contend for a lock. This is not a stable API.

pub mod contention;
pub mod flags;
