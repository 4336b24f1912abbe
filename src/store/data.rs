//! The bytes on the lock item that go from holder to holder.

use std::sync::Arc;

use fairlock_protocol::entry::Nonce;
use fairlock_protocol::item::{Footing, Written};
use fairlock_protocol::write::LockWrite;

use crate::name::LockName;

use super::Store;
use super::lock_item::{Answer, all_of};

impl Store {
    /// Writes the bytes, or removes those that are there.
    pub(crate) async fn write_data(
        &self,
        name: &LockName,
        place: (Nonce, Footing),
        turn: (Written, u64),
        bytes: Option<&[u8]>,
    ) -> Answer {
        let write = LockWrite::data(all_of(name), place, turn, bytes.map(Arc::from));
        self.write(name, &write).await
    }
}
