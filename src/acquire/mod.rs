//! The task of a place, from its first request to its last: whatever it puts into the table it also has settled.

mod course;
mod grant;
mod leaving;
mod line;
mod outage;
mod turns;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::background::{Listed, Open};
use crate::core::{Claim, Core, Departure, Party, Prospect, Refused, Turnstile};
use crate::error::Loss;
use crate::hold::Hold;
use crate::name::LockName;
use crate::seats::Seats;
use crate::state;
use crate::store::{Attempt, Patience, Store};
use fairlock_protocol::doorway::{Seen, Sight};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::{Sequence, Ticket};

use course::{Course, End};
use leaving::Leaving;
use outage::Doublings;

/// A client that is told "too slow" again and again doubles its time-out up to this factor.
const MOST_TIME: u32 = 8;

/// Goes for a lock, in the background.
pub(crate) fn go(
    core: &Arc<Core>,
    name: &LockName,
    party: Arc<Party>,
    claim: Claim,
    turnstile: Option<Turnstile>,
) {
    core.spawn_place(name, |open| {
        Acquisition::new(core, name, party, claim, open.listed()).run(open, turnstile)
    });
}

/// A place in a lock, of one call or of several that were made at once: its one task runs from the first request for it to the
/// last.
struct Acquisition {
    core: Arc<Core>,
    /// The task, as it is listed.
    listed: Listed,
    /// The client's, which tells those who wait whether DynamoDB answers.
    store: Store,
    name: LockName,
    party: Arc<Party>,
    started: Moment,
    claim: Claim,
    /// Places that are being left.
    leaving: Arc<Leaving>,
    /// The hold, while there is one.
    hold: Option<Arc<Hold>>,
    /// Nobody waits for it any more: the callers were told, or wait for another place.
    is_over: bool,
    /// When the log is told of a wait that has become long.
    long: Mutex<Doublings>,
}

/// Whoever waits for a place, or holds the lock by it, is told when its task ends with its runtime, or by a panic.
impl Drop for Acquisition {
    fn drop(&mut self) {
        if let Some(hold) = &self.hold {
            hold.lose(Loss::NoRuntime);
            self.core.lets_go(hold);
        }
        if !self.is_over {
            self.party.refuse(Refused::Gone);
        }
    }
}

impl Acquisition {
    fn new(
        core: &Arc<Core>,
        name: &LockName,
        party: Arc<Party>,
        claim: Claim,
        listed: Listed,
    ) -> Self {
        let store = match claim.waits {
            true => core.store.telling(outage::reach(core, name, &party)),
            false => core.store.clone(),
        };
        let started = store.now();
        Acquisition {
            core: Arc::clone(core),
            listed,
            store,
            name: name.clone(),
            party,
            started,
            claim,
            leaving: Arc::default(),
            hold: None,
            is_over: false,
            long: Mutex::new(Doublings::of(started)),
        }
    }

    /// Runs to the end of the place. The last caller is told when the place is off the list of the client's work, and what is still
    /// to be left is left after that.
    async fn run(mut self, open: Open, mut turnstile: Option<Turnstile>) {
        self.party.sets_out();
        let leaving = Arc::clone(&self.leaving);
        let granted = tokio::select! {
            biased;
            never = self.keep_time() => match never {},
            granted = self.work(&mut turnstile) => granted,
            never = leaving.goes_on::<Infallible>() => match never {},
        };
        match granted {
            Ok(hold) => {
                let done = tokio::select! {
                    biased;
                    done = Box::pin(self.turns(hold)) => done,
                    never = leaving.goes_on::<Infallible>() => match never {},
                };
                drop(open);
                self.is_over = true;
                done.tell(&self.core);
            }
            Err(refused) => {
                let (told, refused) = refused.shared();
                self.party.will_refuse(told);
                self.has_left().await;
                drop(open);
                self.is_over = true;
                self.party.refuse(refused);
            }
        }
        drop(self);
        leaving.is_done().await;
    }

    /// Asks for places until one is granted. Each turn of the loop asks for one, because the one before was void, passed or lost, or
    /// because others made a bounded line too long first; the caller's patience bounds them.
    async fn work(&self, turnstile: &mut Option<Turnstile>) -> Result<Arc<Hold>, Refused> {
        let mut time = 1;
        loop {
            self.check()?;
            let ended = Box::pin(Course::new(self, time, turnstile).run()).await?;
            match ended {
                End::Granted(hold) => return Ok(hold),
                End::Again => {}
                End::TooSlow => time = (time * 2).min(MOST_TIME),
            }
        }
    }

