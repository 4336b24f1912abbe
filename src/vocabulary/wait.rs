//! How long to wait for a turn.

use std::time::Duration;

/// How long [`acquire`](crate::FairLock::acquire) waits for its turn: the record wait.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock::RecordWait;
///
/// assert_eq!(RecordWait::default(), RecordWait::Timeout(Duration::from_secs(60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordWait {
    /// Take the lock now or not at all, without a place in the queue.
    NoWait,
    /// Wait in the queue for at most this long, counted from the call. Zero is refused: use [`NoWait`](Self::NoWait), which
    /// `RecordWait::from` makes of zero.
    Timeout(Duration),
    /// Wait for as long as it takes, through outages of any length, also before the call has a place in the queue. The
    /// [observer](crate::FairLock::observed) is notified when an outage begins.
    Infinite,
}

/// Waits for at most this time. Zero becomes [`NoWait`](RecordWait::NoWait): the lock now or not at all.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock::RecordWait;
///
/// assert_eq!(RecordWait::from(Duration::from_secs(5)), RecordWait::Timeout(Duration::from_secs(5)));
/// assert_eq!(RecordWait::from(Duration::ZERO), RecordWait::NoWait);
/// ```
impl From<Duration> for RecordWait {
    fn from(span: Duration) -> Self {
        match span {
            Duration::ZERO => RecordWait::NoWait,
            span => RecordWait::Timeout(span),
        }
    }
}

impl Default for RecordWait {
    /// Sixty seconds.
    fn default() -> Self {
        RecordWait::Timeout(Duration::from_secs(60))
    }
}
