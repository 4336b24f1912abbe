//! What a lock looks like to somebody who only reads it: who has it, and who waits in which order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::Holder;
use crate::name::LockName;
use crate::place_id::PlaceId;
use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::item::{LockItem, RowState, TicketRow, sum};
use fairlock_protocol::pace::times;
use fairlock_protocol::ticket::{Sequence, Ticket};

/// What a lock looked like when it was read. It may look otherwise by now: nothing follows from it but what to tell
/// people.
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
    /// How many permits it has; none if there is no lock item. A fair lock has 64: who has it alone has all of them.
    pub permits: Option<u64>,
    /// Who has it; of those who share it, who has had it for longest.
    pub holder: Option<Participant>,
    /// Who has it besides.
    pub sharers: Vec<Participant>,
    /// Since when the holder has it, by DynamoDB's clock.
    pub held_since: Option<SystemTime>,
    /// Who comes after the holder, in that order: the successors, and after them those who wait for a slot, whom only
    /// [`FairLock::inspect`](crate::FairLock::inspect) reads.
    pub queue: Vec<Participant>,
    /// How many wait. [`LockClient::locks`](crate::LockClient::locks) counts the tickets behind the slots, some of
    /// which may be settled already.
    pub waiting: u64,
    /// What a holder left there.
    pub data: Option<LockData>,
    /// The newest ticket drawn; none if there is no lock item: nobody has used the lock lately.
    pub newest_ticket: Option<Ticket>,
    /// How long a turn takes, the handoff included: the mean of the last nine turns of this lock that this client saw end
    /// while one of its callers waited in the queue, or in the [watch](crate::FairLock::watch) that tells it. None until it
    /// saw one, and in [`LockClient::locks`](crate::LockClient::locks). Where several have the lock at one time it says how often
    /// one of them went, not how long each stayed.
    pub mean_turn: Option<Duration>,
}

/// Bytes that a holder of a lock left there, for those who have it after it and for whoever looks.
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
    /// What was written.
    pub bytes: Arc<[u8]>,
    /// The ticket of the hold that wrote it.
    pub ticket: Ticket,
}

impl LockData {
    pub(crate) fn of(item: &LockItem) -> Option<Self> {
        Some(LockData {
            bytes: Arc::clone(item.data.as_ref()?),
            ticket: item.written?.ticket,
        })
    }
}

/// Somebody who has a lock, or waits for it.
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
    /// Its ticket, the newest if it has several. For a holder with one it is the fencing token; of several, each is that
    /// of one turn.
    pub ticket: Ticket,
    /// How many callers of one client stand here, with a ticket each: those up to this one.
    pub tickets: u64,
    /// How many of the lock's permits it has, or waits for.
    pub permits: u64,
    /// Its name for people, by default user@host:pid.
    pub owner: String,
    /// What its caller [says of itself](crate::FairLock::attributes).
    pub attributes: BTreeMap<String, String>,
    /// The name that has the lock by a [lease](crate::LockClient::lease_lock); none for all others.
    pub lease_id: Option<String>,
    /// Where it stands.
    pub stage: Stage,
    /// Since when it stands in the queue, by DynamoDB's clock.
    pub since: Option<SystemTime>,
    /// How long it may go unrenewed before others take it for dead.
    pub lease: Duration,
    /// How much of its lease was left when it was read, by DynamoDB's clock, to about two seconds. Zero: it looks
    /// dead, and is passed once an observer has watched it for a lease.
    pub lease_left: Option<Duration>,
}

/// How far a call of [`acquire`](crate::FairLock::acquire) has come, for whoever shows it to people.
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
    /// How many are before this caller, the holder included; those who have the lock together count as one. `None` while
    /// the call has no place in the queue yet.
    pub position: Option<usize>,
    /// The place, by which another process can [give it up](crate::LockClient::give_up), should this one be killed. `None` while the
    /// call has none.
    pub place_id: Option<PlaceId>,
    /// How long that may take: `position` times the mean time of the last nine turns of this lock that this client saw end
    /// while its callers waited; none until it saw one. Nothing is known of how long the holder will still need, so
    /// it counts as a whole turn; and those who died, or who left since the last look, count too.
    pub expected_wait: Option<Duration>,
    /// Who has the lock.
    pub holder: Option<Holder>,
    /// Since when the holder has it, by DynamoDB's clock.
    pub held_since: Option<SystemTime>,
    /// Set while DynamoDB does not answer the call, which goes on trying. The other fields show what was known before.
    pub outage: Option<Outage>,
}

