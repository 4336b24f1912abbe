//! A hold as its caller sees it. It tells the truth though no task runs that would update it.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{HoldId, HoldView, Loss};
use fairlock_protocol::item::{ItemHold, LockItem, Notice};
use fairlock_protocol::lease;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;

use super::words::{reason, yield_request};
use crate::runtime::clock::Clock;
use crate::runtime::watched::Watched;
use crate::telemetry::HoldTelemetry;
use crate::vocabulary::error::{LockLost, LossReason};
use crate::vocabulary::holder::{self, HeldHere};
use crate::vocabulary::name::LockName;
use crate::vocabulary::place_id::PlaceId;
use crate::vocabulary::state::YieldRequest;

/// Where a hold stands. It only goes forward, and one change decides what ends it.
#[derive(Clone, Debug)]
pub(crate) enum Stand {
    /// Its caller has not come for it.
    Offered,
    Held,
    Lost(LossReason),
    GivenBack,
}

#[derive(Debug)]
pub(crate) struct View {
    pub(super) hold: HoldId,
    pub(crate) ticket: Ticket,
    pub(crate) name: LockName,
    pub(crate) telemetry: HoldTelemetry,
    clock: Clock,
    begun: Moment,
    now: Watched<Now>,
}

#[derive(Debug)]
struct Now {
    stand: Stand,
    seen: HoldView,
    /// How many permits its caller counts on. The table may show more.
    counted_on: u64,
    /// How many times it was seen.
    times: u64,
    /// Until it ends, this process holds the lock.
    here: Option<HeldHere>,
}

impl Now {
    /// The newest ticket of its place, which names it: its own may be passed on in the table already.
    fn place(&self) -> Ticket {
        self.seen.held.footing.ticket
    }
}

impl View {
    pub(super) fn new(
        hold: HoldId,
        seen: HoldView,
        (name, telemetry): (LockName, HoldTelemetry),
        clock: Clock,
    ) -> Self {
        let here = HeldHere::at((seen.nonce, seen.held.footing.ticket));
        View {
            hold,
            ticket: seen.ticket,
            name,
            telemetry,
            begun: clock.now(),
            clock,
            now: Watched::new(Now {
                stand: Stand::Offered,
                counted_on: seen.held.permits,
                seen,
                times: 0,
                here: Some(here),
            }),
        }
    }

    /// Its caller has come. `false` if it was taken back, or lost, before.
    pub(super) fn takes(&self) -> bool {
        self.now.change(|now| {
            let is_offered = matches!(now.stand, Stand::Offered);
            if is_offered {
                now.stand = Stand::Held;
            }
            is_offered
        })
    }

    /// Takes it back from a caller that has not come. `false` if it has.
    pub(super) fn takes_back(&self) -> bool {
        let is_offered = |stand: &Stand| matches!(stand, Stand::Offered);
        let takes_back = self.ends_as(Stand::GivenBack, is_offered);
        if takes_back {
            self.telemetry.given_back(self.lasted());
        }
        takes_back
    }

    /// Its caller gives it back. The loss, if it has ended before.
    pub(super) fn gives_back(&self) -> Result<Option<LossReason>, JustEnded> {
        let ended = self.is_held();
        let is_held = |stand: &Stand| matches!(stand, Stand::Held);
        if self.ends_as(Stand::GivenBack, is_held) {
            self.telemetry.given_back(self.lasted());
        }
        ended.map(|_| self.loss())
    }

    /// Ends it as lost, unless it has ended.
    pub(super) fn loses(&self, why: &Loss) {
        let why = reason(why);
        let stands = |stand: &Stand| matches!(stand, Stand::Offered | Stand::Held);
        if self.ends_as(Stand::Lost(why.clone()), stands) {
            self.telemetry.lost(&why, self.lasted());
        }
    }

    fn ends_as(&self, how: Stand, may: impl FnOnce(&Stand) -> bool) -> bool {
        self.now.change(|now| {
            let ends = may(&now.stand);
            if ends {
                now.stand = how;
                now.here = None;
            }
            ends
        })
    }

    fn lasted(&self) -> Duration {
        self.clock.now().since(self.begun)
    }

    pub(super) fn sees(&self, seen: HoldView) {
        self.now.change(|now| {
            now.seen = seen;
            now.times += 1;
            true
        });
    }

    fn until(&self) -> Moment {
        self.now.read(|now| now.seen.until)
    }

    /// How much of it may still be trusted.
    pub(crate) fn remaining(&self) -> Duration {
        // Read first: a renewal that is taken in meanwhile was in time for it.
        let at = self.clock.now();
        self.now.read(|now| match now.stand {
            Stand::Held => now.seen.until.since(at),
            _ => Duration::ZERO,
        })
    }

    /// Whether its caller may believe that it holds the lock. `Err` if its deadline has just been seen to pass: it is lost from then on, though
    /// its driver may be about to tell a later one.
    pub(super) fn is_held(&self) -> Result<bool, JustEnded> {
        let at = self.clock.now();
        let ends_by = self.now.read(|now| match now.stand {
            Stand::Held if at < now.seen.until => Some(None),
            Stand::Held => Some(Some(now.seen.ends_by.clone())),
            _ => None,
        });
        match ends_by {
            Some(None) => Ok(true),
            None => Ok(false),
            Some(Some(ends_by)) => {
                self.loses(&ends_by);
                Err(JustEnded)
            }
        }
    }

