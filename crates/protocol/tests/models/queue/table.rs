//! The table: the lock item, the rows, and what each request does to the item or row that it names.

use std::num::NonZeroU8;

use super::few::Few;
use super::request::{Answer, Request, Shown};
use super::rules::Rules;
use super::writes;

/// How many tickets a run can draw at most; more are a panic, not a wrong result.
pub(crate) const TICKETS: usize = 16;

/// Names one attempt of one process. An entry whose process is on another attempt has no owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Nonce(NonZeroU8);

impl Nonce {
    pub(crate) fn new(process: usize, attempt: u8) -> Self {
        assert!(attempt < 32, "too many attempts for the model's nonces");
        Nonce(NonZeroU8::MIN.saturating_add((process as u8) << 5 | attempt))
    }

    /// The nonce as the library has it.
    pub(crate) fn bits(self) -> u128 {
        self.0.get().into()
    }

    pub(crate) fn of_bits(bits: u128) -> Option<Self> {
        NonZeroU8::new(u8::try_from(bits).ok()?).map(Nonce)
    }

    pub(crate) fn attempt(self) -> u8 {
        (self.0.get() - 1) & 31
    }

    pub(crate) fn process(self) -> usize {
        usize::from((self.0.get() - 1) >> 5)
    }
}

impl std::fmt::Debug for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.process(), self.attempt())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Entry {
    pub(crate) nonce: Nonce,
    pub(crate) first: u8,
    pub(crate) ticket: u8,
    pub(crate) share: u8,
    pub(crate) beat: u8,
    /// Written by a late duplicate: no client may be blamed for leaving it behind.
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
    pub(crate) watermark: u8,
    pub(crate) departures: u8,
    /// Permits that the sharers leave, as counted.
    pub(crate) room: i8,
    /// How many permits there are if their number was changed, and else zero.
    pub(crate) resized: u8,
    /// How often it was changed.
    pub(crate) resizes: u8,
    pub(crate) sharers: Few,
    pub(crate) slots: Few,
}

impl Item {
    /// The first of the slots, if it holds the lock.
    pub(crate) fn holder(&self, rules: &Rules) -> Option<Entry> {
        let fits = |first: &Entry| {
            let is_left = first.share < rules.permits && first.share as i8 <= self.room;
            self.sharers.len() == 0 || is_left
        };
        self.slots.get(0).filter(fits)
    }

    pub(crate) fn successors(&self, rules: &Rules) -> impl Iterator<Item = Entry> + use<> {
        self.slots.iter().skip(self.first_successor(rules))
    }

    /// The slot in which the first successor stands.
    pub(crate) fn first_successor(&self, rules: &Rules) -> usize {
        usize::from(self.holder(rules).is_some())
    }

    pub(crate) fn holders(&self, rules: &Rules) -> impl Iterator<Item = Entry> + use<> {
        self.holder(rules).into_iter().chain(self.sharers.iter())
    }

    /// The entry of this nonce, if it holds the lock.
    pub(crate) fn hold(&self, nonce: Nonce, rules: &Rules) -> Option<Entry> {
        self.holders(rules).find(|holder| holder.nonce == nonce)
    }

    pub(crate) fn slot(&self, nonce: Nonce) -> Option<usize> {
        self.slots.iter().position(|entry| entry.nonce == nonce)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Entry> + use<> {
        self.sharers.iter().chain(self.slots.iter())
    }

    pub(crate) fn is_free(&self) -> bool {
        self.slots.len() == 0 && self.sharers.len() == 0
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_free() && self.last == self.watermark
    }

    pub(crate) fn has_room(&self, share: u8, rules: &Rules) -> bool {
        let settled = self.last == self.watermark && self.successors(rules).next().is_none();
        settled && self.has_left(share, rules)
    }

    pub(crate) fn has_left(&self, share: u8, rules: &Rules) -> bool {
        self.is_free() || share < rules.permits && share as i8 <= self.left_over(rules)
    }

    /// What is left beside all entries that hold the lock.
    fn left_over(&self, rules: &Rules) -> i8 {
        match self.holder(rules) {
            Some(holder) if holder.share >= rules.permits => 0,
            holder => self.room - holder.map_or(0, |holder| holder.share as i8),
        }
    }

    pub(crate) fn there_are(&self, rules: &Rules) -> u8 {
        match self.resized {
            0 => rules.permits,
            resized => resized,
        }
    }

    /// How many of the first successors wait for no more than what is left, and what they take.
    pub(crate) fn admitted(&self, rules: &Rules) -> (usize, u8) {
        let (left, mut share) = (self.left_over(rules), 0);
        let fits = |successor: &Entry| {
            let is_part = successor.share < rules.permits;
            let fits = is_part && (share + successor.share) as i8 <= left;
            share += if fits { successor.share } else { 0 };
            fits
        };
        let first_has_it = self.holder(rules).is_some();
        let successors = self.successors(rules).take_while(|_| first_has_it);
        let successors = successors.take_while(fits).count();
        (successors, share)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    pub(crate) item: Option<Item>,
    pub(crate) rows: [Option<Row>; TICKETS],
    /// No ticket so far is above it: the clock, from which a new lock item starts. No request is in flight for as long as an idle item is
    /// retained, so the clock is read when the request applies.
    pub(crate) clock: u8,
}

impl Table {
    pub(crate) fn row(&self, ticket: u8) -> Option<Row> {
        self.rows[usize::from(ticket)]
    }

    /// Applies one request, if its condition holds. `late` marks what a late duplicate leaves.
    pub(crate) fn apply(&mut self, request: &Request, rules: &Rules, late: bool) -> Answer {
        if let Some(ticket) = request.row() {
            let row = &mut self.rows[usize::from(ticket)];
            let after = writes::row_after(*row, (ticket, request), rules, late);
            *row = after.unwrap_or(*row);
            let (applied, shown) = (after.is_some(), Shown::Row(*row));
            return Answer { applied, shown };
        }
        let after = writes::item_after(self.item, (self.clock, request), rules, late);
        self.item = after.unwrap_or(self.item);
        let last = self.item.map(|item| item.last);
        self.clock = self.clock.max(last.unwrap_or_default());
        let (applied, shown) = (after.is_some(), Shown::Item(self.item));
        Answer { applied, shown }
    }
}

impl Entry {
    pub(crate) fn beaten(self) -> Self {
        let beat = self.beat + 1;
        Entry { beat, ..self }
    }
}
