//! A process: its place, what it knows of the place, and what it makes of an answer.

use super::request::{Answer, Request, Shown, Who};
use super::rules::{Mutant, Rules};
use super::snapshot::Snapshot;
use super::table::{Entry, Item, Nonce, Row};
use fairlock_protocol::doorway::{Seen, Sight};
use fairlock_protocol::place::{Act, Claim, Found, Place};

/// How many requests for a place may be refused before a client draws a ticket; the library makes more.
const TRIES_AT_THE_DOOR: u8 = 2;
/// How many requests a client makes that does not wait: more than the dead entries that it can meet one after the other in a run.
const TRIES_AT_ONCE: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes the lock in each of its rounds, waiting for it.
    Waiter,
    /// A waiter that draws a ticket at once: it was refused a slot that is open again by now.
    Drawer,
    /// A waiter with two tickets at a time, which it draws together and uses one after the other.
    Pair,
    /// Takes one permit, waiting for it.
    Reader,
    /// Takes two permits, waiting for them, and keeps one at the end of its turn.
    Downgrader,
    /// Takes the lock if it is free.
    Caller,
    /// Takes one permit if one is left.
    Glance,
    /// Settles what dead clients left behind, and removes an idle lock item.
    Sweeper,
    /// Changes the number of permits to this one.
    Operator(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Sent(Request),
    Answered(Request, Answer),
    /// Between two polls.
    Waiting,
    /// In the middle of a query.
    Reading(Snapshot),
    /// Is to read the lock item, before it asks for a place.
    AtTheDoor,
    /// Is to find out where the lock item shows its place, which it gives back.
    Finding,
    Holding {
        believes: bool,
    },
    Done,
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) task: Task,
    pub(crate) place: Place,
    /// Tickets that it draws together.
    pub(crate) size: u8,
    /// Permits that it asks for.
    pub(crate) share: u8,
    /// Permits that it holds.
    pub(crate) has: u8,
    /// Turns still wanted, this one included.
    pub(crate) rounds: u8,
    pub(crate) nonce: Option<Nonce>,
    pub(crate) ticket: Option<u8>,
    /// Entries of this attempt with a smaller beat may be judged dead.
    pub(crate) lapsed: u8,
    /// Entries of this attempt with a smaller beat have not been renewed for half of their lease.
    pub(crate) late_renewal: u8,
    /// Whether it has neither lapsed nor been slow nor gone, in this attempt.
    pub(crate) timely: bool,
    /// Whether other clients may take its gap for abandoned.
    pub(crate) slow: bool,
    /// Whether its caller has gone while a request was in flight.
    pub(crate) unwanted: bool,
    /// Whether every ticket up to its own was settled or had a slot when it last saw the lock item.
    pub(crate) settled: bool,
    /// Rows that it settled or gave a slot, and has yet to delete: a bit for each ticket.
    pub(crate) settled_rows: u16,
    /// Its row, by which other places of the same process may give it a slot: once it waits there, and until it begins to leave.
    pub(crate) row: Option<Entry>,
}

impl Role {
    pub(crate) fn waits(self) -> bool {
        !matches!(self, Role::Caller | Role::Glance)
    }

    pub(crate) fn asks_for_a_place(self) -> bool {
        !matches!(self, Role::Sweeper | Role::Operator(_))
    }

    fn share(self, permits: u8) -> u8 {
        match self {
            Role::Reader | Role::Glance | Role::Operator(_) => 1,
            Role::Downgrader => 2,
            _ => permits,
        }
    }

    /// A client that begins with a ticket was refused before. That no longer counts when there is no lock item to draw from.
    pub(crate) fn claim(self, me: usize, permits: u8, draws: bool) -> Claim {
        let begins_with_a_ticket = self == Role::Drawer || self == Role::Pair && me == 1;
        Claim {
            waits: self.waits(),
            shares: self.share(permits) < permits,
            max_tries: match self.waits() {
                true if begins_with_a_ticket && draws => 0,
                true => TRIES_AT_THE_DOOR,
                false => TRIES_AT_ONCE,
            },
        }
    }
}

impl Client {
    pub(crate) fn new(role: Role, me: usize, rounds: u8, permits: u8) -> Self {
        Client {
            size: 1 + u8::from(role == Role::Pair),
            share: role.share(permits),
            ..Client::idle(rounds, Place::new(role.claim(me, permits, true)))
        }
    }

    fn idle(rounds: u8, place: Place) -> Self {
        Client {
            task: Task::Waiting,
            place,
            size: 1,
            share: 1,
            has: 0,
            rounds,
            nonce: None,
            ticket: None,
            lapsed: 0,
            late_renewal: 0,
            timely: true,
            slow: false,
            unwanted: false,
            settled: false,
            settled_rows: 0,
            row: None,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.task, Task::Done | Task::Crashed)
    }

    /// Whether it is in the queue, or on its way there, and in no other client's way by its own doing.
    pub(crate) fn counts_on_its_turn(&self) -> bool {
        let waits = !self.is_gone() && !self.unwanted && !self.place.has_held();
        waits && self.timely
    }

