//! A hold as its owner knows it: until when it may be trusted, whether it is in danger, and how it ended.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex as AsyncMutex;

use crate::attempt::Attempt;
use crate::config::Config;
use crate::error::{LockLost, LossReason};
use crate::hold_bounds::HoldBounds;
use crate::holder::{self, HeldHere};
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::runtime::clock::Clock;
use crate::runtime::watched::Watched;
use crate::state::{LockData, YieldRequest, system_time};
use crate::store::Answered;
use crate::telemetry::HoldTelemetry;
use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, Footing, ItemHold, LockItem, Notice, Written};
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stagger::Stagger;
use fairlock_protocol::ticket::Ticket;

mod deadline;
mod news;

pub(crate) use deadline::Departure;

/// The status of a hold. It is lost at most once, and a lost hold never comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HoldStatus {
    Held,
    Lost(LossReason),
    /// Given back, or being given back, by its owner.
    Released,
}

/// A hold of a lock.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) name: LockName,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    /// When this process first learned of the hold.
    pub(crate) begun: Moment,
    /// How the log, the spans and the metrics are told of it.
    pub(crate) telemetry: HoldTelemetry,
    /// The newest ticket of the place, at which callers take their turns one after the other.
    newest: Ticket,
    clock: Clock,
    /// The lease in the table on which the hold relies. Less the safety margin, it is the owner's.
    lease: Duration,
    bounds: HoldBounds,
    /// Taken by the call, or the task, that gives permits back.
    giving_back: AsyncMutex<()>,
    state: Watched<HoldState>,
}

#[derive(Debug)]
struct HoldState {
    /// Where the hold stands, what it takes, and whether it is alone, as far as is known.
    held: ItemHold,
    /// The data of the lock, and the write that left it so, as far as is known.
    data: Option<LockData>,
    written: Option<Written>,
    beats: RenewalHistory,
    /// The beat that the table shows.
    beat: u64,
    /// The lease that the table shows.
    lease: Duration,
    /// Other clients can judge the entry by DynamoDB's time and their wall clocks.
    is_dated: bool,
    /// `None` until the hold is kept with the client's others.
    stagger: Option<Stagger>,
    /// What became of the last renewal, if it failed.
    trouble: Option<String>,
    /// How many renewals were answered.
    renewed: u64,
    is_failing: bool,
    /// How many writes of data it has begun.
    writes: u64,
    /// No work began under the hold, because its caller never took it.
    is_unused: bool,
    /// It was given back after its local deadline.
    is_late: bool,
    /// How many of these writes have no answer.
    unanswered: u64,
    is_checked: bool,
    /// How many permits the guard counts on. Fewer than the table shows, if some are yet to be given back. The table keeps all permits while
    /// callers of this client wait for the next turn, for example.
    counted_on: u64,
    /// How many permits the lock has, which an operator may change.
    total: u64,
    /// Since when the lock is held, by DynamoDB's clock, as the table shows it.
    since: Option<ServerTime>,
    /// When the bounds of the hold began.
    bound_from: Option<Moment>,
    /// The newest request to give way.
    asked: Option<Arc<Notice>>,
    status: HoldStatus,
    /// Until it ends, this process holds the lock.
    here: Option<HeldHere>,
}

impl HoldState {
    /// The state of the next hold at the same place.
    fn passed_on(&self, here: HeldHere) -> Self {
        HoldState {
            here: Some(here),
            beats: self.beats.clone(),
            stagger: self.stagger.clone(),
            data: self.data.clone(),
            trouble: self.trouble.clone(),
            asked: self.asked.clone(),
            writes: 0,
            unanswered: 0,
            is_unused: false,
            is_late: false,
            is_checked: false,
            counted_on: self.held.permits,
            status: HoldStatus::Held,
            ..*self
        }
    }

    /// Whether the guard counts on fewer permits than the table shows.
    fn is_spare(&self) -> bool {
        self.counted_on < self.held.permits
    }

    /// How renewals go: how many were answered, and whether the last failed.
    fn pulse(&self) -> (u64, bool) {
        (self.renewed, self.is_failing)
    }

    /// Takes in an answer. If a renewal's answer comes late, its data may be older than a write that was answered since, and is left out.
    fn shows(&mut self, item: &LockItem, at: At, entry: &Entry) {
        self.held = ItemHold::of(item, at, entry);
        self.total = item.there_are();
        self.since = item.held_since();
        self.asked.clone_from(&item.asked);
        if self.written <= item.written {
            (self.data, self.written) = (LockData::of(item), item.written);
        }
    }
}

