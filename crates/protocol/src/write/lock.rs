//! The writes on the lock item.

use std::sync::Arc;
use std::time::Duration;

use crate::bytes::Bytes;
use crate::entry::{Entry, Nonce, ServerTime};
use crate::item::{At, Footing, ItemHold, LockItem, Notice, Written, signed, sum};
use crate::stamps::{self, Stamps};
use crate::ticket::Ticket;

use super::clause::Clause;
use super::effect::Effect;
use super::entrance::{Drawing, Entrance, end};
use super::entry::{EntryClause, EntryEffect};
use super::expression::{Expressions, Update, Values, all_of};

/// A write on the lock item: it applies if every clause holds, and then makes all of its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWrite {
    /// Its name in errors and logs.
    pub verb: &'static str,
    /// Whether it also applies where there is no item.
    pub or_absent: bool,
    /// What must hold.
    pub clauses: Vec<Clause>,
    /// What it does: all of the effects, or none if a clause does not hold.
    pub effects: Vec<Effect>,
    /// Whether it deletes the item.
    pub deletes: bool,
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

    /// Adds clauses on the entry at a place.
    fn when_at(self, at: At, clauses: impl IntoIterator<Item = EntryClause>) -> Self {
        self.when(clauses.into_iter().map(|clause| Clause::Entry(at, clause)))
    }

    fn makes_at(self, at: At, effects: impl IntoIterator<Item = EntryEffect>) -> Self {
        self.makes(effects.into_iter().map(|effect| Effect::Entry(at, effect)))
    }

    /// Also keeps the item until `expiry`. `None` changes nothing: the item stays for long enough.
    #[must_use]
    pub fn keeping(mut self, expiry: Option<u64>) -> Self {
        if let Some(expiry) = expiry {
            self.effects.insert(0, Effect::Stays(expiry));
            self.clauses.push(Clause::StaysNoLonger(expiry));
        }
        self
    }

    /// Returns the item after the write, or `None` if the write does not apply. The inner `None` means that the write deleted the item.
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

    /// The item from which the effects start where there is none.
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

    /// The write in DynamoDB's expression language.
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

/// Writes that take a place.
impl LockWrite {
    /// Draws tickets if the counter is below `below`, and takes the slot behind all others: the first slot if none is taken. Where there is
    /// no item, it creates the new one of `entrance`. Everything that it compares stands on the item itself, so callers that ask at the
    /// same time do not make each other fail. It is refused only if no slot is left, or if a waiter waits for one.
    pub fn enter(permits: u64, me: Entry, entrance: Entrance) -> Self {
        let (nonce, tickets) = (me.nonce, me.tickets);
        let Entrance {
            below,
            slots,
            join_timeout,
            new,
        } = entrance;
        let mut write = LockWrite::new("enter", permits)
            .when([Clause::NoOpenTicket, Clause::LastBelow(below)])
            .when(match slots {
                // A free lock has no places, so none can be of this nonce.
                None => vec![Clause::Free],
                Some(slots) => vec![Clause::SlotsAtMost(slots), Clause::NoPlaceOf(nonce)],
            });
        // A caller that does not know the time cannot say where a counter begins, or when the item may be deleted.
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
                // No ticket is open, so neither a longer join timeout nor a draw date matters to any.
                Effect::JoinTimeout(join_timeout),
            ])
            .makes(new.map(|new| Effect::StaysUnlessSaid(new.expiry)))
            .makes(drawn(Stamps::default()))
    }

    /// Takes a free lock whose drawn tickets are all settled, as `seen` and its rows showed.
    pub fn enter_over(permits: u64, me: Entry, seen: &LockItem) -> Self {
        LockWrite::new("enter over the settled", permits)
            .when([
                Clause::Free,
                Clause::LastIs(seen.last),
                Clause::WatermarkIs(seen.watermark),
            ])
            .makes([Effect::DrawUpTo(me.ticket), Effect::FillSlots(vec![me])])
    }

    /// Takes permits that are left, if no waiter waits for any. `first` is the most permits that the entry in the first slot may take.
    ///
    /// An entry that takes all permits, as the callers state them, has or waits for all of them, also where there are more by now.
    pub fn share(permits: u64, me: Entry, first: u64) -> Self {
        let (nonce, share) = (me.nonce, me.permits);
        let first = first.min(permits.saturating_sub(1));
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

    /// Draws `tickets` tickets if the counter is below `below`.
    pub fn draw(permits: u64, tickets: u64, below: Ticket, how: Drawing) -> Self {
        let draw = LockWrite::new("draw", permits)
            .when([Clause::LastBelow(below)])
            .makes(
                how.raises_join_timeout
                    .then_some(Effect::JoinTimeout(how.join_timeout)),
            )
            .makes([Effect::Draw(tickets)]);
        // A later stamp of another draw stands for this ticket too. Without it, no client could ever judge the ticket.
        let [mine, later] = stamps::replaced(how.seen, how.stamps);
        let [no_later, a_later] = [mine, later].map(stamps::newest);
        let draw = draw
            .when((mine != Stamps::default()).then_some(Clause::NoLaterDraw(no_later)))
            .when((later != Stamps::default()).then_some(Clause::LaterDraw(a_later)))
            .makes((later.server.is_none()).then_some(Effect::DrawnAt(mine.server)))
            .makes((later.host.is_none()).then_some(Effect::DrawnOnHost(mine.host)));
        let draw = draw.when([match how.raises_join_timeout {
            true => Clause::JoinTimeoutAtMost(how.join_timeout),
            false => Clause::JoinTimeoutAtLeast(how.join_timeout),
        }]);
        draw.keeping(how.keeps)
    }
}