    /// Begins another place, for which nothing was asked yet.
    pub(crate) fn starts(&mut self, claim: Claim) {
        *self = Client {
            size: self.size,
            share: self.share,
            settled_rows: self.settled_rows,
            ..Client::idle(self.rounds, Place::new(claim))
        };
    }

    pub(crate) fn finish(&mut self) {
        *self = Client {
            task: Task::Done,
            settled_rows: self.settled_rows,
            ..Client::idle(0, Place::new(Role::Sweeper.claim(0, 1, false)))
        };
    }

    pub(crate) fn who(&self, nonce: Nonce) -> Who {
        Who {
            nonce,
            size: self.size,
            share: self.share,
        }
    }

    /// Sends a request. If what the request would name is not there any more, the client polls again.
    pub(crate) fn send(&mut self, request: Option<Request>) {
        self.task = request.map_or(Task::Waiting, Task::Sent);
    }

    /// Tells the place the answer to the client's own request.
    pub(crate) fn told(&mut self, rules: &Rules, request: Request, answer: Answer) -> Act {
        let Answer { applied, shown } = answer;
        let item = shown.item();
        match request {
            Request::Enter { .. } | Request::EnterOver { .. } | Request::Share { .. } => {
                let (found, entry) = self.found(item, rules);
                self.ticket = entry.map(|entry| entry.ticket);
                self.place.asked(found, self.refused(item, rules))
            }
            Request::Draw { .. } => {
                self.ticket = item.filter(|_| applied).map(|item| item.last);
                self.place.drew(applied)
            }
            Request::Join { .. } => {
                let is_waiting = applied || !matches!(shown, Shown::Row(Some(Row::Void(_))));
                self.place.joined(is_waiting)
            }
            Request::VoidMine { .. } => self.place.voided(),
            Request::Left { .. } => self.departed(rules, applied, item),
            Request::Release { .. } | Request::Rise { .. } => {
                self.place.gave_back(applied, self.found(item, rules).0)
            }
            Request::Downgrade { .. } => self.place.downgraded(self.found(item, rules).0),
            _ => self.polled(shown),
        }
    }

    fn departed(&mut self, rules: &Rules, applied: bool, item: Option<Item>) -> Act {
        let (found, _) = self.found(item, rules);
        match found {
            _ if rules.broken(Mutant::LeaveKeepsSlot) => {
                self.place.departed(applied, Found::Nowhere)
            }
            Found::Holds | Found::Waits if rules.broken(Mutant::MissingRowGivesUpSlot) => {
                self.place.declines()
            }
            found => self.place.departed(applied, found),
        }
    }

    /// Takes in a poll: a read, or the answer to a write about something other than the client's own place.
    pub(crate) fn polled(&mut self, shown: Shown) -> Act {
        match shown {
            Shown::Item(None) => self.place.lock_gone(self.settled),
            _ => self.place.polled(),
        }
    }

    /// A client that gives back what it has gives back any place of its nonce: a late copy of a request may have got it another one.
    pub(crate) fn found(&self, item: Option<Item>, rules: &Rules) -> (Found, Option<Entry>) {
        let (Some(item), Some(nonce)) = (item, self.nonce) else {
            return (Found::Nowhere, None);
        };
        let is_mine = |entry: &Entry| self.place.is_giving_back() || self.is(*entry);
        if let Some(hold) = item.hold(nonce, rules).filter(is_mine) {
            return (Found::Holds, Some(hold));
        }
        let slot = item.slots.iter().find(|entry| entry.nonce == nonce);
        match slot.filter(is_mine) {
            Some(entry) => (Found::Waits, Some(entry)),
            None => (Found::Nowhere, None),
        }
    }

    /// What the item shows to a client that has not asked for a place yet: slots that the queue does not fill are for others.
    pub(crate) fn seen(&self, item: Option<Item>, rules: &Rules) -> Seen {
        self.sight(item, rules.filled, rules)
    }

    /// What the refusal of a request for a place shows to the client.
    pub(crate) fn refused(&self, item: Option<Item>, rules: &Rules) -> Seen {
        self.sight(item, rules.slots, rules)
    }

    fn sight(&self, item: Option<Item>, slots: usize, rules: &Rules) -> Seen {
        item.map_or(Seen::Nobody, |item| {
            Seen::Item(Sight {
                is_free: item.is_free(),
                is_settled: item.last == item.watermark || rules.broken(Mutant::EnterOverUnsettled),
                has_room: item.has_room(self.share, rules) && self.share as i8 <= item.room,
                has_slot: item.slots.len() <= slots,
                is_too_long: false,
            })
        })
    }

    /// Whether an entry is the place of this client: of its nonce, and of its ticket if it knows that. A late copy of a request gives a
    /// nonce another place.
    pub(crate) fn is(&self, entry: Entry) -> bool {
        let is_mine = self.ticket.is_none_or(|ticket| ticket == entry.ticket);
        self.nonce == Some(entry.nonce) && is_mine
    }
}
