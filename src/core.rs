//! What all locks of a client share: the store, the background work, and what it remembers of the lines it has met.

use std::collections::{BTreeMap, HashMap, hash_map};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::acquire::{Acquisition, Party, Refused};
use crate::background::{Background, Job, Task};
use crate::cohort::Cohort;
use crate::entry::{Entry, Nonce};
use crate::error::Loss;
use crate::guard::LockGuard;
use crate::hold::Hold;
use crate::item::{LockItem, Spot};
use crate::lease;
use crate::moment::Moment;
use crate::name::LockName;
use crate::passing;
use crate::queue;
use crate::seats::{Ended, Seats};
use crate::store::{Attempt, Failure, Limit, Patience, Refusals, Store, Write};
use crate::ticket::Ticket;
use crate::wait::Pace;

/// What this process saw of a line serves to skip an enter that must fail for as long as this.
const HINT_LASTS: Duration = Duration::from_secs(1);
/// Hints, paces and doubtful nonces kept at the most; beyond that the oldest knowledge is the least useful.
const REMEMBERED: usize = 1024;
/// Settled rows that are deleted together where nobody else reads them meanwhile.
const LITTER_AT_ONCE: usize = 8;

/// What all locks of a client share.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) background: Arc<Background>,
    /// Cancelled by `shutdown`; everything that waits stops waiting.
    pub(crate) closed: CancellationToken,
    /// Those of this client who wait in line.
    pub(crate) cohort: Arc<Cohort>,
    memory: Mutex<Memory>,
}

/// What a client remembers of the lines it has met.
#[derive(Debug, Default)]
struct Memory {
    /// Lines that were not empty when this client last released.
    hints: HashMap<LockName, (LockItem, Moment)>,
    /// Settled rows that are still to be deleted.
    litter: HashMap<LockName, Vec<Ticket>>,
    /// How fast the lines were that this client waited in.
    paces: HashMap<LockName, Pace>,
    /// Nonces of ended attempts some request of which was never answered.
    doubtful: BTreeMap<Nonce, LockName>,
    holds: Vec<Weak<Hold>>,
    /// Locks of which somebody of this client is on the way into the line, and those who wait until it is there.
    doors: HashMap<LockName, Option<Arc<Party>>>,
    /// Those whose turn comes after the one who holds the lock, at the same place.
    parties: BTreeMap<Nonce, Seated>,
}

impl Memory {
    /// Whether somebody waits for a hold to be passed on. Those who come after a later hold at its place do not.
    fn is_passed_on(&self, hold: &Hold) -> bool {
        let seated = self.parties.get(&hold.attempt.nonce);
        seated.is_some_and(|seated| {
            Some(seated.next) == hold.ticket.next() && !seated.party.is_empty()
        })
    }
}

/// The rest of a party at the place of the holder.
#[derive(Debug)]
struct Seated {
    party: Arc<Party>,
    /// The ticket of the next of them, and the newest of all.
    next: Ticket,
    last: Ticket,
}

/// The way into a line, which those of one client take one after the other. Dropped, it lets the next in.
pub(crate) struct Turnstile {
    core: Arc<Core>,
    name: LockName,
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        self.core.next_at_the_door(&self.name);
    }
}

impl Core {
    pub(crate) fn new(store: Store, runtime: Handle) -> Self {
        Core {
            store,
            background: Arc::new(Background::new(runtime)),
            closed: CancellationToken::new(),
            cohort: Arc::default(),
            memory: Mutex::default(),
        }
    }

    /// A new attempt to get a place, for so many tickets.
    pub(crate) fn attempt(&self, tickets: u64) -> Attempt {
        Attempt::new(self.store.config().chance.nonce(), tickets)
    }

    /// Where a call waits for a lock: alone at the door, or with those who came while somebody is there.
    pub(crate) fn party(self: &Arc<Self>, name: &LockName) -> (Arc<Party>, Option<Turnstile>) {
        let new = || Arc::new(Party::new(self.closed.child_token()));
        match self.memory().doors.entry(name.clone()) {
            hash_map::Entry::Vacant(door) => {
                door.insert(None);
                let turnstile = Turnstile {
                    core: Arc::clone(self),
                    name: name.clone(),
                };
                (new(), Some(turnstile))
            }
            hash_map::Entry::Occupied(mut door) => {
                let gathering = door.get_mut();
                gathering.take_if(|party| party.is_over());
                (Arc::clone(gathering.get_or_insert_with(new)), None)
            }
        }
    }

