//! The writes of the protocol: each is a list of clauses, its condition, and a list of effects.
//!
//! Each clause and each effect has two forms: DynamoDB's expression language, and a function of values. The library sends the first form,
//! and the models run the second. A test sends each write to real engines and compares the two. A write applies if all of its clauses hold
//! of the item. Then all of its effects are made of the item as it was before.

mod clause;
mod effect;
mod entrance;
mod entry;
mod expression;
mod lock;
mod row;

pub use clause::Clause;
pub use effect::Effect;
pub use entrance::{Drawing, Entrance, NewItem, below, end};
pub use entry::{EntryClause, EntryEffect};
pub use expression::{Expressions, Values};
pub use lock::LockWrite;
pub use row::{RowChange, RowClause, RowEffect, RowWrite};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entry::ServerTime;
    use crate::item::LockItem;
    use crate::moment::HostTime;
    use crate::stamps::{self, Stamps};
    use crate::ticket::Ticket;

    fn times(parts: [Option<u64>; 2]) -> Stamps {
        let [server, host] = parts.map(|part| part.map(Duration::from_secs));
        Stamps {
            server: server.map(ServerTime),
            host: host.map(HostTime),
        }
    }

    /// Stamps with each part absent, early, a little late, and late.
    fn all() -> impl Iterator<Item = Stamps> {
        let parts = [None, Some(10), Some(12), Some(100)];
        let both = parts
            .into_iter()
            .flat_map(move |server| parts.map(|host| [server, host]));
        both.map(times)
    }

    fn drawn(seen: Stamps, own: Stamps, stands: Stamps) -> Option<Stamps> {
        let how = Drawing {
            stamps: own,
            seen,
            join_timeout: Duration::ZERO,
            raises_join_timeout: true,
            keeps: None,
        };
        let item = LockItem {
            drawn: stands,
            ..LockItem::free(Ticket::new(1), Ticket::new(1))
        };
        let write = LockWrite::draw(0, 1, end(1), how);
        Some(write.apply(Some(&item))??.drawn)
    }

    /// A late copy of a draw meets other stamps than were seen. It applies only if it writes and leaves the same parts of them.
    #[test]
    fn a_draw_writes_what_is_to_be_written_over_the_stamps_that_stand_there_or_nothing() {
        let own = times([Some(10), Some(10)]);
        for own in [own, times([None, Some(10)]), times([Some(10), None])] {
            for (seen, stands) in all().flat_map(|seen| all().map(move |stands| (seen, stands))) {
                let leaves = |over| {
                    let drawn = stamps::drawn(over, own);
                    [drawn.server != own.server, drawn.host != own.host]
                };
                let writes = (leaves(seen) == leaves(stands)).then(|| stamps::drawn(stands, own));
                assert_eq!(
                    drawn(seen, own, stands),
                    writes,
                    "{seen:?} {own:?} {stands:?}"
                );
            }
        }
    }
}
