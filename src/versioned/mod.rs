//! Optimistic locking: items of the caller's own table that are changed only as they were read.

mod builder;
mod error;
#[cfg(test)]
mod histories;
mod ids;
mod revision;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use backon::{BackoffBuilder, ExponentialBuilder};

use crate::error::Error;
use crate::fence::Fence;
use crate::store::Store;

use revision::Attributes;
use write::{Call, Written};

pub use builder::VersionedTableBuilder;
pub use error::UpdateError;
pub use revision::Version;

/// The first pause after a conflict, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// An item of the caller's own, as the SDK has it.
///
/// # Examples
///
/// ```
/// use aws_sdk_dynamodb::types::AttributeValue;
///
/// let item = fairlock::Item::from([("id".to_owned(), AttributeValue::S("42".into()))]);
/// ```
pub type Item = HashMap<String, AttributeValue>;

/// A table of the caller's own whose items have versions: an item is read, changed and written back, and the write
/// applies only if nobody else changed the item meanwhile. No lock is taken, and nobody waits.
///
/// For changes of one item that take little time and seldom meet. Where they often meet, each of those who lose reads
/// and decides again, and the slow ones may never win: take a [`FairLock`](crate::FairLock) first, and
/// [fence](Self::fenced) the writes.
///
/// The version is a number in an attribute of the item, one more with each write; it begins with 1. Beside it stand
/// the ids of the newest writes, up to 16 of about 36 bytes each, by which a writer whose answer was lost finds out
/// whether it wrote. An item near DynamoDB's limit of 400 KB keeps fewer of them, but always the newest: an item is
/// refused as too large only if it has no room for its version and one id. To the closure neither of the two is shown.
///
/// # Limitations
///
/// - **Who writes without the condition is not noticed**, unless it counts the version up. Those who do as in other
///   languages (the version as read in the condition, and one more written) work together with this.
/// - An item **without a version** gets one with its first write here. Until then only its existence can be
///   conditional, so what others change in it without a version between the read and that write is lost.
/// - **A write on an item that carries no id can be applied late, or again.** That is a write on a key without an item,
///   on an item without a version, and on a version that another kind of writer gave. Its condition holds again when
///   the item is deleted and its key is as it was: a retry or a late copy of the write, which the network delivers within
///   the lifetime of a connection, also after its answer, then makes the item again. Where keys are used again within
///   that time, put a tombstone in place of the deletion.
/// - One item at a time. For several in one step there is `TransactWriteItems`.
/// - A write puts the whole item. Attributes that grow without end do not belong in it.
///
/// # Examples
///
/// No withdrawal takes an account below its limit, however many there are at once:
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use fairlock::{Change, UpdateError, VersionedTable, embedded::Engine};
///
/// #[derive(Debug, PartialEq)]
/// struct Overdrawn(i64);
///
/// let dynamodb = Engine::memory()?.client();
/// # let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build()?;
/// # let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S).build()?;
/// # let create = dynamodb.create_table().table_name("accounts").key_schema(key).attribute_definitions(id);
/// # create.billing_mode(BillingMode::PayPerRequest).send().await?;
/// let accounts = VersionedTable::new(dynamodb, "accounts")?;
/// let withdraw = |amount: i64| {
///     let key = [("id", AttributeValue::S("123".into()))];
///     accounts.update(key, move |item| {
///         let mut item = item.unwrap_or_default(); // a new account
///         let balance = item.get("balance").and_then(|it| it.as_n().ok()?.parse().ok()).unwrap_or(100);
///         if balance - amount < -500 {
///             return Err(Overdrawn(balance));
///         }
///         item.insert("balance".into(), AttributeValue::N((balance - amount).to_string()));
///         Ok(Change::Put(item))
///     })
/// };
/// withdraw(400).await?;
/// assert!(matches!(withdraw(300).await, Err(UpdateError::Caller(Overdrawn(-300)))));
/// # impl std::fmt::Display for Overdrawn {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         write!(f, "{}", self.0)
/// #     }
/// # }
/// # impl std::error::Error for Overdrawn {}
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct VersionedTable {
    inner: Arc<Inner>,
    fence: Option<Fence>,
}

struct Inner {
    store: Store,
    attributes: Attributes,
    attempts: usize,
    within: Duration,
}

/// What is to become of an item.
///
/// # Examples
///
/// ```
/// use fairlock::{Change, Item};
///
/// /// Removes what is done, and leaves the rest as it is.
/// fn tidy(item: Option<Item>) -> Result<Change, std::convert::Infallible> {
///     match item {
///         Some(item) if item.contains_key("done") => Ok(Change::Delete),
///         _ => Ok(Change::Keep),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The item is this from now on. Its key, version and fencing token are added, whatever it says of them.
    Put(Item),
    /// There is no item from now on.
    Delete,
    /// It stays as it is; nothing is written.
    Keep,
}

