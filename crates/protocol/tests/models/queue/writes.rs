//! The model's requests as the writes that the library sends, and what these make of the model's items.
//!
//! A planted change of a rule is a clause, or an effect, that a write lacks. States are small, and few beside the steps between them, so
//! the model computes only once what a write makes of an item.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash};
use std::thread::LocalKey;
use std::time::Duration;

use fairlock_protocol::entry::{self, ServerTime};
use fairlock_protocol::item::{At, Footing, ItemHold, LockItem, RowState, TicketRow};
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{
    Clause, Drawing, Effect, Entrance, EntryClause, LockWrite, NewItem, RowClause, RowWrite, end,
};

use super::few::Few;
use super::request::{Admit, Request, Resize, Who};
use super::rules::{Mutant, Rules};
use super::table::{Entry, Item, Nonce, Row};
use crate::blank;
use crate::explore::Fold;

/// The models know no time: every lease, every join timeout and every expiry is the same.
const SPAN: Duration = Duration::from_secs(30);
const EXPIRY: u64 = 1;

/// What there is, the clock or the ticket of the row, what is asked by which rules, and whether it is late.
type Asked<T> = (Option<T>, u8, Request, Rules, bool);
/// What there is afterwards, or `None` if the write does not apply.
type After<T> = Option<Option<T>>;
type Memo<T> = RefCell<HashMap<Asked<T>, After<T>, BuildHasherDefault<Fold>>>;

thread_local! {
    static ITEMS: Memo<Item> = Memo::default();
    static ROWS: Memo<Row> = Memo::default();
}

/// Returns the lock item after a write, or `None` if the write does not apply. A new item counts from the clock.
pub(super) fn item_after(
    item: Option<Item>,
    (clock, request): (u8, &Request),
    rules: &Rules,
    late: bool,
) -> After<Item> {
    let clock = if item.is_none() { clock } else { 0 };
    let key = (item, clock, *request, *rules, late);
    once(&ITEMS, key, || {
        let before = item.map(|item| lock_item(&item, rules));
        let write = planted(lock_write(item, (clock, request), rules, late)?, rules);
        Some(write.apply(before.as_ref())?.map(|item| model_item(&item)))
    })
}

/// Returns a row after a write.
pub(super) fn row_after(
    row: Option<Row>,
    (ticket, request): (u8, &Request),
    rules: &Rules,
    late: bool,
) -> After<Row> {
    once(&ROWS, (row, ticket, *request, *rules, late), || {
        let Some(mut write) = row_write(row, request, late) else {
            // Rows are deleted in batches, which take no condition.
            return Some(None);
        };
        if rules.broken(Mutant::VoidWithoutBeat) {
            let is_beat = |of: &_| matches!(of, RowClause::Entry(EntryClause::BeatIs(_)));
            write.clauses.retain(|clause| !is_beat(clause));
        }
        let nothing = ticket_row(ticket, Row::Void(ticket));
        let before = row.map(|row| ticket_row(ticket, row));
        let after = write.apply(before.as_ref(), &nothing)?;
        Some(after.map(|row| model_row(&row)))
    })
}

fn once<T: Copy + Eq + Hash>(
    memo: &'static LocalKey<Memo<T>>,
    asked: Asked<T>,
    work: impl FnOnce() -> After<T>,
) -> After<T> {
    memo.with_borrow_mut(|known| *known.entry(asked).or_insert_with(work))
}

