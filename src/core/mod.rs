//! What all locks of a client share: the store, the background work, and what it remembers of the lines it has met.

mod claim;
mod directory;
mod downgrades;
mod handle;
mod holding;
mod leaving;
mod parties;
mod party;
mod patience;
mod prospect;
mod trouble;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::background::{Background, Job, Listed, Open, Task};
use crate::error::{Error, Loss};
use crate::hold::Hold;
use crate::name::LockName;
use crate::offer::Offer;
use crate::seats::{Ended, Seats};
use crate::store::{Attempt, Failure, Patience, Store};
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::Pace;
use fairlock_protocol::place::Place;
use fairlock_protocol::ticket::Ticket;

pub(crate) use claim::{Claim, Refused};
use directory::Directory;
pub(crate) use directory::Membership;
pub(crate) use handle::CoreHandle;
pub(crate) use holding::{GiveBack, GivenBack, Holding};
pub(crate) use leaving::Departure;
pub(crate) use parties::{Go, Turnstile, alone};
pub(crate) use party::{Caller, Joined, Observer, Party, Told};
pub(crate) use prospect::Prospect;
pub(crate) use trouble::Trouble;

/// Reads by which the time is to be known: of two answers that disagree, the third tells which was wrong; one may tell none.
pub(crate) const READS: usize = 4;
/// So long after the time at which its background has something to tell, a caller stops waiting for it.
pub(crate) const STANDSTILL: Duration = Duration::from_millis(20);

/// What all locks of a client share.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) background: Arc<Background>,
    /// Cancelled by `shutdown`; everything that waits stops waiting.
    pub(crate) closed: CancellationToken,
    directory: Arc<Directory>,
    go: Go,
    /// How many handles there are.
    handles: AtomicUsize,
}

impl Core {
    /// `go` is called for those who come to a lock.
    pub(crate) fn new(store: Store, runtime: Handle, go: Go) -> Self {
        Core {
            store,
            go,
            background: Arc::new(Background::new(runtime)),
            closed: CancellationToken::new(),
            directory: Arc::default(),
            handles: AtomicUsize::new(0),
        }
    }

    /// Waits for work of a call, no longer than a request may take, and neither beyond `until` nor for a client that is shut down.
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

    /// Gives back what was taken before it is asked for again, or a caller that does not wait would find itself there; and before
    /// an error is told, so that a process may end with it. What is not done in time goes on in the background, and a shutdown
    /// waits for it.
    pub(crate) async fn let_go(
        &self,
        release: impl Future<Output = Result<(), Error>>,
        until: Option<Moment>,
    ) {
        self.within_a_request(until, release).await;
    }

    /// The error of a call whose time is over without a word from the background.
    pub(crate) fn stands_still(&self, verb: &'static str, waited: Duration) -> Error {
        let why = "the runtime in which this client was built does not run";
        self.unavailable(verb, waited, why)
    }

    /// The error of a call whose time is over, though no request of its own failed.
    pub(crate) fn unavailable(
        &self,
        verb: &'static str,
        waited: Duration,
        why: &'static str,
    ) -> Error {
        Error::Unavailable {
            table: self.store.config().table.clone(),
            verb,
            waited,
            source: why.into(),
        }
    }

    /// When the caller of such a call stops waiting for it; none outside of a runtime, where nothing counts the time.
    pub(crate) fn gives_up_at_once(&self, started: Moment) -> Option<Moment> {
        let counts = Handle::try_current().is_ok();
        counts.then(|| self.no_wait_ends(started))
    }

