//! What all locks of a client share: the store, the background work, and what the client remembers of the queues that it has met.

mod batch;
mod batches;
mod claim;
mod directory;
mod downgrades;
mod handle;
mod holding;
mod lease_watch;
mod leaving;
mod outage;
mod policies;
mod self_wait;
mod wait_estimate;

use std::fmt;
use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::agent::Driven;
use crate::attempt::Attempt;
use crate::error::Error;
use crate::hold::Hold;
use crate::name::LockName;
use crate::notify::Notifications;
use crate::offer::{Offer, Unused};
use crate::place_writes::{self, Ended, HoldWriter};
use crate::requests::{Requests, RetryPolicy};
use crate::runtime::background::{Background, Job, Listed, Open, Task};
use crate::store::Store;
use crate::telemetry::ReleaseOutcome;
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, LockItem, TicketRow};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::PollSchedule;
use fairlock_protocol::place::Place;
use fairlock_protocol::ticket::Ticket;

pub(crate) use batch::{AnswerReceiver, Batch, Caller, PendingCall};
pub(crate) use batches::{DoorwayTurn, StartPlaceTask, alone};
pub(crate) use claim::{Claim, Refused};
use directory::Directory;
pub(crate) use directory::Membership;
pub(crate) use handle::ClientHandle;
pub(crate) use holding::{GiveBack, GivenBack, Holding, Released};
pub(crate) use lease_watch::SoughtLease;
pub(crate) use leaving::Departure;
pub(crate) use outage::Trouble;
pub(crate) use wait_estimate::WaitEstimate;

/// How long a caller goes on waiting after the time at which the background has something to tell.
pub(crate) const STANDSTILL: Duration = Duration::from_millis(20);

/// What all locks of a client share.
pub(crate) struct ClientInner {
    pub(crate) store: Store,
    /// Its requests, sent again while that may help.
    pub(crate) requests: Requests,
    pub(crate) background: Arc<Background>,
    /// Cancelled by `shutdown`. Then everything that waits stops waiting.
    pub(crate) closed: CancellationToken,
    directory: Arc<Directory>,
    pub(crate) notifications: Option<Arc<Notifications>>,
    go: StartPlaceTask,
    driven: OnceLock<Driven>,
    /// How many handles there are.
    handles: AtomicUsize,
}

impl ClientInner {
    /// `go` is called to acquire a lock for a batch.
    pub(crate) fn new(
        store: Store,
        runtime: Handle,
        go: StartPlaceTask,
        notifications: Option<Notifications>,
    ) -> Self {
        ClientInner {
            requests: Requests::new(store.clone()),
            store,
            notifications: notifications.map(Arc::new),
            go,
            background: Arc::new(Background::new(runtime)),
            closed: CancellationToken::new(),
            directory: Arc::default(),
            driven: OnceLock::new(),
            handles: AtomicUsize::new(0),
        }
    }

    /// The client as a value, which its first use starts, if calls for the lock alone are its.
    pub(crate) fn driven(&self) -> Option<&Driven> {
        let post = || self.notifications.clone();
        let starts = || Driven::new(self.requests.clone(), &self.background, post());
        let is_driven = self.store.config().is_driven;
        is_driven.then(|| self.driven.get_or_init(starts))
    }

    /// The same, if it has been used.
    pub(crate) fn used(&self) -> Option<&Driven> {
        self.driven.get()
    }

    /// Waits for work of a call, no longer than a request may take. Waits neither beyond `until` nor for a client that is shut down.
    pub(crate) async fn within_a_request<T>(
        &self,
        until: Option<Moment>,
        work: impl Future<Output = T>,
    ) {
        let config = self.store.config();
        let bound = self.store.now() + config.request_timeout;
        let until = until.map_or(bound, |until| until.min(bound));
        tokio::select! {
            biased;
            () = self.closed.cancelled() => {}
            done = work => drop(done),
            () = config.clock.sleep_until_if_counted(until) => {}
        }
    }