fn lock_write(
    item: Option<Item>,
    (clock, request): (u8, &Request),
    rules: &Rules,
    late: bool,
) -> Option<LockWrite> {
    let permits = u64::from(rules.permits);
    Some(match *request {
        Request::Enter { who, waits } => {
            let is_from_zero = rules.broken(Mutant::TicketsFromZero);
            let start = ticket(if is_from_zero { 0 } else { clock });
            let expiry = EXPIRY;
            let entrance = Entrance {
                below: end(who.size.into()),
                slots: waits.then_some(rules.slots),
                join_timeout: SPAN,
                new: Some(NewItem { start, expiry }),
            };
            LockWrite::enter(permits, newcomer(who, 0, late), entrance)
        }
        Request::EnterOver {
            who,
            last,
            watermark,
        } => {
            let me = newcomer(who, last + who.size, late);
            LockWrite::enter_over(permits, me, &seen(last, watermark))
        }
        Request::Share { who, first } => {
            LockWrite::share(permits, newcomer(who, 0, late), first.into())
        }
        Request::Draw { size } => {
            let how = Drawing {
                stamps: Stamps::default(),
                seen: Stamps::default(),
                join_timeout: SPAN,
                raises_join_timeout: false,
                keeps: None,
            };
            LockWrite::draw(permits, size.into(), end(size.into()), how)
        }
        Request::Fill(fill) => {
            let mut was = seen(0, fill.seen.watermark);
            was.departures = fill.seen.departures.into();
            let upto = ticket(fill.watermark);
            let found: Vec<_> = fill.found.iter().map(protocol_entry).collect();
            match found.is_empty() {
                true => LockWrite::settle(permits, &was, upto),
                false => LockWrite::fill(permits, &was, (&found, upto), rules.filled, None),
            }
        }
        Request::Left { ticket: mine } => LockWrite::leave(permits, ticket(mine)),
        Request::Remove { last } => {
            let mut was = seen(last, last);
            was.expires_at = EXPIRY;
            LockWrite::remove_idle(permits, &was)
        }
        Request::Resize(change) => resize(change, permits),
        _ => return place_write(item?, request, rules),
    })
}

/// The change of the number of permits, from what the operator saw.
fn resize(change: Resize, permits: u64) -> LockWrite {
    let mut was = seen(0, 0);
    was.permits = permits;
    was.resized = (change.resizes > 0).then_some(change.before.into());
    was.resizes = change.resizes.into();
    was.slots = change.first.into_iter().map(protocol_entry).collect();
    if !change.holds {
        was.sharers = vec![nobody()];
    }
    LockWrite::resize(permits, &was, change.to.into())
}

/// A write by a client that stands on the item, or about one. A client that is not there any more is named by a nonce that no place has, so
/// no condition meets it.
fn place_write(item: Item, request: &Request, rules: &Rules) -> Option<LockWrite> {
    let permits = u64::from(rules.permits);
    let hold = |nonce| item.hold(nonce, rules).map_or_else(nobody, protocol_entry);
    let held = |nonce: Nonce, share: u8| {
        let is_sharer = item.sharers.iter().any(|sharer| sharer.nonce == nonce);
        let at = match is_sharer {
            true => At::Sharer(protocol_nonce(nonce)),
            false => At::Slot(0),
        };
        ItemHold {
            footing: footing(at, &hold(nonce)),
            permits: share.into(),
        }
    };
    Some(match *request {
        Request::Release { nonce, share } => {
            LockWrite::release(permits, protocol_nonce(nonce), held(nonce, share), None)
        }
        Request::Evict { nonce, beat, share } => {
            let dead = with_beat(hold(nonce), beat);
            LockWrite::evict(permits, &dead, held(nonce, share), None)
        }
        Request::Downgrade { nonce, share } => {
            LockWrite::downgrade(permits, protocol_nonce(nonce), held(nonce, share), 1)
        }
        _ => return successor_write(item, request, permits),
    })
}

fn successor_write(item: Item, request: &Request, permits: u64) -> Option<LockWrite> {
    let in_slot = |index: u8, nonce: Nonce| {
        let entry = item.slots.get(index.into());
        let own = entry.filter(|entry| entry.nonce == nonce);
        own.map_or_else(nobody, protocol_entry)
    };
    let at = |index: u8| At::Slot(index.into());
    Some(match *request {
        Request::Admit(Admit {
            first,
            index,
            nonce,
            share,
        }) => {
            let before = item.slots.iter().take(index.into()).skip(first.into());
            let mut successors: Vec<_> = before.map(protocol_entry).collect();
            successors.resize_with((index - first).into(), nobody);
            successors.push(in_slot(index, nonce));
            let mut write = LockWrite::admit(permits, first.into(), &successors)?;
            // They take what was seen.
            for effect in &mut write.effects {
                if let Effect::Take(taken) = effect {
                    *taken = share.into();
                }
            }
            write
        }
        Request::EvictSuccessor { index, nonce, beat } => {
            let dead = with_beat(in_slot(index, nonce), beat);
            LockWrite::evict_successor(permits, at(index), &dead)
        }
        Request::Rise { index, nonce } => {
            LockWrite::give_up_slot(permits, at(index), &in_slot(index, nonce))
        }
        Request::RenewSuccessor { index, nonce } => {
            let own = in_slot(index, nonce);
            let place = (own.nonce, footing(at(index), &own));
            LockWrite::renew(permits, place, (own.beat + 1, SPAN), Stamps::default())
        }
        _ => return None,
    })
}

