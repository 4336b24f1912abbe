//! The table: the lock item, the rows, and what each request does to the one of them that it names.

use std::num::NonZeroU8;

use crate::few::Few;
use crate::request::{Answer, Request, Seen, Shown};
use crate::rules::{Mutant, Rules};

/// Tickets that a run can draw at the most; more are a panic, not a wrong result.
pub(crate) const TICKETS: usize = 16;

/// Names one attempt of one process; an entry whose process is on another attempt is nobody's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Nonce(NonZeroU8);

impl Nonce {
    pub(crate) fn new(process: usize, attempt: u8) -> Self {
        assert!(attempt < 32, "too many attempts for the model's nonces");
        Nonce(NonZeroU8::MIN.saturating_add((process as u8) << 5 | attempt))
    }

    pub(crate) fn process(self) -> usize {
        usize::from((self.0.get() - 1) >> 5)
    }
}

impl std::fmt::Debug for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.process(), (self.0.get() - 1) & 31)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) nonce: Nonce,
    pub(crate) first: u8,
    pub(crate) ticket: u8,
    pub(crate) beat: u8,
    /// Written by a late duplicate: nobody may be blamed for leaving it behind.
    pub(crate) stray: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    Waiting(Entry),
    /// The first of its tickets.
    Void(u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) last: u8,
    pub(crate) seated: u8,
    pub(crate) left: u8,
    pub(crate) entered: u8,
    pub(crate) holder: Option<Entry>,
    pub(crate) heirs: Few,
}

impl Item {
    pub(crate) fn holds(&self, nonce: Nonce) -> bool {
        self.holder.is_some_and(|holder| holder.nonce == nonce)
    }

