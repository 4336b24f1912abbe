//! What a turn of a place goes by, and what its attempts remember.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::again::Sending;
use super::callers::{Callers, Refused};
use super::chore::Chore;
use super::post::Post;
use super::shared::{Key, Shared};
use super::waiting::{Stand, Stood};
use super::{
    Claim, Clocks, Failed, Lock, Loss, Note, Of, Output, Random, Refusal, Request, RequestId,
    Terms, What,
};
use crate::entry::{Entry, Nonce, Unknown};
use crate::item::LockItem;
use crate::lease::RenewalHistory;
use crate::moment::Moment;
use crate::outage::Access;
use crate::pace::{PollSchedule, ThrottleBackoff};
use crate::stamps::{self, Reading};
use crate::ticket::Ticket;

/// What a turn of a place goes by, and where it leaves what it asks and tells.
pub(super) struct Context<'a> {
    pub(super) lock: &'a Lock,
    pub(super) key: Key,
    pub(super) terms: &'a Terms,
    pub(super) clocks: Clocks,
    pub(super) random: &'a mut dyn Random,
    pub(super) shared: &'a mut Shared,
    pub(super) memory: &'a mut Memory,
    /// Whether another place of this client has the entry of this nonce.
    pub(super) is_own: &'a dyn Fn(Nonce) -> bool,
    /// What the place whose turn it is has been told, if others can notify it.
    pub(super) post: &'a mut Option<Box<Post>>,
    /// The callers of the place whose turn it is.
    pub(super) callers: &'a mut Callers,
}

impl Context<'_> {
    pub(super) fn now(&self) -> Moment {
        self.clocks.now
    }

    /// A factor between 0.8 and 1.2, so that clients do not keep in step. Between 0.75 and 1.25, queues that begin slowly stall for longer.
    pub(super) fn jitter(&mut self) -> f64 {
        0.8 + self.random.unit() * 0.4
    }

    pub(super) fn send(&mut self, of: Of, what: What) -> RequestId {
        self.sends((of, what), 1)
    }

    /// Sends a request for the callers, with their patience.
    pub(super) fn sends_for_callers(&mut self, what: What) -> RequestId {
        self.sends((self.callers.of(), what), self.callers.kept.patience)
    }

    /// Sends a request that has so many times the time-out.
    fn sends(&mut self, (of, what): (Of, What), patience: u32) -> RequestId {
        let request = Request {
            lock: self.lock.clone(),
            of,
            what,
            patience,
        };
        self.shared.send((self.lock, self.key), request)
    }

    pub(super) fn tell(&mut self, output: Output) {
        self.shared.outputs.push_back(output);
    }

    /// The lease of the place was over when it was granted the lock.
    pub(super) fn is_granted_late(&mut self, ticket: Ticket) {
        self.callers.kept.place_lost = Some(Loss::Expired);
        self.note(Note::GrantedLate(ticket));
    }

    /// Has settled rows deleted, which no decision waits for.
    pub(super) fn cleans(&mut self, rows: Vec<Ticket>) {
        if !rows.is_empty() {
            self.shared.to_do.push(Chore::Delete(rows));
        }
    }

    /// Has those let in who need not wait any more, as the item shows: they would come in with their next poll.
    pub(super) fn lets_in(&mut self, item: &LockItem) {
        self.shared.to_do.extend(Chore::admitting(item));
    }

    /// The callers that are left here ask again, at the end of the queue.
    pub(super) fn asks_again(&mut self) {
        let callers = std::mem::take(self.callers);
        if !callers.is_empty() {
            self.shared.to_ask.push(callers);
        }
    }

    /// Refuses callers of the place.
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.shared.refuses_all(refused);
    }

    /// Refuses those whose time is over, while others still wait.
    pub(super) fn refuse_late(&mut self, why: impl FnOnce(&Self) -> Refusal) {
        let now = self.clocks.now;
        if self.callers.are_late(now) {
            let why = why(self);
            let late = self.callers.late(now, &why);
            self.refuse(late);
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        self.shared.notes(self.lock, note);
    }

    /// Tells those who are told how they stand, if the first of them stands so.
    pub(super) fn tells_waiting(&mut self, first: impl FnOnce() -> Stand) {
        for (call, waiting) in self.callers.news(first) {
            self.tell(Output::Waits { call, waiting });
        }
    }

    /// Tells what has kept the callers for long enough.
    pub(super) fn reviews(&mut self) {
        let note = self.callers.kept.reviews(self.clocks.now);
        self.notes_for_callers(note);
    }

    /// Takes in what became of a request for the callers.
    pub(super) fn hears(&mut self, of: (Access, Moment), failure: Option<&Failed>) {
        let note = self.callers.kept.hears(of, failure, self.clocks.now);
        self.notes_for_callers(note);
    }

    /// No caller is kept where all of them have been answered, or will be soon.
    fn notes_for_callers(&mut self, note: Option<Note>) {
        let are_kept = self.callers.kept.are_waiting() && !self.callers.is_empty();
        let note = note.filter(|_| are_kept);
        note.into_iter().for_each(|note| self.note(note));
    }

    /// Notes that an attempt has ended, whose requests may still bring a place with a newer ticket.
    pub(super) fn doubts(&mut self, attempt: &Attempt, newest: Ticket) {
        if attempt.is_in_doubt {
            self.memory.doubts.note(attempt.nonce, newest);
        }
    }

    /// Takes in that a try failed. Returns the failure if no other try follows.
    pub(super) fn failed(&mut self, sending: &mut Sending, failure: Failed) -> Option<Failed> {
        self.failed_for_now(sending, (failure, false))
    }

    /// The same of a failure that its sender may wait out.
    pub(super) fn failed_for_now(
        &mut self,
        sending: &mut Sending,
        (failure, waits_out): (Failed, bool),
    ) -> Option<Failed> {
        let (now, chance) = (self.clocks.now, self.random.unit());
        let goes_on = sending.failed((&failure, waits_out), (now, chance), &mut self.memory.brake);
        if goes_on {
            self.note(Note::Retried(failure.verb));
        }
        (!goes_on).then_some(failure)
    }
}

