//! Values that cannot work, in words.

use std::borrow::Cow;
use std::time::Duration;

use super::Said;

/// A value or a combination of values that cannot work. It displays the value, the bound, and what to do.
///
/// # Examples
///
/// ```
/// # async fn call(lock: fairlock::FairLock) {
/// use std::time::Duration;
/// use fairlock::{Error, RecordWait};
///
/// let refused = lock.acquire(RecordWait::Timeout(Duration::ZERO)).await;
/// let Err(Error::Invalid(invalid)) = refused else { return };
/// assert_eq!(invalid.to_string(), "RecordWait::Timeout(0) never waits: say RecordWait::NoWait");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(Cow<'static, str>);

impl Invalid {
    pub(crate) fn new(words: impl Into<Cow<'static, str>>) -> Self {
        Invalid(words.into())
    }

    /// A text that is empty, too long, or not usable.
    pub(crate) fn text(setting: &str, value: &str, rule: &str) -> Self {
        Invalid::new(format!("{setting} {} {rule}", Said(value)))
    }

    /// A duration below its lower bound, which comes from `bound`.
    pub(crate) fn too_short(setting: &str, value: Duration, bound: &str, least: Duration) -> Self {
        Invalid::new(format!(
            "{setting} is {value:?} and must be at least {least:?}: {bound}"
        ))
    }

    /// A duration above its upper bound, which comes from `bound`.
    pub(crate) fn too_long(setting: &str, value: Duration, bound: &str, most: Duration) -> Self {
        Invalid::new(format!(
            "{setting} is {value:?} and must be at most {most:?}: {bound}"
        ))
    }

    /// A number of permits that this lock, or any lock, does not have.
    pub(crate) fn permits(said: u64, most: u64) -> Self {
        Invalid::new(format!(
            "{said} permits were asked for, where there are 1 to {most}"
        ))
    }

    /// A hold that shares the lock writes no data: otherwise a sharing holder could write over another's.
    pub(crate) fn shared_data() -> Self {
        Invalid::new("data is written by who has the lock alone, and this hold shares it")
    }
}
