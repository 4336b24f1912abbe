//! Optimistic locking: items of the caller's own table that are changed only as they were read.

mod builder;
mod error;
#[cfg(test)]
mod exhaustive_tests;
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

use crate::items::fencing::Fence;
use crate::store::requests::Requests;
use crate::vocabulary::error::Error;

use revision::Attributes;
use write::{Call, Written};

pub use builder::VersionedTableBuilder;
pub use error::UpdateError;
pub use revision::Version;

/// The first and the longest pause after a conflict.
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

/// A table of the caller's own whose items have versions. An update reads an item, changes it and writes it back. The write
/// applies only if no other writer changed the item meanwhile. It takes no lock, and no caller waits.
///
/// Use it for changes of one item that take little time and seldom meet. Where they often meet, each update that loses reads and
/// decides again, and slow updates may never win. Take a [`FairLock`](crate::FairLock) first there, and [fence](Self::fenced) the
/// writes.
///
/// The version is a number in an attribute of the item. It begins with 1, and each write adds one. Beside it stand the ids of the
/// newest writes, up to 16 of about 36 bytes each. By these a writer whose answer was lost finds out whether it wrote. An item
/// near DynamoDB's limit of 400 KB keeps fewer of them, but always the newest. It is refused as too large only if it has no room
/// for its version and one id. The closure sees neither the version nor the ids.
///
/// # Limitations
///
/// - **A writer that omits the condition is not noticed**, unless it counts the version up. Writers that do as in other languages
///   (the version as read in the condition, and one more written) are compatible.
/// - An item **without a version** gets one with its first write here. Until then only its existence can be conditional, so what
///   other writers change in it without a version between the read and that write is lost.
/// - **A write on an item that carries no id can be applied late, or again**. That is a write on a key without an item, on an
///   item without a version, or on a version that another kind of writer gave. Its condition holds again when the item is deleted
///   and its key is as it was. A retry or a late copy of the write then makes the item again. The network delivers such a copy
///   within the lifetime of a connection, also after the answer to the write. Where keys are used again within that time, put a
///   tombstone in place of the deletion.
/// - It changes a single item at a time. For several in one step there is `TransactWriteItems`.
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
    requests: Requests,
    attributes: Attributes,
    attempts: usize,
    within: Duration,
}

/// What an update does with an item.
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
    /// Writes this item. The update adds key, version and fencing token, whatever the item says of them.
    Put(Item),
    /// Deletes the item.
    Delete,
    /// Keeps the item as it is; nothing is written.
    Keep,
}

/// The result of an update.
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
    /// The item as this update left it, without its version. `None` if there is no item.
    pub item: Option<Item>,
    /// Its version.
    pub version: Version,
    /// How often the item was read and the closure called.
    pub attempts: usize,
}

impl VersionedTable {
    /// Creates a handle to a table with the default settings. Credentials, region and endpoint are those of the SDK client;
    /// retries and time-outs are fairlock's own.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a name that no table can have.
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

    /// Returns a builder that takes the settings one by one.
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

    /// Adds this fence to the writes of the returned handle: an item that remembers a newer token is not changed.
    ///
    /// Versions protect against what others wrote since the read. The fence also protects against a stale holder of a lock that
    /// reads and writes after the next holder is done.
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

    /// Reads an item, strongly consistent, asks `decide` what to do with it, and does that if the item is still as it was read.
    /// If it is not, the update starts over, after a pause that grows with each conflict.
    ///
    /// The key is the partition key, and the sort key if the table has one. `decide` gets `None` where there is no item. It may
    /// be called several times, so it must do nothing that counts by itself.
    ///
    /// # A lost answer
    ///
    /// A write whose answer is lost is sent again under the same condition, so it is never applied to an item that it did not
    /// see. Its id identifies it, also under up to 15 later writes (fewer in an item near 400 KB). So a change is made once or
    /// not at all, and `Ok` means once. Where the item does not tell, the error is [`UpdateError::OutcomeUnknown`]. A deleted
    /// item cannot tell, nor can another first write in an item that had no id when it was read.
    ///
    /// The [limitations](Self#limitations) name the one exception: the item that was read carried no id, and the item was deleted
    /// after this update had written it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the item was changed, as [`UpdateError::OutcomeUnknown`] does.
    ///
    /// # Errors
    ///
    /// [`UpdateError`] says which errors leave the item unchanged: all but [`UpdateError::OutcomeUnknown`].
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
                Some(pause) => self.inner.requests.store.config().clock.sleep(pause).await,
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
            .with_jitter_seed(self.inner.requests.store.config().random_source.seed())
            .build()
    }
}

impl fmt::Debug for VersionedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedTable")
            .field("table", &self.inner.requests.store.config().table)
            .field("attributes", &self.inner.attributes)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}
