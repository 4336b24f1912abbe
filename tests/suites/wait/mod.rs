//! Callers wait: they see how long, are bounded, are cut off, and go away.

mod bounded;
mod cancellation;
mod deadlines;
mod leaving;
mod visibility;
