//! Hands out tickets: each draw of a lock's counter is one ticket that nobody else has.

use crate::item::LockItem;
use crate::name::LockName;
use crate::store::{Failure, Patience, Store, Write};
use crate::ticket::Ticket;

/// A ticket, and the lock item as the draw left it.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) ticket: Ticket,
    pub(crate) item: LockItem,
}

/// Draws the next ticket; none when there is no counter yet, which the first enter starts.
///
/// A draw whose answer was lost is drawn again: its ticket stays a gap in the line, which closes after the grace.
pub(crate) async fn draw(
    store: &Store,
    name: &LockName,
    patience: &Patience,
) -> Result<Option<Drawn>, Failure> {
    let answer = store.persist(patience, || store.draw(name)).await?;
    Ok(match answer.value {
        Write::Applied(item) => Some(Drawn {
            ticket: item.last,
            item,
        }),
        Write::Refused(_) => None,
    })
}
