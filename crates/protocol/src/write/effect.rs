//! The effects of writes on the lock item.

use std::sync::Arc;
use std::time::Duration;

use crate::codec::{self, FORMAT};
use crate::entry::{Entry, Nonce, ServerTime};
use crate::item::{At, LockItem, Written};
use crate::ticket::{Sequence, Ticket};
use crate::value::{Map, Value};

use super::entry::EntryEffect;
use super::expression::{Text, Update, Values, drawn, path};

/// What becomes of the lock item. All effects of a write are made of the item as it was before the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is of our format, and has so many permits.
    Ours(u64),
    /// So many tickets are drawn, and settled; the newest of them is the holder's who enters. From `start` where there is no counter.
    Enter {
        /// How many.
        tickets: u64,
        /// Where the counter of a new item begins.
        start: Option<Ticket>,
    },
    /// The tickets up to this one are drawn, and settled, and it is the holder's who enters.
    EnterUpTo(Ticket),
    /// So many tickets are drawn, and have a place; the newest of them stands beside the places for this one.
    DrawBeside {
        /// The heir's, or the sharer's.
        nonce: Nonce,
        /// How many.
        tickets: u64,
    },
    /// So many tickets are drawn.
    Draw(u64),
    /// Every ticket up to this one is settled or has a seat.
    Settle(Ticket),
    /// The count of those who left the queue starts again.
    NobodyLeft,
    /// The count of those who left the queue grows by one.
    Leave,
    /// So many permits are taken.
    Taken(u64),
    /// So many more are taken.
    Take(u64),
    /// So many are given back, by the one who had them.
    GiveBack(u64),
    /// So many are given back, by one who keeps some.
    Free(u64),
    /// This one is the holder, with the ticket that the same write draws.
    Holder(Entry),
    /// This one is the holder, with the ticket that its entry says.
    HolderOf(Entry),
    /// This one, whose ticket was drawn before, is the holder.
    Promoted(Entry),
    /// The holder's place is empty.
    NoHolder,
    /// The first heir is the holder, and takes what it waits for; nobody, if there is no heir.
    HandOver,
    /// No ticket stands beside the places for this one, whose place ends.
    Forget(Nonce),
    /// The holder was granted the lock then.
    GrantedAt(Option<ServerTime>),
    /// The lock has no sharers.
    NoSharers,
    /// This one shares, with the ticket that the same write draws.
    Sharer(Entry),
    /// This sharer is gone.
    RemoveSharer(Nonce),
    /// The first heirs, of these nonces, share.
    Admit(Vec<Nonce>),
    /// The lock has no heirs.
    NoHeirs,
    /// These have the seats.
    Heirs(Vec<Entry>),
    /// This one has the seat behind all others, with the ticket that the same write draws.
    Sit(Entry),
    /// These have the seats behind all others.
    Seat(Vec<Entry>),
    /// The heir of this number is gone.
    RemoveHeir(usize),
    /// Of the one who stands there.
    Entry(At, EntryEffect),
    /// The open tickets have so long to join.
    Grace(Duration),
    /// The newest ticket was drawn then.
    DrawDate(ServerTime),
    /// The newest draw has no date.
    NoDrawDate,
    /// The item stays until then, unless it says until when.
    StaysUnlessSaid(u64),
    /// The item stays until then.
    Stays(u64),
    /// These bytes are on the lock.
    Data(Arc<[u8]>),
    /// No bytes are on the lock.
    NoData,
    /// The write that left it so.
    Written(Written),
}

