//! One process: its turns, its attempts, and the answers to its writes.

use super::look::Look;
use super::request::{Answer, Held, Request, Who};
use super::rules::{Mutant, Rules};
use super::table::{Entry, Item, Nonce};
use fairlock_protocol::doorway::{Ask, Seen, next_ask};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes the lock so many times, waiting for it.
    Waiter,
    /// The same with two tickets at a time, which it draws together and uses one after the other.
    Pair,
    /// Takes one permit, waiting for it.
    Reader,
    /// Takes all of them, waiting for them, and keeps one at the end of its turn.
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
    /// Permits that it has.
    pub(crate) has: u8,
    /// Turns still wanted, this one included.
    pub(crate) rounds: u8,
    pub(crate) attempts: u8,
    /// Sits tried for this place, or requests of a caller that does not wait.
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
    Heir(u8),
    Nowhere,
}

impl Client {
    pub(crate) fn new(role: Role, me: usize, rounds: u8, permits: u8) -> Self {
        let mut client = Client::idle(rounds);
        client.size = 1 + u8::from(role == Role::Pair);
        client.shares = matches!(role, Role::Reader | Role::Glance);
        client.share = if client.shares { 1 } else { permits };
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
        self.ask(nonce, next_ask(Seen::Unknown, self.shares));
    }

    pub(crate) fn ask(&mut self, nonce: Nonce, ask: Ask) {
        let (who, size) = (self.who(nonce), self.size);
        self.send(match ask {
            Ask::Enter => Request::Enter { who },
            Ask::Share => Request::Share { who },
            Ask::Sit => Request::Sit { who },
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

    /// As if nobody waited where it shares; whoever finds that it is otherwise asks again.
    pub(crate) fn release(&mut self, nonce: Nonce) {
        let held = Held {
            share: self.has,
            hands_over: !self.shares && self.has == self.share,
        };
        self.send(Request::Release { nonce, held });
    }

    pub(crate) fn send(&mut self, request: Request) {
        self.task = Task::Sent(request);
    }

    pub(crate) fn spot(&self, item: Option<Item>) -> Spot {
        let (Some(item), Some(nonce)) = (item, self.nonce) else {
            return Spot::Nowhere;
        };
        match (item.hold(nonce), item.heir(nonce)) {
            (Some(hold), _) if self.is(hold) => Spot::Holder(hold),
            (_, Some(index)) if item.heirs.get(index).is_some_and(|heir| self.is(heir)) => {
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
