//! A check of the holder for transactions of the caller's own, which nothing here sends, and what ends it.

use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};

use crate::name::LockName;

use super::codec::{FORMAT, number, text};
use super::failure::{Failure, Kind};
use super::lock_item::{Answer, Form, IS_HOLDER};
use super::request::owned;
use super::{Attempt, Store};

/// So many are still to have a turn at the place: whoever had one there before had more.
const HAS_ITS_TURN: &str =
    "#format = :format AND #holder.#nonce = :nonce AND #holder.#tickets >= :left";

/// More there: a late copy must not bring an earlier turn back.
const PASS_ON: Form = Form {
    verb: "pass on",
    update: "SET #holder.#tickets = :left, #expires_at = :expiry",
    condition: "#format = :format AND #holder.#nonce = :nonce AND #holder.#tickets > :left",
};

impl Store {
    /// Whatever is written with this is written only while the attempt's place is the holder's, and so many are left
    /// to have a turn there.
    pub(crate) fn check_holder(
        &self,
        name: &LockName,
        attempt: &Attempt,
        turns_left: u64,
    ) -> Result<TransactWriteItem, Failure> {
        let mut values = vec![
            (":format", number(FORMAT)),
            (":nonce", text(attempt.nonce.to_string())),
        ];
        let condition = match turns_left {
            ..=1 => IS_HOLDER,
            _ => {
                values.push((":left", number(turns_left)));
                HAS_ITS_TURN
            }
        };
        let check = ConditionCheck::builder()
            .table_name(&self.config.table)
            .set_key(Some(self.lock_key(name)))
            .condition_expression(condition)
            .set_expression_attribute_names(Some(self.names(&[condition])))
            .set_expression_attribute_values(Some(owned(values)))
            .build();
        let check = check.map_err(|incomplete| Failure {
            verb: "check the holder",
            kind: Kind::Refused(Box::new(incomplete)),
        })?;
        let part = TransactWriteItem::builder().condition_check(check);
        Ok(part.build())
    }

    /// Takes the turns that were had off the holder's place, so that no check of them passes any more.
    pub(crate) async fn pass_on(
        &self,
        name: &LockName,
        attempt: &Attempt,
        turns_left: u64,
    ) -> Answer {
        let values = vec![
            (":nonce", text(attempt.nonce.to_string())),
            (":left", number(turns_left)),
        ];
        self.write(name, &PASS_ON, values).await
    }
}
