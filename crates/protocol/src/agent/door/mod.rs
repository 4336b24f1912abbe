//! A call without a hold: it asks for the lock, clears what has ended out of its way, and waits in the queue, if it waits.

mod ending;
mod queued;
mod told;
mod way;
mod what;

use std::sync::Arc;
use std::time::Duration;

use self::ending::Ending;
use self::way::Way;
use super::again::{Policy, Sending};
use super::context::{Attempt, Context, Stamped};
use super::fate::Fate;
use super::waiter::Waiter;
use super::waiting::Stand;
use super::{Claim, Cursor, Failed, Lock, Note, Precision, Refusal, What};
use crate::doorway::{Seen, Sight};
use crate::entry::Nonce;
use crate::item::{Footing, ItemPosition, LockItem};
use crate::moment::Moment;
use crate::outage::Access;
use crate::place::{self, Act, Found, Place as Course};
use crate::snapshot::Snapshot;
use crate::stamps::Reading;
use crate::step::ClearingStep;
use crate::ticket::{Sequence, Ticket};
use crate::write::Drawing;

/// A refusal by a condition counts as one try, and so does a live entry in the way. After this many a place that waits draws a ticket, and a
/// place that does not wait gives in.
const TRIES_AT_THE_DOOR: u8 = 6;
/// While another caller is on its way to a free lock, a place pauses for 20 ms, then for 40 ms, and then for 80 ms each time.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// Tries of a draw. Each that is applied without an answer leaves a gap.
const TRIES_TO_DRAW: u32 = 4;

/// The nonce of a call that has asked for nothing.
const NOTHING_ASKED: Nonce = Nonce::new(0);

pub(super) struct Door {
    claim: Arc<Claim>,
    began: Moment,
    course: Course,
    attempt: Attempt,
    /// The lock item as the last answer showed it, and what that answer told of the time.
    seen: Option<Arc<LockItem>>,
    reading: Reading,
    /// What it clears, while it has no ticket.
    way: Option<Way>,
    /// How many permits the entry in the first slot took, as the way showed it that was cleared last.
    first: Option<u64>,
    /// Its place in the queue.
    queue: Option<Box<Waiter>>,
    asks: Vec<Ask>,
    has_asked: bool,
    /// Its turn to do something comes then, if no request is under way.
    pauses_until: Option<Moment>,
    pauses: u32,
    /// The first failure of several requests that were sent at once.
    failure: Option<Failed>,
    /// It is to end once its requests are answered.
    ending: Option<Ending>,
    /// Why it ends after one more request, which changes nothing of that.
    giving_in: Option<Refusal>,
}

/// A request of it, until it is answered.
struct Ask {
    sending: Sending,
    asked: Asked,
}

#[derive(Clone)]
enum Asked {
    Enter(Entering),
    EnterOver(Entering),
    /// For permits beside an entry in the first slot that takes at most so many.
    Share(Entering, u64),
    Draw(Drawing, u32),
    Join(Entering),
    Read,
    Query(Option<Cursor>),
    Delete(Vec<Ticket>),
    /// A poll of the queue: the lock item.
    Poll,
    RenewSlot(Renewing, Footing),
    RenewRow(Renewing),
    /// A write of what was judged, made once: what is seen meanwhile does not change it. And what is noted if it is applied.
    Step(Step, Box<(What, Option<Note>)>),
}

/// What a write is for that removes, gives or leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its answer shows what is left.
    Evict,
    /// Of several rows that are made void, one.
    Void,
    Settle(Ticket),
    Redate,
    Fill,
    Admit,
    VoidOwn,
    Depart,
    CleanOwn,
}

/// A request for a place.
#[derive(Clone, Copy)]
struct Entering {
    first: Stamped,
    newest: Stamped,
    /// Until when it would have the item stay.
    keeps: Option<u64>,
    /// Only the first slot of a free lock will do.
    is_for_a_free_lock: bool,
    /// The newest ticket that may have been drawn before.
    most: Ticket,
    /// It may make the item.
    makes: bool,
    /// Its refusal shows nothing.
    is_unread: bool,
}

/// A renewal of a place in the queue.
#[derive(Clone, Copy)]
struct Renewing {
    stamped: Stamped,
    beat: u64,
    lease: Duration,
    /// The lease that was asked for before.
    before: Duration,
    keeps: Option<u64>,
}