    /// A new attempt to get a place, for so many tickets, each of which takes so many permits.
    pub(crate) fn attempt(&self, tickets: u64, permits: u64) -> Attempt {
        Attempt::new(self.store.config().chance.nonce(), tickets, permits)
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

    /// The same for the task of a place, which says what it is about while it goes on.
    pub(crate) fn spawn_place<W>(self: &Arc<Self>, name: &LockName, work: impl FnOnce(Open) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        self.background
            .spawn_with(job(name, None, Task::Acquire), work);
    }

    /// The same for work that returns how it tells that it is done.
    pub(crate) fn spawn_then(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output: FnOnce()> + Send + 'static,
    ) {
        self.background.spawn(job(name, ticket, task), work);
    }

    /// Notes for the report of a shutdown what could not be done.
    pub(crate) fn undone(&self, name: &LockName, ticket: Option<Ticket>, task: Task) {
        self.background.failed(job(name, ticket, task));
    }

    /// Takes in a lock item that an answer showed: a place on it that belongs to an attempt that is over was made by
    /// a request that came late, and is given up at once. More of its copies may come: it is remembered again when that is done.
    pub(crate) fn saw(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        let late = self.directory.saw(name, item, self.store.now());
        for entry in late {
            tracing::info!(lock = %name, ticket = %entry.ticket, "a late request of an ended attempt took a place: gives it up");
            let (attempt, seen) = (Attempt::late(&entry), item.clone());
            let late = Departure::of(Place::of_another(), attempt, entry.ticket, seen);
            self.leave(name, late);
        }
    }

    /// Whether all who come before this ticket are of this client: then no hand-over comes to it of which it is not told.
    pub(crate) fn surrounds(&self, name: &LockName, item: &LockItem, ticket: Ticket) -> bool {
        self.directory.surrounds(name, item, ticket)
    }

    /// Adds a place that waits to those of this client.
    pub(crate) fn waits(&self, name: &LockName, ticket: Ticket, attempt: &Attempt) -> Membership {
        let Attempt { nonce, tickets, .. } = *attempt;
        self.directory.waits(name, ticket, nonce, tickets)
    }

    /// The first rows behind the slots, as far as they are of this client.
    pub(crate) fn rows(&self, name: &LockName, watermark: Ticket, max: usize) -> Vec<TicketRow> {
        self.directory.rows(name, watermark, max)
    }

    /// A place of this client came from a slot to the lock.
    pub(crate) fn came_in(&self, name: &LockName, item: &LockItem) {
        let slots = self.store.config().seats;
        self.directory.came_in(name, item, slots);
    }

    /// What the lock's line looked like when this client last released, if that was a moment ago.
    pub(crate) fn hint(&self, name: &LockName) -> Option<LockItem> {
        self.directory.take_hint(name, self.store.now())
    }

    pub(crate) fn remember(&self, name: &LockName, item: LockItem) {
        if !item.is_idle() {
            self.directory.hint(name, item, self.store.now());
        }
    }

    /// The pace of a lock's line, as far as this client knows it.
    pub(crate) fn pace(&self, name: &LockName) -> Pace {
        let config = self.store.config();
        let known = self.directory.pace(name);
        known.unwrap_or_else(|| Pace::new(config.shortest_look, config.longest_look))
    }

    /// Remembers the pace of a line that was waited in.
    pub(crate) fn learnt(&self, name: &LockName, pace: Pace) {
        self.directory.learnt(name, pace);
    }

    /// Registers a hold, with those whose turn comes after it at the same place.
    pub(crate) fn keep(&self, hold: &Arc<Hold>, party: &Arc<Party>, listed: &Listed) {
        self.directory.holds(hold, party, listed);
        // Or it is given back at once, which whoever shuts down waits for.
        if !self.closed.is_cancelled() {
            listed.becomes(Task::Heartbeat, hold.ticket);
        }
    }

    /// A hold has ended, and its place holds nothing any more.
    pub(crate) fn lets_go(&self, hold: &Hold) {
        self.directory.lets_go(hold);
    }

    /// What was granted to a call that is not polled, so that it is not kept from others.
    pub(crate) async fn untaken<G>(&self, offer: Offer<G>) -> Option<G> {
        let config = self.store.config();
        offer.untaken(&config.clock, config.request_timeout).await
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.directory.all_held()
    }

    /// Ends all holds, and has them released, whatever their guards do.
    pub(crate) fn release_all(&self) {
        for hold in self.holds() {
            // One whose guard was first is being released. One that was lost before waits for its guard.
            if hold.lose(Loss::ShutDown) {
                self.directory.is_to_release(&hold);
            }
        }
    }

    /// Tells all who wait behind holds that there will be no turn.
    pub(crate) fn refuse_all(&self) {
        for party in self.directory.all_parties() {
            party.refuse(Refused::GaveUp);
        }
    }

    /// Hands the lock over, trying until the lease ends.
    pub(crate) async fn release(
        self: &Arc<Self>,
        hold: &Hold,
        deadline: Moment,
    ) -> Result<Ended, Failure> {
        let patience = self.patience_until(deadline);
        let seats = self.seats(&hold.name, &patience);
        let ended = seats.release(&hold.attempt, hold.held()).await;
        // Before the item is taken in, which may show that a late copy of the enter has come.
        self.forget(&hold.attempt);
        match &ended {
            Ok(Ended::HandedOver(item) | Ended::Before(Some(item))) => {
                tracing::debug!(lock = %hold.name, ticket = %hold.ticket, "released");
                self.saw(&hold.name, item);
                let seats = self.store.config().seats;
                self.directory.handed_over(&hold.name, item, seats);
                self.remember(&hold.name, item.clone());
                self.admit(&hold.name, item);
            }
            Ok(Ended::PassedOn | Ended::Before(None) | Ended::NotOurs(_)) | Err(_) => {}
        }
        ended
    }

    pub(crate) fn seats<'a>(&'a self, name: &'a LockName, patience: &'a Patience) -> Seats<'a> {
        Seats {
            store: &self.store,
            name,
            patience,
        }
    }

    /// Lets heirs in who need not wait any more, in the background. They would see to it themselves with their next look.
    pub(crate) fn admit(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        let (first, admitted) = (item.first_heir(), item.heirs()[..item.admitted()].to_vec());
        if admitted.is_empty() {
            return;
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Admit, async move {
            let patience = core.patience_of_few(CancellationToken::new());
            let admit = || core.store.admit(&name, first, &admitted);
            match core.store.persist(&patience, admit).await {
                Ok(answer) => {
                    if let Some(item) = answer.value.shown() {
                        core.saw(&name, &item);
                    }
                }
                Err(failure) => {
                    tracing::debug!(lock = %name, %failure, "left it to the heirs to come in");
                }
            }
        });
    }
}

fn job(name: &LockName, ticket: Option<Ticket>, task: Task) -> Job {
    Job {
        lock: name.to_string(),
        ticket,
        task,
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.store.config();
        f.debug_struct("Core")
            .field("table", &config.table)
            .field("namespace", &config.namespace)
            .finish_non_exhaustive()
    }
}