/// A time in which DynamoDB does not answer a call that waits.
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
    /// When the first request was sent that had no answer, by this host's clock.
    pub since: SystemTime,
    /// What became of the request that failed last, in one queue.
    pub cause: String,
}

/// Where somebody stands.
///
/// # Examples
///
/// ```
/// assert_eq!(fairlock::Stage::Successor.to_string(), "successor");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Has the lock.
    Holder,
    /// Has a slot: the lock comes to it by the releases of those before, without a further write.
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
    /// How many turns come before that of a ticket, the holder's included: 0 if it has the lock. Those who have it
    /// together count as one. None if nobody here has it: it was not drawn, is over, or waits where this state does not
    /// reach.
    ///
    /// Of several callers at the holder's place, nobody but their client knows who has the lock: all their turns count.
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

    /// How long somebody with this ticket may still wait: [`mean_turn`](Self::mean_turn) for each turn before its own. None
    /// if that or its place is not known. An estimate from the past, on which nothing should depend.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(state: &fairlock::LockState, ticket: fairlock::Ticket) {
    /// if let Some(wait) = state.expected_wait_of(ticket) {
    ///     println!("about {wait:.0?}");
    /// }
    /// # }
    /// ```
    pub fn expected_wait_of(&self, ticket: Ticket) -> Option<Duration> {
        Some(times(self.mean_turn?, self.position_of(ticket)?))
    }

    /// How long somebody who came now may wait: [`mean_turn`](Self::mean_turn) for the holder and for each who waits. None if
    /// that is not known. An estimate from the past, on which nothing should depend.
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

    /// What the lock item alone tells, read at `now`.
    pub(crate) fn of(name: &LockName, item: &LockItem, now: Option<ServerTime>) -> Self {
        let participant = |stage| move |entry| Participant::of(entry, stage, now);
        let first = item.first_holder();
        let others = item.holders().filter(|holder| Some(*holder) != first);
        LockState {
            permits: Some(item.permits),
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

    /// With the queue behind the slots, all of it.
    pub(crate) fn with_queue(
        mut self,
        item: &LockItem,
        rows: &[TicketRow],
        now: Option<ServerTime>,
    ) -> Self {
        let behind = rows.iter().filter(|row| row.ticket > item.watermark);
        let waiting = behind.filter_map(|row| match &row.state {
            RowState::Waiting(entry) => Some(Participant::of(entry, Stage::Waiting, now)),
            RowState::Void(_) => None,
        });
        self.queue.extend(waiting);
        self.waiting = sum(self.queue.iter().map(|one| one.tickets));
        self
    }
}

/// Turns of all who drew a ticket, the holder's included. Those of them that are over count until they are passed.
pub(crate) fn turns(item: &LockItem) -> usize {
    let behind = item.last.get() - item.watermark.get();
    let turns = item.turns_before(usize::MAX).saturating_add(behind);
    usize::try_from(turns).unwrap_or(usize::MAX)
}

impl Participant {
    /// The first of its tickets.
    pub(crate) fn first(&self) -> Ticket {
        self.ticket.first_of(self.tickets)
    }

    fn has(&self, ticket: Ticket) -> bool {
        (self.first()..=self.ticket).contains(&ticket)
    }

    fn of(entry: &Entry, stage: Stage, now: Option<ServerTime>) -> Self {
        let left = |renewed: ServerTime, now: ServerTime| {
            // The judge's time is behind by a second or two, the grain of dates.
            let left = (renewed.0 + entry.lease).saturating_sub(now.0);
            left.min(entry.lease)
        };
        Participant {
            ticket: entry.ticket,
            tickets: entry.tickets,
            permits: entry.permits,
            owner: entry.owner.clone(),
            attributes: entry.attributes.pairs(),
            lease_id: entry.id.clone(),
            stage,
            since: entry.since.map(system_time),
            lease: entry.lease,
            lease_left: entry
                .renewed_at
                .zip(now)
                .map(|(renewed, now)| left(renewed, now)),
        }
    }
}

pub(crate) fn system_time(at: ServerTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + at.0
}