impl Door {
    pub(super) fn new(claim: Arc<Claim>, lock: &Lock, began: Moment) -> Self {
        Door {
            began,
            course: course(&claim, lock),
            claim,
            attempt: Attempt::new(NOTHING_ASKED, 1),
            seen: None,
            reading: Reading::UNTOLD,
            way: None,
            first: None,
            queue: None,
            asks: Vec::new(),
            has_asked: false,
            pauses_until: None,
            pauses: 0,
            failure: None,
            ending: None,
            giving_in: None,
        }
    }

    /// Asks first for what is known of the lock: its client may have released it a moment ago. Callers for whom those before them at their
    /// own place are too many are refused.
    pub(super) fn sets_out(&mut self, hint: Option<Arc<LockItem>>, cx: &mut Context<'_>) -> Fate {
        if self.claim.waits() {
            let unwilling = cx.callers.unwilling(0);
            cx.refuse(unwilling);
        }
        self.seen = hint.filter(|_| self.claim.waits());
        let known = match &self.seen {
            Some(item) => self.sight_of(item, cx.terms.filled_slots, cx),
            None => Seen::Unknown,
        };
        let act = self.course.sets_out(known);
        self.acts(act, cx)
    }

    /// When something is due.
    pub(super) fn due(&self, cx: &Context<'_>) -> Option<Moment> {
        let tries = self.asks.iter().filter_map(|ask| ask.sending.due());
        let kept = &cx.callers.kept;
        let gives_up = kept
            .gives_up(cx.terms.outage)
            .filter(|_| self.claim.waits());
        let ending = self.ending.as_ref().filter(|_| !cx.callers.is_empty());
        let ending = ending.map(|ending| ending.until);
        let at_once = (!self.claim.waits()).then(|| cx.terms.no_wait_ends(self.began));
        let until = cx
            .callers
            .next_until()
            .into_iter()
            .chain(at_once)
            .chain(gives_up);
        let until = until
            .chain(kept.due())
            .chain(kept.still_due())
            .min()
            .filter(|_| self.ending.is_none());
        let own = self.pauses_until.or_else(|| self.overlap_due(cx));
        let news = self.news_due(cx);
        tries
            .chain(until)
            .chain(ending)
            .chain(own)
            .chain(news)
            .min()
    }

    /// A successor looks for the end of the hold before its own.
    pub(super) fn precision(&self) -> Precision {
        let position = self.queue.as_ref().and_then(|waiter| waiter.position());
        match position {
            Some(ItemPosition::Successor(..)) => Precision::Close,
            Some(ItemPosition::Has(..)) | None => Precision::Coarse,
        }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) -> Fate {
        match &self.ending {
            None if self.is_over(cx) => return self.runs_out(cx),
            Some(ending) if ending.until <= cx.now() => self.refuses(cx),
            Some(_) | None => {}
        }
        cx.reviews();
        self.parts(cx);
        self.still_waits(cx);
        let due = |ask: &Ask| ask.sending.due().is_some_and(|due| due <= cx.clocks.now);
        if let Some(at) = self.asks.iter().position(due) {
            let ask = self.asks.remove(at);
            return self.tries_again(ask, cx);
        }
        if self.news_due(cx).is_some_and(|due| due <= cx.now()) {
            return self.heeds_news(cx);
        }
        if self.pauses_until.is_some_and(|until| until <= cx.now()) {
            self.pauses_until = None;
            return match self.queue {
                Some(_) => self.polls_when_due(cx),
                None => self.asks(Asked::Read, cx),
            };
        }
        if self.overlap_due(cx).is_some_and(|due| due <= cx.now()) {
            return self.asks(Asked::Poll, cx);
        }
        Fate::Stays
    }

    fn tries_again(&mut self, mut ask: Ask, cx: &mut Context<'_>) -> Fate {
        match self.what(&mut ask.asked, cx) {
            Some(what) => {
                let request = cx.sends_for_callers(what);
                ask.sending.sent(request, cx.now());
                self.asks.push(ask);
                Fate::Stays
            }
            None => self.asks_no_more(cx),
        }
    }