impl Effect {
    /// Makes it of the item as it was.
    pub(super) fn make(&self, was: &LockItem, item: &mut LockItem) {
        match self {
            Effect::Ours(permits) => item.permits = *permits,
            Effect::Enter { tickets, .. } => settle(item, was.last.after(*tickets)),
            Effect::EnterUpTo(ticket) => settle(item, Some(*ticket)),
            Effect::DrawBeside { tickets, .. } => settle(item, was.last.after(*tickets)),
            Effect::Draw(tickets) => item.last = was.last.after(*tickets).unwrap_or(item.last),
            Effect::Settle(upto) => item.seated = *upto,
            Effect::NobodyLeft => item.left = 0,
            Effect::Leave => item.left = was.left + 1,
            Effect::Taken(share) => item.taken = *share,
            Effect::Take(share) => item.taken = was.taken + share,
            Effect::GiveBack(share) | Effect::Free(share) => {
                item.taken = was.taken.saturating_sub(*share);
            }
            Effect::Holder(entry) => item.holder = Some(with_ticket(entry, item.last)),
            Effect::HolderOf(entry) | Effect::Promoted(entry) => item.holder = Some(entry.clone()),
            Effect::NoHolder => item.holder = None,
            // Only the item as it is stored has tickets beside the places.
            Effect::Forget(_) => {}
            Effect::HandOver => {
                item.holder = was.heirs.first().cloned();
                item.taken = item.holder.as_ref().map_or(0, |holder| holder.permits);
                item.heirs = was.heirs.iter().skip(1).cloned().collect();
            }
            Effect::GrantedAt(at) => item.granted_at = *at,
            Effect::NoSharers => item.sharers.clear(),
            Effect::Sharer(entry) => share(item, with_ticket(entry, item.last)),
            Effect::RemoveSharer(nonce) => item.sharers.retain(|it| it.nonce != *nonce),
            Effect::Admit(nonces) => {
                let admitted = was.heirs.iter().take(nonces.len()).cloned();
                admitted.for_each(|heir| share(item, heir));
                item.heirs = was.heirs.iter().skip(nonces.len()).cloned().collect();
            }
            Effect::NoHeirs => item.heirs.clear(),
            Effect::Heirs(entries) => item.heirs.clone_from(entries),
            Effect::Sit(entry) => item.heirs.push(with_ticket(entry, item.last)),
            Effect::Seat(entries) => item.heirs.extend(entries.iter().cloned()),
            Effect::RemoveHeir(index) => item
                .heirs
                .retain(|it| Some(it.nonce) != was.heirs.get(*index).map(|it| it.nonce)),
            Effect::Entry(at, effect) => {
                item.entry_at_mut(*at)
                    .into_iter()
                    .for_each(|it| effect.make(it));
            }
            Effect::Grace(grace) => item.grace = Some(*grace),
            Effect::DrawDate(date) => item.drawn_at = Some(*date),
            Effect::NoDrawDate => item.drawn_at = None,
            Effect::StaysUnlessSaid(expiry) if was.expires_at == 0 => item.expires_at = *expiry,
            Effect::StaysUnlessSaid(_) => {}
            Effect::Stays(expiry) => item.expires_at = *expiry,
            Effect::Data(bytes) => item.data = Some(Arc::clone(bytes)),
            Effect::NoData => item.data = None,
            Effect::Written(written) => item.written = Some(*written),
        }
    }

    /// The same in DynamoDB's language.
    pub(super) fn text(&self, update: &mut Update, values: &mut Values) {
        match self {
            Effect::Ours(permits) => {
                values.number(":format", FORMAT);
                values.number(":permits", permits);
                update.set("#format = :format, #permits = :permits");
            }
            Effect::Enter { tickets, start } => enter(*tickets, *start, update, values),
            Effect::EnterUpTo(ticket) => {
                values.number(":ticket", ticket);
                update.set("#last = :ticket, #seated = :ticket, #entered = :ticket");
            }
            Effect::DrawBeside { nonce, tickets } => {
                values.number(":tickets", tickets);
                let beside = drawn(*nonce);
                for counter in ["#last", "#seated", &beside] {
                    update.set(format!("{counter} = #last + :tickets"));
                }
            }
            Effect::Forget(nonce) => update.remove(drawn(*nonce)),
            Effect::HandOver => {
                values.name(":none", Value::M(Map::new()));
                values.number(":zero", 0);
                update.set(
                    "#holder = if_not_exists(#heirs[0], :none), \
                     #taken = if_not_exists(#heirs[0].#permits, :zero)",
                );
                update.remove("#heirs[0]");
            }
            Effect::NoSharers => {
                values.name(":none", Value::M(Map::new()));
                update.set("#sharers = :none, #drawn = :none");
            }
            Effect::RemoveSharer(nonce) => {
                update.remove(path(At::Sharer(*nonce)));
            }
            Effect::Admit(nonces) => admit(nonces, update),
            Effect::RemoveHeir(index) => update.remove(path(At::Heir(*index))),
            Effect::Entry(at, effect) => effect.text(&path(*at), update, values),
            Effect::NoDrawDate => update.remove("#drawn_at"),
            Effect::NoData => update.remove("#data"),
            _ => {
                if let Some((text, name, value)) = self.assignment() {
                    values.name(name, value);
                    update.set(text);
                }
            }
        }
    }

