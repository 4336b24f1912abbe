//! The table: the lock item, the rows, and what each request does to the one of them that it names.

use std::num::NonZeroU8;

use super::few::Few;
use super::request::{Answer, Held, Request, Seen, Shown, Who};
use super::rules::{Mutant, Rules};

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
    pub(crate) share: u8,
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
    /// Permits taken, as counted.
    pub(crate) taken: u8,
    pub(crate) holder: Option<Entry>,
    pub(crate) sharers: Few,
    pub(crate) heirs: Few,
}

impl Item {
    pub(crate) fn holders(&self) -> impl Iterator<Item = Entry> {
        self.holder.into_iter().chain(self.sharers.iter())
    }

    /// The entry of one who has the lock.
    pub(crate) fn hold(&self, nonce: Nonce) -> Option<Entry> {
        self.holders().find(|holder| holder.nonce == nonce)
    }

    /// How an entry that has the lock by this item is ended.
    pub(crate) fn held(&self, entry: Entry, rules: &Rules) -> Held {
        let is_alone = entry.share == rules.permits;
        let is_last = self.taken == entry.share;
        Held {
            share: entry.share,
            hands_over: is_last && (is_alone || self.heirs.len() > 0),
        }
    }

    pub(crate) fn heir(&self, nonce: Nonce) -> Option<usize> {
        self.heirs.iter().position(|heir| heir.nonce == nonce)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Entry> {
        self.holders().chain(self.heirs.iter())
    }

    pub(crate) fn is_free(&self) -> bool {
        self.taken == 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_free() && self.last == self.seated
    }

    pub(crate) fn has_room(&self, share: u8, rules: &Rules) -> bool {
        let settled = self.last == self.seated && self.heirs.len() == 0;
        settled && self.has_left(share, rules)
    }

    pub(crate) fn has_left(&self, share: u8, rules: &Rules) -> bool {
        self.taken + share <= rules.permits
    }

    /// How many of the first heirs wait for no more than what is left, and what they take.
    pub(crate) fn admitted(&self, rules: &Rules) -> (usize, u8) {
        let mut share = 0;
        let fits = |heir: &Entry| {
            let fits = self.taken + share + heir.share <= rules.permits;
            share += if fits { heir.share } else { 0 };
            fits
        };
        let heirs = self.heirs.iter().take_while(fits).count();
        (heirs, share)
    }

    fn promote(&mut self) {
        self.holder = self.heirs.remove(0);
        self.taken = self.holder.map_or(0, |holder| holder.share);
    }

    /// Changes the entry of one who has the lock.
    pub(crate) fn put(&mut self, entry: Entry) {
        let sharer = self.sharers.iter().position(|at| at.nonce == entry.nonce);
        match sharer {
            Some(index) => self.sharers.set(index, entry),
            None => self.holder = Some(entry),
        }
    }

    fn remove(&mut self, nonce: Nonce) {
        self.holder = self.holder.filter(|holder| holder.nonce != nonce);
        let sharer = self.sharers.iter().position(|at| at.nonce == nonce);
        sharer.and_then(|index| self.sharers.remove(index));
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
            Request::Enter { who } => self.enter(who, rules, late),
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

    fn enter(&self, who: Who, rules: &Rules, late: bool) -> Option<Item> {
        let fresh = Item {
            last: if rules.broken(Mutant::TicketsFromZero) {
                0
            } else {
                self.clock
            },
            ..Item::default()
        };
        let Some(item) = self.item else {
            return Some(entered(fresh, who, late));
        };
        let nobody_waits = item.seated == item.last || rules.broken(Mutant::EnterOverUnsettled);
        (item.is_free() && nobody_waits).then(|| entered(item, who, late))
    }

    fn apply_to_row(&mut self, ticket: u8, request: &Request, rules: &Rules, late: bool) -> Answer {
        let row = &mut self.rows[usize::from(ticket)];
        let applied = match *request {
            Request::Join { who, .. } if row.is_none() => {
                let mine = Entry::new(who, ticket, late);
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
    pub(crate) fn new(who: Who, ticket: u8, stray: bool) -> Self {
        Entry {
            nonce: who.nonce,
            first: ticket + 1 - who.size,
            ticket,
            share: who.share,
            beat: 0,
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

fn entered(item: Item, who: Who, late: bool) -> Item {
    let ticket = item.last + who.size;
    Item {
        last: ticket,
        seated: ticket,
        entered: ticket,
        left: item.left,
        taken: who.share,
        holder: Some(Entry::new(who, ticket, late)),
        sharers: Few::default(),
        heirs: Few::default(),
    }
}

/// What the lock item is after a request other than enter; none if its condition does not hold.
fn change(item: Item, request: &Request, rules: &Rules, late: bool) -> Option<Item> {
    match *request {
        Request::EnterOver { who, last, seated } => {
            enter_over(item, who, (last, seated), rules, late)
        }
        Request::Share { who } => share(item, who, rules, late),
        Request::Sit { who, ticket } => sit(item, who, ticket, rules, late),
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
        Request::Release { nonce, held } => end(item, item.hold(nonce)?, held, rules),
        Request::Evict { nonce, beat, held } => {
            let any_beat = rules.broken(Mutant::EvictWithoutBeat);
            let hold = item.hold(nonce)?;
            (hold.beat == beat || any_beat).then(|| end(item, hold, held, rules))?
        }
        Request::Downgrade { nonce, share } => {
            let hold = item.hold(nonce)?;
            (hold.share == share || rules.broken(Mutant::DowngradeWithoutShare)).then(|| {
                item.taken -= share - 1;
                item.put(Entry { share: 1, ..hold });
                item
            })
        }
        Request::Admit {
            index,
            nonce,
            share,
        } => admit(item, (index, nonce), share, rules),
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

/// One who has the lock goes: if it is the last, the first heir has the lock.
fn end(mut item: Item, hold: Entry, held: Held, rules: &Rules) -> Option<Item> {
    let is_last = item.taken == held.share || rules.broken(Mutant::HandOverAmongOthers);
    let nobody_waits = item.heirs.len() == 0 || rules.broken(Mutant::LastLeavesHeirs);
    let may_end = if held.hands_over {
        is_last
    } else {
        item.taken > held.share || nobody_waits
    };
    if hold.share != held.share || !may_end {
        return None;
    }
    item.remove(hold.nonce);
    if held.hands_over {
        item.promote();
    } else {
        item.taken -= held.share;
    }
    Some(item)
}

/// The heirs up to the one at this place come in.
fn admit(mut item: Item, (index, nonce): (u8, Nonce), share: u8, rules: &Rules) -> Option<Item> {
    let as_seen =
        heir_at(&item, index, nonce).is_some() || rules.broken(Mutant::AdmitWhoeverIsThere);
    as_seen.then(|| {
        for _ in 0..=index {
            item.heirs
                .remove(0)
                .into_iter()
                .for_each(|heir| item.sharers.push(heir));
        }
        item.taken += share;
        item
    })
}

fn share(item: Item, who: Who, rules: &Rules, late: bool) -> Option<Item> {
    let settled = item.seated == item.last || rules.broken(Mutant::ShareOverUnsettled);
    let nobody_waits = item.heirs.len() == 0 || rules.broken(Mutant::ShareOverHeirs);
    let is_left = item.taken + who.share <= rules.permits || rules.broken(Mutant::ShareWithoutRoom);
    let is_new = item.sharers.iter().all(|sharer| sharer.nonce != who.nonce);
    (settled && nobody_waits && is_left && is_new).then(|| {
        let ticket = item.last + 1;
        let mut sharers = item.sharers;
        sharers.push(Entry::new(who, ticket, late));
        Item {
            last: ticket,
            seated: ticket,
            taken: item.taken + who.share,
            sharers,
            ..item
        }
    })
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
    who: Who,
    (last, seated): (u8, u8),
    rules: &Rules,
    late: bool,
) -> Option<Item> {
    let nobody_drew = item.last == last || rules.broken(Mutant::EnterOverWithoutLast);
    let settled = item.seated == seated && nobody_drew;
    (item.is_free() && settled).then(|| entered(Item { last, ..item }, who, late))
}

fn sit(item: Item, who: Who, ticket: u8, rules: &Rules, late: bool) -> Option<Item> {
    let settled = item.seated + who.size == ticket || rules.broken(Mutant::SitOverUnsettled);
    let next = item.last + who.size == ticket && settled;
    let room = item.heirs.len() < rules.seats;
    (!item.is_free() && next && room).then(|| {
        let mut heirs = item.heirs;
        heirs.push(Entry::new(who, ticket, late));
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
    let as_seen = item.is_free() == seen.free && same_line && none_left;
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
