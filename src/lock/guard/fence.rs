//! What a hold gives to the caller's own writes: a fence, and a check that the hold is still the holder.

use std::time::Duration;

use aws_sdk_dynamodb::types::TransactWriteItem;

use super::LockGuard;
use crate::items::Fence;
use crate::store::all_of;
use crate::vocabulary::error::Error;
use fairlock_protocol::agent::Order;
use fairlock_protocol::write::LockWrite;

impl LockGuard {
    /// Returns a fence with this hold's ticket, for writes to items that remember the newest token in `attribute`.
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
    ///     .item("lines", AttributeValue::N("1234".into()));
    /// guard.fence("fence").on(put).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self, attribute: impl Into<String>) -> Fence {
        Fence::new(attribute, self.ticket())
    }

    /// Returns a part for the caller's own transaction. A `TransactWriteItems` that contains it applies only if this hold is
    /// still the holder at that moment. The table decides that, no clock does.
    ///
    /// Unlike [a fence](Self::fence) it needs no attribute in the items that are written. It lets nothing through once another
    /// caller holds the lock, even before that caller has written. It costs a transaction, which takes twice the write units for
    /// all its items and the lock item. The table of locks must be in the same account and region, and the caller needs
    /// `dynamodb:ConditionCheckItem` on it.
    ///
    /// The transaction can conflict with a renewal, or with callers that join the queue. DynamoDB then cancels it with
    /// `TransactionConflict`, and the caller can send it again. The cancellation reasons, one for each item of the transaction in
    /// its order, [tell this from a hold that has ended](#a-conflict-or-a-stale-hold).
    ///
    /// A check of a hold that was [downgraded](Self::downgrade) afterwards refuses too: the exclusive hold that it was made for
    /// has ended, with a [shortest time](crate::FairLock::min_hold) when that is over. A check of the share that is left refuses while other callers of this hold's batch wait for the lock: ask for
    /// another check when they have gone.
    ///
    /// Callers of one client that form a batch hold the lock [at one place](crate::FairLock::acquire), one after the other, and
    /// each has a check of its own. If one of them asked for a check, its release is a write before the next of them holds the
    /// lock, as it is between clients.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if this process no longer considers the hold valid. It sends nothing to find out.
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
    ///         // The reasons are in the order of the items; the check is the second.
    ///         let mut reasons = cancelled.cancellation_reasons().iter().map(|reason| reason.code());
    ///         if reasons.clone().nth(1) == Some(Some("ConditionalCheckFailed")) {
    ///             return Ok(false); // the hold has ended: stop
    ///         }
    ///         if !reasons.any(|code| code == Some("TransactionConflict")) {
    ///             return Err(error.into()); // a condition of the caller's own, or its capacity
    ///         }
    ///         tokio::time::sleep(std::time::Duration::from_millis(50)).await; // a conflict: send it again
    ///     }
    /// }
    /// ```
    pub fn check_item(&self) -> Result<TransactWriteItem, Error> {
        if let Some(reason) = self.watch().loss() {
            return Err(self.lost_by(reason).into());
        }
        let (store, view) = (&self.inner().store, self.view());
        drop(self.watch().orders(Order::Check));
        let (nonce, (held, turns_left), name) = (view.seen().nonce, view.checked(), &view.name);
        let write = LockWrite::check(all_of(name), nonce, held, turns_left);
        let check = store.check(name, &write);
        check.map_err(|failure| Error::of(failure, &store.config().table, Duration::ZERO))
    }
}
