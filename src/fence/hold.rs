//! What a hold gives to writes of the caller's own: its fence, and a check that it is still the holder.

use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;

use super::Fence;
use crate::error::Error;
use crate::guard::LockGuard;

impl LockGuard {
    /// A fence of this hold's ticket, for writes to items that remember the newest one in this attribute.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn save(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// let put = dynamodb
    ///     .put_item()
    ///     .table_name("reports")
    ///     .item("id", AttributeValue::S("nightly".into()))
    ///     .item("queues", AttributeValue::N("1234".into()));
    /// guard.fence("fence").on(put).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self, attribute: impl Into<String>) -> Fence {
        Fence::new(attribute, self.ticket())
    }

    /// A part of a transaction of the caller's own: `TransactWriteItems` that contains it applies only if this hold
    /// is still the holder at that moment, by what the table says and not by anybody's clock.
    ///
    /// Unlike [a fence](Self::fence) it needs nothing in the items that are written, and lets nothing through once
    /// somebody else has the lock, before that one has written too. It costs a transaction, which is twice the write
    /// units of all its items and of the lock item, and it can meet conflicts: with a renewal, or with those who come
    /// to the queue. The transaction is then cancelled for `TransactionConflict` and can be sent again: the cancellation reasons, of which
    /// each item of the transaction has one in its place, [tell this from a hold that is over](#a-conflict-or-a-stale-hold). The table of
    /// locks must be in the same account and region, and the caller needs `dynamodb:ConditionCheckItem` on it.
    ///
    /// A check of a hold that was [downgraded](Self::downgrade) afterwards refuses too: what it was made for has the lock no more.
    /// A check of the share that is left refuses while callers of the same client that came together with this one wait to have
    /// the lock next: ask for another when they have gone.
    ///
    /// Of callers of one client who came together and have the lock [at one
    /// place](crate::FairLock::acquire), one after the other, each has a check of its own. Where one
    /// of them asked for a check, its release is a write before the next of them has the lock, as it is between
    /// clients.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is not believed in any more: nothing is sent to find out.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn settle(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
    /// # use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
    /// let update = Update::builder()
    ///     .table_name("accounts")
    ///     .key("id", AttributeValue::S("42".into()))
    ///     .update_expression("SET balance = :balance")
    ///     .expression_attribute_values(":balance", AttributeValue::N("100".into()));
    /// dynamodb
    ///     .transact_write_items()
    ///     .transact_items(TransactWriteItem::builder().update(update.build()?).build())
    ///     .transact_items(guard.check_item()?)
    ///     .send()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # A conflict or a stale hold
    ///
    /// ```
    /// use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException;
    /// use aws_sdk_dynamodb::types::TransactWriteItem;
    /// use fairlock::LockGuard;
    ///
    /// /// Whether the hold was still the holder when this was written.
    /// async fn settle(
    ///     dynamodb: &aws_sdk_dynamodb::Client,
    ///     guard: &LockGuard,
    ///     update: TransactWriteItem,
    /// ) -> Result<bool, Box<dyn std::error::Error>> {
    ///     loop {
    ///         let transaction = dynamodb.transact_write_items().transact_items(update.clone());
    ///         let sent = transaction.transact_items(guard.check_item()?).send().await;
    ///         let Err(error) = sent else { return Ok(true) };
    ///         let Some(TransactionCanceledException(cancelled)) = error.as_service_error() else {
    ///             return Err(error.into());
    ///         };
    ///         // In the order of the items: the check is the second.
    ///         let mut reasons = cancelled.cancellation_reasons().iter().map(|reason| reason.code());
    ///         if reasons.clone().nth(1) == Some(Some("ConditionalCheckFailed")) {
    ///             return Ok(false); // the hold is over: stop
    ///         }
    ///         if !reasons.any(|code| code == Some("TransactionConflict")) {
    ///             return Err(error.into()); // a condition of the caller's own, or its capacity
    ///         }
    ///         tokio::time::sleep(std::time::Duration::from_millis(50)).await; // a conflict: send it again
    ///     }
    /// }
    /// ```
    pub fn check_item(&self) -> Result<TransactWriteItem, Error> {
        if let Some(reason) = self.hold().loss() {
            return Err(self.lost_by(reason).into());
        }
        let (store, hold) = (&self.inner().store, self.hold());
        let (held, turns_left) = hold.to_be_checked();
        let check = store.check_holder(&hold.name, &hold.attempt, held, turns_left);
        check.map_err(|failure| failure.into_error(&store.config().table, Duration::ZERO))
    }
}
