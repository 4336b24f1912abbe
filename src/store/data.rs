//! The bytes on the lock item that go from holder to holder.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::entry::Nonce;
use crate::item::{At, Written};
use crate::name::LockName;

use super::Store;
use super::codec::{number, text, written};
use super::forms;
use super::lock_item::Answer;

impl Store {
    /// Writes the bytes, or removes those that are there.
    pub(crate) async fn write_data(
        &self,
        name: &LockName,
        (at, nonce): (At, Nonce),
        write: Written,
        bytes: Option<&[u8]>,
    ) -> Answer {
        let mut values = vec![
            (":nonce", text(nonce.to_string())),
            (":written", written(write)),
            (":ticket", number(write.ticket.get())),
            (":count", number(write.count)),
        ];
        let data = bytes.map(|bytes| (":data", AttributeValue::B(Blob::new(bytes))));
        let form = match data {
            Some(_) => &forms::PUT_DATA,
            None => &forms::REMOVE_DATA,
        };
        values.extend(data);
        self.write_at(name, form, at, values).await
    }
}
