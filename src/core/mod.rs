//! What all locks of a client share: the store, the background work, and what it remembers of the lines it has met.

mod claim;
mod doubts;
mod downgrades;
mod handle;
mod hints;
mod holding;
mod leaving;
mod parties;
mod party;
mod prospect;
mod trouble;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::background::{Background, Job, Task};
use crate::cohort::Cohort;
use crate::error::{Error, Loss};
use crate::heartbeat;
use crate::hold::Hold;
use crate::name::LockName;
use crate::offer::Offer;
use crate::seats::{Ended, Seats};
use crate::store::{Attempt, Failure, Limit, Patience, Refusals, Store};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::Pace;
use fairlock_protocol::place::Place;
use fairlock_protocol::stagger::Stagger;
use fairlock_protocol::ticket::{Sequence, Ticket};

pub(crate) use claim::{Claim, Refused};
use doubts::Doubts;
pub(crate) use handle::CoreHandle;
use hints::Hints;
pub(crate) use holding::Holding;
pub(crate) use leaving::{Departure, Left};
use parties::{Door, Seated};
pub(crate) use parties::{Go, Turnstile};
pub(crate) use party::{Caller, Joined, Observer, Party, Told};
pub(crate) use prospect::Prospect;
pub(crate) use trouble::Trouble;

/// Paces kept at the most.
const REMEMBERED: usize = 1024;

/// Attempts at a request of a caller that does not wait.
pub(crate) const ATTEMPTS_AT_ONCE: u32 = 4;
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
    /// Those of this client who wait in line.
    pub(crate) cohort: Arc<Cohort>,
    memory: Mutex<Memory>,
    go: Go,
    /// How many handles there are.
    handles: AtomicUsize,
}

/// What a client remembers of the lines it has met.
#[derive(Debug, Default)]
struct Memory {
    hints: Hints,
    /// Settled rows that are still to be deleted.
    litter: HashMap<LockName, Vec<Ticket>>,
    /// How fast the lines were that this client waited in.
    paces: HashMap<LockName, Pace>,
    doubts: Doubts,
    holds: Vec<Weak<Hold>>,
    /// How many have been held beside others since there were none.
    staggered: u64,
    /// Locks of which somebody of this client is on the way into the line, and those who wait until it is there.
    doors: HashMap<LockName, Door>,
    /// Those whose turn comes after the one who holds the lock, at the same place.
    parties: BTreeMap<Nonce, Seated>,
}

impl Memory {
    /// Whether a caller still waits for a hold to be passed on.
    fn is_passed_on(&self, hold: &Hold, now: Moment) -> bool {
        let seated = self.parties.get(&hold.attempt.nonce);
        self.comes_next(hold) && seated.is_some_and(|seated| seated.party.waits(now))
    }

    /// Has a hold renewed at other times than those that are held already.
    fn stagger(&mut self, hold: &Hold) {
        let mut others = self.holds.iter().filter_map(Weak::upgrade);
        self.staggered = match others.any(|other| other.is_held()) {
            true => self.staggered.wrapping_add(1),
            false => 0,
        };
        hold.stagger(Stagger::of(self.staggered));
    }

    /// Whether what is noted of a hold's place comes after this hold, and not after a later one there.
    fn comes_next(&self, hold: &Hold) -> bool {
        let seated = self.parties.get(&hold.attempt.nonce);
        seated.is_some_and(|seated| Some(seated.next) == hold.ticket.next())
    }
}

impl Core {
    /// `go` is called for those who come to a lock.
    pub(crate) fn new(store: Store, runtime: Handle, go: Go) -> Self {
        Core {
            store,
            go,
            background: Arc::new(Background::new(runtime)),
            closed: CancellationToken::new(),
            cohort: Arc::default(),
            memory: Mutex::default(),
            handles: AtomicUsize::new(0),
        }
    }

    /// When a call that does not wait has tried for long enough: for as long as its attempts take if none is answered. A little less,
    /// so that the last one has said what failed before the call returns.
    pub(crate) fn no_wait_ends(&self, started: Moment) -> Moment {
        let timeout = self.store.config().request_timeout;
        started + (timeout * ATTEMPTS_AT_ONCE).saturating_sub(timeout / 10)
    }

