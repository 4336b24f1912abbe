//! The writes on the lock item.

use std::sync::Arc;
use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::item::{At, Footing, Held, LockItem, Written, signed, sum};
use crate::ticket::{Sequence, Ticket};

use super::clause::Clause;
use super::effect::Effect;
use super::entry::{EntryClause, EntryEffect};
use super::expression::{Expressions, Update, Values, all_of};
use super::{Dating, newest};

/// A write on the lock item: it applies if every clause holds, and then makes all of its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWrite {
    /// What it is called in errors and logs.
    pub verb: &'static str,
    /// It applies where there is no item, too.
    pub or_absent: bool,
    /// What must hold.
    pub clauses: Vec<Clause>,
    /// What it does: all of it, or if one does not hold, nothing.
    pub effects: Vec<Effect>,
    /// It deletes the item.
    pub deletes: bool,
}

/// What one asks for who asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// What the counter must be below.
    pub below: Ticket,
    /// How many slots there are behind the first. None: it does not wait, and asks for the first slot of a free lock.
    pub slots: Option<usize>,
    /// How long tickets that are drawn later have to join, until one who draws says otherwise.
    pub grace: Duration,
    /// The item to be made where there is none.
    pub new: Option<NewItem>,
}

/// A new lock item: where its counter begins, and until when it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// No ticket that was drawn before is above it.
    pub start: Ticket,
    /// In whole seconds since 1970.
    pub expiry: u64,
}

/// How a ticket is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// How the draw is dated.
    pub dating: Dating,
    /// How long it may take to join.
    pub grace: Duration,
    /// A shorter grace stands on the item, and becomes as long.
    pub raises_grace: bool,
    /// The item stays until then at the least.
    pub keeps: Option<u64>,
}

impl LockWrite {
    fn new(verb: &'static str, permits: u64) -> Self {
        LockWrite {
            verb,
            or_absent: false,
            clauses: vec![Clause::Ours(permits)],
            effects: Vec::new(),
            deletes: false,
        }
    }

    fn when(mut self, clauses: impl IntoIterator<Item = Clause>) -> Self {
        self.clauses.extend(clauses);
        self
    }

    fn makes(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.effects.extend(effects);
        self
    }

    /// Of the one who stands at a place.
    fn when_at(self, at: At, clauses: impl IntoIterator<Item = EntryClause>) -> Self {
        self.when(clauses.into_iter().map(|clause| Clause::Entry(at, clause)))
    }

    fn makes_at(self, at: At, effects: impl IntoIterator<Item = EntryEffect>) -> Self {
        self.makes(effects.into_iter().map(|effect| Effect::Entry(at, effect)))
    }

    /// Has the item stay until then besides; none: it stays for long enough.
    #[must_use]
    pub fn keeping(mut self, expiry: Option<u64>) -> Self {
        if let Some(expiry) = expiry {
            self.effects.insert(0, Effect::Stays(expiry));
            self.clauses.push(Clause::StaysNoLonger(expiry));
        }
        self
    }

    /// What the item is after it. None: it does not apply. A deleted item is none, too.
    pub fn apply(&self, item: Option<&LockItem>) -> Option<Option<LockItem>> {
        let Some(was) = item else {
            return self.or_absent.then(|| Some(self.made_of(&self.nothing())));
        };
        let holds = self.clauses.iter().all(|clause| clause.holds(was));
        holds.then(|| (!self.deletes).then(|| self.made_of(was)))
    }

    fn made_of(&self, was: &LockItem) -> LockItem {
        let mut item = was.clone();
        self.effects
            .iter()
            .for_each(|effect| effect.make(was, &mut item));
        item
    }

    /// What an item is made of where there is none.
    fn nothing(&self) -> LockItem {
        let starts = self.effects.iter().find_map(|effect| match effect {
            Effect::DrawBeside { start, .. } => *start,
            _ => None,
        });
        let permits = self.effects.iter().find_map(|effect| match effect {
            Effect::Begins(permits) => Some(*permits),
            _ => None,
        });
        let start = starts.unwrap_or_default();
        LockItem {
            room: permits.map_or(0, signed),
            ..LockItem::free(start, start)
        }
    }

