//! The counter of a lock, `last` of its item: a conditional write moves it on by as many tickets as it draws. The same write may take the lock,
//! or a slot behind it. All else that changes the item is written here too, on the same terms.

use crate::store::{Store, Timed, Write};
use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::write::LockWrite;

/// Writes the lock item on a condition. If the writer knows what a refusal would show, its answer may leave the item out.
pub(crate) async fn write(
    store: &Store,
    name: &LockName,
    (write, shows): (&LockWrite, bool),
) -> Result<Timed<Write<LockItem>>, Failure> {
    match shows {
        true => store.write(name, write).await,
        false => store.write_unread(name, write).await,
    }
}
