//! The waiters of one client: what one of them learns, it tells those whom it concerns, so that they need not look.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::name::LockName;
use crate::store::Attempt;
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// Those of one client who wait in line, by lock and in ticket order.
#[derive(Debug, Default)]
pub(crate) struct Cohort {
    lines: Mutex<HashMap<LockName, Line>>,
}

type Line = BTreeMap<Ticket, Arc<Member>>;

#[derive(Debug)]
struct Member {
    nonce: Nonce,
    tickets: u64,
    /// What others of this client may make of its row.
    row: Mutex<Own>,
    /// A lock item that concerns it.
    news: Mutex<Option<LockItem>>,
    /// Up to where seats were given when it was last told that it is time to give more.
    asked: Mutex<Option<Ticket>>,
    woken: Notify,
}

/// A row of this client's own, as its waiter knows it.
#[derive(Debug, Default)]
enum Own {
    /// The waiter has not seen it yet, or found it void.
    #[default]
    Unseen,
    Waits(Entry),
    /// The waiter leaves with its ticket, whatever becomes of its requests.
    Leaves,
}

impl Own {
    fn waiting(&self) -> Option<&Entry> {
        match self {
            Own::Waits(entry) => Some(entry),
            Own::Unseen | Own::Leaves => None,
        }
    }
}

impl Member {
    fn tell(&self, item: &LockItem) {
        *locked(&self.news) = Some(item.clone());
        self.woken.notify_one();
    }

    /// Asks it to give seats. Whether it was not asked for these before.
    fn ask(&self, seated: Ticket) -> bool {
        locked(&self.asked).replace(seated) != Some(seated)
    }

    fn leaves(&self) -> bool {
        matches!(*locked(&self.row), Own::Leaves)
    }
}

/// A place in the cohort, until it is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    cohort: Arc<Cohort>,
    name: LockName,
    ticket: Ticket,
    member: Arc<Member>,
}

impl Cohort {
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Ticket,
        attempt: &Attempt,
    ) -> Membership {
        let member = Arc::new(Member {
            nonce: attempt.nonce,
            tickets: attempt.tickets,
            row: Mutex::default(),
            news: Mutex::default(),
            asked: Mutex::default(),
            woken: Notify::new(),
        });
        let mut lines = locked(&self.lines);
        let line = lines.entry(name.clone()).or_default();
        line.insert(ticket, Arc::clone(&member));
        Membership {
            cohort: Arc::clone(self),
            name: name.clone(),
            ticket,
            member,
        }
    }

    /// Some answer shows the lock item: those of the cohort who have the lock by it are told.
    pub(crate) fn saw(&self, name: &LockName, item: &LockItem) {
        let lines = locked(&self.lines);
        if let Some(line) = lines.get(name) {
            let promoted = item.holders().filter_map(|holder| member(line, holder));
            promoted.for_each(|member| member.tell(item));
        }
    }

    /// One of this client handed the lock over: if it is time to give seats again, the first of the cohort in the queue that
    /// does not leave is told.
    pub(crate) fn handed_over(&self, name: &LockName, item: &LockItem, seats: usize) {
        if let Some(line) = locked(&self.lines).get(name)
            && let Some((_, first)) = to_give_seats(line, item, seats)
        {
            first.ask(item.seated);
            first.tell(item);
        }
    }

    /// One of this client came from a seat to the lock, where others may have it too: nobody need hand over before there are
    /// seats to give. The first in the queue is told if only this client's are before it, which is why it looks at its leisure.
    pub(crate) fn came_in(&self, name: &LockName, item: &LockItem, seats: usize) {
        if let Some(line) = locked(&self.lines).get(name)
            && let Some((ticket, first)) = to_give_seats(line, item, seats)
            && is_alone(line, item, *ticket)
            && first.ask(item.seated)
        {
            first.tell(item);
        }
    }

    /// The first rows behind the seats, as far as they are of this client.
    pub(crate) fn rows(&self, name: &LockName, seated: Ticket, most: usize) -> Vec<TicketRow> {
        let lines = locked(&self.lines);
        let Some(line) = lines.get(name) else {
            return Vec::new();
        };
        let mut next = seated.next();
        let rows = behind(line, seated).map_while(|(ticket, member)| {
            let is_next = next.replace(ticket.next()?) == Some(ticket.first_of(member.tickets));
            let entry = locked(&member.row).waiting().cloned().filter(|_| is_next)?;
            Some(TicketRow {
                ticket: *ticket,
                tickets: entry.tickets,
                state: RowState::Waiting(entry),
                expires_at: 0,
            })
        });
        rows.take(most).collect()
    }

    /// Whether anybody of this client waits for a lock.
    pub(crate) fn waits_for(&self, name: &LockName) -> bool {
        locked(&self.lines).contains_key(name)
    }

    /// Whether all who wait before a ticket are of this client, by this lock item.
    pub(crate) fn fills(&self, name: &LockName, item: &LockItem, ticket: Ticket) -> bool {
        let lines = locked(&self.lines);
        let Some(line) = lines.get(name) else {
            return false;
        };
        is_alone(line, item, ticket)
    }
}

