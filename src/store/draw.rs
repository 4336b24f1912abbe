//! The verb that draws tickets.

use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{Dating, Drawing, LockWrite, newest};

use crate::name::LockName;

use super::lock_item::{Answer, all_of, below};
use super::{Store, Timed, Write};

/// The most tries. Each further try knows better what stands on the item: a later date, or a shorter join timeout.
const TRIES: usize = 3;

impl Store {
    /// Draws the next `tickets` tickets, if none newer than `most` was drawn. The newest is `last` of the answer. If a later date
    /// stands on the item, it stays, as in a renewal. Afterwards the join timeout on the item is at least as long as this
    /// client's.
    pub(crate) async fn draw(
        &self,
        name: &LockName,
        tickets: u64,
        most: Ticket,
        seen: Option<&LockItem>,
    ) -> Answer {
        let end = below(most, tickets);
        let (began, stamp) = (self.now(), self.server.stamp());
        let draw = async |how| {
            let write = LockWrite::draw(all_of(name), tickets, end, how);
            self.write(name, &write).await
        };
        let mut how = self.drawing(seen, stamp);
        let mut answer = draw(how).await?;
        for _ in 1..TRIES {
            let Write::ConditionFailed(Some(item)) = &answer.value else {
                break;
            };
            let better = self.drawing(Some(item), stamp);
            if end <= item.last || better == how {
                break;
            }
            how = better;
            answer = draw(how).await?;
        }
        Ok(Timed {
            sent: began,
            ..answer
        })
    }

    /// How to draw as the item asks for, as far as that is known.
    fn drawing(&self, seen: Option<&LockItem>, stamp: Option<ServerTime>) -> Drawing {
        let dating = match (stamp, seen.and_then(|item| item.drawn_at)) {
            (Some(stamp), Some(drawn_at)) if drawn_at > newest(stamp) => Dating::UnderLater(stamp),
            (Some(stamp), _) => Dating::By(stamp),
            (None, _) => Dating::None,
        };
        let is_short = |item: &LockItem| item.join_timeout < Some(self.config.join_timeout);
        Drawing {
            dating,
            join_timeout: self.config.join_timeout,
            raises_join_timeout: seen.is_some_and(is_short),
            keeps: seen.and_then(|item| self.keeps(item.expires_at)),
        }
    }
}