    /// Of those that set one attribute by one value.
    fn assignment(&self) -> Option<(Text, &'static str, Value)> {
        let of = |text: &'static str, name, value| (text.into(), name, value);
        let number =
            |text: &'static str, name, number: u64| (text.into(), name, Value::number(number));
        Some(match self {
            Effect::Draw(tickets) => number("#last = #last + :tickets", ":tickets", *tickets),
            Effect::Settle(upto) => number("#seated = :upto", ":upto", upto.get()),
            Effect::NobodyLeft => number("#left = :zero", ":zero", 0),
            Effect::Leave => number("#left = #left + :one", ":one", 1),
            Effect::Taken(share) => number("#taken = :share", ":share", *share),
            Effect::Take(share) => number("#taken = #taken + :share", ":share", *share),
            Effect::GiveBack(share) => number("#taken = #taken - :share", ":share", *share),
            Effect::Free(freed) => number("#taken = #taken - :freed", ":freed", *freed),
            Effect::Holder(entry) => of("#holder = :me", ":me", codec::entry(entry, None)),
            Effect::HolderOf(entry) => of("#holder = :me", ":me", with_its_ticket(entry)),
            Effect::Promoted(entry) => of("#holder = :first", ":first", with_its_ticket(entry)),
            Effect::NoHolder => of("#holder = :none", ":none", Value::M(Map::new())),
            Effect::GrantedAt(at) => of(
                "#granted_at = :granted",
                ":granted",
                Value::time_if_known(*at),
            ),
            Effect::Sharer(entry) => (
                format!("#sharers.#{} = :me", entry.nonce).into(),
                ":me",
                codec::entry(entry, None),
            ),
            Effect::NoHeirs => of("#heirs = :nobody", ":nobody", Value::L(Vec::new())),
            Effect::Heirs(entries) => of("#heirs = :rest", ":rest", list(entries)),
            Effect::Sit(entry) => {
                let me = Value::L(vec![codec::entry(entry, None)]);
                of("#heirs = list_append(#heirs, :me)", ":me", me)
            }
            Effect::Seat(entries) => of(
                "#heirs = list_append(#heirs, :found)",
                ":found",
                list(entries),
            ),
            Effect::Grace(grace) => of("#grace_ms = :grace", ":grace", Value::millis(*grace)),
            Effect::DrawDate(date) => {
                of("#drawn_at = :drawn_at", ":drawn_at", Value::millis(date.0))
            }
            Effect::StaysUnlessSaid(expiry) => {
                let text = "#expires_at = if_not_exists(#expires_at, :expiry)";
                number(text, ":expiry", *expiry)
            }
            Effect::Stays(expiry) => number("#expires_at = :expiry", ":expiry", *expiry),
            Effect::Data(bytes) => of("#data = :data", ":data", Value::B(bytes.to_vec())),
            Effect::Written(it) => of("#written = :written", ":written", codec::written(*it)),
            _ => return None,
        })
    }
}

fn settle(item: &mut LockItem, upto: Option<Ticket>) {
    let upto = upto.unwrap_or(item.last);
    (item.last, item.seated) = (upto, upto);
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

fn list(entries: &[Entry]) -> Value {
    Value::L(entries.iter().map(with_its_ticket).collect())
}

fn share(item: &mut LockItem, entry: Entry) {
    item.sharers.push(entry);
    item.sharers.sort_by_key(|sharer| sharer.ticket);
}

fn enter(tickets: u64, start: Option<Ticket>, update: &mut Update, values: &mut Values) {
    values.number(":tickets", tickets);
    let before = match start {
        Some(start) => {
            values.number(":start", start);
            "if_not_exists(#last, :start)"
        }
        None => "#last",
    };
    for counter in ["#last", "#seated", "#entered"] {
        update.set(format!("{counter} = {before} + :tickets"));
    }
}

fn admit(nonces: &[Nonce], update: &mut Update) {
    for (index, nonce) in nonces.iter().enumerate() {
        update.set(format!("#sharers.#{nonce} = #heirs[{index}]"));
    }
    // The last of them first, which is the one that the condition names.
    (0..nonces.len())
        .rev()
        .take(1)
        .chain(0..nonces.len().saturating_sub(1))
        .for_each(|index| {
            update.remove(format!("#heirs[{index}]"));
        });
}
