//! A check on the lock item for transactions of the caller's own, which nothing here sends.

use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};

use crate::name::LockName;

use super::codec::{FORMAT, number, text};
use super::failure::{Failure, Kind};
use super::lock_item::IS_HOLDER;
use super::{Attempt, Store};

impl Store {
    /// Whatever is written with this is written only while the attempt's place is the holder's.
    pub(crate) fn check_holder(
        &self,
        name: &LockName,
        attempt: &Attempt,
    ) -> Result<TransactWriteItem, Failure> {
        let check = ConditionCheck::builder()
            .table_name(&self.config.table)
            .set_key(Some(self.lock_key(name)))
            .condition_expression(IS_HOLDER)
            .set_expression_attribute_names(Some(self.names(&[IS_HOLDER])))
            .expression_attribute_values(":format", number(FORMAT))
            .expression_attribute_values(":nonce", text(attempt.nonce.to_string()))
            .build();
        let check = check.map_err(|incomplete| Failure {
            verb: "check the holder",
            kind: Kind::Refused(Box::new(incomplete)),
        })?;
        let part = TransactWriteItem::builder().condition_check(check);
        Ok(part.build())
    }
}