    /// Gives back what was taken, before the caller asks for it again. Otherwise a caller that does not wait would find its own hold in the
    /// way. Also does so before an error is returned, so that a process may exit on the error. What is not done in time goes on in the
    /// background, and a shutdown waits for it.
    pub(crate) async fn let_go(
        &self,
        release: impl Future<Output = Result<(), Error>>,
        until: Option<Moment>,
    ) {
        self.within_a_request(until, release).await;
    }

    /// The error of a call whose time has run out without a result from the background.
    pub(crate) fn stands_still(&self, verb: &'static str, waited: Duration) -> Error {
        let why = "the runtime in which this client was built does not run";
        self.unavailable(verb, waited, why)
    }

    /// The error of a call whose time has run out, though no request of its own failed.
    pub(crate) fn unavailable(
        &self,
        verb: &'static str,
        waited: Duration,
        why: &'static str,
    ) -> Error {
        Error::unavailable(&self.store.config().table, verb, waited, why)
    }

    /// When the caller of a call that does not wait stops waiting for it. Returns `None` outside of a runtime, where nothing counts the
    /// time.
    pub(crate) fn gives_up_at_once(&self, started: Moment) -> Option<Moment> {
        let counts = Handle::try_current().is_ok();
        counts.then(|| self.no_wait_ends(started))
    }

    /// A new attempt to get a place, for `tickets` tickets, each of which takes `permits` permits.
    pub(crate) fn attempt(&self, tickets: u64, permits: u64) -> Attempt {
        Attempt::new(self.store.config().random_source.nonce(), tickets, permits)
    }

    /// Where other clients notify the places of this one, as their entries say.
    pub(crate) fn address(&self) -> Option<&str> {
        Some(self.notifications.as_ref()?.address())
    }

    /// A new attempt to get a place that other clients can notify, if this client has a notifier.
    pub(crate) fn notified_attempt(self: &Arc<Self>, tickets: u64, permits: u64) -> Attempt {
        let attempt = self.attempt(tickets, permits);
        let Some(notifications) = &self.notifications else {
            return attempt;
        };
        if let Some(listens) = notifications.listens() {
            self.background.spawn_unlisted(listens);
        }
        let registration = notifications.register(attempt.nonce);
        attempt.notified(registration)
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn_then(name, ticket, task, work.map(|()| || {}));
    }

    /// Spawns the task of a place, which updates its job in the list while it goes on.
    pub(crate) fn spawn_place<W>(self: &Arc<Self>, name: &LockName, work: impl FnOnce(Open) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        self.background
            .spawn_with(job(name, None, Task::Acquire), work);
    }

    /// Spawns work that returns a function, which reports that the work is done.
    pub(crate) fn spawn_then(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output: FnOnce()> + Send + 'static,
    ) {
        self.background.spawn(job(name, ticket, task), work);
    }

    /// Records, for the report of a shutdown, what could not be done.
    pub(crate) fn undone(&self, name: &LockName, ticket: Option<Ticket>, task: Task) {
        self.background.failed(job(name, ticket, task));
    }

    /// Takes in a lock item that an answer showed. If a place on it belongs to an ended attempt, a late request made it, and it is given up
    /// at once. More copies of that request may come, so the attempt is remembered again when that is done.
    pub(crate) fn saw(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        if let Some(driven) = self.used() {
            driven.sees(name, item);
        }
        let late = self.directory.saw(name, item, self.store.now());
        for entry in late {
            tracing::info!(lock = %name, ticket = %entry.ticket, "a late request of an ended attempt took a place: gives it up");
            let (attempt, seen) = (Attempt::late(&entry), item.clone());
            let late = Departure::of(Place::of_another(), attempt, entry.ticket, seen);
            self.leave(name, late);
        }
    }

    /// Whether all places before this ticket are of this client. If they are, the ticket's place is notified of every handoff that comes to
    /// it.
    pub(crate) fn surrounds(&self, name: &LockName, item: &LockItem, ticket: Ticket) -> bool {
        self.directory.surrounds(name, item, ticket)
    }