    /// The same in DynamoDB's language.
    pub fn expressions(&self) -> Expressions {
        let (mut values, mut update) = (Values::default(), Update::default());
        let clauses = self.clauses.iter().map(|clause| clause.text(&mut values));
        let condition = all_of(clauses);
        self.effects
            .iter()
            .for_each(|effect| effect.text(&mut update, &mut values));
        Expressions {
            update: update.text(),
            condition: match self.or_absent {
                true => format!("attribute_not_exists(#pk) OR ({condition})"),
                false => condition,
            },
            values,
        }
    }
}

/// Taking a place.
impl LockWrite {
    /// Draws tickets, if the counter is below `below`, and takes the slot behind all others, the first if none is taken; where there is
    /// no item it makes one. What it compares stands on the item itself, so nobody who asks at the same time makes it fail: it is
    /// refused only if no slot is left, or if somebody waits for one.
    pub fn enter(permits: u64, me: Entry, entrance: Entrance) -> Self {
        let (nonce, tickets) = (me.nonce, me.tickets);
        let Entrance {
            below,
            slots,
            grace,
            new,
        } = entrance;
        let mut write = LockWrite::new("enter", permits)
            .when([Clause::NoOpenTicket, Clause::LastBelow(below)])
            .when(match slots {
                // Nobody has a place there.
                None => vec![Clause::Free],
                Some(slots) => vec![Clause::SlotsAtMost(slots), Clause::NoPlaceOf(nonce)],
            });
        // One who does not know the time does not say where a counter begins, and when the item may be deleted.
        write.or_absent = new.is_some();
        write
            .makes(new.map(|_| Effect::Begins(permits)))
            .makes([
                Effect::DrawBeside {
                    nonce,
                    tickets,
                    start: new.map(|new| new.start),
                },
                Effect::TakeSlot(me),
                // No ticket is open to which a longer one, or a date, would matter.
                Effect::Grace(grace),
            ])
            .makes(new.map(|new| Effect::StaysUnlessSaid(new.expiry)))
            .makes([Effect::NoDrawDate])
    }

    /// Takes a free lock all of whose drawn tickets `seen` and its rows showed to be settled.
    pub fn enter_over(permits: u64, me: Entry, seen: &LockItem) -> Self {
        LockWrite::new("enter over the settled", permits)
            .when([
                Clause::Free,
                Clause::LastIs(seen.last),
                Clause::WatermarkIs(seen.watermark),
            ])
            .makes([Effect::DrawUpTo(me.ticket), Effect::FillSlots(vec![me])])
    }

    /// Takes permits that are left, if nobody waits for any. `first` is how many the one in the first slot has at the most.
    pub fn share(permits: u64, me: Entry, first: u64) -> Self {
        let (nonce, share) = (me.nonce, me.permits);
        LockWrite::new("share", permits)
            .when([
                Clause::NoOpenTicket,
                Clause::LastBelow(end(1)),
                Clause::Beside { share, first },
                Clause::NoPlaceOf(nonce),
            ])
            .makes([
                Effect::DrawBeside {
                    nonce,
                    tickets: 1,
                    start: None,
                },
                Effect::Take(share),
                Effect::Sharer(me),
            ])
    }