impl Membership {
    /// Ends when another of this client has seen a lock item that concerns this one. Cancel safe.
    pub(crate) async fn told(&self) -> LockItem {
        loop {
            if let Some(item) = locked(&self.member.news).take() {
                return item;
            }
            self.member.woken.notified().await;
        }
    }

    /// Notes what the row of this waiter shows, so that another waiter that gives seats need not read it. A row whose waiter
    /// leaves stays out of it.
    pub(crate) fn shows(&self, row: &Option<Entry>) {
        let mut own = locked(&self.member.row);
        if !matches!(*own, Own::Leaves) {
            *own = row.clone().map_or(Own::Unseen, Own::Waits);
        }
    }

    /// Takes the row back for good, before the waiter sends that it leaves: a seat write that names it would apply to a lock
    /// item that shows the leaving already, because that item's `left` is the one that the write asks for.
    pub(crate) fn leaves(&self) {
        *locked(&self.member.row) = Own::Leaves;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut lines = locked(&self.cohort.lines);
        if let Some(line) = lines.get_mut(&self.name) {
            line.remove(&self.ticket);
            if line.is_empty() {
                lines.remove(&self.name);
            }
        }
    }
}

/// Those behind the seats.
fn behind(line: &Line, seated: Ticket) -> impl Iterator<Item = (&Ticket, &Arc<Member>)> {
    line.range((Bound::Excluded(seated), Bound::Unbounded))
}

/// The first in the queue that does not leave, if it is time to give seats again.
fn to_give_seats<'a>(
    line: &'a Line,
    item: &LockItem,
    seats: usize,
) -> Option<(&'a Ticket, &'a Arc<Member>)> {
    let mut stay = behind(line, item.seated).filter(|(_, member)| !member.leaves());
    stay.next().filter(|_| item.heirs().len() <= seats / 2)
}

/// Whether all who wait before a ticket are of this line.
fn is_alone(line: &Line, item: &LockItem, ticket: Ticket) -> bool {
    let mut heirs = item.heirs().iter().take_while(|heir| heir.ticket < ticket);
    heirs.all(|heir| member(line, heir).is_some()) && reaches(line, item.seated, ticket)
}

/// Whether those behind the seats stand without a gap up to a ticket, or to where its own begin.
fn reaches(line: &Line, seated: Ticket, ticket: Ticket) -> bool {
    let mut next = seated.next();
    for (at, member) in behind(line, seated) {
        if next.is_some_and(|next| next >= ticket) {
            break;
        }
        if Some(at.first_of(member.tickets)) > next {
            return false;
        }
        if *at >= ticket {
            return true;
        }
        next = at.next();
    }
    next.is_some_and(|next| next >= ticket)
}

fn member<'a>(line: &'a Line, entry: &Entry) -> Option<&'a Arc<Member>> {
    let member = line.get(&entry.ticket)?;
    (member.nonce == entry.nonce).then_some(member)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