    /// The item as it was seen last.
    fn shown(&self) -> Option<&Arc<LockItem>> {
        let shown = self.snapshot().map(|snapshot| &snapshot.item);
        self.seen.as_ref().or(shown)
    }

    /// How its first caller stands.
    pub(super) fn stands(&self) -> Stand {
        match &self.queue {
            Some(waiter) => waiter.stands(),
            None => Stand {
                item: self.shown().cloned(),
                ..Stand::default()
            },
        }
    }

    fn snapshot(&self) -> Option<&Snapshot<Cursor>> {
        match &self.queue {
            Some(waiter) => Some(&waiter.snapshot),
            None => self.way.as_ref().map(|way| &way.snapshot),
        }
    }

    /// When the last call stops.
    fn until(&self, cx: &Context<'_>) -> Moment {
        if !self.claim.waits() {
            return cx.terms.no_wait_ends(self.began);
        }
        cx.callers.give_up(cx.terms)
    }

    fn still_waits(&self, cx: &mut Context<'_>) {
        if let Some(waited) = cx.callers.kept.still_waits(cx.clocks.now) {
            let Stand {
                position,
                place,
                item,
                ..
            } = self.stands();
            cx.note(Note::StillWaits {
                waited,
                position,
                ticket: place.map(|place| place.ticket),
                item,
            });
        }
    }

    fn is_over(&self, cx: &Context<'_>) -> bool {
        self.until(cx) <= cx.now()
    }

    /// Whether it has no place in the queue yet.
    pub(super) fn is_on_its_way(&self) -> bool {
        self.queue.is_none()
    }

    fn sight_of(&self, item: &LockItem, slots: usize, cx: &Context<'_>) -> Seen {
        Seen::Item(Sight {
            is_too_long: self.is_too_long(item, cx),
            ..Sight::of(item, self.claim.takes(cx.lock), slots)
        })
    }

    /// Whether some caller will not wait at the end of this queue.
    fn is_too_long(&self, item: &LockItem, cx: &Context<'_>) -> bool {
        let most = cx.callers.most_before().filter(|_| self.claim.waits());
        most.is_some_and(|most| most < item.turns())
    }

    /// The newest ticket that may have been drawn before their own. `None` if the queue is too long, or was not seen.
    fn most_drawn(&self, cx: &Context<'_>) -> Option<Ticket> {
        let any = Ticket::new(u64::MAX);
        let Some(most) = cx.callers.most_before() else {
            return Some(any);
        };
        let item = self.seen.as_deref()?;
        let more = most.checked_sub(item.turns())?;
        Some(item.last.after(more).unwrap_or(any))
    }
}

/// What it does next.
impl Door {
    /// Does what its course says, up to the next request or its end. Each round of the loop is a step of the machine.
    fn acts(&mut self, mut act: Act, cx: &mut Context<'_>) -> Fate {
        loop {
            act = match act {
                Act::Enter => return self.enters(cx),
                Act::EnterOver => return self.enters_over(cx),
                Act::Share => return self.shares(cx),
                Act::Draw => return self.draws(cx),
                Act::Join => {
                    let entering = Entering::new(None, cx);
                    return self.asks(Asked::Join(entering), cx);
                }
                Act::Pause => {
                    let span = ON_ITS_WAY * 2_u32.pow(self.pauses.min(2));
                    self.pauses += 1;
                    self.pauses_until = Some(cx.now() + span);
                    return Fate::Stays;
                }
                Act::Read => return self.asks(Asked::Read, cx),
                Act::Clear => match self.clears(cx) {
                    Some(ClearingStep::Taken) if !self.goes_on_behind(cx) => {
                        return self.meets_live_entry(cx);
                    }
                    refusal => self.judged(refusal.unwrap_or(ClearingStep::Free), cx),
                },
                Act::Decide => self.decides(cx).unwrap_or(Act::Again),
                Act::Wait(position) => return self.waits(position, cx),
                Act::ReadOn => return self.reads_on(cx),
                Act::Remove(removal) => return self.removes(removal, cx),
                Act::Admit(successors) => return self.steps(self.admits(successors, cx), cx),
                Act::Fill(filling) => return self.steps(self.fills(&filling, cx), cx),
                Act::VoidOwn => return self.steps(self.voids_own(cx), cx),
                Act::Depart => return self.steps(self.departs(cx), cx),
                Act::Hold => return self.takes_its_turn(cx),
                Act::Again => return self.begins_again(cx),
                _ => return self.gives_in(cx),
            };
        }
    }

