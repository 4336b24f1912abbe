//! A hold as its caller sees it. It tells the truth though no task runs that would update it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fairlock_protocol::agent::{HoldId, HoldView, Loss};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;
use tokio::sync::Notify;

use crate::runtime::clock::Clock;

/// Where a hold stands. It only goes forward, and one exchange decides who ends it.
mod stand {
    /// Its caller has not come for it.
    pub(super) const OFFERED: u8 = 0;
    pub(super) const HELD: u8 = 1;
    pub(super) const LOST: u8 = 2;
    pub(super) const GIVEN_BACK: u8 = 3;
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) hold: HoldId,
    pub(super) ticket: Ticket,
    clock: Clock,
    stand: AtomicU8,
    /// The local deadline, in nanoseconds of the clock.
    until: AtomicU64,
    seen: Mutex<HoldView>,
    why: OnceLock<Loss>,
    ended: Notify,
}

impl View {
    pub(super) fn new(hold: HoldId, seen: HoldView, clock: Clock) -> Self {
        View {
            hold,
            ticket: seen.ticket,
            clock,
            stand: AtomicU8::new(stand::OFFERED),
            until: AtomicU64::new(nanos(seen.until)),
            seen: Mutex::new(seen),
            why: OnceLock::new(),
            ended: Notify::new(),
        }
    }

    /// Its caller has come. `false` if it was taken back, or lost, before.
    pub(super) fn takes(&self) -> bool {
        self.goes(stand::OFFERED, stand::HELD)
    }

    /// Takes it back from a caller that has not come. `false` if it has.
    pub(super) fn takes_back(&self) -> bool {
        self.goes(stand::OFFERED, stand::GIVEN_BACK)
    }

    /// Its caller gives it back. `false` if it has ended before.
    pub(super) fn gives_back(&self) -> bool {
        self.goes(stand::HELD, stand::GIVEN_BACK)
    }

    pub(super) fn loses(&self, why: Loss) {
        // Whoever sees it lost reads why.
        let _ = self.why.set(why);
        if self.goes(stand::HELD, stand::LOST) || self.goes(stand::OFFERED, stand::LOST) {
            self.ended.notify_waiters();
        }
    }

    fn goes(&self, from: u8, to: u8) -> bool {
        let gone = self
            .stand
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        gone.is_ok()
    }

    pub(super) fn sees(&self, seen: HoldView) {
        self.until.store(nanos(seen.until), Ordering::Release);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    pub(super) fn seen(&self) -> HoldView {
        let seen = self.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn until(&self) -> Moment {
        Moment(Duration::from_nanos(self.until.load(Ordering::Acquire)))
    }

    /// Whether its caller may believe that it holds the lock. `Err` if its deadline has just been seen to pass: it is lost from then on, though
    /// its driver may be about to tell a later one.
    pub(super) fn is_held(&self) -> Result<bool, JustEnded> {
        if self.stand.load(Ordering::Acquire) != stand::HELD {
            return Ok(false);
        }
        if self.clock.now() < self.until() {
            return Ok(true);
        }
        self.loses(self.seen().ends_by);
        Err(JustEnded)
    }

    /// Waits until its caller may not believe in it any more.
    pub(super) async fn ends(&self) -> Result<(), JustEnded> {
        loop {
            let ended = self.ended.notified();
            if !self.is_held()? {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = ended => {}
                () = self.clock.sleep_until(self.until()) => {}
            }
        }
    }

    /// Why it was lost.
    pub(super) fn loss(&self) -> Loss {
        self.why.get().cloned().unwrap_or(Loss::Expired)
    }
}

/// The deadline of a hold was seen to pass, which its driver does not know.
#[derive(Debug)]
pub(super) struct JustEnded;

/// The longest time that a clock counts is some five hundred years.
fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX)
}