    /// Draws so many tickets, if the counter is below `end`.
    pub fn draw(permits: u64, tickets: u64, below: Ticket, how: Drawing) -> Self {
        let draw = LockWrite::new("draw", permits)
            .when([Clause::LastBelow(below)])
            .makes(how.raises_grace.then_some(Effect::Grace(how.grace)))
            .makes([Effect::Draw(tickets)]);
        let draw = match how.dating {
            Dating::By(date) => draw
                .when([Clause::NoLaterDraw(newest(date))])
                .makes([Effect::DrawDate(date)]),
            // Another's later date stands for this ticket too, and stays: without one, nobody could ever judge it.
            Dating::UnderLater(date) => draw.when([Clause::LaterDraw(newest(date))]),
            // An earlier date must not make this ticket look overdue.
            Dating::None => draw.makes([Effect::NoDrawDate]),
        };
        let draw = draw.when([match how.raises_grace {
            true => Clause::NoLongerGrace(how.grace),
            false => Clause::GraceAtLeast(how.grace),
        }]);
        draw.keeping(how.keeps)
    }
}

/// Serving the queue.
impl LockWrite {
    /// Gives slots to `found`, the next in the queue as `seen` and its rows showed them. If the lock is free the first of them has it.
    pub fn fill(
        permits: u64,
        seen: &LockItem,
        (found, upto): (&[Entry], Ticket),
        slots: usize,
        granted: Option<ServerTime>,
    ) -> Self {
        let granted = granted.filter(|_| seen.is_free());
        LockWrite::new("fill", permits)
            .when([
                Clause::WatermarkIs(seen.watermark),
                Clause::LeftIs(seen.left),
                Clause::SlotsAtMost((slots + 1).saturating_sub(found.len())),
            ])
            .makes([Effect::Settle(upto), Effect::FillSlots(found.to_vec())])
            .makes(granted.map(Effect::GrantedAt))
    }

    /// Raises `watermark` over tickets that are void, and void is for ever.
    pub fn settle(permits: u64, seen: &LockItem, upto: Ticket) -> Self {
        LockWrite::new("settle", permits)
            .when([
                Clause::WatermarkIs(seen.watermark),
                Clause::LeftIs(seen.left),
            ])
            .makes([Effect::Settle(upto)])
    }

    /// Gives the first successors the permits that they wait for: they stand beside those who have some. The last of them where it was
    /// seen is enough of a condition: who comes goes behind, and who goes lets those behind move up. Meanwhile what is left has not
    /// become less: nobody shares past one who waits, and who stands in the first slot has no more than before. None: there are no successors.
    pub fn admit(permits: u64, first: usize, successors: &[Entry]) -> Option<Self> {
        let (last, before) = successors.split_last()?;
        let share = sum(successors.iter().map(|successor| successor.permits));
        let nonces = successors.iter().map(|successor| successor.nonce).collect();
        Some(
            LockWrite::new("admit", permits)
                .when_at(At::Slot(first + before.len()), [is(last)])
                .makes([Effect::Take(share), Effect::Admit(first, nonces)]),
        )
    }

    /// Ends one's own hold. Still there: a late release must not release another's. Who comes next has the lock the moment this applies.
    pub fn release(permits: u64, nonce: Nonce, held: Held, granted: Option<ServerTime>) -> Self {
        let is = EntryClause::Is(nonce, held.footing.ticket);
        LockWrite::new("release", permits)
            .when_at(held.footing.at, [is])
            .ends(nonce, held)
            .makes(granted.map(Effect::GrantedAt))
    }

    /// Ends the hold of one who is dead, as a release would.
    pub fn evict(permits: u64, dead: &Entry, held: Held, granted: Option<ServerTime>) -> Self {
        LockWrite::new("evict", permits)
            .when_at(held.footing.at, [is(dead), EntryClause::BeatIs(dead.beat)])
            .ends(dead.nonce, held)
            .makes(granted.map(Effect::GrantedAt))
    }

    /// A sharer's permits are counted.
    fn ends(self, nonce: Nonce, held: Held) -> Self {
        let (at, share) = (held.footing.at, held.permits);
        let write = match at {
            At::Sharer(_) => self
                .when_at(at, [EntryClause::PermitsAre(share)])
                .makes([Effect::GiveBack(share)]),
            At::Slot(_) => self,
        };
        write.makes([Effect::Remove(at), Effect::Forget(nonce)])
    }

