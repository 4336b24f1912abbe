//! A check of the holder for the caller's own transactions, which fairlock does not send.

use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::write::{Expressions, LockWrite};

use crate::vocabulary::name::LockName;

use super::request::owned;
use super::{Store, refused};

impl Store {
    /// A transaction with this part applies only while the condition of a write on the lock item holds.
    pub(crate) fn check(
        &self,
        name: &LockName,
        write: &LockWrite,
    ) -> Result<TransactWriteItem, Failure> {
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
