//! What a call for several locks asks for at each of them.

use crate::lock::client::LockClient;
use crate::lock::fair_lock::FairLock;
use crate::vocabulary::config::SHARERS;
use crate::vocabulary::error::{Error, Invalid};

/// What a call for several locks asks for at one of them: the lock alone, a share of it, or permits of a semaphore. A name by itself stands
/// for the lock alone.
///
/// # Examples
///
/// ```
/// # async fn report(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use fairlock::{LockClaim, RecordWait};
///
/// let all = locks.multi_lock([
///     LockClaim::from("report/2026-11"),    // written by this caller alone
///     LockClaim::shared("catalogue"),       // read beside others
///     LockClaim::permits("exports", 5, 2),  // two of five
/// ])?;
/// let guard = all.acquire(RecordWait::default()).await?;
/// guard.release().await
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockClaim {
    name: String,
    /// How many permits the lock has.
    of: u64,
    /// How many of them the call asks for.
    asks: u64,
}

impl LockClaim {
    /// A share of the lock, as [`FairLock::acquire_shared`] takes it.
    ///
    /// # Examples
    ///
    /// ```
    /// let reads = fairlock::LockClaim::shared("catalogue");
    /// ```
    pub fn shared(name: impl Into<String>) -> LockClaim {
        LockClaim {
            name: name.into(),
            of: SHARERS,
            asks: 1,
        }
    }

    /// `asks` permits of a [semaphore](LockClient::semaphore) that has `of` permits.
    ///
    /// # Examples
    ///
    /// ```
    /// let two_of_five = fairlock::LockClaim::permits("exports", 5, 2);
    /// ```
    pub fn permits(name: impl Into<String>, of: u64, asks: u64) -> LockClaim {
        LockClaim {
            name: name.into(),
            of,
            asks,
        }
    }

    /// The claim of a call that asks for both. A caller that has a lock alone may read it too.
    pub(super) fn joined(self, other: LockClaim) -> Result<LockClaim, Invalid> {
        if self == other {
            return Ok(self);
        }
        if (self.of, other.of) == (SHARERS, SHARERS) && self.asks.max(other.asks) == SHARERS {
            return Ok(LockClaim::from(self.name));
        }
        let rule = "is claimed in two ways: claim it once";
        Err(Invalid::text("lock", &self.name, rule))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The lock, and how many of its permits are asked for.
    pub(super) fn lock(&self, locks: &LockClient) -> Result<(FairLock, u64), Error> {
        if self.of == SHARERS && (self.asks == SHARERS || self.asks == 1) {
            return Ok((locks.fair_lock(&self.name)?, self.asks));
        }
        let semaphore = locks.semaphore(&self.name, self.of)?;
        semaphore.check_permits(self.asks)?;
        Ok((semaphore.into_lock(), self.asks))
    }
}

/// The lock of this name alone.
impl<N: AsRef<str>> From<N> for LockClaim {
    fn from(name: N) -> Self {
        LockClaim {
            name: name.as_ref().to_owned(),
            of: SHARERS,
            asks: SHARERS,
        }
    }
}