    /// Asks for a slot, under a new nonce. A call that bounds the queue, and has not seen it, asks for a free lock only.
    fn enters(&mut self, cx: &mut Context<'_>) -> Fate {
        let (most, seen) = (self.most_drawn(cx), self.seen.take());
        if most.is_none() && seen.is_some() {
            self.seen = seen;
            let act = self.course.asked(Found::Nowhere, self.sight(cx));
            return self.acts(act, cx);
        }
        self.asks_anew(cx);
        self.way = None;
        let stays = seen.as_ref().map(|item| item.expires_at);
        let keeps = stays.and_then(|stays| cx.clocks.keeps(stays, cx.terms.retention));
        let entering = Entering {
            is_for_a_free_lock: !self.claim.waits() || most.is_none(),
            most: most.unwrap_or(Ticket::new(u64::MAX)),
            makes: seen.is_none(),
            ..Entering::new(keeps, cx)
        };
        self.asks(Asked::Enter(entering), cx)
    }

    fn enters_over(&mut self, cx: &mut Context<'_>) -> Fate {
        self.asks_anew(cx);
        let Some(way) = &self.way else {
            return self.gives_in(cx);
        };
        let keeps = cx
            .clocks
            .keeps(way.snapshot.item.expires_at, cx.terms.retention);
        let entering = Entering::new(keeps, cx);
        self.asks(Asked::EnterOver(entering), cx)
    }

    /// Asks for permits beside the entry in the first slot, if that takes no more than was seen. Where none was seen, both fit beside each
    /// other.
    fn shares(&mut self, cx: &mut Context<'_>) -> Fate {
        let own = self.claim.takes(cx.lock);
        let others = cx.lock.permits.saturating_sub(own).max(1);
        let seen = self.seen.take();
        let first = seen.as_deref().map_or(self.first, first_of);
        self.asks_anew(cx);
        self.way = None;
        let entering = Entering::new(None, cx);
        let first = first.unwrap_or(own.min(others));
        self.asks(Asked::Share(entering, first), cx)
    }

    fn asks_anew(&mut self, cx: &mut Context<'_>) {
        self.doubts(cx);
        self.attempt = cx.attempts();
    }

    /// A late copy of its requests may still bring a place, which is given back when it is seen, unless it is a lease.
    fn doubts(&self, cx: &mut Context<'_>) {
        if self.claim.enters_as().is_none() {
            cx.doubts(&self.attempt, Ticket::default());
        }
    }

    /// This place came to nothing: a call that waits asks for another one. What is still under way was about this one.
    fn begins_again(&mut self, cx: &mut Context<'_>) -> Fate {
        self.asks.clear();
        self.asks_anew(cx);
        if let Some(waiter) = self.queue.take() {
            self.is_passed(&waiter, cx);
            cx.doubts(&waiter.attempt, Ticket::default());
            if waiter.ticket <= waiter.snapshot.item.watermark {
                // A late join may have put the row there after other clients deleted it.
                cx.cleans(vec![waiter.ticket]);
            }
        }
        if !self.claim.waits() {
            return self.gives_in(cx);
        }
        (self.seen, self.way, self.pauses) = (None, None, 0);
        self.course = course(&self.claim, cx.lock);
        let act = self.course.sets_out(Seen::Unknown);
        self.acts(act, cx)
    }

    /// Sends the first try of a request, unless the time of the call is over.
    fn asks(&mut self, mut asked: Asked, cx: &mut Context<'_>) -> Fate {
        // A call that comes when its time is over has one try.
        if self.is_over(cx) && self.has_asked {
            return self.runs_out(cx);
        }
        let Some(what) = self.what(&mut asked, cx) else {
            return self.asks_no_more(cx);
        };
        let request = cx.sends_for_callers(what);
        self.has_asked = true;
        let sending = Sending::new(self.policy(&asked, cx), request, cx.now());
        self.asks.push(Ask { sending, asked });
        Fate::Stays
    }