    /// Registers a place of this client that waits.
    pub(crate) fn waits(&self, name: &LockName, ticket: Ticket, attempt: &Attempt) -> Membership {
        let Attempt { nonce, tickets, .. } = *attempt;
        self.directory.waits(name, ticket, nonce, tickets)
    }

    /// Notes rows that were read as void, with the nonces of their waiters.
    pub(crate) fn rows_are_void(
        &self,
        name: &LockName,
        rows: impl Iterator<Item = (Ticket, Nonce)>,
    ) {
        self.directory.are_void(name, rows);
    }

    /// The first rows behind the slots, as far as they are of this client.
    pub(crate) fn rows(&self, name: &LockName, watermark: Ticket, max: usize) -> Vec<TicketRow> {
        self.directory.rows(name, watermark, max)
    }

    /// Notes that a place of this client came from a slot to the lock.
    pub(crate) fn came_in(&self, name: &LockName, item: &LockItem) {
        let slots = self.store.config().filled_slots;
        self.directory.came_in(name, item, slots);
    }

    /// The lock's queue as this client saw it at its last release, if that was a moment ago.
    pub(crate) fn hint(&self, name: &LockName) -> Option<LockItem> {
        self.directory.take_hint(name, self.store.now())
    }

    pub(crate) fn remember(&self, name: &LockName, item: LockItem) {
        if !item.is_idle() {
            self.directory.hint(name, item, self.store.now());
        }
    }

    /// The pace of a lock's queue, as far as this client knows it.
    pub(crate) fn pace(&self, name: &LockName) -> PollSchedule {
        let config = self.store.config();
        let known = self.directory.pace(name);
        known.unwrap_or_else(|| {
            PollSchedule::new(config.min_poll_interval, config.max_poll_interval)
        })
    }

    /// Remembers the pace of a queue in which a place has waited.
    pub(crate) fn learnt(&self, name: &LockName, pace: PollSchedule) {
        self.directory.learnt(name, pace);
    }

    /// Registers a hold, with the callers whose turns come after it at the same place.
    pub(crate) fn keep(&self, hold: &Arc<Hold>, batch: &Arc<Batch>, listed: &Listed) {
        self.directory.holds(hold, batch, listed);
        // Otherwise the hold is given back at once, and a shutdown waits for that.
        if !self.closed.is_cancelled() {
            listed.becomes(Task::Heartbeat, hold.ticket);
        }
    }

    /// Notes that a hold has ended, and that its place holds nothing any more.
    pub(crate) fn lets_go(&self, hold: &Hold) {
        self.directory.lets_go(hold);
    }

    /// Takes back what was granted to a call that is not polled, so that it is not kept from other callers.
    pub(crate) async fn untaken<G: Unused>(&self, offer: Offer<G>) -> Option<G> {
        let config = self.store.config();
        offer.untaken(&config.clock, config.request_timeout).await
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.directory.all_held()
    }

    /// Ends all holds and has them released, whatever their guards do.
    pub(crate) fn release_all(&self) {
        for hold in self.holds() {
            // A hold that its guard gave back first is being released. Any other hold that was lost waits for its guard.
            if hold.shut_down() {
                self.directory.note_release(&hold);
            }
        }
    }

    /// Refuses all callers that wait behind holds: no turn will come.
    pub(crate) fn refuse_all(&self) {
        for batch in self.directory.all_batches() {
            batch.refuse(&Refused::ShuttingDown);
        }
    }

    /// Why a batch has stopped: the client is shut down, or no caller of the batch waits any more.
    pub(crate) fn why_stopped(&self) -> Refused {
        match self.closed.is_cancelled() {
            true => Refused::ShuttingDown,
            false => Refused::NotGranted,
        }
    }

