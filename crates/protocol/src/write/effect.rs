//! The effects of writes on the lock item.

use std::sync::Arc;
use std::time::Duration;

use crate::bytes::Bytes;
use crate::codec::{self, FORMAT};
use crate::entry::{Entry, Nonce, ServerTime};
use crate::item::{At, LockItem, Notice, Written, signed};
use crate::moment::HostTime;
use crate::ticket::{Sequence, Ticket};
use crate::value::{Map, Value};

use super::entry::{EntryEffect, stamp};
use super::expression::{Text, Update, Values, own_ticket, path};

/// What becomes of the lock item. All effects of a write are made of the item as it was before the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Where there was no item: the new item has this version's format and this number of permits, and is of a free lock that no waiter
    /// left.
    Begins(u64),
    /// This many tickets are drawn, and have a place. The newest of them stands beside the places, under this nonce.
    DrawBeside {
        /// The nonce of the place.
        nonce: Nonce,
        /// How many tickets.
        tickets: u64,
        /// Where the counter of a new item begins.
        start: Option<Ticket>,
    },
    /// The tickets up to this one are drawn, and settled or have a place.
    DrawUpTo(Ticket),
    /// This many tickets are drawn.
    Draw(u64),
    /// Every ticket up to this one is settled or has a slot.
    Settle(Ticket),
    /// The count of departures grows by one.
    CountDeparture,
    /// This many permits fewer are left.
    Take(u64),
    /// This many permits fewer are left, because there are fewer.
    TakeAway(u64),
    /// A sharer that ends gives this many permits back.
    GiveBack(u64),
    /// An entry that keeps some of its permits gives this many back.
    Free(u64),
    /// There are this many permits from now on.
    ThereAre(u64),
    /// The number of permits was changed so often.
    Resizes(u64),
    /// The place of this nonce ends, and no ticket stands beside the places for it any more.
    Forget(Nonce),
    /// The first of the slots was given the lock at this time.
    GrantedAt(ServerTime),
    /// This entry shares, with the ticket that the same write draws.
    Sharer(Entry),
    /// This entry takes the slot behind all others, with the ticket that the same write draws.
    TakeSlot(Entry),
    /// These entries take the slots behind all others, each with the ticket that it names.
    FillSlots(Vec<Entry>),
    /// The entries in the slots from this index on, which have these nonces, become sharers.
    Admit(usize, Vec<Nonce>),
    /// The entry at this place goes.
    Remove(At),
    /// What becomes of the entry at this place.
    Entry(At, EntryEffect),
    /// The entry at this place is a lease, which any process finds by this id.
    Named(At, Arc<str>),
    /// The open tickets have this long to join.
    JoinTimeout(Duration),
    /// The newest ticket was drawn at this time by DynamoDB's clock, or at no time that is known.
    DrawnAt(Option<ServerTime>),
    /// The same by a wall clock.
    DrawnOnHost(Option<HostTime>),
    /// The item stays until this time, unless it already says until when.
    StaysUnlessSaid(u64),
    /// The item stays until this time.
    Stays(u64),
    /// These bytes are on the lock.
    Data(Bytes),
    /// No bytes are on the lock.
    NoData,
    /// The write that left it so.
    Written(Written),
    /// The holders of some tickets are asked to give way, by so many requests until now.
    Asked(Arc<Notice>, u64),
    /// The place of these tickets was broken.
    Broken(Arc<Notice>),
}

