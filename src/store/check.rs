//! A check of the holder for transactions of the caller's own, which nothing here sends, and what ends it.

use aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};

use crate::name::LockName;
use fairlock_protocol::item::{At, Held};

use super::codec::{FORMAT, number};
use super::failure::{Failure, Kind};
use super::forms;
use super::lock_item::{Answer, all_of, named, ours, placed};
use super::request::{Values, owned};
use super::{Attempt, Store};

impl Store {
    /// Whatever is written with this is written only while the attempt has the lock at this place, and so many are left
    /// to have a turn there.
    pub(crate) fn check_holder(
        &self,
        name: &LockName,
        attempt: &Attempt,
        held: Held,
        turns_left: u64,
    ) -> Result<TransactWriteItem, Failure> {
        let mut values = vec![
            (":format", number(FORMAT)),
            (":permits", number(all_of(name))),
            (":share", number(held.permits)),
        ];
        values.extend(named(attempt.nonce, held.footing.ticket));
        let has_turn = has_turn(turns_left, &mut values);
        let condition = ours(&format!("{has_turn} AND {}", forms::SAME_SHARE));
        let condition = placed(&condition, held.footing.at);
        let check = ConditionCheck::builder()
            .table_name(&self.config.table)
            .set_key(Some(self.lock_key(name)))
            .set_expression_attribute_names(Some(self.names(&[&condition])))
            .set_expression_attribute_values(Some(owned(values)))
            .condition_expression(condition)
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
        held: Held,
        turns_left: u64,
    ) -> Answer {
        let mut values = named(attempt.nonce, held.footing.ticket);
        values.push((":left", number(turns_left)));
        self.write_at(name, &forms::PASS_ON, At::Holder, values)
            .await
    }
}

/// The condition that the attempt has the lock, with so many left to have a turn at its place, and what it takes.
pub(super) fn has_turn(turns_left: u64, values: &mut Values) -> &'static str {
    if turns_left <= 1 {
        return forms::HOLDS;
    }
    values.push((":left", number(turns_left)));
    forms::HAS_ITS_TURN
}