    pub(crate) fn heir(&self, nonce: Nonce) -> Option<usize> {
        self.heirs.iter().position(|heir| heir.nonce == nonce)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Entry> {
        self.holder.into_iter().chain(self.heirs.iter())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.holder.is_none() && self.last == self.seated
    }

    fn promote(&mut self) {
        self.holder = self.heirs.remove(0);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    pub(crate) item: Option<Item>,
    pub(crate) rows: [Option<Row>; TICKETS],
    /// No ticket so far is above it: the clock, which a new lock item starts from. No request is in flight for as
    /// long as an idle item is retained, so it is read when the request applies.
    pub(crate) clock: u8,
}

impl Table {
    pub(crate) fn row(&self, ticket: u8) -> Option<Row> {
        self.rows[usize::from(ticket)]
    }

    /// Applies one request, if its condition holds. `late` marks what a late duplicate leaves.
    pub(crate) fn apply(&mut self, request: &Request, rules: &Rules, late: bool) -> Answer {
        if let Some(ticket) = row_named(request) {
            return self.apply_to_row(ticket, request, rules, late);
        }
        let after = match *request {
            Request::Enter { nonce, size } => self.enter(nonce, size, rules, late),
            _ => self
                .item
                .and_then(|item| change(item, request, rules, late)),
        };
        let applied = after.is_some();
        if let Some(after) = after {
            self.clock = self.clock.max(after.last);
            self.item = (!matches!(request, Request::Remove { .. })).then_some(after);
        }
        let shown = Shown::Item(self.item);
        Answer { applied, shown }
    }

    fn enter(&self, nonce: Nonce, size: u8, rules: &Rules, late: bool) -> Option<Item> {
        let fresh = Item {
            last: if rules.broken(Mutant::TicketsFromZero) {
                0
            } else {
                self.clock
            },
            ..Item::default()
        };
        let Some(item) = self.item else {
            return Some(entered(fresh, nonce, size, late));
        };
        let nobody_waits = item.seated == item.last || rules.broken(Mutant::EnterOverUnsettled);
        (item.holder.is_none() && nobody_waits).then(|| entered(item, nonce, size, late))
    }

    fn apply_to_row(&mut self, ticket: u8, request: &Request, rules: &Rules, late: bool) -> Answer {
        let row = &mut self.rows[usize::from(ticket)];
        let applied = match *request {
            Request::Join { nonce, size, .. } if row.is_none() => {
                let mine = Entry::new(nonce, ticket, size, late);
                Some(Some(Row::Waiting(mine)))
            }
            Request::VoidGap { first, .. } if row.is_none() => Some(Some(Row::Void(first))),
            Request::VoidDead { nonce, beat, .. } if is_at(*row, nonce, beat, rules) => {
                Some(row.map(voided))
            }
            Request::VoidMine { nonce, size, .. } if row.is_none() || is_of(*row, nonce) => {
                Some(Some(Row::Void(ticket + 1 - size)))
            }
            Request::RenewRow { nonce, .. } => row.filter(|_| is_of(*row, nonce)).map(renewed),
            Request::Delete { .. } => Some(None),
            _ => None,
        };
        *row = applied.unwrap_or(*row);
        Answer {
            applied: applied.is_some(),
            shown: Shown::Row(*row),
        }
    }
}

impl Entry {
    pub(crate) fn new(nonce: Nonce, ticket: u8, size: u8, stray: bool) -> Self {
        let beat = 0;
        Entry {
            nonce,
            first: ticket + 1 - size,
            ticket,
            beat,
            stray,
        }
    }

    pub(crate) fn beaten(self) -> Self {
        let beat = self.beat + 1;
        Entry { beat, ..self }
    }
}

fn row_named(request: &Request) -> Option<u8> {
    match *request {
        Request::Join { ticket, .. }
        | Request::VoidGap { ticket, .. }
        | Request::VoidDead { ticket, .. }
        | Request::VoidMine { ticket, .. }
        | Request::RenewRow { ticket, .. }
        | Request::Delete { ticket } => Some(ticket),
        _ => None,
    }
}

fn is_of(row: Option<Row>, nonce: Nonce) -> bool {
    matches!(row, Some(Row::Waiting(entry)) if entry.nonce == nonce)
}

fn is_at(row: Option<Row>, nonce: Nonce, beat: u8, rules: &Rules) -> bool {
    let any_beat = rules.broken(Mutant::VoidWithoutBeat);
    matches!(row, Some(Row::Waiting(entry)) if entry.nonce == nonce && (entry.beat == beat || any_beat))
}

fn renewed(row: Row) -> Option<Row> {
    match row {
        Row::Waiting(entry) => Some(Row::Waiting(entry.beaten())),
        Row::Void(_) => Some(row),
    }
}

fn voided(row: Row) -> Row {
    match row {
        Row::Waiting(entry) => Row::Void(entry.first),
        Row::Void(_) => row,
    }
}

fn entered(item: Item, nonce: Nonce, size: u8, late: bool) -> Item {
    let ticket = item.last + size;
    Item {
        last: ticket,
        seated: ticket,
        entered: ticket,
        left: item.left,
        holder: Some(Entry::new(nonce, ticket, size, late)),
        heirs: Few::default(),
    }
}

/// What the lock item is after a request other than enter; none if its condition does not hold.
fn change(item: Item, request: &Request, rules: &Rules, late: bool) -> Option<Item> {
    match *request {
        Request::EnterOver {
            nonce,
            size,
            last,
            seated,
        } => enter_over(item, (nonce, size), (last, seated), rules, late),
        Request::Sit {
            nonce,
            size,
            ticket,
        } => sit(item, (nonce, size), ticket, rules, late),
        Request::Draw { size } => Some(Item {
            last: item.last
                + if rules.broken(Mutant::DrawsOne) {
                    1
                } else {
                    size
                },
            ..item
        }),
        Request::Seat {
            seen,
            found,
            seated,
        } => seat(item, seen, found, seated, rules),
        Request::Left { ticket } => (item.seated < ticket).then(|| Item {
            left: item.left + u8::from(!rules.broken(Mutant::LeaveWithoutLeft)),
            ..item
        }),
        Request::Remove { last } => (item.is_idle() && item.last == last).then_some(item),
        _ => change_place(item, request, rules),
    }
}

fn change_place(mut item: Item, request: &Request, rules: &Rules) -> Option<Item> {
    match *request {
        Request::Release { nonce } => item.holder.filter(|at| at.nonce == nonce).map(|_| {
            item.promote();
            item
        }),
        Request::Evict { nonce, beat } => {
            let any_beat = rules.broken(Mutant::EvictWithoutBeat);
            let holder = item.holder.filter(|at| at.nonce == nonce);
            holder.filter(|at| at.beat == beat || any_beat).map(|_| {
                item.promote();
                item
            })
        }
        Request::Unseat { index, nonce, beat } => {
            let any_beat = rules.broken(Mutant::UnseatWithoutBeat);
            let heir = heir_at(&item, index, nonce);
            heir.filter(|at| at.beat == beat || any_beat)
                .map(|_| rise(item, index))
        }
        Request::Rise { index, nonce } => heir_at(&item, index, nonce).map(|_| rise(item, index)),
        Request::RenewHeir { index, nonce } => heir_at(&item, index, nonce).map(|heir| {
            item.heirs.set(usize::from(index), heir.beaten());
            item
        }),
        _ => None,
    }
}

fn heir_at(item: &Item, index: u8, nonce: Nonce) -> Option<Entry> {
    let heir = item.heirs.get(usize::from(index));
    heir.filter(|heir| heir.nonce == nonce)
}

fn rise(mut item: Item, index: u8) -> Item {
    item.heirs.remove(usize::from(index));
    item
}

fn enter_over(
    item: Item,
    (nonce, size): (Nonce, u8),
    (last, seated): (u8, u8),
    rules: &Rules,
    late: bool,
) -> Option<Item> {
    let nobody_drew = item.last == last || rules.broken(Mutant::EnterOverWithoutLast);
    let settled = item.seated == seated && nobody_drew;
    (item.holder.is_none() && settled).then(|| entered(Item { last, ..item }, nonce, size, late))
}

fn sit(
    item: Item,
    (nonce, size): (Nonce, u8),
    ticket: u8,
    rules: &Rules,
    late: bool,
) -> Option<Item> {
    let settled = item.seated + size == ticket || rules.broken(Mutant::SitOverUnsettled);
    let next = item.last + size == ticket && settled;
    let room = item.heirs.len() < rules.seats;
    (item.holder.is_some() && next && room).then(|| {
        let mut heirs = item.heirs;
        heirs.push(Entry::new(nonce, ticket, size, late));
        Item {
            last: ticket,
            seated: ticket,
            heirs,
            ..item
        }
    })
}

fn seat(mut item: Item, seen: Seen, found: Few, seated: u8, rules: &Rules) -> Option<Item> {
    let same_line = item.seated == seen.seated || rules.broken(Mutant::SeatWithoutSeated);
    let none_left = item.left == seen.left || rules.broken(Mutant::SeatWithoutLeft);
    let as_seen = item.holder.is_none() == seen.free && same_line && none_left;
    let places = rules.seats + usize::from(seen.free);
    if !as_seen || item.heirs.len() + found.len() > places {
        return None;
    }
    for entry in found.iter() {
        item.heirs.push(entry);
    }
    if seen.free {
        item.promote();
    }
    item.seated = seated;
    Some(item)
}