impl Hold {
    /// The hold with `ticket` that `entry` shows, which is this client's own at its place. The hold lasts no longer than the entry's lease
    /// less its safety margin, and no longer than this client's own lease. The next renewal writes the client's lease, and other
    /// clients judge by it from then on.
    pub(crate) fn new(
        name: LockName,
        attempt: Attempt,
        ticket: Ticket,
        (item, at, entry): (&LockItem, At, &Entry),
        (config, bounds): (&Config, HoldBounds),
        beats: RenewalHistory,
    ) -> Self {
        let here = HeldHere::at((attempt.nonce, entry.ticket));
        let lease = entry.lease.min(attempt.in_table(config.lease));
        let begun = config.clock.now();
        let state = HoldState {
            held: ItemHold::of(item, at, entry),
            data: LockData::of(item),
            written: item.written,
            beats,
            beat: entry.beat,
            lease: entry.lease,
            is_dated: entry.stamps.server.is_some(),
            stagger: None,
            trouble: None,
            renewed: 0,
            is_failing: false,
            writes: 0,
            unanswered: 0,
            is_unused: false,
            is_late: false,
            is_checked: false,
            counted_on: entry.permits,
            total: item.there_are(),
            since: item.held_since(),
            bound_from: (!bounds.begin_with_all).then_some(begun),
            asked: item.asked.clone(),
            status: HoldStatus::Held,
            here: Some(here),
        };
        Hold {
            telemetry: HoldTelemetry::begin(config, &name, ticket),
            name,
            attempt,
            ticket,
            begun,
            newest: entry.ticket,
            clock: config.clock.clone(),
            lease,
            bounds,
            giving_back: AsyncMutex::default(),
            state: Watched::new(state),
        }
    }

    /// The next hold at the same place, which lasts as long as this hold would have.
    pub(crate) fn passed_on(&self, ticket: Ticket) -> Hold {
        let here = HeldHere::at(self.place());
        let state = self.state.read(|now| now.passed_on(here));
        Hold {
            telemetry: self.telemetry.next(ticket),
            name: self.name.clone(),
            attempt: self.attempt.again(),
            ticket,
            begun: self.clock.now(),
            newest: self.newest,
            clock: self.clock.clone(),
            lease: self.lease,
            bounds: self.bounds,
            giving_back: AsyncMutex::default(),
            state: Watched::new(state),
        }
    }

    /// How many turns are left at this place, this hold's included.
    pub(crate) fn turns_left(&self) -> u64 {
        self.newest.get().saturating_sub(self.ticket.get()) + 1
    }

    /// Whether a request of this hold may still be under way that the table would accept as long as it shows this hold's turn.
    pub(crate) fn may_act_late(&self) -> bool {
        self.state.read(|now| now.is_checked || now.unanswered > 0)
    }

    /// Whether the hold may be trusted now. Local: no request is sent.
    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How much of the lease may still be trusted.
    pub(crate) fn remaining(&self) -> Duration {
        // Read first: a renewal that is taken in meanwhile was in time for it.
        let at = self.clock.now();
        self.state.read(|now| match now.status {
            HoldStatus::Held => self.ends(now).since(at),
            _ => Duration::ZERO,
        })
    }

    /// Gives the hold its share among the staggered renewals of its client, unless it has a share.
    pub(crate) fn stagger(&self, stagger: Stagger) {
        self.state.note(|now| {
            now.stagger.get_or_insert(stagger);
        });
    }

    /// Staggers the renewals of this hold again, because the last renewal came late.
    pub(crate) fn stagger_again(&self) {
        self.state
            .note(|now| now.stagger.iter_mut().for_each(Stagger::again));
    }

    /// How many permits the caller may count on.
    pub(crate) fn permits(&self) -> u64 {
        self.state.read(|now| now.counted_on.min(now.held.permits))
    }

    /// How many permits the lock has, as far as this hold has seen.
    pub(crate) fn total_permits(&self) -> u64 {
        self.state.read(|now| now.total)
    }