/// Writes that serve the queue.
impl LockWrite {
    /// Gives slots to `found`, the next in the queue as `seen` and its rows showed them. If the lock is free, the first of them holds it.
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
                Clause::DeparturesAre(seen.departures),
                Clause::SlotsAtMost((slots + 1).saturating_sub(found.len())),
            ])
            .makes([Effect::Settle(upto), Effect::FillSlots(found.to_vec())])
            .makes(granted.map(Effect::GrantedAt))
    }

    /// Raises the watermark over tickets that are void: a void ticket stays void.
    pub fn settle(permits: u64, seen: &LockItem, upto: Ticket) -> Self {
        LockWrite::new("settle", permits)
            .when([
                Clause::WatermarkIs(seen.watermark),
                Clause::DeparturesAre(seen.departures),
            ])
            .makes([Effect::Settle(upto)])
    }

    /// Gives the first successors the permits that they wait for, and moves them beside the other sharers.
    ///
    /// A single condition is enough: the last of them stands where it was seen. A new entry goes behind it, and an entry that goes lets
    /// later entries move up. Meanwhile the permits that are left have not become fewer: no caller shares past a waiter, and the entry in
    /// the first slot takes no more than before. Returns `None` if there are no successors.
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

    /// Ends the caller's own hold. The hold must still be there: a late release must not release another's. The next successor holds the
    /// lock the moment this applies.
    pub fn release(
        permits: u64,
        nonce: Nonce,
        held: ItemHold,
        granted: Option<ServerTime>,
    ) -> Self {
        let is = EntryClause::Is(nonce, held.footing.ticket);
        LockWrite::new("release", permits)
            .when_at(held.footing.at, [is])
            .ends(nonce, held)
            .makes(granted.map(Effect::GrantedAt))
    }

    /// Ends the hold of an expired owner, as a release would.
    pub fn evict(permits: u64, dead: &Entry, held: ItemHold, granted: Option<ServerTime>) -> Self {
        LockWrite::new("evict", permits)
            .when_at(held.footing.at, [is(dead), EntryClause::BeatIs(dead.beat)])
            .ends(dead.nonce, held)
            .makes(granted.map(Effect::GrantedAt))
    }

    /// The permits of a sharer are counted on the item, those of a slot are not.
    fn ends(self, nonce: Nonce, held: ItemHold) -> Self {
        let (at, share) = (held.footing.at, held.permits);
        let write = match at {
            At::Sharer(_) => self
                .when_at(at, [EntryClause::PermitsAre(share)])
                .makes([Effect::GiveBack(share)]),
            At::Slot(_) => self,
        };
        write.makes([Effect::Remove(at), Effect::Forget(nonce)])
    }

    /// Takes the slot of an expired successor away. Slots shift, so the nonce decides which slot is meant.
    pub fn evict_successor(permits: u64, at: At, dead: &Entry) -> Self {
        LockWrite::new("evict a successor", permits)
            .when_at(at, [EntryClause::BeatIs(dead.beat), is(dead)])
            .makes([Effect::Forget(dead.nonce), Effect::Remove(at)])
    }

    /// Does to a place what is done to a dead one, though its owner may be alive, and says so to the owner. The place must be as it was seen:
    /// `write` is the eviction of it.
    #[must_use]
    pub fn breaking(self, notice: Arc<Notice>) -> Self {
        LockWrite {
            verb: "break",
            ..self
        }
        .makes([Effect::Broken(notice)])
    }

    /// Asks the holders of some tickets to give way, after so many requests `before`. It takes nothing from them.
    pub fn ask(permits: u64, notice: Arc<Notice>, before: u64) -> Self {
        LockWrite::new("ask", permits)
            .when([Clause::AsksAtMost(before)])
            .makes([Effect::Asked(notice, before.saturating_add(1))])
    }

    /// Changes how many permits there are. An entry that holds the lock goes on to hold it, however few there are then.
    ///
    /// An entry in the first slot holds the lock because sharers leave what it takes. With fewer permits they may leave less. So such an
    /// entry becomes a sharer by the same write, and a waiter there must still be waiting. No other change may have come
    /// between: the room is counted from what was seen.
    pub fn resize(permits: u64, seen: &LockItem, there_are: u64) -> Self {
        let before = seen.there_are();
        let resize = LockWrite::new("change the permits", permits)
            .when([Clause::ResizesAre(seen.resizes, seen.resized)])
            .makes([
                Effect::ThereAre(there_are),
                Effect::Resizes(seen.resizes.saturating_add(1)),
            ]);
        if let Some(more) = there_are.checked_sub(before) {
            return resize.makes([Effect::Free(more)]);
        }
        let fewer = before - there_are;
        let Some(first) = seen.slots.first() else {
            return resize
                .when([Clause::SlotsAtMost(0)])
                .makes([Effect::TakeAway(fewer)]);
        };
        let takes = (first.permits < permits).then_some(first.permits);
        let resize = resize.when_at(
            At::Slot(0),
            [is(first), EntryClause::PermitsAre(first.permits)],
        );
        match takes.filter(|_| seen.holder().is_some()) {
            Some(takes) => resize.makes([
                Effect::TakeAway(fewer.saturating_add(takes)),
                Effect::Admit(0, vec![first.nonce]),
            ]),
            None if seen.holder().is_some() => resize.makes([Effect::TakeAway(fewer)]),
            None => resize
                .when([Clause::FirstWaits { takes }])
                .makes([Effect::TakeAway(fewer)]),
        }
    }

    /// Gives up the caller's own slot.
    pub fn give_up_slot(permits: u64, at: At, own: &Entry) -> Self {
        LockWrite::new("give up a slot", permits)
            .when_at(at, [is(own)])
            .makes([Effect::Forget(own.nonce), Effect::Remove(at)])
    }

    /// Records that a waiter left the queue, so that no earlier snapshot can give it a slot.
    pub fn leave(permits: u64, ticket: Ticket) -> Self {
        LockWrite::new("leave", permits)
            .when([Clause::WatermarkBelow(ticket)])
            .makes([Effect::CountDeparture])
    }
}

