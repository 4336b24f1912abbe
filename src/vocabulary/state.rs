//! The state of a lock as an observer reads it: its holders, and its queue in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::vocabulary::error::{Holder, LossReason};
use crate::vocabulary::name::LockName;
use crate::vocabulary::place_id::PlaceId;
use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::item::{LockItem, RowState, TicketRow, sum};
use fairlock_protocol::lease;
use fairlock_protocol::outage::OutageKind;
use fairlock_protocol::pace::times;
use fairlock_protocol::ticket::{Sequence, Ticket};

/// The state of a lock when it was read. It may have changed since: show it to people, and decide nothing by it.
///
/// # Examples
///
/// ```
/// # async fn show(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
/// let state = lock.inspect().await?;
/// match &state.holder {
///     Some(holder) => println!("{} has it, and {} wait", holder.owner, state.waiting),
///     None => println!("free"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockState {
    /// The lock's name.
    pub lock: String,
    /// How many permits the lock has, as its callers name it. `None` if there is no lock item. A fair lock has 64, and an exclusive
    /// holder has all of them.
    pub permits: Option<u64>,
    /// How many permits there are in place of these, if their number was [changed](crate::LockClient::resize).
    pub resized: Option<u64>,
    /// The holder. Of several holders that share the lock, the participant that has held it for longest.
    pub holder: Option<Participant>,
    /// The other holders of a shared lock.
    pub sharers: Vec<Participant>,
    /// Since when the holder has held the lock, by DynamoDB's clock.
    ///
    /// Known limitation: while other callers share the lock, this may be later than the truth. Whenever one of these releases the
    /// lock or is evicted, the time of a holder in the first slot begins again. Such a holder is the first of a semaphore, or a
    /// downgraded writer.
    pub held_since: Option<SystemTime>,
    /// The queue behind the holder, in order: the successors, and after them the waiters without a slot, which only
    /// [`FairLock::inspect`](crate::FairLock::inspect) reads.
    pub queue: Vec<Participant>,
    /// How many callers wait. [`LockClient::locks`](crate::LockClient::locks) counts the tickets behind the slots, some of which
    /// may be settled already.
    pub waiting: u64,
    /// The data that a holder left on the lock.
    pub data: Option<LockData>,
    /// The newest ticket drawn. `None` if there is no lock item: no caller has used the lock lately.
    pub newest_ticket: Option<Ticket>,
    /// How long a turn takes, the handoff included: the mean of the last nine turns of this lock whose end this client saw. It
    /// saw them while one of its callers waited in the queue, or in the [watch](crate::FairLock::watch) that returns this state.
    /// `None` until it saw a turn end, and in [`LockClient::locks`](crate::LockClient::locks). For a shared lock, the mean says
    /// how often a holder left, not how long each stayed.
    pub mean_turn: Option<Duration>,
}

/// Bytes that a holder of a lock left on it, for later holders and for observers.
///
/// # Examples
///
/// ```
/// # fn resume(state: &fairlock::LockState) {
/// if let Some(data) = &state.data {
///     println!("{} bytes, by the holder of ticket {}", data.bytes.len(), data.ticket);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockData {
    /// The bytes that were written.
    pub bytes: Arc<[u8]>,
    /// The ticket of the hold that wrote it.
    pub ticket: Ticket,
}

impl LockData {
    pub(crate) fn of(item: &LockItem) -> Option<Self> {
        Some(LockData {
            bytes: item.data.as_ref()?.share(),
            ticket: item.written?.ticket,
        })
    }
}

/// A caller that holds a lock or waits for it, or a batch of callers.
///
/// # Examples
///
/// ```
/// # fn list(state: &fairlock::LockState) {
/// for (place, waiting) in state.queue.iter().enumerate() {
///     println!("{place}: {} with ticket {}", waiting.owner, waiting.ticket);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// Its ticket, or the newest of several. The single ticket of a holder is its fencing token; of several tickets, each is the
    /// token of one turn.
    pub ticket: Ticket,
    /// How many callers of one client stand here, with a ticket each: the tickets up to `ticket`.
    pub tickets: u64,
    /// How many of the lock's permits it has, or waits for.
    pub permits: u64,
    /// Its name for people, by default user@host:pid.
    pub owner: String,
    /// The [attributes](crate::FairLock::attributes) that its caller published.
    pub attributes: BTreeMap<String, String>,
    /// The name that holds the lock by a [lease](crate::LockClient::lease_lock). `None` for all others.
    pub lease_id: Option<String>,
    /// Its owner has given it back, and it is kept until then, by DynamoDB's clock: its [shortest time](crate::FairLock::min_hold) is not over.
    /// No process works under it any more. `None` for all others.
    pub kept_until: Option<SystemTime>,
    /// How far it has come.
    pub stage: Stage,
    /// Since when it stands in the queue, by DynamoDB's clock.
    pub since: Option<SystemTime>,
    /// How long it may go unrenewed before other clients take it for dead.
    pub lease: Duration,
    /// How much of its lease was left when it was read, by DynamoDB's clock, to about two seconds. Zero means that it looks dead,
    /// and is passed once an observer has watched it for a lease.
    pub lease_left: Option<Duration>,
    /// Whether its client can be [notified](crate::LockClientBuilder::notifier), as its entry says. The waiter behind a participant that
    /// cannot polls as usual.
    pub is_notifiable: bool,
    pub(crate) nonce: Nonce,
    pub(crate) beat: u64,
}

