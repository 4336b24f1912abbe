//! A hold: its renewals, its deadline, its bounds, what its caller orders, and its way out.

mod due;
mod end;
mod freeing;
mod leasing;
mod order;
mod passing;
mod renewal;

pub(super) use self::end::evicted;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use self::end::Release;
use self::freeing::Freeing;
use self::leasing::Leasing;
use self::order::Put;
use self::renewal::Renewal;
use super::again::Sending;
use super::context::{Attempt, Context, Memory};
use super::fate::{Exit, Fate, Taken};
use super::terms::{Bounds, Wait};
use super::waiting::Stand;
use super::{HoldId, HoldView, Loss, Of, Output, Refusal, ReplyId};
use crate::entry::{Entry, Nonce};
use crate::item::{ItemHold, ItemPosition, LockItem};
use crate::lease::{self, RenewalHistory};
use crate::moment::Moment;
use crate::stagger::Stagger;
use crate::ticket::Ticket;

pub(super) struct Hold {
    id: HoldId,
    attempt: Attempt,
    /// The fencing token: of the tickets of its place, the one whose turn it is.
    ticket: Ticket,
    held: ItemHold,
    item: Arc<LockItem>,
    beats: RenewalHistory,
    /// The beat and the lease that the table shows.
    beat: u64,
    lease: Duration,
    /// The lease in the table on which the hold relies.
    relies_on: Duration,
    is_dated: bool,
    stagger: Stagger,
    bounds: Bounds,
    /// Its call asks again if this comes to nothing.
    waits: bool,
    bound_from: Option<Moment>,
    trouble: Option<Arc<str>>,
    renewal: Option<Renewal>,
    /// After a refusal that no time mends.
    not_before: Moment,
    freeing: Freeing,
    offer: Offer,
    writes: u64,
    puts: VecDeque<Put>,
    /// A write of data got no answer, and may be applied yet.
    acts_late: bool,
    /// When its caller was told of it.
    granted: Moment,
    life: Life,
    /// Why it was lost, if it was.
    loss: Option<Loss>,
}

/// Whether a caller has taken the hold.
enum Offer {
    Taken,
    /// It waits for its caller until then, and then once more.
    Open(Moment, u8),
    /// Its keeper was told to take it back.
    TakenBack,
}

enum Life {
    /// It is renewed before its caller is told of it.
    Granting(Moment),
    Held,
    /// Its caller may still use its guard.
    Lost,
    /// It is renewed once more, for the rest of its shortest time.
    GivingBack(Option<ReplyId>),
    /// Its turn is over, and the next caller of its place has it as soon as nothing of it can act any more.
    PassingOn(Option<ReplyId>, Option<Sending>),
    /// It stays in the table until then, and is released by that deadline.
    Kept(Moment, Moment),
    Releasing(Release),
    /// It becomes a lease.
    LeasingOut(Box<Leasing>),
}

impl Hold {
    /// The hold that the item shows of an attempt. It is renewed first if its lease is half over, or is longer
    /// than the hold asks for, or if DynamoDB may delete the item before long.
    pub(super) fn taken(taken: Taken, cx: &mut Context<'_>) -> Result<Box<Hold>, Fate> {
        let item = taken.item;
        let Some(ItemPosition::Has(at, entry)) = item.position_of(taken.attempt.nonce) else {
            let why = evicted(Some(Arc::clone(&item)), Ticket::default());
            cx.callers.kept.place_lost = Some(why);
            return Err(Fate::Again(None));
        };
        let lease = taken.claim.bounds.lease(cx.terms);
        let shows = (entry.beat, entry.lease);
        let believed = taken.beats.believed_until(shows.0, shows.1);
        let counted = taken.beats.counted_until(shows.0, shows.1);
        let (believed, counted) = (believed.unwrap_or_default(), counted.unwrap_or_default());
        if counted <= cx.now() {
            let exit = Exit::of(taken.attempt, entry.ticket, Arc::clone(&item));
            cx.is_granted_late(entry.ticket);
            return Err(match taken.claim.waits() {
                true => Fate::Again(Some(exit)),
                false => Fate::Leaves(Refusal::not_granted(Some(item)), exit),
            });
        }
        let is_short = lease::is_short(lease, believed.since(cx.now()));
        let is_long = entry.lease > cx.terms.in_table(lease);
        let is_kept = cx.clocks.is_kept(item.expires_at, cx.terms.retention);
        let ends = match taken.claim.wait {
            Wait::No => cx.terms.no_wait_ends(taken.began),
            Wait::Until(_) | Wait::Forever => counted,
        };
        let until = counted.min(ends);
        let mut hold = Box::new(Hold {
            id: HoldId(cx.shared.next_id()),
            ticket: entry.first(),
            held: ItemHold::of(&item, at, entry),
            beats: taken.beats,
            beat: entry.beat,
            lease: entry.lease,
            relies_on: entry.lease.min(cx.terms.in_table(cx.terms.lease)),
            is_dated: entry.stamps.server.is_some(),
            stagger: Stagger::of(cx.shared.next_stagger()),
            bounds: taken.claim.bounds,
            waits: taken.claim.waits(),
            bound_from: None,
            trouble: None,
            renewal: None,
            not_before: Moment::default(),
            freeing: Freeing::nothing(entry.permits),
            offer: Offer::Taken,
            writes: 0,
            puts: VecDeque::new(),
            acts_late: false,
            life: Life::Granting(until),
            granted: cx.now(),
            loss: None,
            attempt: taken.attempt,
            item: Arc::clone(&item),
        });
        match is_short || is_long || !is_kept {
            true if ends <= cx.now() => {
                return Err(hold.is_unwanted(Refusal::Late { was_answered: true }));
            }
            true => hold.renews(cx),
            false => return hold.is_granted(cx).map(|()| hold),
        }
        Ok(hold)
    }

