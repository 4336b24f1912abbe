//! The only doors to time, background work and randomness; and a value that tasks wait for.

pub(crate) mod background;
pub(crate) mod clock;
pub(crate) mod random_source;
pub(crate) mod watched;

pub use clock::Clock;