/// Writes that keep a place.
impl LockWrite {
    /// Renews a hold or a slot. The place must still be there: a renewal must not bring back what was released or evicted. The beat is the
    /// number of the renewal. Its stamps are written whatever stands there: they come of a later moment than those of a lower beat.
    pub fn renew(
        permits: u64,
        (nonce, Footing { at, ticket, .. }): (Nonce, Footing),
        (beat, lease): (u64, Duration),
        stamps: Stamps,
    ) -> Self {
        LockWrite::new("renew", permits)
            .when_at(
                at,
                [EntryClause::Is(nonce, ticket), EntryClause::BeatBelow(beat)],
            )
            .makes_at(at, [EntryEffect::Beat(beat)])
            .makes_at(at, lasts(lease, stamps))
    }

    /// A renewal after which its owner believes in nothing any more: the hold is kept for the lease, the rest of its shortest time.
    #[must_use]
    pub fn given_back(self, at: At) -> Self {
        self.makes_at(at, [EntryEffect::GivenBack])
    }

    /// Turns a hold into a lease with an id, which nobody renews from now on. A renewal that was sent before has a lower beat, and so brings
    /// nothing back. The stamps may be earlier than the ones that stand there: they have passed for certain, because the owner of the lease
    /// counts from them.
    pub fn lease_out(
        permits: u64,
        (nonce, Footing { at, ticket, .. }): (Nonce, Footing),
        (beat, lease, stamps): (u64, Duration, Stamps),
        id: Arc<str>,
    ) -> Self {
        LockWrite::new("lease out", permits)
            .when_at(
                at,
                [
                    EntryClause::Is(nonce, ticket),
                    EntryClause::BeatBelow(beat),
                    EntryClause::Unnamed,
                ],
            )
            .makes_at(at, [EntryEffect::Beat(beat)])
            .makes_at(at, lasts(lease, stamps))
            .makes([Effect::Named(at, id)])
    }

    /// Extends a lease. Its beat must be the one that was seen: the new lease is counted from what was seen, and so never gets shorter.
    pub fn extend(
        permits: u64,
        (at, seen): (At, &Entry),
        (stamps, lease): (Stamps, Duration),
    ) -> Self {
        LockWrite::new("extend", permits)
            .when_at(at, [is(seen), EntryClause::BeatIs(seen.beat)])
            .makes_at(at, [EntryEffect::NextBeat])
            .makes_at(at, lasts(lease, stamps))
    }