    /// Ends the wait of each call whose time is over, whether the call is polled or not. Each turn of the loop ends one.
    async fn keep_time(&self) -> Infallible {
        let clock = &self.store().config().clock;
        while let Some(until) = self.party.next_until() {
            clock.sleep_until(until).await;
            self.party.part(self.store().now());
        }
        std::future::pending().await
    }

    /// Leaves a place beside what its task does next.
    fn leaves(&self, departure: Departure) {
        self.leaving.add(&self.core, &self.name, departure);
    }

    /// Waits until nothing of it stands in the table, so that a process may end with the error. For one request time-out at the
    /// most: what takes longer goes on. A shutdown waits for that itself.
    async fn has_left(&self) {
        let config = self.store().config();
        let mut until = self.store().now() + config.request_timeout;
        if !self.claim.waits {
            until = until.min(self.started + self.core.no_wait_lasts());
        }
        if let Some(outage) = self.store().outage_ends() {
            until = until.min(outage + config.request_timeout);
        }
        tokio::select! {
            biased;
            () = self.core.closed.cancelled() => {}
            () = self.leaving.is_done() => {}
            () = config.clock.sleep_until(until) => {}
        }
    }

    /// Sleeps, and logs meanwhile when the wait has become long. Ends with the span: each turn of the loop is one that long.
    async fn pause(&self, span: Duration) {
        let clock = &self.store().config().clock;
        let until = clock.now() + span;
        loop {
            let due = self.long().due().min(until);
            tokio::select! {
                biased;
                () = self.party.stop.cancelled() => return,
                () = clock.sleep_until(due) => {}
            }
            let waited = self.long().told(clock.now());
            if let Some(waited) = waited {
                self.party.log(&self.name, waited);
            }
            if clock.now() >= until {
                return;
            }
        }
    }

    fn long(&self) -> MutexGuard<'_, Doublings> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before each step: the callers may have gone, and one that does not wait may have tried for long enough.
    fn check(&self) -> Result<(), Refused> {
        let ends = self.core.no_wait_ends(self.started);
        match () {
            () if self.party.stop.is_cancelled() => Err(Refused::GaveUp),
            () if !self.claim.waits && ends <= self.store().now() => Err(Refused::Late),
            () => Ok(()),
        }
    }

    fn saw(&self, item: &LockItem, prospect: Option<Prospect>) {
        self.party.saw(item, prospect);
        if let Some(behind) = self.core.behind_at_the_door(&self.name, &self.party) {
            behind.hears(item);
        }
        self.core.saw(&self.name, item);
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn seats<'a>(&'a self, patience: &'a Patience) -> Seats<'a> {
        Seats {
            store: self.store(),
            name: &self.name,
            patience,
        }
    }

    fn attempt(&self) -> Attempt {
        let attempt = self.core.attempt(self.party.size(), self.claim.permits);
        attempt.described(&self.claim.attributes)
    }

    /// What a lock item shows to a place that is asked for.
    fn sight(&self, item: &LockItem) -> Seen {
        let slots = self.store().config().seats;
        Seen::Item(Sight {
            is_too_long: self.is_too_long(item),
            ..Sight::of(item, self.claim.permits, slots)
        })
    }

    /// Whether somebody will not wait at the end of this line.
    fn is_too_long(&self, item: &LockItem) -> bool {
        let most = self.party.most_before().filter(|_| self.claim.waits);
        most.is_some_and(|most| most < state::turns(item))
    }

    /// The newest ticket that may have been drawn before, for nobody to wait behind more than it will: between two looks there
    /// come no more turns than tickets are drawn. None: the line is too long, or was not seen.
    fn most_drawn(&self, seen: Option<&LockItem>) -> Option<Ticket> {
        let any = Ticket::new(u64::MAX);
        let Some(most) = self.party.most_before() else {
            return Some(any);
        };
        let more = most.checked_sub(state::turns(seen?))?;
        Some(seen?.last.after(more as u64).unwrap_or(any))
    }

    fn patience_at_the_door(&self) -> Patience {
        self.core
            .patience_to_ask(&self.party, &self.claim, self.started)
    }

    fn patience(&self) -> Patience {
        self.party.patience()
    }
}
