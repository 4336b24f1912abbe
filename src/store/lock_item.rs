//! Requests about the lock item: conditional writes, and consistent reads.

use fairlock_protocol::codec;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::write::LockWrite;

use crate::vocabulary::name::LockName;

use super::codec::{Item, values};
use super::{Store, Timed, Write};

pub(super) type Answer = Result<Timed<Write<LockItem>>, Failure>;

impl Store {
    /// Writes, and has the item stay until `keeps`. If that is refused because another client keeps the item for longer, writes
    /// without it.
    pub(crate) async fn write_keeping(
        &self,
        name: &LockName,
        write: LockWrite,
        keeps: Option<u64>,
    ) -> Answer {
        let answer = self.write(name, &write.clone().keeping(keeps)).await?;
        match &answer.value {
            Write::ConditionFailed(Some(item))
                if keeps.is_some_and(|keeps| item.expires_at > keeps) =>
            {
                self.write(name, &write).await
            }
            _ => Ok(answer),
        }
    }

    /// Reads the lock item, strongly consistent.
    pub(crate) async fn read_lock(
        &self,
        name: &LockName,
    ) -> Result<Timed<Option<LockItem>>, Failure> {
        let verb = "read the lock item";
        let answer = self.get(verb, self.lock_key(name)).await?;
        let decode = |item| self.decode_lock(verb, name, item);
        answer.try_map(|item: Option<Item>| item.map(decode).transpose())
    }

    /// Removes an idle lock item that no client has touched since `seen`. Returns whether this call removed it: `false` also if
    /// another client had.
    pub(crate) async fn remove_idle(
        &self,
        name: &LockName,
        seen: &LockItem,
    ) -> Result<bool, Failure> {
        let write = LockWrite::remove_idle(all_of(name), seen);
        let key = self.lock_key(name);
        self.delete(write.verb, key, write.expressions()).await
    }

    pub(crate) async fn write(&self, name: &LockName, write: &LockWrite) -> Answer {
        let (verb, key) = (write.verb, self.lock_key(name));
        let answer = self.update(verb, key.clone(), write.expressions()).await?;
        let answer = self.in_the_way(verb, key, answer).await?;
        answer.try_map(|answer| answer.try_map(|item| self.decode_lock(verb, name, item)))
    }

    /// As `write`, for a caller that tries again if no item is shown to be in the way.
    pub(crate) async fn write_unread(&self, name: &LockName, write: &LockWrite) -> Answer {
        let (verb, key) = (write.verb, self.lock_key(name));
        let answer = self.update(verb, key, write.expressions()).await?;
        answer.try_map(|answer| answer.try_map(|item| self.decode_lock(verb, name, item)))
    }

    pub(crate) fn decode_lock(
        &self,
        verb: &'static str,
        name: &LockName,
        item: Item,
    ) -> Result<LockItem, Failure> {
        let read = codec::lock_item(&values(item), &self.config.names.ttl);
        let read = read.and_then(|item| codec::total_permits(item, name.permits()));
        read.map_err(|problem| self.unreadable(verb, name, &name.lock_key(), problem))
    }
}

/// The permits of the lock. Zero if the name has no number: no lock has zero permits, and under such a name nothing is written.
pub(crate) fn all_of(name: &LockName) -> u64 {
    name.permits().unwrap_or_default()
}