    /// Since when the lock is held, by DynamoDB's clock.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        self.state.read(|now| now.since).map(system_time)
    }

    /// Notes that the guard counts on so many permits fewer, whatever the table keeps for the next hold at its place.
    pub(crate) fn counts_on_fewer(&self, permits: u64) {
        self.state.change(|now| {
            now.counted_on = now.counted_on.saturating_sub(permits);
            permits > 0
        });
    }

    /// Waits until the guard counts on fewer permits than the table shows. Cancel safe.
    pub(crate) async fn wait_spare(&self) {
        let is_spare = |now: &HoldState| now.is_spare().then_some(());
        self.state.wait_for(is_spare).await;
    }

    pub(crate) fn is_spare(&self) -> bool {
        self.state.read(HoldState::is_spare)
    }

    /// Waits until no other call gives permits of this hold back. Cancel safe.
    pub(crate) async fn lock_permit_changes(&self) -> impl Drop {
        self.giving_back.lock().await
    }

    /// Marks the hold as checked. Returns what a transaction that checks it asks of the table, and how many turns must be left then. If the
    /// hold was downgraded, it asks for one permit. The table shows one permit when no caller is to hold the lock next. From then on
    /// no other caller has a turn at the place.
    pub(crate) fn mark_checked(&self) -> (ItemHold, u64) {
        let (held, counted_on) = self.state.note(|now| {
            now.is_checked = true;
            (now.held, now.counted_on)
        });
        holder::checked(&self.name, held, (counted_on, self.turns_left()))
    }

    /// Where the hold stands, and what it takes.
    pub(crate) fn held(&self) -> ItemHold {
        self.state.read(|now| now.held)
    }

    pub(crate) fn place_id(&self) -> PlaceId {
        self.attempt.place_id(&self.name, self.newest)
    }

    /// Where the hold stands, for its renewals.
    pub(crate) fn footing(&self) -> Footing {
        self.held().footing
    }

    /// Takes in that a renewal was answered with this item. Returns whether the item shows the hold.
    pub(crate) fn renewed(&self, item: &LockItem, answered: Answered) -> bool {
        self.take_in(item, answered, |_| true)
    }

    /// The same of a hold in which its caller believes. Nothing is taken in once its deadline has passed: the caller may have been told so.
    pub(crate) fn renewed_in_time(&self, item: &LockItem, answered: Answered) -> bool {
        self.take_in(item, answered, |now| self.clock.now() < self.ends(now))
    }

    fn take_in(
        &self,
        item: &LockItem,
        answered: Answered,
        is_in_time: impl FnOnce(&HoldState) -> bool,
    ) -> bool {
        let Some((at, entry)) = item.hold_of(self.attempt.nonce, self.newest) else {
            return false;
        };
        self.state.change(|now| {
            if !is_in_time(now) {
                return false;
            }
            now.shows(item, at, entry);
            now.beats.renewed(entry.beat, answered.sent_early(entry));
            now.beat = entry.beat;
            now.lease = entry.lease;
            now.trouble = None;
            // A renewal that only brings a date is no heartbeat.
            if std::mem::replace(&mut now.is_dated, entry.stamps.server.is_some()) {
                now.stagger.iter_mut().for_each(Stagger::step);
            }
            now.renewed += 1;
            now.is_failing = false;
            true
        })
    }

    pub(crate) fn data(&self) -> Option<LockData> {
        self.state.read(|now| now.data.clone())
    }

    /// Begins the next write of data by this hold. A write without an answer, for example a dropped one, may arrive at any time.
    pub(crate) fn begin_write(&self) -> Written {
        let ticket = self.ticket;
        self.state.note(|now| {
            now.unanswered += 1;
            now.writes += 1;
            Written {
                ticket,
                count: now.writes,
            }
        })
    }

    pub(crate) fn end_write(&self) {
        self.state.note(|now| now.unanswered -= 1);
    }

    /// Takes in what an answer shows of the hold's place, its permits and the data. Returns whether the answer shows the hold.
    pub(crate) fn saw(&self, item: &LockItem) -> bool {
        let Some((at, entry)) = item.hold_of(self.attempt.nonce, self.newest) else {
            return false;
        };
        self.state.change(|now| {
            let asked = now.asked.clone();
            now.shows(item, at, entry);
            now.asked != asked
        });
        true
    }

    /// Takes in the item that came with a refusal. Returns whether the hold stands elsewhere on it than where it stood before the request.
    /// Then an operator has changed the number of permits, and the holder in the first slot has become a sharer.
    pub(crate) fn takes_in_move(&self, item: &LockItem, before: At) -> bool {
        self.saw(item) && self.footing().at != before
    }

    /// Notes a renewal that brought no answer. Returns whether it is the first since a renewal was answered.
    pub(crate) fn failed(&self, failure: &Failure) -> bool {
        let trouble = Some(failure.to_string());
        self.state.change(|now| {
            now.trouble = trouble;
            !std::mem::replace(&mut now.is_failing, true)
        })
    }

    /// Ends the hold as lost, unless it has ended already. Returns whether this call ended it.
    pub(crate) fn lose(&self, loss: LossReason) -> bool {
        let ended = self.end(HoldStatus::Lost(loss.clone()), false);
        if ended {
            self.telemetry.lost(&loss, self.lasted());
        }
        ended
    }

    /// Ends the hold because its client is shut down. Returns whether its task releases it, whatever its guard does. A hold whose lease or
    /// longest time has ended, which its task has not noticed yet, is lost by that instead.
    pub(crate) fn shut_down(&self) -> bool {
        self.lose(match self.remaining().is_zero() {
            true => self.expiry_reason(),
            false => LossReason::ShutDown,
        });
        self.is_released_by_its_task()
    }

    /// Whether the task of the place releases the hold without waiting for its guard.
    pub(crate) fn is_released_by_its_task(&self) -> bool {
        matches!(
            self.status(),
            HoldStatus::Lost(LossReason::ShutDown | LossReason::MaxHold { .. })
        )
    }

    /// Ends a hold that the item does not show any more.
    pub(crate) fn lose_to(&self, item: Option<LockItem>) -> LockLost {
        let loss = holder::evicted(item.as_ref(), self.ticket);
        self.lose(loss.clone());
        self.lost_by(loss)
    }

    pub(crate) fn lost_by(&self, reason: LossReason) -> LockLost {
        LockLost {
            lock: self.name.lock().to_owned(),
            ticket: self.ticket,
            reason,
        }
    }

    /// Ends the hold as given back, unless it has ended already. Returns whether this call ended it.
    pub(crate) fn give_back(&self) -> bool {
        // The owner may notice the deadline, and give the hold back, before the task that renews it runs.
        let has_expired = self.remaining().is_zero();
        let ended = self.end(HoldStatus::Released, has_expired);
        match ended {
            true if has_expired => self.telemetry.lost(&self.expiry_reason(), self.lasted()),
            true => self.telemetry.given_back(self.lasted()),
            false => {}
        }
        ended
    }

    fn lasted(&self) -> Duration {
        self.clock.now().since(self.begun)
    }

    fn end(&self, how: HoldStatus, is_late: bool) -> bool {
        self.state.change(|now| {
            let holds = now.status == HoldStatus::Held;
            if holds {
                (now.status, now.is_late) = (how, is_late);
                now.here = None;
            }
            holds
        })
    }

    /// Names the hold's place, and no other place that its nonce got later. The holds before and after it there have the same name.
    pub(crate) fn place(&self) -> (Nonce, Ticket) {
        (self.attempt.nonce, self.newest)
    }

    pub(crate) fn status(&self) -> HoldStatus {
        self.state.read(|now| now.status.clone())
    }

    /// Waits until the hold has been ended. Cancel safe.
    pub(crate) async fn wait_inactive(&self) {
        let ended = |now: &HoldState| (now.status != HoldStatus::Held).then_some(());
        self.state.wait_for(ended).await;
    }

    /// Whether the hold has not been ended yet.
    pub(crate) fn is_active(&self) -> bool {
        self.state.read(|now| now.status == HoldStatus::Held)
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.status(), HoldStatus::Lost(_))
    }

    /// Why the hold was lost, if it was. Also covers a lease that ran out without any task having noticed.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self.status() {
            HoldStatus::Lost(loss) => Some(loss),
            HoldStatus::Held if self.remaining().is_zero() => Some(self.expiry_reason()),
            HoldStatus::Held | HoldStatus::Released => None,
        }
    }

    /// The request to give way that is for this hold, if there is one.
    pub(crate) fn yield_requested(&self) -> Option<YieldRequest> {
        self.state.read(|now| self.requested(now))
    }

    /// Waits until this hold is asked to give way. Does not end if it never is. Cancel safe.
    pub(crate) async fn wait_yield_requested(&self) -> YieldRequest {
        self.state.wait_for(|now| self.requested(now)).await
    }

    fn requested(&self, now: &HoldState) -> Option<YieldRequest> {
        let asked = now
            .asked
            .as_ref()
            .filter(|asked| asked.is_for(self.ticket))?;
        Some(YieldRequest {
            by: asked.by.clone(),
            reason: asked.reason.clone(),
        })
    }

    /// What became of the last renewal, if it failed.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.state.read(|now| now.trouble.clone())
    }
}