    /// Takes the slot of a dead successor away. Slots shift, so the nonce decides which one is meant.
    pub fn evict_successor(permits: u64, at: At, dead: &Entry) -> Self {
        LockWrite::new("evict_successor", permits)
            .when_at(at, [EntryClause::BeatIs(dead.beat), is(dead)])
            .makes([Effect::Forget(dead.nonce), Effect::Remove(at)])
    }

    /// Gives up one's own slot.
    pub fn give_up_slot(permits: u64, at: At, own: &Entry) -> Self {
        LockWrite::new("give up a slot", permits)
            .when_at(at, [is(own)])
            .makes([Effect::Forget(own.nonce), Effect::Remove(at)])
    }

    /// Says that a waiter left the queue, so that no look from before can slot it.
    pub fn leave(permits: u64, ticket: Ticket) -> Self {
        LockWrite::new("leave", permits)
            .when([Clause::WatermarkBelow(ticket)])
            .makes([Effect::Leave])
    }
}

/// Keeping a place.
impl LockWrite {
    /// Renews a hold or a slot. Still there: a renewal must not bring back what was released or evicted. The beat is the number of
    /// the renewal.
    pub fn renew(
        permits: u64,
        (nonce, Footing { at, ticket, .. }): (Nonce, Footing),
        (beat, lease): (u64, Duration),
        dating: Dating,
    ) -> Self {
        let renew = LockWrite::new("renew", permits)
            .when_at(
                at,
                [EntryClause::Is(nonce, ticket), EntryClause::BeatBelow(beat)],
            )
            .makes_at(at, [EntryEffect::Beat(beat), EntryEffect::Lease(lease)]);
        match dating {
            Dating::By(date) => renew
                .when_at(at, [EntryClause::NoLaterDate(newest(date))])
                .makes_at(at, [EntryEffect::Date(date), EntryEffect::Since(date)]),
            Dating::UnderLater(date) => renew.when_at(at, [EntryClause::LaterDate(newest(date))]),
            Dating::None => renew.makes_at(at, [EntryEffect::MissingDateHeader]),
        }
    }

    /// Extends the lease of one in a slot. The very beat that was seen: what it lasts is counted from what was seen, and so never gets
    /// shorter.
    pub fn extend(permits: u64, seen: &Entry, lease: Duration, date: ServerTime) -> Self {
        let at = At::Slot(0);
        LockWrite::new("extend", permits)
            .when_at(at, [is(seen), EntryClause::BeatIs(seen.beat)])
            .makes_at(
                at,
                [
                    EntryEffect::NextBeat,
                    EntryEffect::Lease(lease),
                    EntryEffect::Date(date),
                    EntryEffect::Since(date),
                ],
            )
    }

    /// Keeps one permit of a hold, and frees the others.
    pub fn downgrade(permits: u64, nonce: Nonce, held: Held) -> Self {
        let Footing { at, ticket, .. } = held.footing;
        let freed = held.permits.saturating_sub(1);
        LockWrite::new("downgrade", permits)
            .when_at(
                at,
                [
                    EntryClause::Is(nonce, ticket),
                    EntryClause::PermitsAre(held.permits),
                ],
            )
            .makes_at(at, [EntryEffect::Permits(1)])
            .makes(matches!(at, At::Sharer(_)).then_some(Effect::Free(freed)))
    }

    /// Takes the turns that were had off the holder's place, so that no check of them passes any more.
    pub fn pass_on(permits: u64, nonce: Nonce, ticket: Ticket, left: u64) -> Self {
        let at = At::Slot(0);
        LockWrite::new("pass on", permits)
            .when_at(
                at,
                [
                    EntryClause::Is(nonce, ticket),
                    EntryClause::TurnsAbove(left),
                ],
            )
            .makes_at(at, [EntryEffect::Tickets(left)])
    }

