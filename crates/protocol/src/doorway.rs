//! What one asks for who has no place yet: a slot, a part of the lock, or a ticket.

use crate::item::LockItem;

/// What a caller without a place knows of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet.
    Unknown,
    /// Nobody has it and nobody waits: there is no lock item, or what was in the way is over.
    Nobody,
    /// A lock item.
    Item(Sight),
}

/// What a lock item shows to such a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Nobody has the lock.
    pub is_free: bool,
    /// Nobody has an open ticket: everyone who drew one is settled or has a slot.
    pub is_settled: bool,
    /// What the caller asks for is left, and nobody waits for any.
    pub has_room: bool,
    /// A slot is open.
    pub has_slot: bool,
    /// More turns come before the caller's than it would wait for.
    pub is_too_long: bool,
}

impl Sight {
    /// Of a caller that asks for so many permits, where there are so many slots behind the first.
    pub fn of(item: &LockItem, permits: u64, slots: usize) -> Self {
        Sight {
            is_free: item.is_free(),
            is_settled: item.watermark == item.last,
            has_room: item.has_room_for(permits),
            has_slot: item.slots.len() <= slots,
            is_too_long: false,
        }
    }
}

/// What it asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The slot behind all others, and with the first of them the lock.
    Enter,
    /// A part of it beside others, or the first part.
    Share,
    /// A ticket, and a row in the queue.
    Draw,
    /// Nothing now: what is over is to be cleared out of the way. Either the queue is longer than the caller would wait, or the
    /// lock is free with open tickets: nobody is left who holds one, or somebody is on the way to it.
    Snapshot,
}

/// What a caller asks for that waits. One that `shares` asks for a part of the lock.
///
/// Whatever it asks for is refused if the lock item is another by then, and the refusal shows it.
pub fn next_ask(seen: Seen, shares: bool) -> Ask {
    match seen {
        // One who shares finds others there, or a lock that was used before.
        Seen::Unknown if shares => Ask::Share,
        Seen::Unknown | Seen::Nobody => Ask::Enter,
        Seen::Item(
            Sight {
                is_too_long: true, ..
            }
            | Sight {
                is_free: true,
                is_settled: false,
                ..
            },
        ) => Ask::Snapshot,
        Seen::Item(Sight { has_room: true, .. }) if shares => Ask::Share,
        Seen::Item(Sight {
            is_settled: true,
            has_slot: true,
            ..
        }) => Ask::Enter,
        Seen::Item(_) => Ask::Draw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Sight = Sight {
        is_free: false,
        is_settled: true,
        has_room: false,
        has_slot: true,
        is_too_long: false,
    };

    #[test]
    fn a_ticket_is_drawn_only_where_no_slot_is_to_be_had() {
        let full = Sight {
            has_slot: false,
            ..HELD
        };
        let waited_for = Sight {
            is_settled: false,
            ..HELD
        };
        assert_eq!(next_ask(Seen::Item(HELD), false), Ask::Enter);
        assert_eq!(next_ask(Seen::Item(full), false), Ask::Draw);
        assert_eq!(next_ask(Seen::Item(waited_for), false), Ask::Draw);
    }

    #[test]
    fn a_part_is_asked_for_only_by_one_who_shares() {
        let free = Sight {
            is_free: true,
            has_room: true,
            ..HELD
        };
        for (seen, alone, shared) in [
            (Seen::Unknown, Ask::Enter, Ask::Share),
            (Seen::Nobody, Ask::Enter, Ask::Enter),
            (Seen::Item(free), Ask::Enter, Ask::Share),
            (Seen::Item(HELD), Ask::Enter, Ask::Enter),
        ] {
            assert_eq!(next_ask(seen, false), alone, "{seen:?}");
            assert_eq!(next_ask(seen, true), shared, "{seen:?}");
        }
    }

    #[test]
    fn nobody_goes_past_one_who_is_on_the_way_to_a_free_lock() {
        let on_the_way = Sight {
            is_free: true,
            is_settled: false,
            ..HELD
        };
        assert_eq!(next_ask(Seen::Item(on_the_way), false), Ask::Snapshot);
        assert_eq!(next_ask(Seen::Item(on_the_way), true), Ask::Snapshot);
    }
}