    /// Whether a third of the lease is left, or less, and renewals fail.
    pub(crate) fn is_in_danger(&self) -> bool {
        self.is_failing() && self.until_danger().is_zero()
    }

    fn is_failing(&self) -> bool {
        self.now.read(|now| now.seen.trouble.is_some())
    }

    fn until_danger(&self) -> Duration {
        let lease = self.now.read(|now| now.seen.lease);
        lease::until_danger(lease, self.remaining())
    }

    /// Waits until it has ended, or until it is in danger if it was not, or no longer in danger if it was. Cancel safe. Each round ends with the
    /// hold, with news of it, or in danger.
    pub(super) async fn news(&self, was_in_danger: bool) -> Result<Stand, JustEnded> {
        loop {
            let times = self.now.read(|now| now.times);
            let is_held = self.is_held()?;
            if !is_held || self.is_in_danger() != was_in_danger {
                return Ok(self.stand());
            }
            let is_news = |now: &Now| !matches!(now.stand, Stand::Held) || now.times != times;
            let is_failing = self.is_failing();
            tokio::select! {
                biased;
                () = self.now.wait_for(|now| is_news(now).then_some(())) => {}
                () = self.clock.sleep(self.until_danger()), if is_failing && !was_in_danger => {}
                () = self.clock.sleep_until_if_counted(self.until()) => {}
            }
        }
    }

    pub(crate) fn stand(&self) -> Stand {
        self.now.read(|now| now.stand.clone())
    }

    /// Waits until its caller may not believe in it any more.
    pub(super) async fn ends(&self) -> Result<(), JustEnded> {
        while self.is_held()? {
            let ended = |now: &Now| (!matches!(now.stand, Stand::Held)).then_some(());
            tokio::select! {
                biased;
                () = self.now.wait_for(ended) => {}
                () = self.clock.sleep_until_if_counted(self.until()) => {}
            }
        }
        Ok(())
    }

    /// Why it was lost, if it was.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self.stand() {
            Stand::Lost(why) => Some(why),
            _ => None,
        }
    }

    /// Why it has ended that this item does not show.
    pub(crate) fn evicted(&self, item: Option<&LockItem>) -> LossReason {
        holder::evicted(item, self.now.read(Now::place))
    }

    pub(crate) fn lost_by(&self, reason: LossReason) -> LockLost {
        LockLost {
            lock: self.name.lock().to_owned(),
            ticket: self.ticket,
            reason,
        }
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.now
            .read(|now| now.seen.trouble.as_deref().map(str::to_owned))
    }

    pub(crate) fn item(&self) -> Arc<LockItem> {
        self.now.read(|now| Arc::clone(&now.seen.item))
    }

    /// How many permits its caller may count on.
    pub(crate) fn permits(&self) -> u64 {
        self.now
            .read(|now| now.counted_on.min(now.seen.held.permits))
    }

    /// Its caller counts on so many permits fewer.
    pub(super) fn counts_on_fewer(&self, permits: u64) {
        self.now
            .note(|now| now.counted_on = now.counted_on.saturating_sub(permits));
    }

    /// What a transaction that checks it asks of the table, and how many turns must be left then.
    pub(crate) fn checked(&self) -> (ItemHold, u64) {
        let (held, counted_on) = self.now.read(|now| (now.seen.held, now.counted_on));
        let turns = held.footing.ticket.get().saturating_sub(self.ticket.get()) + 1;
        holder::checked(&self.name, held, (counted_on, turns))
    }

    /// Whether an item shows it.
    pub(crate) fn is_shown_by(&self, item: &LockItem) -> bool {
        let place = self.now.read(|now| (now.seen.nonce, now.place()));
        item.hold_of(place.0, place.1).is_some()
    }

    pub(crate) fn seen(&self) -> HoldView {
        self.now.read(|now| now.seen.clone())
    }

    pub(crate) fn place_id(&self) -> PlaceId {
        self.now.read(|now| {
            let permits = now.seen.held.permits;
            let tickets = (now.place(), now.seen.tickets);
            PlaceId::of(&self.name, now.seen.nonce, tickets, permits)
        })
    }

    fn requested(&self, now: &Now) -> Option<YieldRequest> {
        let asked: &Notice = now.seen.item.asked.as_deref()?;
        asked.is_for(now.place()).then(|| yield_request(asked))
    }

    pub(crate) fn yield_requested(&self) -> Option<YieldRequest> {
        self.now.read(|now| self.requested(now))
    }

    pub(crate) async fn wait_yield_requested(&self) -> YieldRequest {
        self.now.wait_for(|now| self.requested(now)).await
    }
}

/// The deadline of a hold was seen to pass, which its driver does not know.
#[derive(Debug)]
pub(crate) struct JustEnded;
