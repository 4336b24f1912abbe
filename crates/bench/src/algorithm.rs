//! The algorithm by which the workers lock.

use std::time::Duration;

use clap::ValueEnum;

/// An algorithm that the drivers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Algorithm {
    /// This library
    Fairlock,
    /// A baseline: a FIFO queue of rows that is polled; two can hold the lock at once
    Article,
    /// A baseline: one item with a record version number, as in the AWS lock client for Java; unfair, and without tickets
    Lease,
}

impl Algorithm {
    /// How long a baseline sleeps between two attempts, by its authors' choice. Returns `None` for fairlock, which chooses its own polling
    /// times.
    pub(crate) fn poll(self) -> Option<Duration> {
        match self {
            Algorithm::Fairlock => None,
            Algorithm::Article => Some(Duration::from_millis(500)),
            Algorithm::Lease => Some(Duration::from_secs(1)),
        }
    }

    /// The value of the flag `--algorithm`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Fairlock => "fairlock",
            Algorithm::Article => "article",
            Algorithm::Lease => "lease",
        }
    }
}