/// What an agent remembers beside its places.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) doubts: Doubts,
    /// How much it slows down at its lock, because DynamoDB was too busy.
    pub(super) brake: ThrottleBackoff,
    /// The pace of the queue, as its last place there learnt it.
    pace: Option<PollSchedule>,
    /// The item as its newest release left it, and when.
    hint: Option<(Arc<LockItem>, Moment)>,
}

/// How long a hint serves. It saves an enter request that must fail.
const HINT_LASTS: Duration = Duration::from_secs(1);

impl Memory {
    /// The item as a release has just left it. It serves once.
    pub(super) fn take_hint(&mut self, now: Moment) -> Option<Arc<LockItem>> {
        let hint = self.hint.take();
        hint.filter(|(_, at)| now.since(*at) < HINT_LASTS)
            .map(|(item, _)| item)
    }

    /// Takes in the item after a release of a hold that lasted so long. Beside other holders, the next one may have held the lock before.
    pub(super) fn released(
        &mut self,
        (item, was_alone): (&Arc<LockItem>, bool),
        (held, now): (Duration, Moment),
    ) {
        let next = item.first_holder().filter(|_| was_alone);
        if let (Some(pace), Some(next)) = (&mut self.pace, next) {
            pace.handed_off(next.first(), held, now);
        }
        self.hint = (!item.is_idle()).then(|| (Arc::clone(item), now));
    }

    /// The pace for the next wait.
    pub(super) fn pace(&self, terms: &Terms) -> PollSchedule {
        let (shortest, longest) = terms.polls;
        let new = || PollSchedule::new(shortest, longest);
        self.pace.clone().unwrap_or_else(new)
    }

    /// How long a turn takes, as far as that is known.
    pub(super) fn turn(&self) -> Option<Duration> {
        self.pace.as_ref()?.mean()
    }

    /// A wait is over.
    pub(super) fn learns(&mut self, pace: PollSchedule) {
        self.pace = Some(pace.at_rest());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.doubts.is_empty() && self.pace.is_none() && self.hint.is_none()
    }
}