    /// Such a call has returned after that, whatever its last attempt has become.
    pub(crate) fn no_wait_lasts(&self) -> Duration {
        self.store.config().request_timeout * (ATTEMPTS_AT_ONCE + 1)
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

    /// The same for work that returns how it tells that it is done.
    pub(crate) fn spawn_then(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output: FnOnce()> + Send + 'static,
    ) {
        self.background.spawn(
            Job {
                lock: name.to_string(),
                ticket,
                task,
            },
            work,
        );
    }

    /// Notes for the report of a shutdown what could not be done.
    fn undone(&self, name: &LockName, ticket: Option<Ticket>, task: Task) {
        self.background.failed(Job {
            lock: name.to_string(),
            ticket,
            task,
        });
    }

    /// Takes in a lock item that an answer showed: a place on it that belongs to an attempt that is over was made by
    /// a request that came late, and is given up at once. More of its copies may come: it is remembered again when that is done.
    pub(crate) fn saw(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        self.cohort.saw(name, item);
        let late: Vec<_> = {
            let mut memory = self.memory();
            // Every answer comes by here, so what is too old goes with the next one, whatever lock that is of.
            memory.hints.forget(self.store.now());
            if memory.doubts.is_empty() {
                return;
            }
            item.entries()
                .filter(|entry| memory.doubts.settle(entry.nonce))
                .cloned()
                .collect()
        };
        for entry in late {
            tracing::info!(lock = %name, ticket = %entry.ticket, "a late request of an ended attempt took a place: gives it up");
            let (attempt, seen) = (Attempt::late(&entry), item.clone());
            let late = Departure::of(Place::of_another(), attempt, entry.ticket, seen);
            drop(self.leave(name, late));
        }
    }

    /// Whether all who come before this ticket are of this client: then no hand-over comes to it of which it is not told.
    pub(crate) fn surrounds(&self, name: &LockName, item: &LockItem, ticket: Ticket) -> bool {
        if item.is_free() {
            return false;
        }
        let holds = self.holds();
        let is_held_here = |holder: &Entry| holds.iter().any(|hold| hold.is(holder));
        item.holders().all(is_held_here) && self.cohort.fills(name, item, ticket)
    }

    /// What the lock's line looked like when this client last released, if that was a moment ago.
    pub(crate) fn hint(&self, name: &LockName) -> Option<LockItem> {
        self.memory().hints.take(name, self.store.now())
    }

    pub(crate) fn remember(&self, name: &LockName, item: LockItem) {
        if item.is_idle() {
            return;
        }
        self.memory().hints.keep(name, item, self.store.now());
    }

    /// The pace of a lock's line, as far as this client knows it.
    pub(crate) fn pace(&self, name: &LockName) -> Pace {
        let config = self.store.config();
        let known = self.memory().paces.get(name).cloned();
        known.unwrap_or_else(|| Pace::new(config.shortest_look, config.longest_look))
    }

    /// Remembers the pace of a line that was waited in.
    pub(crate) fn learnt(&self, name: &LockName, pace: Pace) {
        let mut memory = self.memory();
        if memory.paces.len() >= REMEMBERED && !memory.paces.contains_key(name) {
            memory.paces.clear();
        }
        memory.paces.insert(name.clone(), pace.at_rest());
    }

    /// Registers a hold and keeps it renewed, and gives it back if its guard is not taken in time.
    pub(crate) fn keep(self: &Arc<Self>, hold: &Arc<Hold>, offer: Offer<Holding>) {
        {
            let mut memory = self.memory();
            memory.stagger(hold);
            memory.holds.retain(|hold| hold.strong_count() > 0);
            memory.holds.push(Arc::downgrade(hold));
        }
        let (core, hold) = (Arc::clone(self), Arc::clone(hold));
        let orphan = Orphan(Arc::clone(&core), Arc::clone(&hold));
        self.spawn(
            &hold.name.clone(),
            Some(hold.ticket),
            Task::Heartbeat,
            async move {
                let _orphan = orphan;
                core.keep_renewed(&hold, offer).await;
                if hold.is_lost()
                    && let Some(seated) = core.rest_of(&hold)
                {
                    core.stand_anew(&hold.name, seated.party);
                }
            },
        );
    }

    /// Ends with the hold, which ends at once if its guard is given back.
    async fn keep_renewed(self: &Arc<Self>, hold: &Hold, offer: Offer<Holding>) {
        let saw = |item: &LockItem| self.saw(&hold.name, item);
        let mut renewing = pin!(heartbeat::keep(&self.store, hold, saw));
        let untaken = tokio::select! {
            biased;
            () = &mut renewing => return,
            untaken = self.untaken(offer) => untaken,
        };
        if let Some(guard) = untaken {
            tracing::info!(lock = %hold.name, ticket = %hold.ticket, "granted to a call that was not polled: gives the lock back");
            drop(guard);
        }
        tokio::select! {
            biased;
            // First: nothing is freed under a hold that has ended.
            () = &mut renewing => return,
            () = self.frees_late(hold) => {}
        }
        renewing.await;
    }

    /// What was granted to a call that is not polled, so that it is not kept from others.
    pub(crate) async fn untaken<G>(&self, offer: Offer<G>) -> Option<G> {
        let config = self.store.config();
        offer.untaken(&config.clock, config.request_timeout).await
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.memory()
            .holds
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Releases a hold in the background, ending it locally first: as lost for a reason, or as given back.
    pub(crate) fn release_behind(self: Arc<Self>, hold: Arc<Hold>, loss: Option<Loss>) {
        let deadline = hold.believed_until();
        match loss {
            // Its guard is releasing it, or will when it is dropped: two releases would take each other for theft.
            Some(loss) if !hold.lose(loss.clone()) => return,
            Some(_) => {}
            None => {
                hold.give_back();
            }
        }
        let core = Arc::clone(&self);
        self.release_then(&hold.clone(), deadline, move |ended| match ended {
            Ok(_) => {}
            Err(failure) => {
                tracing::warn!(lock = %hold.name, ticket = %hold.ticket, %failure, "could not release: the lease ends the hold");
                core.undone(&hold.name, Some(hold.ticket), Task::Release);
            }
        });
    }

    /// Hands the lock over in the background, trying until the lease ends.
    pub(crate) fn release_then(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        deadline: Moment,
        then: impl FnOnce(Result<Ended, Failure>) + Send + 'static,
    ) {
        let releasing = Releasing(Arc::clone(self), Arc::clone(hold));
        self.spawn_then(&hold.name, Some(hold.ticket), Task::Release, async move {
            let Releasing(core, hold) = &releasing;
            // Boxed, or it would be moved with all its room each time that this task is.
            let ended = Box::pin(core.release(hold, deadline)).await;
            move || then(ended)
        });
    }

    async fn release(self: &Arc<Self>, hold: &Hold, deadline: Moment) -> Result<Ended, Failure> {
        if self.pass_on(hold).await {
            return Ok(Ended::PassedOn);
        }
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
                self.cohort.handed_over(&hold.name, item, seats);
                self.remember(&hold.name, item.clone());
                self.admit(&hold.name, item);
            }
            Ok(Ended::PassedOn | Ended::Before(None) | Ended::NotOurs(_)) | Err(_) => {}
        }
        ended
    }

    fn is_passed_on(&self, hold: &Hold) -> bool {
        self.memory().is_passed_on(hold, self.store.now())
    }

    pub(crate) fn patience_until(&self, deadline: Moment) -> Patience {
        Patience {
            until: Some(deadline),
            limit: Limit::None,
            refusals: Refusals::Passing,
            stop: CancellationToken::new(),
        }
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

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a hold whose heartbeat ends before it: with the runtime, which nothing of it may outlive.
struct Orphan(Arc<Core>, Arc<Hold>);

impl Drop for Orphan {
    fn drop(&mut self) {
        let Orphan(core, hold) = self;
        if hold.lose(Loss::NoRuntime) {
            core.abandon_rest_of(hold);
        }
    }
}

/// A release; dropped before it is done, with the runtime, it is nobody's turn.
struct Releasing(Arc<Core>, Arc<Hold>);

impl Drop for Releasing {
    fn drop(&mut self) {
        let Releasing(core, hold) = self;
        core.abandon_rest_of(hold);
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
