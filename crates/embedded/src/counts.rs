//! How many requests were sent, and how much they read and wrote.

use std::collections::BTreeMap;
use std::ops::Sub;

use crate::request::Request;

/// What clients sent over a [`Network`](crate::Network): a snapshot. Subtract two snapshots for what was sent between them.
///
/// Every attempt counts, so a retry by the SDK counts again. What the network itself duplicates does not count.
///
/// A read is one `GetItem`, `Query` or `Scan`, or one item asked for in a batch or transaction. A write is one `PutItem`, `UpdateItem` or
/// `DeleteItem`, or one item of a batch or transaction, whether or not its condition held. Table operations are requests only.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock_embedded::{Engine, Network};
///
/// let network = Network::to(&Engine::memory()?);
/// let before = network.counts();
/// network.client().list_tables().send().await?;
/// let sent = network.counts() - before;
/// assert_eq!((sent.requests(), sent.reads(), sent.writes()), (1, 0, 0));
/// assert_eq!(sent.of("ListTables"), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    reads: u64,
    writes: u64,
    by_operation: BTreeMap<String, u64>,
}

impl Counts {
    /// Returns the number of all requests.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fairlock_embedded::Counts::default().requests(), 0);
    /// ```
    pub fn requests(&self) -> u64 {
        self.by_operation.values().sum()
    }

    /// Returns the number of items asked for; a query or a scan counts as one.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fairlock_embedded::Counts::default().reads(), 0);
    /// ```
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Returns the number of items written, or attempted to be.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fairlock_embedded::Counts::default().writes(), 0);
    /// ```
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns the number of requests of one operation, such as `"UpdateItem"`.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fairlock_embedded::Counts::default().of("UpdateItem"), 0);
    /// ```
    pub fn of(&self, operation: &str) -> u64 {
        self.by_operation.get(operation).copied().unwrap_or(0)
    }

    /// Returns the number of requests of each operation, in alphabetical order.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fairlock_embedded::Counts::default().by_operation().count(), 0);
    /// ```
    pub fn by_operation(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_operation
            .iter()
            .map(|(name, sent)| (name.as_str(), *sent))
    }

    pub(crate) fn add(&mut self, request: &Request) {
        self.reads += request.reads();
        self.writes += request.writes();
        *self
            .by_operation
            .entry(request.operation().to_owned())
            .or_default() += 1;
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(mut self, earlier: Counts) -> Counts {
        self.reads = self.reads.saturating_sub(earlier.reads);
        self.writes = self.writes.saturating_sub(earlier.writes);
        for (operation, sent) in &mut self.by_operation {
            *sent = sent.saturating_sub(earlier.of(operation));
        }
        self.by_operation.retain(|_, sent| *sent > 0);
        self
    }
}
