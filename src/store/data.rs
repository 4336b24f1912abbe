//! The bytes on the lock item that go from holder to holder.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::name::LockName;
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::item::{Footing, Written};

use super::Store;
use super::check::has_turn;
use super::codec::{number, written};
use super::forms;
use super::lock_item::{Answer, named, ours, placed};

impl Store {
    /// Writes the bytes, or removes those that are there.
    pub(crate) async fn write_data(
        &self,
        name: &LockName,
        (nonce, Footing { at, ticket, .. }): (Nonce, Footing),
        (write, turns_left): (Written, u64),
        bytes: Option<&[u8]>,
    ) -> Answer {
        let mut values = named(nonce, ticket);
        values.extend([
            (":written", written(write)),
            (":ticket", number(write.ticket.get())),
            (":count", number(write.count)),
        ]);
        let data = bytes.map(|bytes| (":data", AttributeValue::B(Blob::new(bytes))));
        let update = match data {
            Some(_) => forms::PUT_DATA,
            None => forms::REMOVE_DATA,
        };
        values.extend(data);
        let has_turn = has_turn(turns_left, &mut values);
        let condition = ours(&format!("{has_turn} AND {}", forms::NO_LATER_DATA));
        let expressions = [update, &condition].map(|it| placed(it, at));
        self.send(name, "write data", expressions, values).await
    }
}
