//! The task of a place, from its first request to its last. The task removes what it wrote before it ends. What it cannot remove expires with
//! its lease.

mod driver;
mod grant;
mod lapse;
mod leaving;
mod long_wait;
mod outage;
mod queued;
mod staying;
mod turns;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::attempt::Attempt;
use crate::client_state::{
    Batch, Claim, ClientInner, Departure, DoorwayTurn, Refused, WaitEstimate,
};
use crate::counter::Counter;
use crate::error::LossReason;
use crate::hold::Hold;
use crate::name::LockName;
use crate::requests::{Requests, RetryPolicy};
use crate::runtime::background::{Listed, Open};
use crate::state;
use crate::store::Store;
use fairlock_protocol::doorway::{Seen, Sight};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::{Sequence, Ticket};

use driver::{Driver, End};
use leaving::Leaving;
use long_wait::LongWaitLog;

/// The limit of the time-out factor. The factor doubles each time that a place was too slow to join the queue.
const MAX_TIMEOUT_FACTOR: u32 = 8;

/// Starts the task that acquires a lock for a batch.
pub(crate) fn spawn(
    inner: &Arc<ClientInner>,
    name: &LockName,
    batch: Arc<Batch>,
    claim: Claim,
    doorway_turn: Option<DoorwayTurn>,
) {
    inner.spawn_place(name, |open| {
        Acquisition::new(inner, name, batch, claim, open.listed()).run(open, doorway_turn)
    });
}

/// The task that gets one place after another until one is granted, and keeps that place until its last turn has ended. It serves one call,
/// or several calls that came together.
struct Acquisition {
    inner: Arc<ClientInner>,
    /// The task's job in the list of background work.
    listed: Listed,
    /// The client's requests. For a claim that waits, they notify the callers whether DynamoDB answers.
    requests: Requests,
    name: LockName,
    batch: Arc<Batch>,
    started: Moment,
    claim: Claim,
    /// Places that the task is leaving.
    leaving: Arc<Leaving>,
    /// The hold, while the place holds the lock.
    hold: Option<Arc<Hold>>,
    /// No caller waits for this place any more: the callers were answered, or wait for another place.
    callers_answered: bool,
    /// When to log a wait that has become long.
    long_wait: Mutex<LongWaitLog>,
}

/// Notifies the callers that wait for the place, or the holder, if the task ends with its runtime or by a panic.
impl Drop for Acquisition {
    fn drop(&mut self) {
        if let Some(hold) = &self.hold {
            hold.lose(LossReason::NoRuntime);
            hold.attempt.confirms_no_more();
            self.inner.lets_go(hold);
        }
        if !self.callers_answered {
            self.batch.refuse(&Refused::Gone);
        }
    }
}

impl Acquisition {
    fn new(
        inner: &Arc<ClientInner>,
        name: &LockName,
        batch: Arc<Batch>,
        claim: Claim,
        listed: Listed,
    ) -> Self {
        let requests = match claim.waits {
            true => inner
                .requests
                .telling(name, outage::reach(inner, name, &batch)),
            false => inner.requests.clone(),
        };
        let started = requests.store.now();
        Acquisition {
            inner: Arc::clone(inner),
            listed,
            requests,
            name: name.clone(),
            batch,
            started,
            claim,
            leaving: Arc::new(Leaving::new(inner, name)),
            hold: None,
            callers_answered: false,
            long_wait: Mutex::new(LongWaitLog::of(started)),
        }
    }

