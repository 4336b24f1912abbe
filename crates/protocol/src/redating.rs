//! Which stamps of a lock a caller replaces next, because they keep what is dead: one write a call.

use crate::entry::Entry;
use crate::item::{At, LockItem, TicketRow};
use crate::stamps::{self, Reading, Stamps};
use crate::ticket::Ticket;
use crate::write::{LockWrite, RowWrite};

/// The most holds that one write stamps: a condition has 4 KB, and each hold some 230 bytes of it.
const AT_ONCE: usize = 16;

/// What is sent to replace stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redating {
    /// A write on the lock item.
    OnItem(LockWrite),
    /// A write on the row of this ticket.
    InRow(Ticket, RowWrite),
}

/// The next stamps to be replaced: those of holds first, the oldest before the others and as many as one write takes. Else those of the
/// first successor, else those of the newest draw if a ticket is open, else those of the first row. Returns `None` if all stay.
///
/// A refusal means that something was renewed, stamped or ended since the snapshot. The next caller stamps what is left.
pub fn next_redating(
    permits: u64,
    item: &LockItem,
    rows: &[TicketRow],
    now: Reading,
) -> Option<Redating> {
    on_item(permits, item, now)
        .map(Redating::OnItem)
        .or_else(|| {
            let waiting = rows.iter().filter(|row| row.ticket > item.watermark);
            let mut waiting = waiting.filter_map(TicketRow::waiting);
            waiting.find_map(|entry| {
                let write = RowWrite::date(entry, entry.redated(now)?);
                Some(Redating::InRow(entry.ticket, write))
            })
        })
}

fn on_item(permits: u64, item: &LockItem, now: Reading) -> Option<LockWrite> {
    let holds = holds(item, now);
    if let Some((stamps, holds)) = holds {
        return Some(LockWrite::date_holds(permits, &holds, stamps));
    }
    let successors = item.successors().iter().enumerate();
    let successor = { successors }.find_map(|(index, entry)| {
        let (at, stamps) = (item.at_successor(index), entry.redated(now)?);
        Some(LockWrite::date_successor(permits, at, entry, stamps))
    });
    successor.or_else(|| {
        let is_open = item.watermark < item.last;
        let stamps = stamps::redated(item.drawn, now).filter(|_| is_open)?;
        Some(LockWrite::date_draw(permits, item, stamps))
    })
}