/// How far a call of [`acquire`](crate::FairLock::acquire) has come, to be shown to people.
///
/// # Examples
///
/// ```
/// # fn show(lock: fairlock::FairLock) -> fairlock::FairLock {
/// lock.observed(|waiting| match (&waiting.outage, waiting.position) {
///     (Some(outage), _) => eprintln!("DynamoDB does not answer: {}", outage.cause),
///     (None, Some(place)) => eprintln!("{place} before us"),
///     (None, None) => {}
/// })
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// How many callers are before this one, the holder included. Callers that share the lock count as one. `None` while the call
    /// has no place in the queue yet.
    pub position: Option<usize>,
    /// The place of the call, by which another process can [give it up](crate::LockClient::give_up), should this process be
    /// killed. `None` while the call has no place.
    pub place_id: Option<PlaceId>,
    /// How long the wait may take: `position` times the mean time of the last nine turns of this lock that this client saw end
    /// while its callers waited. `None` until it saw a turn end. The holder counts as a whole turn, because nothing tells how
    /// long it still needs. Waiters that died, or that left since the last poll, count too.
    pub expected_wait: Option<Duration>,
    /// The holder of the lock.
    pub holder: Option<Holder>,
    /// Since when the holder has held the lock, by DynamoDB's clock, with the limitation of [`LockState::held_since`].
    pub held_since: Option<SystemTime>,
    /// Set while something keeps the call from its turn besides the callers before it. The call goes on trying. The other fields show
    /// what was known before.
    pub outage: Option<Outage>,
    /// Why the call lost its place in the queue, as a hold is lost. The call goes on, and draws a new ticket behind the others. Set until it
    /// has its new place. A waiter without a slot is not told that an operator [broke](crate::LockClient::break_hold) its place.
    pub place_lost: Option<LossReason>,
}

/// What a call is told while it waits.
pub(crate) type WaitObserver = Arc<dyn Fn(&Waiting) + Send + Sync>;

impl Waiting {
    /// The call has the lock by this place, and waits for other locks.
    pub(crate) fn over(place: PlaceId) -> Self {
        Waiting {
            position: Some(0),
            place_id: Some(place),
            expected_wait: None,
            holder: None,
            held_since: None,
            outage: None,
            place_lost: None,
        }
    }
}

/// A time in which DynamoDB does not serve a waiting call.
///
/// # Examples
///
/// ```
/// # fn show(waiting: &fairlock::Waiting) {
/// if let Some(outage) = &waiting.outage {
///     eprintln!("no answer since {:?}: {}", outage.since, outage.cause);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// When the first request was sent that was not served, by this host's clock.
    pub since: SystemTime,
    /// What keeps the call.
    pub kind: OutageKind,
    /// What became of the request that failed last, in one line.
    pub cause: String,
}

/// A request to give way, as [`LockGuard::yield_requested`](crate::LockGuard::yield_requested) shows it.
///
/// # Examples
///
/// ```
/// # fn tell(request: &fairlock::YieldRequest) {
/// eprintln!("{} asks for the lock: {}", request.by, request.reason);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct YieldRequest {
    /// The owner name of the client that asks.
    pub by: String,
    /// Why it asks.
    pub reason: String,
}

/// How far a participant has come.
///
/// # Examples
///
/// ```
/// assert_eq!(fairlock::Stage::Successor.to_string(), "successor");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Holds the lock.
    Holder,
    /// Has a slot: the releases of the participants before it bring it the lock, without a further write.
    Successor,
    /// Waits for a slot.
    Waiting,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::Holder => "holder",
            Stage::Successor => "successor",
            Stage::Waiting => "waiting",
        })
    }
}