    /// Runs to the end of the place. Takes the job off the client's list before the last caller is answered, so that a shutdown after the
    /// answer does not find the job. Then finishes leaving old places.
    async fn run(mut self, open: Open, mut doorway_turn: Option<DoorwayTurn>) {
        self.batch.sets_out();
        let leaving = Arc::clone(&self.leaving);
        let granted = tokio::select! {
            biased;
            never = self.keep_time() => match never {},
            granted = self.work(&mut doorway_turn) => granted,
            never = leaving.keep_leaving::<Infallible>() => match never {},
        };
        match granted {
            Ok(hold) => {
                let done = tokio::select! {
                    biased;
                    done = Box::pin(self.turns(hold)) => done,
                    never = leaving.keep_leaving::<Infallible>() => match never {},
                };
                done.note(&self.inner);
                drop(open);
                self.callers_answered = true;
                done.tell(&self.inner);
            }
            Err(refused) => {
                self.batch.will_refuse(refused.clone());
                self.wait_left().await;
                drop(open);
                self.callers_answered = true;
                self.batch.refuse(&refused);
            }
        }
        drop(self);
        leaving.wait_done().await;
    }

    /// Asks for places until a place is granted. It asks for a new one if the last one became void, was passed or was lost. It also does so
    /// if the draw got no answer, or the bounded queue grew too long. Ends when a place is granted, on a final failure, or when nobody wants
    /// the place any more (`ensure_wanted`).
    async fn work(&self, doorway_turn: &mut Option<DoorwayTurn>) -> Result<Arc<Hold>, Refused> {
        let mut timeout_factor = 1;
        loop {
            self.ensure_wanted()?;
            let ended = Box::pin(Driver::new(self, timeout_factor, doorway_turn).run()).await?;
            match ended {
                End::Granted(hold) => return Ok(hold),
                End::Again => {}
                End::TooSlow => timeout_factor = (timeout_factor * 2).min(MAX_TIMEOUT_FACTOR),
            }
        }
    }

    /// Ends the wait of each call when its time has run out, whether or not the call is polled.
    async fn keep_time(&self) -> Infallible {
        let clock = &self.store().config().clock;
        while let Some(until) = self.batch.next_until() {
            clock.sleep_until(until).await;
            self.batch.part(self.store().now());
        }
        std::future::pending().await
    }

    /// Leaves a place beside the task's next work.
    fn leaves(&self, departure: Departure) {
        self.leaving.add(departure);
    }

    /// Waits until nothing of the place stands in the table, because a process may exit as soon as it has the error. Waits for one request
    /// time-out at most; slower work goes on. A shutdown waits for that work itself.
    async fn wait_left(&self) {
        let config = self.store().config();
        let mut until = self.store().now() + config.request_timeout;
        if !self.claim.waits {
            until = until.min(self.started + self.inner.no_wait_lasts());
        }
        if let Some(outage) = self.requests.outage_ends() {
            until = until.min(outage + config.request_timeout);
        }
        tokio::select! {
            biased;
            () = self.inner.closed.cancelled() => {}
            () = self.leaving.wait_done() => {}
            () = config.clock.sleep_until(until) => {}
        }
    }

    /// Sleeps for `span`, and meanwhile tells what keeps the callers, and logs a wait that has become long. Ends with `span`: each pass of
    /// the loop sleeps until there is something to tell, or until the end. Also ends when the batch stops.
    async fn pause(&self, span: Duration) {
        let clock = &self.store().config().clock;
        let until = clock.now() + span;
        loop {
            let due = self.long_wait().due().min(until);
            let due = self.requests.reach().due().map_or(due, |it| it.min(due));
            tokio::select! {
                biased;
                () = self.batch.stop.cancelled() => return,
                () = clock.sleep_until(due) => {}
            }
            self.requests.reach().review(clock.now());
            let waited = self.long_wait().take_due(clock.now());
            if let Some(waited) = waited {
                self.batch.log(&self.name, waited);
            }
            if clock.now() >= until {
                return;
            }
        }
    }