    fn next_at_the_door(self: &Arc<Self>, name: &LockName) {
        let party = {
            let mut memory = self.memory();
            let next = memory.doors.get_mut(name).and_then(Option::take);
            let next = next.filter(|party| !party.is_empty());
            if next.is_none() {
                memory.doors.remove(name);
            }
            next
        };
        if let Some(party) = party {
            let turnstile = Turnstile {
                core: Arc::clone(self),
                name: name.clone(),
            };
            self.acquire(name, party, true, Some(turnstile));
        }
    }

    /// Goes for the lock, in the background.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        name: &LockName,
        party: Arc<Party>,
        waits: bool,
        turnstile: Option<Turnstile>,
    ) {
        let acquisition = Acquisition {
            core: Arc::clone(self),
            name: name.clone(),
            party,
            started: self.store.now(),
            waits,
            is_over: false,
        };
        self.spawn(name, None, Task::Acquire, acquisition.run(turnstile));
    }

    /// Notes who has the lock after a hold at the place of `entry`.
    pub(crate) fn seat(&self, hold: &Hold, party: &Arc<Party>, entry: &Entry) {
        if let Some(next) = hold.ticket.next()
            && next <= entry.ticket
        {
            let seated = Seated {
                party: Arc::clone(party),
                next,
                last: entry.ticket,
            };
            self.memory().parties.insert(entry.nonce, seated);
        }
    }

    /// Gives the lock to the next at the same place, without a request but for a renewal that is overdue. Whether there is one.
    async fn pass_on(self: &Arc<Self>, hold: &Hold) -> bool {
        if !self.memory().is_passed_on(hold) {
            return false;
        }
        let is_over = hold.is_lost() || self.closed.is_cancelled();
        let is_over = is_over || !self.has_lease_left(hold).await;
        let Some(seated) = self.rest_of(hold) else {
            return false;
        };
        if is_over {
            self.stand_anew(&hold.name, seated.party);
            return false;
        }
        let Seated { party, next, last } = seated;
        if let Some(after) = next.next().filter(|after| *after <= last) {
            let rest = Seated {
                party: Arc::clone(&party),
                next: after,
                last,
            };
            self.memory().parties.insert(hold.attempt.nonce, rest);
        }
        tracing::debug!(lock = %hold.name, ticket = %next, "passed on");
        let guard = LockGuard::new(Arc::clone(self), hold.passed_on(next));
        // Either `shutdown` saw the hold, or it was called before this: then nobody is to have the guard.
        if self.closed.is_cancelled() {
            party.refuse(Refused::GaveUp);
        }
        // If nobody takes it, it is dropped, and so released.
        drop(party.grant(guard));
        true
    }

    /// Those who come after a hold at the same place, if some of them still wait.
    fn rest_of(&self, hold: &Hold) -> Option<Seated> {
        let mut memory = self.memory();
        let is_passed_on = memory.is_passed_on(hold);
        is_passed_on.then(|| memory.parties.remove(&hold.attempt.nonce))?
    }

    /// The runtime is gone: nobody passes the lock on.
    fn abandon_rest_of(&self, hold: &Hold) {
        if let Some(seated) = self.rest_of(hold) {
            seated.party.refuse(Refused::Gone);
        }
    }

    /// The place of these is gone: they go to the end of the line.
    fn stand_anew(self: &Arc<Self>, name: &LockName, party: Arc<Party>) {
        if self.closed.is_cancelled() {
            party.refuse(Refused::GaveUp);
        } else {
            self.acquire(name, party, true, None);
        }
    }

    /// Whether a hold has half a lease left, by a renewal if need be.
    async fn has_lease_left(&self, hold: &Hold) -> bool {
        let (store, lease) = (&self.store, self.store.config().lease);
        let until = hold.believed_until();
        if !lease::is_short(lease, until.since(store.now())) {
            return true;
        }
        let patience = Patience {
            until: Some(until),
            limit: Limit::None,
            refusals: Refusals::Passing,
            stop: self.closed.clone(),
        };
        let renew = || store.renew_hold(&hold.name, hold.attempt.nonce, lease);
        let Ok(answer) = store.insist(&patience, renew).await else {
            return false;
        };
        match &answer.value {
            Write::Applied(item) => match item.place_of(hold.attempt.nonce) {
                Some(Spot::Holder(entry)) => {
                    hold.renewed(entry, answer.sent);
                    true
                }
                _ => false,
            },
            Write::Refused(_) => false,
        }
    }

    /// Tells all who wait behind holds that there will be no turn.
    pub(crate) fn refuse_all(&self) {
        let parties = std::mem::take(&mut self.memory().parties);
        for seated in parties.into_values() {
            seated.party.refuse(Refused::GaveUp);
        }
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output = ()> + Send + 'static,
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

    /// As long as what is left in the table could be in somebody's way: then others have removed it.
    pub(crate) fn patience_for_leaving(&self) -> Patience {
        let config = self.store.config();
        let until = self.store.now() + config.lease * 2 + config.gap_grace;
        Patience {
            until: Some(until),
            limit: Limit::None,
            refusals: Refusals::Passing,
            stop: CancellationToken::new(),
        }
    }

    /// Notes that an attempt is over. One that is in doubt may still turn up in the table.
    pub(crate) fn forget(&self, name: &LockName, attempt: &Attempt) {
        if attempt.is_in_doubt() {
            let mut memory = self.memory();
            while memory.doubtful.len() >= REMEMBERED {
                memory.doubtful.pop_first();
            }
            memory.doubtful.insert(attempt.nonce, name.clone());
        }
    }

    /// Takes in a lock item that an answer showed: a place on it that belongs to an attempt that is over was made by
    /// a request that came late, and is given up at once.
    pub(crate) fn saw(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        self.cohort.saw(name, item);
        let late: Vec<_> = {
            let mut memory = self.memory();
            if memory.doubtful.is_empty() {
                return;
            }
            item.entries()
                .filter(|entry| memory.doubtful.remove(&entry.nonce).is_some())
                .cloned()
                .collect()
        };
        for entry in late {
            tracing::info!(lock = %name, ticket = %entry.ticket, "a late request of an ended attempt took a place: gives it up");
            self.give_up(
                name,
                Attempt::new(entry.nonce, entry.tickets),
                entry.ticket,
                Some(item.clone()),
            );
        }
    }

    /// Whether all who come before this ticket are of this client: then no hand-over comes to it of which it is not told.
    pub(crate) fn surrounds(&self, name: &LockName, item: &LockItem, ticket: Ticket) -> bool {
        let is_held_by = |holder: &Entry| {
            let holds = self.holds();
            holds.iter().any(|hold| hold.attempt.nonce == holder.nonce)
        };
        item.holder.as_ref().is_some_and(is_held_by) && self.cohort.fills(name, item, ticket)
    }

    /// Gives up whatever place an attempt got that was never answered, in the background.
    pub(crate) fn give_up_unseen(self: &Arc<Self>, name: &LockName, attempt: Attempt) {
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Leave, async move {
            let patience = core.patience_for_leaving();
            match core
                .store
                .persist(&patience, || core.store.read_lock(&name))
                .await
            {
                Ok(answer) => {
                    core.give_up_now(&name, &attempt, answer.value, &patience)
                        .await
                }
                Err(failure) => {
                    tracing::warn!(lock = %name, %failure, "could not look for a place to give up");
                    core.undone(&name, None, Task::Leave);
                }
            }
        });
    }

    /// Leaves the line with a drawn ticket, in the background, whatever became of it since `seen`.
    pub(crate) fn leave(
        self: &Arc<Self>,
        name: &LockName,
        attempt: Attempt,
        ticket: Ticket,
        seen: LockItem,
    ) {
        if ticket <= seen.seated {
            return self.give_up(name, attempt, ticket, Some(seen));
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), Some(ticket), Task::Leave, async move {
            let patience = core.patience_for_leaving();
            match queue::leave(&core.store, &name, &patience, &attempt, ticket).await {
                Ok(seen) => {
                    let seen = seen.map(|answer| answer.value);
                    core.give_up_now(&name, &attempt, seen, &patience).await;
                }
                Err(failure) => {
                    tracing::warn!(lock = %name, %ticket, %failure, "could not leave the line: others pass this ticket in time");
                    core.undone(&name, Some(ticket), Task::Leave);
                }
            }
        });
    }

    /// Deletes rows that are settled, in the background. What fails is left to the next who cleans.
    pub(crate) fn clean(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        if settled.is_empty() {
            return;
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Clean, async move {
            let patience = core.patience_of_few(CancellationToken::new());
            passing::clean(&core.store, &name, &patience, &settled).await;
        });
    }

    /// Has rows deleted together with others, when there are enough of them or nobody of this client waits any more.
    pub(crate) fn clean_later(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        let is_waiting = self.cohort.waits_for(name);
        let litter = {
            let mut memory = self.memory();
            let litter = memory.litter.entry(name.clone()).or_default();
            litter.extend(settled);
            if litter.len() < LITTER_AT_ONCE && is_waiting {
                return;
            }
            memory.litter.remove(name).unwrap_or_default()
        };
        self.clean(name, litter);
    }

    /// Gives up a place on the lock item, in the background.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        name: &LockName,
        attempt: Attempt,
        ticket: Ticket,
        seen: Option<LockItem>,
    ) {
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), Some(ticket), Task::Leave, async move {
            let patience = core.patience_for_leaving();
            core.give_up_now(&name, &attempt, seen, &patience).await;
        });
    }

    async fn give_up_now(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: Option<LockItem>,
        patience: &Patience,
    ) {
        let seats = Seats {
            store: &self.store,
            name,
            patience,
        };
        if let Err(failure) = seats.give_up(attempt, seen).await {
            tracing::warn!(lock = %name, %failure, "could not give up a place: it lapses with its lease");
            self.undone(name, None, Task::Leave);
        }
        self.forget(name, attempt);
    }

    /// What the lock's line looked like when this client last released, if that was a moment ago.
    pub(crate) fn hint(&self, name: &LockName) -> Option<LockItem> {
        let (item, seen) = self.memory().hints.remove(name)?;
        (self.store.now().since(seen) < HINT_LASTS).then_some(item)
    }

    pub(crate) fn remember(&self, name: &LockName, item: LockItem) {
        if item.is_idle() {
            return;
        }
        let now = self.store.now();
        let mut memory = self.memory();
        if memory.hints.len() >= REMEMBERED {
            memory
                .hints
                .retain(|_, (_, seen)| now.since(*seen) < HINT_LASTS);
        }
        if memory.hints.len() < REMEMBERED {
            memory.hints.insert(name.clone(), (item, now));
        }
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

    /// Registers a hold and keeps it renewed.
    pub(crate) fn keep(self: &Arc<Self>, hold: &Arc<Hold>) {
        {
            let mut memory = self.memory();
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
                crate::heartbeat::keep(&core.store, &hold, |item| core.saw(&hold.name, item)).await;
                if hold.is_lost()
                    && let Some(seated) = core.rest_of(&hold)
                {
                    core.stand_anew(&hold.name, seated.party);
                }
            },
        );
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
        self.spawn(&hold.name, Some(hold.ticket), Task::Release, async move {
            let Releasing(core, hold) = &releasing;
            then(core.release(hold, deadline).await);
        });
    }

    async fn release(self: &Arc<Self>, hold: &Hold, deadline: Moment) -> Result<Ended, Failure> {
        if self.pass_on(hold).await {
            return Ok(Ended::PassedOn);
        }
        let patience = Patience {
            until: Some(deadline),
            limit: Limit::None,
            refusals: Refusals::Passing,
            stop: CancellationToken::new(),
        };
        let seats = Seats {
            store: &self.store,
            name: &hold.name,
            patience: &patience,
        };
        let ended = seats.release(&hold.attempt).await;
        match &ended {
            Ok(Ended::HandedOver(item) | Ended::Before(Some(item))) => {
                tracing::debug!(lock = %hold.name, ticket = %hold.ticket, "released");
                self.saw(&hold.name, item);
                let seats = self.store.config().seats;
                self.cohort.handed_over(&hold.name, item, seats);
                self.remember(&hold.name, item.clone());
            }
            Ok(Ended::PassedOn | Ended::Before(None) | Ended::NotOurs(_)) | Err(_) => {}
        }
        self.forget(&hold.name, &hold.attempt);
        ended
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