    /// Sends the first try of a step. What is not there any more makes the queue be read again.
    fn steps(&mut self, step: Option<(Step, What)>, cx: &mut Context<'_>) -> Fate {
        match step {
            Some(step) => self.steps_and_notes(step, None, cx),
            None => self.asks_no_more(cx),
        }
    }

    /// The same of a step that is noted if it is applied.
    fn steps_and_notes(
        &mut self,
        (step, what): (Step, What),
        note: Option<Note>,
        cx: &mut Context<'_>,
    ) -> Fate {
        self.asks(Asked::Step(step, Box::new((what, note))), cx)
    }

    /// All but its renewals gives way to these in the queue.
    fn policy(&self, asked: &Asked, cx: &Context<'_>) -> Policy {
        let policy = match self.claim.waits() {
            // That nothing is answered for too long is noticed beside.
            true => Policy::while_waiting(cx.callers.until(), cx.terms),
            false => Policy::at_the_door(self.began, cx.terms),
        };
        match (asked, &self.queue) {
            (Asked::Step(Step::Redate, _), _) => policy.within(1),
            (Asked::Enter(_) | Asked::EnterOver(_) | Asked::Share(..), _) => {
                self.gives_way_at_the_door(policy, cx)
            }
            (Asked::Draw(..), _) => {
                let policy = policy.within_silent(TRIES_TO_DRAW);
                self.gives_way_at_the_door(policy, cx)
            }
            // Others close the gap after the join time-out.
            (Asked::Join(_), _) => policy.giving_way(
                cx.terms.heartbeat.min(cx.terms.join_timeout / 4),
                cx.now() + cx.terms.join_timeout / 2,
            ),
            // The holder's renewals come first, until this place has half of the time left in which it may be renewed.
            (Asked::RenewSlot(..) | Asked::RenewRow(_), _) => Policy {
                longest: Policy::of_renewals(policy.until, cx.terms).longest,
                ..policy.giving_way(
                    cx.terms.heartbeat / 2,
                    cx.now() + cx.terms.lease.saturating_sub(cx.terms.heartbeat) / 2,
                )
            },
            (Asked::Step(Step::VoidOwn | Step::Depart | Step::CleanOwn, _), _) | (_, None) => {
                policy
            }
            (_, Some(waiter)) => Policy {
                until: policy.until.min(waiter.renewal_due(cx)),
                ..policy
            },
        }
    }

    fn gives_way_at_the_door(&self, policy: Policy, cx: &Context<'_>) -> Policy {
        match self.claim.waits() {
            true => policy.giving_way(cx.terms.rest(), policy.until),
            false => policy,
        }
    }

    /// What was to be removed is not there any more: the queue is read again.
    fn asks_no_more(&mut self, cx: &mut Context<'_>) -> Fate {
        match self.asks.is_empty() {
            true => self.asks(Asked::Query(None), cx),
            false => Fate::Stays,
        }
    }
}

impl Asked {
    fn access(&self) -> Access {
        match self {
            Asked::Read | Asked::Poll | Asked::Query(_) => Access::Read,
            _ => Access::Write,
        }
    }

    /// Whether the call may end with its answer, because that leaves nothing that is not known.
    fn may_end(&self) -> bool {
        match self {
            Asked::Enter(_) | Asked::EnterOver(_) | Asked::Share(..) => true,
            Asked::Read | Asked::Poll | Asked::RenewSlot(..) => true,
            Asked::Draw(..) | Asked::Join(_) | Asked::RenewRow(_) => false,
            Asked::Query(_) | Asked::Delete(_) | Asked::Step(..) => false,
        }
    }
}

impl Entering {
    fn new(keeps: Option<u64>, cx: &Context<'_>) -> Self {
        let now = Stamped::now(cx);
        Entering {
            first: now,
            newest: now,
            keeps,
            is_for_a_free_lock: true,
            most: Ticket::new(u64::MAX),
            makes: true,
            is_unread: false,
        }
    }
}

fn course(claim: &Claim, lock: &Lock) -> Course {
    Course::new(place::Claim {
        waits: claim.waits(),
        shares: claim.shares(lock),
        max_tries: TRIES_AT_THE_DOOR,
    })
}

/// How many permits the entry in the first slot takes.
fn first_of(item: &LockItem) -> Option<u64> {
    Some(item.slots.first()?.permits)
}
