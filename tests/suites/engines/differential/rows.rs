//! Each kind of write on a row, with a row for it.

use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::{RowState, TicketRow};
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::RowWrite;

use super::some::Few;

/// The ticket of the row.
pub(crate) const TICKET: u64 = 7;

kinds! { RowKind:
    Join, VoidGap, VoidDead, VoidOwn, Renew, RenewUndated, Date, RemoveVoid,
    RemoveWaiting, RemoveSettled,
}

/// The value that a row is built from if there is none.
pub(crate) fn nothing() -> TicketRow {
    TicketRow {
        ticket: Ticket::new(TICKET),
        tickets: 1,
        state: RowState::Void(None),
        expires_at: 0,
    }
}

fn entry(some: &mut Few) -> Entry {
    let nonce = some.nonce();
    some.entry(nonce, Ticket::new(TICKET), 1)
}

fn waiting(some: &mut Few) -> TicketRow {
    let entry = entry(some);
    TicketRow {
        tickets: entry.tickets,
        state: RowState::Waiting(entry),
        expires_at: some.of(&[0, 1_000, 2_000]),
        ..nothing()
    }
}

fn void(some: &mut Few) -> TicketRow {
    TicketRow {
        tickets: 1 + some.upto(1),
        state: RowState::Void(some.or_none(Few::nonce)),
        expires_at: some.of(&[0, 1_000, 2_000]),
        ..nothing()
    }
}

/// A row, or none, and a write of this kind. A client that saw the row, or a similar one, sends the write.
pub(crate) fn pair(kind: RowKind, some: &mut Few) -> (Option<TicketRow>, RowWrite) {
    let row = match some.upto(4) {
        0 => None,
        1 => Some(void(some)),
        _ => Some(waiting(some)),
    };
    let mut seen = match &row {
        Some(TicketRow {
            state: RowState::Waiting(entry),
            ..
        }) => entry.clone(),
        _ => entry(some),
    };
    if some.once_in(2) {
        some.change_entry(&mut seen);
        seen.ticket = Ticket::new(TICKET);
    }
    let (stamps, expiry) = (some.stamps(), some.expiry());
    let renew = |stamps, some: &mut Few| {
        RowWrite::renew(seen.nonce, (1 + some.upto(2), some.span()), stamps, expiry)
    };
    let write = match kind {
        RowKind::Join => RowWrite::join(seen.clone(), expiry),
        RowKind::VoidGap => RowWrite::void_gap(TicketRow {
            state: RowState::Void(None),
            expires_at: expiry,
            ..void(some)
        }),
        RowKind::VoidDead => RowWrite::void_dead(&seen),
        RowKind::VoidOwn => RowWrite::void_own(seen.nonce, 1 + some.upto(1), expiry),
        RowKind::Renew => renew(stamps, some),
        RowKind::RenewUndated => renew(Stamps::default(), some),
        RowKind::Date => RowWrite::date(&seen, stamps),
        RowKind::RemoveVoid => RowWrite::remove(&void(some)),
        RowKind::RemoveWaiting => RowWrite::remove(&TicketRow {
            state: RowState::Waiting(seen.clone()),
            ..nothing()
        }),
        RowKind::RemoveSettled => RowWrite::remove_settled(),
    };
    (row, write)
}
