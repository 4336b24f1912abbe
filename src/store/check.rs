//! A check of the holder for the caller's own transactions, which fairlock does not send.

use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::ItemHold;
use fairlock_protocol::write::{Expressions, LockWrite};

use crate::attempt::Attempt;
use crate::name::LockName;

use super::lock_item::all_of;
use super::request::owned;
use super::{Store, refused};

impl Store {
    /// A transaction with this part applies only while the attempt holds the lock at this place, and at least `turns_left`
    /// tickets have a turn left there.
    pub(crate) fn check_holder(
        &self,
        name: &LockName,
        attempt: &Attempt,
        held: ItemHold,
        turns_left: u64,
    ) -> Result<TransactWriteItem, Failure> {
        let write = LockWrite::check(all_of(name), attempt.nonce, held, turns_left);
        let Expressions {
            condition, values, ..
        } = write.expressions();
        let check = ConditionCheck::builder()
            .table_name(&self.config.table)
            .set_key(Some(self.lock_key(name)))
            .set_expression_attribute_names(Some(self.names(&[&condition])))
            .set_expression_attribute_values(owned(values))
            .condition_expression(condition)
            .build();
        let check = check.map_err(|incomplete| refused(write.verb, incomplete))?;
        let part = TransactWriteItem::builder().condition_check(check);
        Ok(part.build())
    }
}
