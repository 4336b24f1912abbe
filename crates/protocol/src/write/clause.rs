//! The clauses of writes on the lock item, each with the race that it closes.

use std::time::Duration;

use crate::codec::FORMAT;
use crate::entry::Nonce;
use crate::item::{At, LockItem, Written, signed};
use crate::stamps::Stamps;
use crate::ticket::Ticket;
use crate::value::Value;

use super::entry::{EntryClause, stamps_are};
use super::expression::{Text, Values, all_of, own_ticket, path};

/// The stamps of the newest draw, and the names of what they are compared with.
const DRAWN: [(&str, &str); 2] = [
    ("#drawn_at", ":newest"),
    ("#drawn_on_host", ":newest_on_host"),
];

/// What must be true of the lock item for a write to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clause {
    /// The item has this version's format and this number of permits. An older client never overwrites a newer format, and no client
    /// overwrites a lock that others use with another number of permits. A value of an item is always of this format, so `holds` compares
    /// the permits alone.
    Ours(u64),
    /// No entry on the item holds the lock or waits for it.
    Free,
    /// Every drawn ticket is settled or has a slot: no caller barges past an earlier draw.
    NoOpenTicket,
    /// The newest ticket is below this one: the counter can go on, or no newer ticket was drawn than a bounded queue may have.
    LastBelow(Ticket),
    /// The newest ticket is the one in the snapshot: the snapshot says nothing of a later one.
    LastIs(Ticket),
    /// The watermark is the one in the snapshot: no waiter gets two slots.
    WatermarkIs(Ticket),
    /// This ticket has no slot yet. Once the write applies, a client that saw its row waiting can no longer give it a slot.
    WatermarkBelow(Ticket),
    /// No waiter has left since the snapshot: a waiter that is gone gets no slot.
    DeparturesAre(u64),
    /// At most this many slots are taken.
    SlotsAtMost(usize),
    /// No waiter waits in a slot, and the permits are left. Either no slot is taken and `share` permits are left. Or one slot is taken, by
    /// an entry of at most `first` permits, and `share` permits are left beside it. So no caller barges past a waiter, and none takes
    /// permits that another entry holds.
    Beside {
        /// How many permits must be left.
        share: u64,
        /// The most permits that the entry in the first slot may take.
        first: u64,
    },
    /// The number of permits was changed so often, to this one the last time. No other change came between, and a late duplicate changes
    /// nothing back.
    ResizesAre(u64, Option<u64>),
    /// There were at most so many requests to give way: a late duplicate replaces no newer one.
    AsksAtMost(u64),
    /// The entry in the first slot does not hold the lock: sharers leave less than it takes. `takes` is `None` if it waits for all
    /// permits.
    FirstWaits {
        /// How many permits it takes.
        takes: Option<u64>,
    },
    /// No earlier write has given this nonce a place together with its ticket: a repeated request takes no second ticket.
    NoPlaceOf(Nonce),
    /// What must be true of the entry at a place.
    Entry(At, EntryClause),
    /// The newest draw has no later stamps, as far as these say: a late duplicate must not make a ticket that was drawn since look overdue.
    NoLaterDraw(Stamps),
    /// The newest draw has later stamps, as far as these say. They count for this ticket too.
    LaterDraw(Stamps),
    /// The stamps of the newest draw are the ones that were seen.
    DrawnAre(Stamps),
    /// The join timeout on the item is at least this long. With a shorter one, other clients would close the gap of a waiter that joins in
    /// time by its own settings.
    JoinTimeoutAtLeast(Duration),
    /// The item has no longer join timeout than this.
    JoinTimeoutAtMost(Duration),
    /// The item does not already stay for longer than this.
    StaysNoLonger(u64),
    /// The item stays until exactly this time.
    StaysUntil(u64),
    /// The item has no later write of data: a late duplicate takes nothing back.
    NoLaterData(Written),
}