fn footing(at: At, entry: &entry::Entry) -> Footing {
    Footing {
        at,
        ticket: entry.ticket,
        expires_at: EXPIRY,
    }
}

/// Returns the write without the clause, or the effect, that a planted change is about.
fn planted(mut write: LockWrite, rules: &Rules) -> LockWrite {
    use Mutant as By;
    let (Some(mutant), verb) = (rules.mutant, write.verb) else {
        return write;
    };
    write
        .clauses
        .retain(|clause| !is_left_out(mutant, verb, clause));
    if mutant == By::EnterOneAtATime && verb == "enter" {
        write.clauses.push(Clause::SlotsAtMost(1));
    }
    for clause in &mut write.clauses {
        match (mutant, clause) {
            (By::ShareWithoutRoom, Clause::Beside { share, .. }) => *share = 0,
            (By::ShareBesideTheWhole, Clause::Beside { first, .. }) => {
                *first = rules.permits.into()
            }
            _ => {}
        }
    }
    let admits = |effect: &Effect| matches!(effect, Effect::Admit(..));
    let leaves_the_first = mutant == By::ResizeLeavesTheFirst
        && verb == "change the permits"
        && write.effects.iter().any(admits);
    write.effects.retain(|effect| {
        let counts = mutant == By::LeaveWithoutLeft && *effect == Effect::CountDeparture;
        !(counts || leaves_the_first && admits(effect))
    });
    for effect in &mut write.effects {
        match effect {
            // Of a holder with one permit.
            Effect::TakeAway(taken) if leaves_the_first => *taken -= 1,
            Effect::Draw(tickets) if mutant == By::DrawsOne => *tickets = 1,
            _ => {}
        }
    }
    write
}

/// Whether a planted change is about this clause.
fn is_left_out(mutant: Mutant, verb: &str, clause: &Clause) -> bool {
    use EntryClause::{BeatIs, PermitsAre};
    use Mutant as By;
    matches!(
        (mutant, verb, clause),
        (By::EnterOverUnsettled, "enter", Clause::NoOpenTicket)
            | (By::EnterTwice, "enter", Clause::NoPlaceOf(_))
            | (By::EnterWithoutFree, "enter", Clause::Free)
            | (By::EnterWithoutSlots, "enter", Clause::SlotsAtMost(_))
            | (
                By::EnterOverWithoutLast,
                "enter over the settled",
                Clause::LastIs(_)
            )
            | (By::ShareOverUnsettled, "share", Clause::NoOpenTicket)
            | (By::ShareBesideAnybody, _, Clause::Beside { .. })
            | (By::FillWithoutWatermark, "fill", Clause::WatermarkIs(_))
            | (By::FillWithoutLeft, "fill", Clause::DeparturesAre(_))
            | (By::EvictWithoutBeat, "evict", Clause::Entry(_, BeatIs(_)))
            | (
                By::EvictSuccessorWithoutBeat,
                "evict a successor",
                Clause::Entry(_, BeatIs(_))
            )
            | (By::AdmitWhoeverIsThere, "admit", Clause::Entry(..))
            | (
                By::DowngradeWithoutShare,
                "downgrade",
                Clause::Entry(_, PermitsAre(_))
            )
            | (By::ResizeTwice, _, Clause::ResizesAre(..))
            | (
                By::ResizeUnderAnybody,
                "change the permits",
                Clause::Entry(..)
            )
            | (By::ResizeOverWhoHolds, _, Clause::FirstWaits { .. })
    )
}

/// Returns `None` if the request takes no condition.
fn row_write(row: Option<Row>, request: &Request, late: bool) -> Option<RowWrite> {
    let of = |nonce: Nonce| match row {
        Some(Row::Waiting(entry)) if entry.nonce == nonce => protocol_entry(entry),
        _ => nobody(),
    };
    Some(match *request {
        Request::Join { who, ticket } => RowWrite::join(newcomer(who, ticket, late), EXPIRY),
        Request::VoidGap { first, ticket } => {
            RowWrite::void_gap(ticket_row(ticket, Row::Void(first)))
        }
        Request::VoidDead { nonce, beat, .. } => RowWrite::void_dead(&with_beat(of(nonce), beat)),
        Request::VoidMine { nonce, size, .. } => {
            RowWrite::void_own(protocol_nonce(nonce), size.into(), EXPIRY)
        }
        Request::RenewRow { nonce, .. } => {
            let beat = (of(nonce).beat + 1, SPAN);
            RowWrite::renew(protocol_nonce(nonce), beat, Stamps::default(), EXPIRY)
        }
        _ => return None,
    })
}

