//! Options for the creation of a table.

use crate::error::Invalid;

/// Options for the table that [`create_table`](crate::LockClient::create_table) makes. Its name and the names of its keys are the
/// client's.
///
/// # Examples
///
/// ```
/// use fairlock::TableOptions;
///
/// let on_demand = TableOptions::default();
/// // Five reads and ten writes a second, paid for by the hour.
/// let provisioned = TableOptions::provisioned(5, 10);
/// assert_ne!(on_demand, provisioned);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    pub(super) billing: Billing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Billing {
    /// By the request.
    #[default]
    OnDemand,
    /// By the hour, in capacity units: about one strong read of 4 KB, or one write of 1 KB, a second.
    Provisioned { read: u32, write: u32 },
}

impl TableOptions {
    /// Sets provisioned throughput, in read and write capacity units (both at least 1), in place of billing by the request.
    ///
    /// An uncontended turn writes twice. A successor polls the lock up to fifty times a second. DynamoDB throttles requests
    /// beyond the capacity, which makes waiting slower, not unsafe. A lease that cannot be renewed is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = fairlock::TableOptions::provisioned(25, 25);
    /// ```
    pub fn provisioned(read: u32, write: u32) -> Self {
        TableOptions {
            billing: Billing::Provisioned { read, write },
        }
    }

    /// Refuses a capacity of zero. DynamoDB would refuse it too, but not if the table exists already.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let Billing::Provisioned { read, write } = self.billing else {
            return Ok(());
        };
        let units = [("read capacity", read), ("write capacity", write)];
        let none = units.into_iter().find(|(_, units)| *units == 0);
        none.map_or(Ok(()), |(setting, _)| {
            Err(Invalid::Range {
                setting,
                value: 0,
                least: 1,
                most: usize::try_from(u32::MAX).unwrap_or(usize::MAX),
            })
        })
    }
}
