//! What a lock carries from holder to holder: bytes on its item.

use crate::lock::guard::LockGuard;
use crate::vocabulary::config::MAX_DATA;
use crate::vocabulary::error::{Error, Invalid, LossReason};
use crate::vocabulary::state::LockData;
use fairlock_protocol::agent::{Done, Order};

impl LockGuard {
    /// Returns the bytes that the lock carries, as the last hold that wrote any left them. They are as of the grant of this hold, or of its
    /// last renewal. Returns `None` if no holder wrote any, or if they were removed. Local: nothing is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn resume(guard: &fairlock::LockGuard) {
    /// let done = guard.data().map_or(0, |data| data.bytes.len());
    /// # }
    /// ```
    pub fn data(&self) -> Option<LockData> {
        LockData::of(&self.view().item())
    }

    /// Leaves bytes on the lock, in place of the bytes that are there. The next holder has them with its guard, and a caller that
    /// [inspects](crate::FairLock::inspect) the lock reads them. They stay after the release. Costs one write.
    ///
    /// They are written under this hold's token. No write of a lost hold comes after a write of the next hold. No earlier write of this
    /// hold comes back after a later write. Only an exclusive holder writes.
    ///
    /// Keep the data small: a cursor or a name. Each write of the lock's item is charged by the kilobyte, with the data in it. Holders,
    /// successors and new callers all send such writes. The data goes with the item when the lock is out of use for the idle retention, so
    /// keep elsewhere what must not be lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the bytes are written.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the guard no longer held the lock; nothing is written then. [`Error::Invalid`] if there are more than 64 KB, or
    /// the lock is shared. [`Error::Unavailable`] or [`Error::Refused`] if the write did not succeed before the lease ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn page(guard: fairlock::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.set_data("page 7").await?; // the next holder begins there
    /// guard.release().await
    /// # }
    /// ```
    pub async fn set_data(&self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        let bytes = bytes.as_ref();
        if bytes.len() > MAX_DATA {
            return Err(Invalid::new(format!(
                "{} bytes of data are too many for a lock, which carries at most {MAX_DATA}",
                bytes.len()
            ))
            .into());
        }
        self.write_data(Some(bytes)).await
    }

    /// Removes the bytes that the lock carries.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`set_data`](Self::set_data).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn done(guard: fairlock::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.clear_data().await?;
    /// guard.release().await
    /// # }
    /// ```
    pub async fn clear_data(&self) -> Result<(), Error> {
        self.write_data(None).await
    }

    async fn write_data(&self, bytes: Option<&[u8]>) -> Result<(), Error> {
        let inner = self.inner();
        if self.permits() != self.total_permits() {
            return Err(Invalid::shared_data().into());
        }
        if let Some(reason) = self.watch().loss() {
            return Err(self.lost_by(reason).into());
        }
        let started = inner.store.now();
        let (watch, bytes) = (self.watch(), bytes.map(Into::into));
        let told = watch.orders(Order::Put(bytes));
        match self.ordered(told, started).await? {
            // Permits were given back whose answer never arrived.
            Done::NotOurs(Some(item)) if watch.view.is_shown_by(&item) => {
                Err(Invalid::shared_data().into())
            }
            Done::NotOurs(item) => {
                let evicted = || watch.view.evicted(item.as_deref());
                Err(self.lost_by(watch.loss().unwrap_or_else(evicted)).into())
            }
            Done::Lost(_) => {
                let reason = watch.loss().unwrap_or(LossReason::Released);
                Err(self.lost_by(reason).into())
            }
            _ => Ok(()),
        }
    }
}