fn ticket(number: u8) -> Ticket {
    Ticket::new(number.into())
}

fn protocol_nonce(nonce: Nonce) -> entry::Nonce {
    entry::Nonce::new(nonce.bits())
}

/// An entry of a nonce that no place has.
fn nobody() -> entry::Entry {
    blank::entry(entry::Nonce::new(u128::MAX), Ticket::default(), SPAN)
}

/// An entry that a late duplicate wrote says since when it is there.
fn protocol_entry(of: Entry) -> entry::Entry {
    entry::Entry {
        nonce: protocol_nonce(of.nonce),
        ticket: ticket(of.ticket),
        tickets: u64::from(of.ticket + 1 - of.first),
        permits: of.share.into(),
        beat: of.beat.into(),
        since: of.stray.then_some(ServerTime(SPAN)),
        ..nobody()
    }
}

fn model_entry(of: &entry::Entry) -> Option<Entry> {
    let bits = u128::from_str_radix(&of.nonce.to_string(), 16).ok()?;
    let ticket = small(of.ticket.get());
    Some(Entry {
        nonce: Nonce::of_bits(bits)?,
        first: ticket + 1 - small(of.tickets),
        ticket,
        share: small(of.permits),
        beat: small(of.beat),
        stray: of.since.is_some(),
    })
}

fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn with_beat(entry: entry::Entry, beat: u8) -> entry::Entry {
    entry::Entry {
        beat: beat.into(),
        ..entry
    }
}

fn newcomer(who: Who, newest: u8, late: bool) -> entry::Entry {
    entry::Entry {
        nonce: protocol_nonce(who.nonce),
        ticket: ticket(newest),
        tickets: who.size.into(),
        permits: who.share.into(),
        since: late.then_some(ServerTime(SPAN)),
        ..nobody()
    }
}

/// A free lock as far as a client saw it.
fn seen(last: u8, watermark: u8) -> LockItem {
    LockItem {
        join_timeout: Some(SPAN),
        expires_at: EXPIRY,
        ..LockItem::free(ticket(last), ticket(watermark))
    }
}

fn lock_item(item: &Item, rules: &Rules) -> LockItem {
    let entries = |few: &Few| few.iter().map(protocol_entry).collect();
    LockItem {
        permits: rules.permits.into(),
        resized: (item.resizes > 0).then_some(item.resized.into()),
        resizes: item.resizes.into(),
        room: item.room.into(),
        departures: item.departures.into(),
        sharers: entries(&item.sharers),
        slots: entries(&item.slots),
        ..seen(item.last, item.watermark)
    }
}

fn model_item(item: &LockItem) -> Item {
    let few = |entries: &[entry::Entry]| entries.iter().filter_map(model_entry).collect();
    Item {
        last: small(item.last.get()),
        watermark: small(item.watermark.get()),
        departures: small(item.departures),
        room: i8::try_from(item.room).unwrap_or(i8::MIN),
        resized: item.resized.map_or(0, small),
        resizes: small(item.resizes),
        sharers: few(&item.sharers),
        slots: few(&item.slots),
    }
}

fn ticket_row(newest: u8, row: Row) -> TicketRow {
    let (first, state) = match row {
        Row::Waiting(entry) => (entry.first, RowState::Waiting(protocol_entry(entry))),
        Row::Void(first) => (first, RowState::Void(None)),
    };
    TicketRow {
        ticket: ticket(newest),
        tickets: u64::from(newest + 1 - first),
        state,
        expires_at: EXPIRY,
    }
}

fn model_row(row: &TicketRow) -> Row {
    let first = small(row.ticket.get()) + 1 - small(row.tickets);
    match &row.state {
        RowState::Waiting(entry) => model_entry(entry).map_or(Row::Void(first), Row::Waiting),
        RowState::Void(_) => Row::Void(first),
    }
}