    /// Keeps some permits of a hold, and frees the others.
    pub fn downgrade(permits: u64, nonce: Nonce, held: ItemHold, keeps: u64) -> Self {
        let Footing { at, ticket, .. } = held.footing;
        let freed = held.permits.saturating_sub(keeps);
        LockWrite::new("downgrade", permits)
            .when_at(
                at,
                [
                    EntryClause::Is(nonce, ticket),
                    EntryClause::PermitsAre(held.permits),
                ],
            )
            .makes_at(at, [EntryEffect::Permits(keeps)])
            .makes(matches!(at, At::Sharer(_)).then_some(Effect::Free(freed)))
    }

    /// Takes finished turns off the holder's place and leaves `left`, so that no check of the finished turns passes any more.
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

    /// Writes the bytes, or removes them if `bytes` is `None`. Only an exclusive holder may: other holders would write over them.
    pub fn data(
        permits: u64,
        (nonce, Footing { at, ticket, .. }): (Nonce, Footing),
        (written, turns_left): (Written, u64),
        bytes: Option<Bytes>,
    ) -> Self {
        let write = LockWrite::new("write data", permits)
            .when_at(at, has_turn((nonce, ticket), turns_left, permits))
            .when([Clause::NoLaterData(written)]);
        match bytes {
            Some(bytes) => write.makes([Effect::Data(bytes), Effect::Written(written)]),
            None => write.makes([Effect::Written(written), Effect::NoData]),
        }
    }

    /// Changes nothing. A write with this condition applies only while the attempt holds the lock at this place, and at least `turns_left`
    /// tickets have a turn left there.
    pub fn check(permits: u64, nonce: Nonce, held: ItemHold, turns_left: u64) -> Self {
        let Footing { at, ticket, .. } = held.footing;
        LockWrite::new("check the holder", permits)
            .when_at(at, has_turn((nonce, ticket), turns_left, held.permits))
    }
}

/// Writes that stamp what lacks a time, or has one of the future, and that remove what no client uses.
impl LockWrite {
    /// Stamps holds of the same beat and the same stamps: exactly the holds that were seen, each as it was. The path of a sharer names its
    /// nonce already.
    pub fn date_holds(permits: u64, holds: &[(At, &Entry)], stamps: Stamps) -> Self {
        holds
            .iter()
            .fold(LockWrite::new("date", permits), |write, (at, entry)| {
                let nonce = matches!(at, At::Slot(_)).then_some(EntryClause::NonceIs(entry.nonce));
                write
                    .when_at(*at, nonce)
                    .when_at(*at, is_as_seen(entry))
                    .makes_at(*at, [EntryEffect::Stamps(stamps)])
            })
    }

    /// Stamps a successor.
    pub fn date_successor(permits: u64, at: At, successor: &Entry, stamps: Stamps) -> Self {
        LockWrite::new("date", permits)
            .when_at(at, [is(successor)])
            .when_at(at, is_as_seen(successor))
            .makes_at(at, [EntryEffect::Stamps(stamps)])
    }

    /// Stamps the newest draw: the ticket and the stamps are the ones that were seen.
    pub fn date_draw(permits: u64, seen: &LockItem, stamps: Stamps) -> Self {
        LockWrite::new("date", permits)
            .when([Clause::LastIs(seen.last), Clause::DrawnAre(seen.drawn)])
            .makes(drawn(stamps))
    }

    /// Deletes an idle lock item that no client has touched since `seen`.
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

/// The entry has not been renewed or stamped since it was seen.
fn is_as_seen(entry: &Entry) -> [EntryClause; 2] {
    [
        EntryClause::BeatIs(entry.beat),
        EntryClause::StampsAre(entry.stamps),
    ]
}

/// The entry lasts for the lease from these stamps on. It says since when it has stood there, if it does not yet.
fn lasts(lease: Duration, stamps: Stamps) -> impl Iterator<Item = EntryEffect> {
    [EntryEffect::Lease(lease), EntryEffect::Stamps(stamps)]
        .into_iter()
        .chain(stamps.server.map(EntryEffect::Since))
}

fn drawn(stamps: Stamps) -> [Effect; 2] {
    [
        Effect::DrawnAt(stamps.server),
        Effect::DrawnOnHost(stamps.host),
    ]
}

/// The entry is the one that was seen.
fn is(entry: &Entry) -> EntryClause {
    EntryClause::Is(entry.nonce, entry.ticket)
}

/// The attempt holds the lock and takes `share` permits, and at least `turns_left` tickets have a turn left at its place.
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