    /// Writes the bytes, or removes those that are there. By who has the lock alone, or others would write over it.
    pub fn data(
        permits: u64,
        (nonce, Footing { at, ticket, .. }): (Nonce, Footing),
        (written, turns_left): (Written, u64),
        bytes: Option<Arc<[u8]>>,
    ) -> Self {
        let write = LockWrite::new("write data", permits)
            .when_at(at, has_turn((nonce, ticket), turns_left, permits))
            .when([Clause::NoLaterData(written)]);
        match bytes {
            Some(bytes) => write.makes([Effect::Data(bytes), Effect::Written(written)]),
            None => write.makes([Effect::Written(written), Effect::NoData]),
        }
    }

    /// Changes nothing: whatever is written with this condition is written only while the attempt has the lock at this place, and so
    /// many are left to have a turn there.
    pub fn check(permits: u64, nonce: Nonce, held: Held, turns_left: u64) -> Self {
        let Footing { at, ticket, .. } = held.footing;
        LockWrite::new("check the holder", permits)
            .when_at(at, has_turn((nonce, ticket), turns_left, held.permits))
    }
}

/// Dating what has no date, and removing what nobody uses.
impl LockWrite {
    /// Dates holds of the same beat: the very holds that were seen, each still without a date. A sharer stands under its nonce.
    pub fn date_holds(permits: u64, holds: &[(At, &Entry)], date: ServerTime) -> Self {
        holds
            .iter()
            .fold(LockWrite::new("date", permits), |write, (at, entry)| {
                let nonce = matches!(at, At::Slot(_)).then_some(EntryClause::NonceIs(entry.nonce));
                write
                    .when_at(*at, nonce)
                    .when_at(*at, [EntryClause::BeatIs(entry.beat), EntryClause::Undated])
                    .makes_at(*at, [EntryEffect::Date(date)])
            })
    }

    /// Dates a successor.
    pub fn date_successor(permits: u64, at: At, successor: &Entry, date: ServerTime) -> Self {
        LockWrite::new("date", permits)
            .when_at(
                at,
                [
                    is(successor),
                    EntryClause::BeatIs(successor.beat),
                    EntryClause::Undated,
                ],
            )
            .makes_at(at, [EntryEffect::Date(date)])
    }

    /// Dates the newest draw: the ticket is the one that was seen, and still without a date.
    pub fn date_draw(permits: u64, last: Ticket, date: ServerTime) -> Self {
        LockWrite::new("date", permits)
            .when([Clause::LastIs(last), Clause::UndatedDraw])
            .makes([Effect::DrawDate(date)])
    }

    /// Deletes an idle lock item that nobody has touched since `seen`.
    pub fn remove_idle(permits: u64, seen: &LockItem) -> Self {
        let remove = LockWrite::new("remove an idle lock", permits).when([
            Clause::Free,
            Clause::LastIs(seen.last),
            Clause::WatermarkIs(seen.last),
            Clause::StaysUntil(seen.expires_at),
        ]);
        LockWrite {
            deletes: true,
            ..remove
        }
    }
}

/// The one that was seen.
fn is(entry: &Entry) -> EntryClause {
    EntryClause::Is(entry.nonce, entry.ticket)
}

/// The attempt has the lock, so many are left to have a turn at its place, and it takes so many permits.
fn has_turn(
    (nonce, ticket): (Nonce, Ticket),
    turns_left: u64,
    share: u64,
) -> impl Iterator<Item = EntryClause> {
    let turns = (turns_left > 1).then_some(EntryClause::TurnsAtLeast(turns_left));
    [EntryClause::Is(nonce, ticket)]
        .into_iter()
        .chain(turns)
        .chain([EntryClause::PermitsAre(share)])
}

/// What the counter must be below for so many tickets to be left. The last of all is drawn, and its lock is called damaged then.
pub fn end(tickets: u64) -> Ticket {
    Ticket::new(u64::MAX).first_of(tickets)
}