impl LockState {
    /// How many turns come before that of a ticket, the holder's included: 0 if the ticket's owner holds the lock. Callers that
    /// share the lock count as one. Returns `None` if no participant in this state has the ticket: it was not drawn, has ended,
    /// or waits where this state does not reach.
    ///
    /// Only the client of a batch at the holder's place knows which of its callers holds the lock, so all turns of the batch
    /// count.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(state: &fairlock::LockState, ticket: fairlock::Ticket) {
    /// match state.position_of(ticket) {
    ///     Some(before) => println!("{before} before ticket {ticket}"),
    ///     None => println!("ticket {ticket} is not in the queue"),
    /// }
    /// # }
    /// ```
    pub fn position_of(&self, ticket: Ticket) -> Option<u64> {
        if self.sharers.iter().any(|one| one.has(ticket)) {
            return Some(0);
        }
        let everyone: Vec<_> = self.holder.iter().chain(&self.queue).collect();
        let index = everyone.iter().position(|one| one.has(ticket))?;
        let before = sum(everyone[..index].iter().map(|one| one.tickets));
        let first = ticket.get() - everyone[index].first().get();
        Some(before.saturating_add(first))
    }

    /// How long a caller that came now may wait: [`mean_turn`](Self::mean_turn) for the holder and for each waiter. Returns
    /// `None` if the mean is not known. An estimate from the past, on which nothing should depend.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn show(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// if let Some(wait) = lock.inspect().await?.expected_wait() {
    ///     println!("about {wait:.0?} if you stand in the queue now");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn expected_wait(&self) -> Option<Duration> {
        let holder = self.holder.as_ref().map_or(0, |holder| holder.tickets);
        Some(times(self.mean_turn?, self.waiting.saturating_add(holder)))
    }

    /// A lock that has no item.
    pub(crate) fn unused(name: &LockName) -> Self {
        LockState {
            lock: name.lock().to_owned(),
            permits: None,
            resized: None,
            holder: None,
            sharers: Vec::new(),
            held_since: None,
            queue: Vec::new(),
            waiting: 0,
            data: None,
            newest_ticket: None,
            mean_turn: None,
        }
    }

    /// What the lock item alone tells.
    pub(crate) fn of(name: &LockName, item: &LockItem, at: ReadAt) -> Self {
        let participant = |stage| move |entry| Participant::of(entry, stage, at);
        let first = item.first_holder();
        let others = item.holders().filter(|holder| Some(*holder) != first);
        LockState {
            permits: Some(item.permits),
            resized: item.resized.filter(|resized| *resized != item.permits),
            holder: first.map(participant(Stage::Holder)),
            sharers: others.map(participant(Stage::Holder)).collect(),
            held_since: item.held_since().map(system_time),
            queue: item
                .successors()
                .iter()
                .map(participant(Stage::Successor))
                .collect(),
            waiting: sum(item.successors().iter().map(|successor| successor.tickets))
                .saturating_add(item.last.get() - item.watermark.get()),
            data: LockData::of(item),
            newest_ticket: Some(item.last),
            ..LockState::unused(name)
        }
    }

    /// Adds the queue behind the slots, all of it.
    pub(crate) fn with_queue(mut self, item: &LockItem, rows: &[TicketRow], at: ReadAt) -> Self {
        let behind = rows.iter().filter(|row| row.ticket > item.watermark);
        let waiting = behind.filter_map(|row| match &row.state {
            RowState::Waiting(entry) => Some(Participant::of(entry, Stage::Waiting, at)),
            RowState::Void(_) => None,
        });
        self.queue.extend(waiting);
        self.waiting = sum(self.queue.iter().map(|one| one.tickets));
        self
    }
}

/// When a state was read, by DynamoDB's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAt {
    pub(crate) now: Option<ServerTime>,
    /// When the only machine whose processes use the table was started, if that is known.
    pub(crate) boot: Option<ServerTime>,
}

impl Participant {
    /// The first of its tickets.
    pub(crate) fn first(&self) -> Ticket {
        self.ticket.first_of(self.tickets)
    }

    fn has(&self, ticket: Ticket) -> bool {
        (self.first()..=self.ticket).contains(&ticket)
    }

    fn of(entry: &Entry, stage: Stage, at: ReadAt) -> Self {
        let has_ended = lease::ended_before(entry, at.boot);
        let left = |renewed: ServerTime, now: ServerTime| {
            // The judge's time is behind by a second or two, the grain of dates.
            let left = renewed.0.saturating_add(entry.lease).saturating_sub(now.0);
            if has_ended {
                Duration::ZERO
            } else {
                left.min(entry.lease)
            }
        };
        Participant {
            ticket: entry.ticket,
            tickets: entry.tickets,
            permits: entry.permits,
            owner: entry.owner.clone(),
            attributes: entry.attributes.pairs(),
            lease_id: entry.id.clone(),
            kept_until: entry.kept_until().map(system_time),
            stage,
            since: entry.since.map(system_time),
            lease: entry.lease,
            lease_left: { entry.stamps.server }
                .zip(at.now)
                .map(|(renewed, now)| left(renewed, now)),
            is_notifiable: entry.address.is_some(),
            nonce: entry.nonce,
            beat: entry.beat,
        }
    }
}

/// The last second of the year 9999: not every system has times much beyond it.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

pub(crate) fn system_time(at: ServerTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + at.0.min(LATEST)
}