/// What an update came to.
///
/// # Examples
///
/// ```
/// # fn told(updated: fairlock::UpdateOutcome) {
/// println!("{} after {} attempts", updated.version, updated.attempts);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UpdateOutcome {
    /// The item as this update left it, without its version; none if there is none.
    pub item: Option<Item>,
    /// Its version.
    pub version: Version,
    /// How often the item was read and the closure asked.
    pub attempts: usize,
}

impl VersionedTable {
    /// A table with the default settings. Credentials, region and endpoint are those of the SDK client; retries and
    /// time-outs are fairlock's own.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a name that no table has.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn name(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
    /// let accounts = fairlock::VersionedTable::new(dynamodb, "accounts")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(dynamodb: Client, table: impl Into<String>) -> Result<Self, Error> {
        VersionedTable::builder(dynamodb, table).build()
    }

    /// Settings, said one by one.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn build(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
    /// let accounts = fairlock::VersionedTable::builder(dynamodb, "accounts").max_attempts(4).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(dynamodb: Client, table: impl Into<String>) -> VersionedTableBuilder {
        VersionedTableBuilder::new(dynamodb, table.into())
    }

    /// The same table, whose writes carry this fence too: an item that remembers a newer token is not changed.
    ///
    /// Versions protect from what others wrote since the read; the fence also from what a stale holder of a lock reads
    /// and writes after the next holder is done.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn turn(accounts: fairlock::VersionedTable, guard: fairlock::LockGuard) {
    /// let accounts = accounts.fenced(guard.fence("fence"));
    /// # }
    /// ```
    pub fn fenced(&self, fence: Fence) -> Self {
        VersionedTable {
            inner: Arc::clone(&self.inner),
            fence: Some(fence),
        }
    }

    /// Reads an item, strongly consistent, asks `decide` what is to become of it, and does that if the item is still
    /// as it was read. If it is not, all of it again, after a pause that grows with each conflict.
    ///
    /// The key is the partition key, and the sort key if the table has one. `decide` is shown no item where there is
    /// none, and may be called several times: it must do nothing that counts by itself.
    ///
    /// # A lost answer
    ///
    /// A write whose answer is lost is sent again under the same condition, so it is never applied to what it did not
    /// see; and it is known by its id, also under up to 15 later writes (fewer in an item near 400 KB). So a change is
    /// made once or not at all, and `Ok` says once. Where the item does not tell, the error is
    /// [`UpdateError::OutcomeUnknown`]: a deleted item cannot, nor can another first write in an item that had no id when it
    /// was read.
    ///
    /// The [limitations](Self#limitations) name the one exception: what was read carried no id, and the item was
    /// deleted after this update had written it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the item was changed, as [`UpdateError::OutcomeUnknown`] does.
    ///
    /// # Errors
    ///
    /// [`UpdateError`] says which of them leave the item unchanged: all but [`UpdateError::OutcomeUnknown`].
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs and pauses.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn count(visits: fairlock::VersionedTable) -> Result<(), fairlock::UpdateError<std::num::ParseIntError>> {
    /// use aws_sdk_dynamodb::types::AttributeValue;
    /// use fairlock::{Change, Item};
    ///
    /// let key = [("page", AttributeValue::S("/".into()))];
    /// let counted = visits
    ///     .update(key, |item| {
    ///         let mut item = item.unwrap_or_default();
    ///         let count = item.get("count").and_then(|it| it.as_n().ok());
    ///         let count: u64 = count.map_or(Ok(0), |digits| digits.parse())?;
    ///         item.insert("count".into(), AttributeValue::N((count + 1).to_string()));
    ///         Ok(Change::Put(item))
    ///     })
    ///     .await?;
    /// println!("{:?}", counted.item);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update<E>(
        &self,
        key: impl IntoIterator<Item = (impl Into<String>, AttributeValue)> + Send,
        mut decide: impl FnMut(Option<Item>) -> Result<Change, E> + Send,
    ) -> Result<UpdateOutcome, UpdateError<E>> {
        let key = key.into_iter().map(|(name, value)| (name.into(), value));
        let call = Call::start(self, key.collect())?;
        let mut pauses = self.pauses();
        let mut attempts = 0;
        // Ends with the attempts, or with the time.
        loop {
            attempts += 1;
            let seen = call.read().await?;
            let change = decide(call.shown(&seen)).map_err(UpdateError::Caller)?;
            let found = match call.write(&seen, change).await? {
                Written::Done(version, item) => {
                    return Ok(UpdateOutcome {
                        item,
                        version,
                        attempts,
                    });
                }
                Written::Conflict(found) => found,
            };
            let again = attempts < self.inner.attempts && call.has_time();
            match pauses.next().filter(|_| again) {
                Some(pause) => self.inner.store.config().clock.sleep(pause).await,
                None => return Err(call.conflict(&seen, found, attempts)),
            }
        }
    }

    fn pauses(&self) -> impl Iterator<Item = Duration> + Send + use<> {
        ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(MAX_PAUSE)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.inner.store.config().chance.seed())
            .build()
    }
}

impl fmt::Debug for VersionedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedTable")
            .field("table", &self.inner.store.config().table)
            .field("attributes", &self.inner.attributes)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}
