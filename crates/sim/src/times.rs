//! True times.

/// A true time, in nanoseconds since the world began.
pub(crate) type At = u64;

/// Nanoseconds.
pub(crate) const MS: At = 1_000_000;
/// Nanoseconds.
pub(crate) const SECOND: At = 1_000 * MS;
/// Nanoseconds.
pub(crate) const HOUR: At = 3_600 * SECOND;