impl Clause {
    /// Whether the clause is true of an item.
    pub fn holds(&self, item: &LockItem) -> bool {
        match *self {
            Clause::Ours(permits) => item.permits == permits,
            Clause::Free => item.is_free(),
            Clause::NoOpenTicket => item.watermark == item.last,
            Clause::LastBelow(end) => item.last < end,
            Clause::LastIs(last) => item.last == last,
            Clause::WatermarkIs(watermark) => item.watermark == watermark,
            Clause::WatermarkBelow(ticket) => item.watermark < ticket,
            Clause::DeparturesAre(left) => item.departures == left,
            Clause::SlotsAtMost(most) => item.slots.len() <= most,
            Clause::Beside { share, first } => match item.slots.as_slice() {
                [] => has_room(item, share),
                [only] => only.permits <= first && has_room(item, first.saturating_add(share)),
                _ => false,
            },
            Clause::ResizesAre(count, resized) => item.resizes == count && item.resized == resized,
            Clause::AsksAtMost(count) => item.asks <= count,
            Clause::FirstWaits { takes } => {
                !item.sharers.is_empty() && takes.is_none_or(|takes| !has_room(item, takes))
            }
            Clause::NoPlaceOf(nonce) => item.entries().all(|entry| entry.nonce != nonce),
            Clause::JoinTimeoutAtLeast(join_timeout) => item
                .join_timeout
                .is_some_and(|stands| stands >= join_timeout),
            Clause::JoinTimeoutAtMost(join_timeout) => item
                .join_timeout
                .is_none_or(|stands| stands <= join_timeout),
            Clause::StaysNoLonger(expiry) => item.expires_at <= expiry,
            Clause::StaysUntil(expiry) => item.expires_at == expiry,
            Clause::NoLaterData(write) => item.written.is_none_or(|written| written < write),
            Clause::NoLaterDraw(newest) => are_later(item, newest).all(|is_later| !is_later),
            Clause::LaterDraw(newest) => are_later(item, newest).all(|is_later| is_later),
            Clause::DrawnAre(seen) => item.drawn == seen,
            Clause::Entry(at, ref clause) => clause.holds(item.entry_at(at)),
        }
    }

    /// The clause in DynamoDB's expression language.
    pub(super) fn text(&self, values: &mut Values) -> Text {
        match *self {
            Clause::Ours(permits) => {
                values.number(":format", FORMAT);
                values.number(":permits", permits);
                "#format = :format AND #permits = :permits".into()
            }
            // `size` can be compared only where the list, or the map, exists.
            Clause::Free => zero(values, "size(#slots) = :zero AND size(#sharers) = :zero"),
            Clause::NoOpenTicket => "#watermark = #last".into(),
            Clause::LastBelow(end) => ticket(values, ":end", end, "#last < :end"),
            Clause::LastIs(last) => ticket(values, ":last", last, "#last = :last"),
            Clause::WatermarkIs(watermark) => {
                ticket(values, ":watermark", watermark, "#watermark = :watermark")
            }
            Clause::WatermarkBelow(it) => ticket(values, ":ticket", it, "#watermark < :ticket"),
            Clause::DeparturesAre(left) => {
                number(values, ":departures", left, "#departures = :departures")
            }
            Clause::SlotsAtMost(most) => {
                let text = "attribute_exists(#slots) AND size(#slots) <= :slots_taken";
                number(values, ":slots_taken", most as u64, text)
            }
            Clause::Beside { share, first } => beside(share, first, values),
            Clause::ResizesAre(count, resized) => resizes_are(count, resized, values),
            // True also where there is no request, or none with a count.
            Clause::AsksAtMost(count) => {
                number(values, ":asks", count, "NOT #asked.#count > :asks")
            }
            Clause::FirstWaits { takes: None } => zero(values, "size(#sharers) > :zero"),
            Clause::FirstWaits { takes: Some(takes) } => {
                values.number(":takes", takes);
                zero(values, "size(#sharers) > :zero AND #room < :takes")
            }
            Clause::NoPlaceOf(nonce) => {
                format!("attribute_not_exists({})", own_ticket(nonce)).into()
            }
            Clause::JoinTimeoutAtLeast(join_timeout) => {
                values.name(":join_timeout", Value::millis(join_timeout));
                "#join_timeout_ms >= :join_timeout".into()
            }
            Clause::JoinTimeoutAtMost(join_timeout) => {
                values.name(":join_timeout", Value::millis(join_timeout));
                "NOT #join_timeout_ms > :join_timeout".into()
            }
            Clause::StaysNoLonger(expiry) => {
                number(values, ":expiry", expiry, "NOT #expires_at > :expiry")
            }
            Clause::StaysUntil(expiry) => {
                number(values, ":expiry", expiry, "#expires_at = :expiry")
            }
            Clause::NoLaterData(write) => {
                values.number(":ticket", write.ticket);
                values.number(":count", write.count);
                "(attribute_not_exists(#written) OR #written.#ticket < :ticket \
                 OR (#written.#ticket = :ticket AND #written.#count < :count))"
                    .into()
            }
            Clause::NoLaterDraw(newest) => later_draw("NOT ", newest, values),
            Clause::LaterDraw(newest) => later_draw("", newest, values),
            Clause::DrawnAre(seen) => {
                let stamps = DRAWN.map(|(name, seen)| (name.to_owned(), seen));
                stamps_are(stamps, seen, values).into()
            }
            Clause::Entry(at, EntryClause::Is(nonce, ticket)) => {
                is(at, (nonce, ticket), values).into()
            }
            Clause::Entry(at, ref clause) => clause.text(&path(at), values).into(),
        }
    }
}