    /// It is the first caller's whose time is not over, unless that of all is.
    fn is_granted(&mut self, cx: &mut Context<'_>) -> Result<(), Fate> {
        let now = cx.now();
        if cx.callers.until() > now {
            self.parts(cx);
        }
        let Some(call) = cx.callers.next() else {
            return Err(self.is_unwanted(Refusal::not_granted(None)));
        };
        (self.life, self.granted) = (Life::Held, now);
        cx.shared.is_answered(call);
        self.offer = Offer::Open(now + cx.terms.request_timeout, 1);
        self.bound_from = (!self.bounds.begin_later).then_some(now);
        cx.shared.is_held(self.id, (cx.lock, cx.key));
        cx.tell(Output::Granted {
            call,
            hold: self.id,
            seen: self.view(cx),
        });
        Ok(())
    }

    /// Refuses the callers behind it whose time is over.
    fn parts(&self, cx: &mut Context<'_>) {
        cx.refuse_late(|_| Refusal::NotGranted {
            item: Some(Arc::clone(&self.item)),
            position: Some(1),
        });
    }

    pub(super) fn stands(&self, memory: &Memory) -> Stand {
        Stand {
            position: Some(u64::from(!self.is_granting())),
            place: Some(self.attempt.stood(self.held.footing.ticket)),
            turn: memory.turn(),
            item: Some(Arc::clone(&self.item)),
        }
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The newest ticket of its place, which names it: its turn may be passed on in the table already.
    pub(super) fn place(&self) -> Ticket {
        self.held.footing.ticket
    }

    /// Whether its caller has given it back, and it still stands in the table.
    pub(super) fn is_ending(&self) -> bool {
        match self.life {
            Life::GivingBack(_)
            | Life::PassingOn(..)
            | Life::Releasing(_)
            | Life::LeasingOut(_) => true,
            Life::Granting(_) | Life::Held | Life::Lost | Life::Kept(..) => false,
        }
    }

    /// What its owner sees, if the owner may believe in it.
    pub(super) fn seen_as_held(&self, cx: &Context<'_>) -> Option<HoldView> {
        let permits = self.held.permits.min(self.freeing.counts_on);
        if permits == 0 || !matches!(self.life, Life::Held) || self.ends() <= cx.now() {
            return None;
        }
        let mut seen = self.view(cx);
        seen.held.permits = permits;
        Some(seen)
    }

    pub(super) fn holds_as(&self, nonce: Nonce) -> bool {
        self.attempt.nonce == nonce
    }

    /// Its entry, if the item shows it, and how it stands there.
    fn own<'a>(&self, item: &'a LockItem) -> Option<(ItemHold, &'a Entry)> {
        let (at, entry) = item.hold_of(self.attempt.nonce, self.held.footing.ticket)?;
        Some((ItemHold::of(item, at, entry), entry))
    }

    /// Takes in an item that shows it. Answers may overtake each other: none brings back data that were written over.
    fn sees(&mut self, item: &Arc<LockItem>) {
        if item.written >= self.item.written {
            self.item = Arc::clone(item);
        }
    }

    /// Whether the item, which is not older than what is known, shows another request to give way.
    pub(super) fn is_asked_by(&self, item: &LockItem) -> bool {
        let own = self.own(item);
        let is_new = own.is_some_and(|(_, entry)| entry.beat >= self.beat);
        is_new && item.written >= self.item.written && item.asked != self.item.asked
    }

    /// Takes in what another place's answer shows of it.
    pub(super) fn hears(&mut self, item: &Arc<LockItem>, cx: &mut Context<'_>) {
        self.sees(item);
        if let Life::Held = self.life {
            self.shows(cx);
        }
    }

    fn of(&self, cx: &Context<'_>) -> Of {
        match self.life {
            Life::Granting(_) => cx.callers.of(),
            _ => Of::Hold(self.id),
        }
    }

    fn view(&self, cx: &Context<'_>) -> HoldView {
        HoldView {
            ticket: self.ticket,
            nonce: self.attempt.nonce,
            tickets: self.attempt.tickets,
            held: self.held,
            lease: self.relies_on.saturating_sub(cx.terms.margin),
            until: self.ends(),
            ends_by: self.expiry_reason(),
            trouble: self.trouble.clone(),
            item: Arc::clone(&self.item),
        }
    }

    fn shows(&self, cx: &mut Context<'_>) {
        cx.tell(Output::View {
            hold: self.id,
            seen: self.view(cx),
        });
    }
}
