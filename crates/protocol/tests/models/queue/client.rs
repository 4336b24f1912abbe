//! One process: its turns, its attempts, and the answers to its writes.

use super::look::Look;
use super::request::{Answer, Request, Who};
use super::rules::{Mutant, Rules};
use super::table::{Entry, Item, Nonce};
use fairlock_protocol::doorway::{Ask, Seen, next_ask};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes the lock so many times, waiting for it.
    Waiter,
    /// The same, and it draws a ticket at once: it was refused a slot that is open again by now.
    Drawer,
    /// A waiter with two tickets at a time, which it draws together and uses one after the other.
    Pair,
    /// Takes one permit, waiting for it.
    Reader,
    /// Takes two of them, waiting for them, and keeps one at the end of its turn.
    Downgrader,
    /// Takes it if it is free.
    Caller,
    /// Takes one permit if one is left.
    Glance,
    /// Settles what the dead left behind, and removes an idle lock item.
    Sweeper,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Sent(Request),
    Answered(Request, Answer),
    /// Between two looks.
    Waiting,
    /// In the middle of a query.
    Reading(Look),
    Holding {
        believes: bool,
    },
    /// On its way out of a seat: it looks at which index that is.
    Rising,
    Done,
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) task: Task,
    /// Tickets that it draws together.
    pub(crate) size: u8,
    /// Permits that it asks for.
    pub(crate) share: u8,
    /// These are not all.
    pub(crate) shares: bool,
    pub(crate) waits: bool,
    /// Begins with a ticket.
    pub(crate) draws: bool,
    /// Permits that it has.
    pub(crate) has: u8,
    /// Turns still wanted, this one included.
    pub(crate) rounds: u8,
    pub(crate) attempts: u8,
    /// Requests tried for this place, or requests of a caller that does not wait.
    pub(crate) tries: u8,
    pub(crate) nonce: Option<Nonce>,
    pub(crate) ticket: Option<u8>,
    /// Entries of this attempt with a smaller beat may be judged dead.
    pub(crate) lapsed: u8,
    /// Those with a smaller beat have not been renewed for half of their lease.
    pub(crate) tardy: u8,
    /// Neither lapsed nor slow nor gone, in this attempt.
    pub(crate) timely: bool,
    /// Its gap may be taken for abandoned.
    pub(crate) slow: bool,
    pub(crate) leaving: bool,
    /// Was an heir when it last looked.
    pub(crate) heir: bool,
    /// Had its turn.
    pub(crate) had: bool,
    /// Rows that it settled or seated and has yet to delete: a bit for each ticket.
    pub(crate) litter: u16,
}

/// Where the lock item shows a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Has the lock.
    Holder(Entry),
    /// Waits in this slot.
    Heir(u8),
    Nowhere,
}

impl Client {
    pub(crate) fn new(role: Role, me: usize, rounds: u8, permits: u8) -> Self {
        let mut client = Client::idle(rounds);
        client.size = 1 + u8::from(role == Role::Pair);
        client.share = match role {
            Role::Reader | Role::Glance => 1,
            Role::Downgrader => 2,
            _ => permits,
        };
        client.shares = client.share < permits;
        client.waits = !matches!(role, Role::Caller | Role::Glance);
        client.draws = role == Role::Drawer || role == Role::Pair && me == 1;
        if role != Role::Sweeper {
            client.start(me);
        }
        client
    }

    fn idle(rounds: u8) -> Self {
        Client {
            task: Task::Waiting,
            size: 1,
            share: 1,
            shares: false,
            waits: true,
            draws: false,
            has: 0,
            rounds,
            attempts: 0,
            tries: 0,
            nonce: None,
            ticket: None,
            lapsed: 0,
            tardy: 0,
            timely: true,
            slow: false,
            leaving: false,
            heir: false,
            had: false,
            litter: 0,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.task, Task::Done | Task::Crashed)
    }