/// An entry has no ticket of its own if the write that gave the place also drew the ticket: that write put it beside the entry.
fn is(at: At, (nonce, ticket): (Nonce, Ticket), values: &mut Values) -> String {
    let (place, beside) = (path(at), own_ticket(nonce));
    let of_nonce = EntryClause::NonceIs(nonce).text(&place, values);
    values.number(":held", ticket);
    format!(
        "{of_nonce} AND ({place}.#ticket = :held \
         OR (attribute_not_exists({place}.#ticket) AND {beside} = :held))"
    )
}

fn has_room(item: &LockItem, share: u64) -> bool {
    item.room >= signed(share)
}

fn beside(share: u64, first: u64, values: &mut Values) -> Text {
    values.number(":zero", 0);
    values.number(":one", 1);
    values.number(":share", share);
    values.number(":first", first);
    values.number(":both", first.saturating_add(share));
    "((size(#slots) = :zero AND #room >= :share) OR \
     (size(#slots) = :one AND #slots[0].#permits <= :first AND #room >= :both))"
        .into()
}

fn resizes_are(count: u64, resized: Option<u64>, values: &mut Values) -> Text {
    let Some(resized) = resized else {
        return "attribute_not_exists(#resizes) AND attribute_not_exists(#resized)".into();
    };
    values.number(":resizes", count);
    values.number(":resized_to", resized);
    "#resizes = :resizes AND #resized = :resized_to".into()
}

fn zero(values: &mut Values, text: &'static str) -> Text {
    number(values, ":zero", 0, text)
}

fn number(values: &mut Values, name: &'static str, number: u64, text: &'static str) -> Text {
    values.number(name, number);
    text.into()
}

fn ticket(values: &mut Values, name: &'static str, ticket: Ticket, text: &'static str) -> Text {
    number(values, name, ticket.get(), text)
}

/// Whether each part of the newest draw's stamps is later than this one, as far as there are parts to compare with.
fn are_later(item: &LockItem, newest: Stamps) -> impl Iterator<Item = bool> {
    let parts = item.drawn.parts().into_iter().zip(newest.parts());
    parts.filter_map(|(stands, newest)| newest.map(|newest| stands > Some(newest)))
}

fn later_draw(not: &str, newest: Stamps, values: &mut Values) -> Text {
    let parts = DRAWN.into_iter().zip(newest.parts());
    let each = parts.filter_map(|((name, value), newest)| {
        values.name(value, Value::millis(newest?));
        Some(format!("{not}{name} > {value}"))
    });
    all_of(each).into()
}
