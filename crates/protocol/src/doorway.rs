//! What a caller without a place asks for: a slot, a part of the lock, or a ticket.

use crate::item::{LockItem, signed};

/// What a caller without a place knows of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing yet.
    Unknown,
    /// No entry holds the lock or waits for it: there is no lock item, or what was in the way has ended.
    Nobody,
    /// A lock item.
    Item(Sight),
}

/// What a lock item shows to a caller without a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// No entry holds the lock.
    pub is_free: bool,
    /// No ticket is open: every drawn ticket is settled or has a slot.
    pub is_settled: bool,
    /// The permits that the caller asks for are left to share, and no waiter waits for any.
    pub has_room: bool,
    /// A slot is open.
    pub has_slot: bool,
    /// More turns come before the caller's than it accepts.
    pub is_too_long: bool,
}

impl Sight {
    /// Of a caller that asks for `permits` permits, where there are `slots` slots behind the first.
    pub fn of(item: &LockItem, permits: u64, slots: usize) -> Self {
        Sight {
            is_free: item.is_free(),
            is_settled: item.watermark == item.last,
            // A free lock may have fewer permits by now: then a caller for more takes the first slot, and has the lock alone.
            has_room: item.has_room_for(permits) && item.room >= signed(permits),
            has_slot: item.slots.len() <= slots,
            is_too_long: false,
        }
    }
}

/// What the caller asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The slot behind all others. The first slot is the lock itself.
    Enter,
    /// A part of the lock, beside others or as the first.
    Share,
    /// A ticket, and a row in the queue.
    Draw,
    /// Nothing now: the caller first clears what has ended out of its way. Either the queue is longer than the caller accepts, or the lock
    /// is free with open tickets. In that case no owner of an open ticket is left, or a caller is on its way to the lock.
    Nothing,
}

/// What a caller that waits asks for. A caller that `shares` asks for a part of the lock.
///
/// DynamoDB refuses the request if the lock item is another by then, and the refusal shows the item.
pub fn next_ask(seen: Seen, shares: bool) -> Ask {
    match seen {
        // A sharing caller usually finds other sharers, or a lock that was used before.
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
        ) => Ask::Nothing,
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
        assert_eq!(next_ask(Seen::Item(on_the_way), false), Ask::Nothing);
        assert_eq!(next_ask(Seen::Item(on_the_way), true), Ask::Nothing);
    }
}
