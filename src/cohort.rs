//! The waiters of one client: what one of them learns, it tells those whom it concerns, so that they need not look.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::entry::{Entry, Nonce};
use crate::item::{LockItem, RowState, TicketRow};
use crate::name::LockName;
use crate::store::Attempt;
use crate::ticket::Ticket;

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
    /// What its row in the line shows.
    row: Mutex<Option<Entry>>,
    /// A lock item that concerns it.
    news: Mutex<Option<LockItem>>,
    woken: Notify,
}

impl Member {
    fn tell(&self, item: &LockItem) {
        *locked(&self.news) = Some(item.clone());
        self.woken.notify_one();
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

    /// One of this client handed the lock over: if it is time to give seats again, the first of the cohort in the queue is
    /// told.
    pub(crate) fn handed_over(&self, name: &LockName, item: &LockItem, seats: usize) {
        if item.heirs.len() > seats / 2 {
            return;
        }
        if let Some(line) = locked(&self.lines).get(name)
            && let Some((_, first)) = behind(line, item.seated).next()
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
            let entry = locked(&member.row).clone().filter(|_| is_next)?;
            Some(TicketRow {
                ticket: *ticket,
                tickets: entry.tickets,
                state: RowState::Waiting(entry),
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
        let mut heirs = item.heirs.iter().take_while(|heir| heir.ticket < ticket);
        heirs.all(|heir| member(line, heir).is_some()) && reaches(line, item.seated, ticket)
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

    /// Notes what the row of this one shows, so that others who give seats need not read it.
    pub(crate) fn shows(&self, row: &Option<Entry>) {
        locked(&self.member.row).clone_from(row);
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