impl Effect {
    /// Applies the effect to `item`; `was` is the item before the write.
    pub(super) fn make(&self, was: &LockItem, item: &mut LockItem) {
        match self {
            Effect::Begins(permits) => item.permits = *permits,
            Effect::DrawBeside { tickets, .. } => settle(item, was.last.after(*tickets)),
            Effect::DrawUpTo(ticket) => settle(item, Some(*ticket)),
            Effect::Draw(tickets) => item.last = was.last.after(*tickets).unwrap_or(item.last),
            Effect::Settle(upto) => item.watermark = *upto,
            Effect::CountDeparture => item.departures = was.departures + 1,
            Effect::Take(share) | Effect::TakeAway(share) => {
                item.room = was.room.saturating_sub(signed(*share));
            }
            Effect::GiveBack(share) | Effect::Free(share) => {
                item.room = was.room + signed(*share);
            }
            Effect::ThereAre(permits) => item.resized = Some(*permits),
            Effect::Resizes(count) => item.resizes = *count,
            // Only the stored form of the item has tickets beside the places.
            Effect::Forget(_) => {}
            Effect::GrantedAt(at) => item.granted_at = Some(*at),
            Effect::Sharer(entry) => share(item, with_ticket(entry, item.last)),
            Effect::TakeSlot(entry) => item.slots.push(with_ticket(entry, item.last)),
            Effect::FillSlots(entries) => item.slots.extend(entries.iter().cloned()),
            Effect::Admit(first, nonces) => {
                let [from, to] = [*first, first + nonces.len()].map(|it| it.min(was.slots.len()));
                let admitted: Vec<_> = item.slots.drain(from..to).collect();
                admitted.into_iter().for_each(|entry| share(item, entry));
            }
            Effect::Remove(At::Sharer(nonce)) => item.sharers.retain(|it| it.nonce != *nonce),
            Effect::Remove(At::Slot(index)) => item
                .slots
                .retain(|it| Some(it.nonce) != was.slots.get(*index).map(|it| it.nonce)),
            Effect::Entry(at, effect) => {
                item.entry_at_mut(*at)
                    .into_iter()
                    .for_each(|it| effect.make(it));
            }
            Effect::Named(at, id) => {
                if let Some(entry) = item.entry_at_mut(*at) {
                    entry.id = Some(id.to_string());
                }
            }
            Effect::JoinTimeout(join_timeout) => item.join_timeout = Some(*join_timeout),
            Effect::DrawnAt(at) => item.drawn.server = *at,
            Effect::DrawnOnHost(at) => item.drawn.host = *at,
            Effect::StaysUnlessSaid(expiry) if was.expires_at == 0 => item.expires_at = *expiry,
            Effect::StaysUnlessSaid(_) => {}
            Effect::Stays(expiry) => item.expires_at = *expiry,
            Effect::Data(bytes) => item.data = Some(bytes.clone()),
            Effect::NoData => item.data = None,
            Effect::Written(written) => item.written = Some(*written),
            Effect::Asked(notice, count) => {
                (item.asked, item.asks) = (Some(Arc::clone(notice)), *count);
            }
            Effect::Broken(notice) => item.broken = Some(Arc::clone(notice)),
        }
    }

    /// The effect in DynamoDB's expression language.
    pub(super) fn text(&self, update: &mut Update, values: &mut Values) {
        match self {
            Effect::Begins(permits) => begins(*permits, update, values),
            Effect::DrawBeside {
                nonce,
                tickets,
                start,
            } => draw_beside(*nonce, *tickets, *start, update, values),
            Effect::DrawUpTo(ticket) => {
                values.number(":ticket", ticket);
                update.set("#last = :ticket, #watermark = :ticket");
            }
            Effect::Forget(nonce) => update.remove(own_ticket(*nonce)),
            Effect::Admit(first, nonces) => admit(*first, nonces, update),
            Effect::Remove(at) => update.remove(path(*at)),
            Effect::TakeSlot(entry) => {
                values.name(":none", Value::L(Vec::new()));
                values.name(":me", Value::L(vec![codec::entry(entry, None)]));
                update.set("#slots = list_append(if_not_exists(#slots, :none), :me)");
            }
            Effect::Entry(at, effect) => effect.text(&path(*at), update, values),
            Effect::Named(at, id) => {
                values.name(":id", Value::text(&**id));
                update.set(format!("{}.#id = :id", path(*at)));
            }
            Effect::DrawnAt(at) => {
                let at = at.map(|at| at.0);
                stamp(("#drawn_at", ":drawn_at"), at, update, values);
            }
            Effect::DrawnOnHost(at) => {
                let at = at.map(|at| at.0);
                stamp(("#drawn_on_host", ":drawn_on_host"), at, update, values);
            }
            Effect::NoData => update.remove("#data"),
            _ => {
                if let Some((text, name, value)) = self.assignment() {
                    values.name(name, value);
                    update.set(text);
                }
            }
        }
    }