/// The holds that one write stamps, and what it writes. They have the same beat and the same stamps, which the write names once.
fn holds(item: &LockItem, now: Reading) -> Option<(Stamps, Vec<(At, &Entry)>)> {
    let holder = item.holder().map(|holder| (At::Slot(0), holder));
    let sharers = item.sharers.iter();
    let sharers = sharers.map(|sharer| (At::Sharer(sharer.nonce), sharer));
    let mut holds: Vec<_> = holder.into_iter().chain(sharers).collect();
    holds.sort_by_key(|(_, entry)| entry.ticket);
    let mut dated = { holds.iter() }.filter_map(|&(_, it)| Some((it.redated(now)?, it)));
    let (stamps, oldest) = dated.next()?;
    let is_alike =
        |entry: &Entry| (entry.own_beat(), entry.stamps) == (oldest.own_beat(), oldest.stamps);
    holds.retain(|(_, entry)| is_alike(entry));
    holds.truncate(AT_ONCE);
    Some((stamps, holds))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entry::{Attributes, Nonce, ServerTime, Unknown};
    use crate::item::RowState;
    use crate::moment::HostTime;
    use crate::stamps::Wall;

    const PERMITS: u64 = 64;

    fn at(seconds: u64) -> Stamps {
        let time = Duration::from_secs(seconds);
        Stamps {
            server: Some(ServerTime(time)),
            host: Some(HostTime(time)),
        }
    }

    fn now() -> Reading {
        Reading {
            date: at(100).server,
            wall: Wall::Shows(HostTime(Duration::from_secs(100))),
        }
    }

    fn entry(ticket: u64, stamps: Stamps) -> Entry {
        Entry {
            nonce: Nonce::new(u128::MAX - u128::from(ticket)),
            owner: "o".into(),
            ticket: Ticket::new(ticket),
            tickets: 1,
            permits: 1,
            attributes: Attributes::default(),
            id: None,
            beat: 0,
            session: None,
            lease: Duration::from_secs(30),
            stamps,
            since: None,
            given_back: false,
            address: None,
            unknown: Unknown::default(),
        }
    }

    /// Sharers with these stamps, and two successors that wait for all.
    fn item(sharers: &[Stamps], successors: [Stamps; 2], drawn: Stamps) -> LockItem {
        let tickets = 1..;
        let sharers = { tickets.zip(sharers) }.map(|(ticket, it)| entry(ticket, *it));
        let successors = { [40, 41].into_iter().zip(successors) }.map(|(ticket, it)| Entry {
            permits: PERMITS,
            ..entry(ticket, it)
        });
        LockItem {
            permits: PERMITS,
            room: 1,
            sharers: sharers.collect(),
            slots: successors.collect(),
            drawn,
            ..LockItem::free(Ticket::new(50), Ticket::new(45))
        }
    }

    fn row(ticket: u64, stamps: Stamps) -> TicketRow {
        TicketRow {
            ticket: Ticket::new(ticket),
            tickets: 1,
            state: RowState::Waiting(entry(ticket, stamps)),
            expires_at: 0,
        }
    }

    fn next(item: &LockItem, rows: &[TicketRow]) -> Option<Redating> {
        next_redating(PERMITS, item, rows, now())
    }

    fn dated(item: &LockItem) -> Option<LockItem> {
        match next(item, &[])? {
            Redating::OnItem(write) => write.apply(Some(item))?,
            Redating::InRow(..) => None,
        }
    }

    #[test]
    fn holds_are_dated_first_then_a_successor_then_the_draw_then_a_row() {
        let (right, ahead, none) = (at(99), at(3_700), Stamps::default());
        // What a wall clock wrote stays.
        let less = Stamps {
            host: ahead.host,
            ..now().stamps()
        };
        let one = item(&[right, none, ahead, none], [right, ahead], ahead);
        let two = item(&[right, at(100), ahead, at(100)], [right, ahead], ahead);
        let three = item(&[right, at(100), less, at(100)], [right, ahead], ahead);
        let four = item(&[right, at(100), less, at(100)], [right, less], ahead);
        let five = item(&[right, at(100), less, at(100)], [right, less], less);
        for (before, after) in [
            (&one, &two),
            (&two, &three),
            (&three, &four),
            (&four, &five),
        ] {
            assert_eq!(dated(before).as_ref(), Some(after));
        }
        let rows = [row(45, ahead), row(46, right), row(47, none)];
        let Some(Redating::InRow(ticket, write)) = next(&five, &rows) else {
            panic!("no row is dated");
        };
        assert_eq!(ticket, Ticket::new(47));
        let row = write.apply(Some(&rows[2]), &rows[2]);
        assert_eq!(row, Some(Some(self::row(47, at(100)))));
        assert_eq!(next(&five, &rows[..2]), None);
    }

    /// A draw whose tickets are all settled, and an entry that a session keeps.
    #[test]
    fn what_no_client_judges_is_not_dated() {
        let none = Stamps::default();
        let mut item = item(&[none], [at(99); 2], none);
        item.watermark = item.last;
        item.sharers[0].session = Some("of a client".into());
        assert_eq!(next(&item, &[]), None);
    }

    #[test]
    fn a_write_that_dates_as_many_holds_as_may_be_has_room_in_an_expression() {
        let none = Stamps::default();
        for seen in [none, at(3_700)] {
            let item = item(&[seen; 40], [at(99); 2], none);
            let Some(Redating::OnItem(write)) = next(&item, &[]) else {
                panic!("no hold is dated");
            };
            let expressions = write.expressions();
            let longest = expressions.condition.len().max(expressions.update.len());
            assert!((3_000..4_096).contains(&longest), "{longest}");
        }
    }
}
