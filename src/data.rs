//! What a lock carries from holder to holder: bytes on its item.

use crate::client_inner::ClientInner;
use crate::config::MAX_DATA;
use crate::error::{Error, Invalid};
use crate::guard::LockGuard;
use crate::hold::Hold;
use crate::state::LockData;
use crate::store::Failure;
use fairlock_protocol::item::LockItem;

impl LockGuard {
    /// The bytes that the lock carries: what the last hold that wrote some left there, as this hold was granted or as it was
    /// renewed last; none if nobody wrote any, or they were removed. Local: nothing is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn resume(guard: &fairlock::LockGuard) {
    /// let done = guard.data().map_or(0, |data| data.bytes.len());
    /// # }
    /// ```
    pub fn data(&self) -> Option<LockData> {
        self.hold().data()
    }

    /// Leaves bytes on the lock, in place of those that are there: the next holder has them with its guard, whoever
    /// [inspects](crate::FairLock::inspect) the lock reads them, and they stay after the release. One write.
    ///
    /// They are written under this hold's token: no write of a hold that was lost comes after one of the next, and none of
    /// this hold's own comes back after a later one. Only who has the lock alone writes.
    ///
    /// Small things, a cursor or a name: each write of the lock's item, by holders, successors and those who come, is paid for by the
    /// kilobyte, with the data in it. They go with the item when the lock is out of use for the idle retention, so
    /// what must not be lost is kept elsewhere.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the bytes are written.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was no longer ours; nothing is written then. [`Error::Invalid`] if there are more than
    /// 64 KB, or the lock is shared. [`Error::Unavailable`] or [`Error::Refused`] if DynamoDB could not be told before the
    /// lease ended.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn page(guard: fairlock::LockGuard) -> Result<(), fairlock::Error> {
    /// guard.set_data("page 7").await?; // and whoever comes next begins there
    /// guard.release().await
    /// # }
    /// ```
    pub async fn set_data(&self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        let bytes = bytes.as_ref();
        if bytes.len() > MAX_DATA {
            return Err(Invalid::TooMuchData {
                bytes: bytes.len(),
                most: MAX_DATA,
            }
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
        let (inner, hold) = (self.inner(), self.hold());
        if self.permits() != self.total_permits() {
            return Err(Invalid::SharedData.into());
        }
        if let Some(reason) = hold.loss() {
            return Err(self.lost_by(reason).into());
        }
        let started = inner.store.now();
        match inner.write_data(hold, bytes).await {
            Ok(Ok(())) => Ok(()),
            // A downgrade was applied that nobody had an answer to.
            Ok(Err(Some(item))) if hold.saw(&item) => Err(Invalid::SharedData.into()),
            Ok(Err(item)) => Err(self.lose_to(item)),
            Err(failure) => Err(self.not_told(failure, inner.store.now().since(started))),
        }
    }
}

impl ClientInner {
    /// The item, if it shows that the hold is over.
    async fn write_data(
        &self,
        hold: &Hold,
        bytes: Option<&[u8]>,
    ) -> Result<Result<(), Option<LockItem>>, Failure> {
        let policy = self.policy_until(hold.believed_until());
        let slots = self.slots(&hold.name, &policy);
        let write = (hold.begin_write(), hold.turns_left());
        let written = slots.write_data(&hold.attempt, hold.footing(), write, bytes);
        let written = written.await?;
        hold.end_write();
        Ok(written.map(|item| {
            hold.saw(&item);
        }))
    }
}