    /// Returns the assignment of an effect that sets one attribute by one value.
    fn assignment(&self) -> Option<(Text, &'static str, Value)> {
        let of = |text: &'static str, name, value| (text.into(), name, value);
        let number =
            |text: &'static str, name, number: u64| (text.into(), name, Value::number(number));
        Some(match self {
            Effect::Draw(tickets) => number("#last = #last + :tickets", ":tickets", *tickets),
            Effect::Settle(upto) => number("#watermark = :upto", ":upto", upto.get()),
            Effect::CountDeparture => number("#departures = #departures + :one", ":one", 1),
            Effect::Take(share) => number("#room = #room - :share", ":share", *share),
            Effect::TakeAway(fewer) => number("#room = #room - :fewer", ":fewer", *fewer),
            Effect::GiveBack(share) => number("#room = #room + :share", ":share", *share),
            Effect::Free(freed) => number("#room = #room + :freed", ":freed", *freed),
            Effect::ThereAre(permits) => number("#resized = :resized", ":resized", *permits),
            Effect::Resizes(count) => number("#resizes = :changed", ":changed", *count),
            Effect::GrantedAt(at) => of("#granted_at = :granted", ":granted", Value::millis(at.0)),
            Effect::Sharer(entry) => (
                format!("#sharers.#{} = :me", entry.nonce).into(),
                ":me",
                codec::entry(entry, None),
            ),
            Effect::FillSlots(entries) => of(
                "#slots = list_append(#slots, :found)",
                ":found",
                Value::L(entries.iter().map(with_its_ticket).collect()),
            ),
            Effect::JoinTimeout(join_timeout) => of(
                "#join_timeout_ms = :join_timeout",
                ":join_timeout",
                Value::millis(*join_timeout),
            ),
            Effect::StaysUnlessSaid(expiry) => {
                let text = "#expires_at = if_not_exists(#expires_at, :expiry)";
                number(text, ":expiry", *expiry)
            }
            Effect::Stays(expiry) => number("#expires_at = :expiry", ":expiry", *expiry),
            Effect::Data(bytes) => of("#data = :data", ":data", Value::B(bytes.to_vec())),
            Effect::Written(it) => of("#written = :written", ":written", codec::written(*it)),
            Effect::Asked(it, count) => of("#asked = :asked", ":asked", codec::asked(it, *count)),
            Effect::Broken(it) => of("#broken = :broken", ":broken", codec::notice(it)),
            _ => return None,
        })
    }
}

fn settle(item: &mut LockItem, upto: Option<Ticket>) {
    let upto = upto.unwrap_or(item.last);
    (item.last, item.watermark) = (upto, upto);
}

fn with_ticket(entry: &Entry, ticket: Ticket) -> Entry {
    Entry {
        ticket,
        ..entry.clone()
    }
}

fn with_its_ticket(entry: &Entry) -> Value {
    codec::entry(entry, Some(entry.ticket))
}

fn share(item: &mut LockItem, entry: Entry) {
    item.sharers.push(entry);
    item.sharers.sort_by_key(|sharer| sharer.ticket);
}

/// What a new item gets besides. An existing item keeps what it has.
fn begins(permits: u64, update: &mut Update, values: &mut Values) {
    values.number(":format", FORMAT);
    values.number(":permits", permits);
    values.number(":zero", 0);
    values.name(":nobody", Value::M(Map::new()));
    update.set(
        "#format = :format, #permits = :permits, #room = if_not_exists(#room, :permits), \
         #sharers = if_not_exists(#sharers, :nobody), #departures = if_not_exists(#departures, :zero)",
    );
}

fn draw_beside(
    nonce: Nonce,
    tickets: u64,
    start: Option<Ticket>,
    update: &mut Update,
    values: &mut Values,
) {
    values.number(":tickets", tickets);
    let before = match start {
        Some(start) => {
            values.number(":start", start);
            "if_not_exists(#last, :start)"
        }
        None => "#last",
    };
    let beside = own_ticket(nonce);
    for counter in ["#last", "#watermark", &beside] {
        update.set(format!("{counter} = {before} + :tickets"));
    }
}

fn admit(first: usize, nonces: &[Nonce], update: &mut Update) {
    for (index, nonce) in (first..).zip(nonces) {
        update.set(format!("#sharers.#{nonce} = #slots[{index}]"));
    }
    (first..)
        .take(nonces.len())
        .for_each(|index| update.remove(path(At::Slot(index))));
}
