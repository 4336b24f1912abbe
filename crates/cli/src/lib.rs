//! What `fairlock demo` has in common with other programs in which processes contend for a lock. Nothing here is promised.

pub mod contest;
pub mod flags;
