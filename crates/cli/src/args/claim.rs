//! What `fairlock run` and `fairlock hold` ask for: which locks, how much of them, and for how long they wait.

use std::time::Duration;

use super::commands::Claim;

/// How much of its locks a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The lock alone.
    Exclusive,
    /// The lock as a reader, beside other readers.
    Reader,
    /// Some permits of a semaphore.
    Permits { total: u64, take: u64 },
    /// Several locks, each alone.
    Several,
}

impl Claim {
    pub(crate) fn share(&self) -> Share {
        match self.permits {
            Some(total) => Share::Permits {
                total,
                take: self.take.unwrap_or(1),
            },
            None if self.shared => Share::Reader,
            None if !self.also.is_empty() => Share::Several,
            None => Share::Exclusive,
        }
    }

    /// How long a hold lasts that is not renewed, or that is not to last for longer.
    pub(crate) fn shortest_hold(&self) -> Duration {
        let lease = self.believed();
        self.max_hold.map_or(lease, |most| most.min(lease))
    }

    /// The lease in which this process believes.
    pub(crate) fn believed(&self) -> Duration {
        self.lease
            .saturating_sub(self.safety_margin.unwrap_or_default())
    }

    /// The names of the locks, as they were given.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.lock).chain(&self.also)
    }
}