    /// Hands the lock off, and tries until the lease ends.
    pub(crate) async fn release(
        self: &Arc<Self>,
        hold: &Hold,
        deadline: Moment,
    ) -> Result<Ended, Failure> {
        let policy = self.policy_until(deadline);
        let writer = self.writer(&hold.name, &policy);
        let registration = hold.attempt.registration();
        let held = self.store.now().since(hold.begun);
        // Told before the write is answered, so that the next holder's poll comes to the table just behind it.
        registration.inspect(|it| it.notify_releasing());
        let ended = writer.release(&hold.attempt, hold.held()).await;
        if let Some(registration) = registration {
            if let Ok(Ended::HandedOff(item)) = &ended {
                let holders = item.holders();
                holders.for_each(|holder| registration.tell_change(holder));
            }
            registration.close();
        }
        hold.telemetry.released(outcome(hold.ticket, &ended));
        // Done before the item is taken in, because the item may show that a late copy of the enter request has come.
        self.forget(&hold.attempt);
        match &ended {
            Ok(Ended::HandedOff(item) | Ended::ReleasedEarlier(Some(item))) => {
                self.saw(&hold.name, item);
                let slots = self.store.config().filled_slots;
                self.directory.note_handoff(&hold.name, item, slots);
                // Beside other holders, the next one may have held the lock before.
                let is_alone = matches!(hold.footing().at, At::Slot(_)) && item.sharers.is_empty();
                if let Some(next) = item.first_holder().filter(|_| is_alone) {
                    let (next, now) = (next.first(), self.store.now());
                    self.directory.handed_off(&hold.name, next, held, now);
                }
                self.remember(&hold.name, item.clone());
                self.admit(&hold.name, item);
            }
            Ok(
                Ended::PassedOn
                | Ended::KeptOn
                | Ended::LeasedOut(..)
                | Ended::ReleasedEarlier(None)
                | Ended::NotOurs(_),
            )
            | Err(_) => {}
        }
        ended
    }

    pub(crate) fn writer<'a>(
        &'a self,
        name: &'a LockName,
        policy: &'a RetryPolicy,
    ) -> HoldWriter<'a> {
        HoldWriter {
            requests: &self.requests,
            name,
            policy,
        }
    }

    /// Admits the successors that need not wait any more, in the background. Otherwise they would admit themselves with their next poll.
    pub(crate) fn admit(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        let (first, admitted) = (
            item.first_successor(),
            item.successors()[..item.admitted()].to_vec(),
        );
        if admitted.is_empty() {
            return;
        }
        let (inner, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Admit, async move {
            let policy = inner.policy_of_few(CancellationToken::new());
            let admit = || place_writes::admit(&inner.store, &name, first, &admitted);
            match inner.requests.retry(&policy, admit).await {
                Ok(answer) => {
                    if answer.value.is_applied()
                        && let Some(notifications) = &inner.notifications
                    {
                        let told = admitted.iter();
                        told.for_each(|entry| notifications.tell_change(entry));
                    }
                    if let Some(item) = answer.value.shown() {
                        inner.saw(&name, &item);
                    }
                }
                Err(failure) => {
                    tracing::debug!(lock = %name, %failure, "left it to the successors to come in");
                }
            }
        });
    }
}

/// What became of the release of a ticket.
pub(crate) fn outcome(ticket: Ticket, ended: &Result<Ended, Failure>) -> ReleaseOutcome {
    match ended {
        Ok(Ended::HandedOff(item) | Ended::ReleasedEarlier(Some(item))) => {
            ReleaseOutcome::shown(item, ticket)
        }
        Ok(Ended::ReleasedEarlier(None)) => ReleaseOutcome::Idle,
        Ok(Ended::PassedOn) => ReleaseOutcome::PassedOn,
        Ok(Ended::KeptOn | Ended::LeasedOut(..)) => ReleaseOutcome::LeftToLease,
        Ok(Ended::NotOurs(_)) => ReleaseOutcome::Gone,
        Err(_) => ReleaseOutcome::Failed,
    }
}

fn job(name: &LockName, ticket: Option<Ticket>, task: Task) -> Job {
    Job {
        lock: name.to_string(),
        ticket,
        task,
    }
}

impl fmt::Debug for ClientInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.store.config();
        f.debug_struct("ClientInner")
            .field("table", &config.table)
            .field("namespace", &config.namespace)
            .finish_non_exhaustive()
    }
}