    /// Starts afresh for the same turn, with a new nonce, later a new ticket.
    pub(crate) fn start(&mut self, me: usize) {
        self.ticket = None;
        self.tries = 0;
        self.timely = true;
        self.slow = false;
        self.heir = false;
        self.has = 0;
        let nonce = self.fresh(me);
        let ask = if self.draws {
            Ask::Draw
        } else {
            next_ask(Seen::Unknown, self.shares)
        };
        self.ask(nonce, ask, None);
    }

    /// By an item, if it has seen one.
    pub(crate) fn ask(&mut self, nonce: Nonce, ask: Ask, seen: Option<&Item>) {
        let (who, size, waits) = (self.who(nonce), self.size, self.waits);
        let first = seen.and_then(|item| item.slots.get(0));
        let first = first.map_or(1, |first| first.share);
        self.send(match ask {
            Ask::Enter => Request::Enter { who, waits },
            Ask::Share => Request::Share { who, first },
            Ask::Draw | Ask::Look => Request::Draw { size },
        });
    }

    pub(crate) fn who(&self, nonce: Nonce) -> Who {
        Who {
            nonce,
            size: self.size,
            share: self.share,
        }
    }

    /// The nonce for one more attempt to get a place.
    pub(crate) fn name(&mut self, me: usize, rules: &Rules) -> Nonce {
        match self.nonce {
            Some(nonce) if rules.broken(Mutant::OneNonce) => nonce,
            _ => self.fresh(me),
        }
    }

    fn fresh(&mut self, me: usize) -> Nonce {
        self.attempts += 1;
        let nonce = Nonce::new(me, self.attempts);
        self.nonce = Some(nonce);
        self.lapsed = 0;
        self.tardy = 0;
        nonce
    }

    /// This attempt is over: the turn too if it was had or given up, else it starts afresh.
    pub(crate) fn over(&mut self, me: usize) {
        if !self.had && !self.leaving {
            return self.start(me);
        }
        self.rounds -= 1;
        self.had = false;
        self.leaving = false;
        if self.rounds == 0 {
            self.finish();
        } else {
            self.start(me);
        }
    }

    pub(crate) fn finish(&mut self) {
        *self = Client {
            task: Task::Done,
            litter: self.litter,
            ..Client::idle(0)
        };
    }

    /// The lock is mine by `entry`; with nothing left of its lease, or on my way out, it is given up.
    pub(crate) fn granted(&mut self, entry: Entry) {
        self.ticket.get_or_insert(entry.ticket);
        self.has = entry.share;
        if self.leaving || entry.beat < self.lapsed {
            return self.release(entry.nonce);
        }
        self.had = true;
        self.task = Task::Holding { believes: true };
    }

    pub(crate) fn release(&mut self, nonce: Nonce) {
        let share = self.has;
        self.send(Request::Release { nonce, share });
    }

    pub(crate) fn send(&mut self, request: Request) {
        self.task = Task::Sent(request);
    }

    pub(crate) fn spot(&self, item: Option<Item>, rules: &Rules) -> Spot {
        let (Some(item), Some(nonce)) = (item, self.nonce) else {
            return Spot::Nowhere;
        };
        match (item.hold(nonce, rules), item.slot(nonce)) {
            (Some(hold), _) if self.is(hold) => Spot::Holder(hold),
            (_, Some(index)) if item.slots.get(index).is_some_and(|entry| self.is(entry)) => {
                Spot::Heir(index as u8)
            }
            _ => Spot::Nowhere,
        }
    }

    /// Whether it is the place of this client: of its nonce, and of its ticket if it knows that. A late copy of a request gives a
    /// nonce another place.
    pub(crate) fn is(&self, entry: Entry) -> bool {
        let is_mine = self.ticket.is_none_or(|ticket| ticket == entry.ticket);
        self.nonce == Some(entry.nonce) && is_mine
    }
}