/// Nonces of attempts that have ended, of which a request may still be under way: the newest ones.
#[derive(Default)]
pub(super) struct Doubts(VecDeque<(Nonce, Ticket)>);

/// The most that an agent remembers.
const DOUBTS: usize = 64;

impl Doubts {
    fn note(&mut self, nonce: Nonce, newest: Ticket) {
        self.0.retain(|(known, _)| *known != nonce);
        self.0.push_back((nonce, newest));
        if self.0.len() > DOUBTS {
            self.0.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out those of which the item shows a place.
    pub(super) fn shown(&mut self, item: &LockItem) -> Vec<(Nonce, Ticket)> {
        let mut shown = Vec::new();
        self.0.retain(|(nonce, newest)| {
            let place = item.position_of(*nonce).map(|it| it.entry().ticket);
            let late = place.filter(|ticket| ticket > newest);
            shown.extend(late.map(|ticket| (*nonce, ticket)));
            late.is_none()
        });
        shown
    }
}

/// An attempt to get a place, over all tries of its requests: they are of one nonce.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) nonce: Nonce,
    /// A try may have been applied whose answer is not known.
    pub(super) is_in_doubt: bool,
    /// How many tickets it asks for.
    pub(super) tickets: u64,
    /// The newest beat that was sent.
    beat: u64,
}

impl Attempt {
    pub(super) fn new(nonce: Nonce, tickets: u64) -> Self {
        Attempt {
            nonce,
            tickets,
            is_in_doubt: false,
            beat: 0,
        }
    }

    /// A place of it with this ticket.
    pub(super) fn stood(&self, ticket: Ticket) -> Stood {
        Stood {
            nonce: self.nonce,
            ticket,
            tickets: self.tickets,
        }
    }

    pub(super) fn next_beat(&mut self) -> u64 {
        self.beat += 1;
        self.beat
    }

    /// The entry of a place with this ticket, stamped now.
    pub(super) fn entry(&self, claim: &Claim, ticket: Ticket, cx: &Context<'_>) -> Entry {
        let named = claim.enters_as();
        let stamps = named.map_or_else(|| cx.clocks.stamps(), |named| named.begins(&cx.clocks));
        let lease = || cx.terms.in_table(claim.bounds.lease(cx.terms));
        Entry {
            nonce: self.nonce,
            owner: cx.terms.owner.to_string(),
            ticket,
            tickets: self.tickets,
            permits: claim.takes(cx.lock),
            attributes: claim.attributes.clone(),
            id: named.map(|named| named.id.to_string()),
            beat: 0,
            session: None,
            lease: named.map_or_else(lease, |named| named.span),
            stamps,
            since: stamps.server,
            given_back: false,
            address: cx.terms.address.clone(),
            unknown: Unknown::default(),
        }
    }
}

/// When a write was sent that stamps an entry: the belief in the entry counts from then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamped {
    pub(super) sent: Moment,
    /// By how much its server's stamp may be off.
    slack: Duration,
}

impl Stamped {
    pub(super) fn now(cx: &Context<'_>) -> Self {
        Stamped {
            sent: cx.now(),
            slack: cx.clocks.told.slack(cx.now()),
        }
    }

    /// By how much the stamps of the entry are early that the answer shows.
    pub(super) fn early(&self, entry: &Entry, reading: Reading) -> (Moment, Duration) {
        (self.sent, stamps::early(entry.stamps, self.slack, reading))
    }

    /// The history of an entry that was taken by a request first sent then, and by its newest try that was sent later. What this client's
    /// clock has counted in between, its stamps are not early by.
    pub(super) fn history(
        first: Stamped,
        newest: Stamped,
        (entry, reading): (&Entry, Reading),
        terms: &Terms,
    ) -> RenewalHistory {
        let counted = newest.sent.since(first.sent);
        let early = newest.early(entry, reading).1.saturating_sub(counted);
        RenewalHistory::taken((first.sent, early), terms.lease).with_margin(terms.margin)
    }
}