    fn long_wait(&self) -> MutexGuard<'_, LongWaitLog> {
        self.long_wait
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if no caller wants the place any more: all callers have gone, the client is shut down, or a claim that does not wait has used up
    /// its time. A place without a ticket checks this before each request. A place in the queue checks it whenever it wakes up or decides,
    /// unless its turn has come.
    fn ensure_wanted(&self) -> Result<(), Refused> {
        let ends = self.inner.no_wait_ends(self.started);
        if self.batch.stop.is_cancelled() {
            return Err(self.inner.why_stopped());
        }
        if !self.claim.waits && ends <= self.store().now() {
            return Err(Refused::Late);
        }
        Ok(())
    }

    /// Tells the callers, the callers behind them at the doorway, and the client what an answer showed.
    fn saw(&self, item: &LockItem, estimate: Option<WaitEstimate>) {
        self.batch.saw(item, estimate);
        if let Some(behind) = self.inner.behind_at_the_door(&self.name, &self.batch) {
            behind.hears(item);
        }
        self.inner.saw(&self.name, item);
    }

    fn store(&self) -> &Store {
        &self.requests.store
    }

    fn counter<'a>(&'a self, policy: &'a RetryPolicy) -> Counter<'a> {
        Counter {
            requests: &self.requests,
            name: &self.name,
            policy,
        }
    }

    fn attempt(&self) -> Attempt {
        let (tickets, permits) = (self.batch.size(), self.claim.permits);
        let attempt = self.inner.notified_attempt(tickets, permits);
        attempt
            .described(&self.claim.attributes)
            .with_margin(self.store().config().safety_margin)
    }

    /// What a lock item shows to a place that has not asked for the lock yet. Slots that the queue does not fill are for others.
    fn sight(&self, item: &LockItem) -> Seen {
        self.sight_of(item, self.store().config().filled_slots)
    }

    /// What a lock item shows to a place whose request it refused: any slot is for a place that comes at the same time as others.
    fn sight_of_refusal(&self, item: &LockItem) -> Seen {
        self.sight_of(item, self.store().config().successor_slots)
    }

    fn sight_of(&self, item: &LockItem, slots: usize) -> Seen {
        Seen::Item(Sight {
            is_too_long: self.is_too_long(item),
            ..Sight::of(item, self.claim.permits, slots)
        })
    }

    /// Whether some caller of the batch will not wait at the end of this queue.
    fn is_too_long(&self, item: &LockItem) -> bool {
        let most = self.batch.most_before().filter(|_| self.claim.waits);
        most.is_some_and(|most| most < state::turns(item))
    }

    /// Returns the largest `last` of the lock at which the batch may still draw a ticket without breaking any caller's `max_waiters`. Without
    /// a limit, returns the largest ticket. Returns `None` if the queue is too long or was not seen. The bound is
    /// safe, because each new waiter draws a ticket.
    fn most_drawn(&self, seen: Option<&LockItem>) -> Option<Ticket> {
        let any = Ticket::new(u64::MAX);
        let Some(most) = self.batch.most_before() else {
            return Some(any);
        };
        let more = most.checked_sub(state::turns(seen?))?;
        Some(seen?.last.after(more as u64).unwrap_or(any))
    }

    fn policy_at_the_door(&self) -> RetryPolicy {
        self.inner
            .policy_to_ask(&self.batch, &self.claim, self.started)
    }

    /// For the writes that ask for a place. A claim that waits reads before it writes again, if DynamoDB is too busy.
    fn policy_to_write(&self, policy: RetryPolicy) -> RetryPolicy {
        match self.claim.waits {
            true => policy.reading_first(self.longest_pause()),
            false => policy,
        }
    }

    /// Gives way to other requests while DynamoDB is too busy.
    async fn gives_way(&self) {
        let span = self.requests.pause_when_busy(self.longest_pause());
        self.pause(span).await;
    }

    /// How long a place that nobody knows yet gives way at a time: for longer than the holder takes from one renewal to the next.
    fn longest_pause(&self) -> Duration {
        self.store().config().heartbeat * 2
    }

    fn policy(&self) -> RetryPolicy {
        self.batch.policy()
    }
}
