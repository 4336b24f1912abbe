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
    ///     .item("lines", AttributeValue::N("1234".into()));
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
    /// to the line. The transaction is then cancelled for `TransactionConflict` and can be sent again. The table of
    /// locks must be in the same account and region, and the caller needs `dynamodb:ConditionCheckItem` on it.
    ///
    /// A check of a hold that was [downgraded](Self::downgrade) afterwards refuses too: what it was made for has the lock no more.
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
    pub fn check_item(&self) -> Result<TransactWriteItem, Error> {
        if let Some(reason) = self.hold.loss() {
            return Err(self.lost_by(reason).into());
        }
        let (store, hold) = (&self.core.store, &self.hold);
        hold.is_to_be_checked();
        let check = store.check_holder(&hold.name, &hold.attempt, hold.held(), hold.turns_left());
        check.map_err(|failure| failure.into_error(&store.config().table, Duration::ZERO))
    }
}
