//! Locks that callers share, hold by a name, or take with others.

mod lease_lock;
mod multi_lock;
pub(crate) mod shared;
