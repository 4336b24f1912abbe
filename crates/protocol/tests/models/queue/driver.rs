//! Drives the place of a client: turns each of its acts into a request or a poll, and tells the place the result. The driver decides
//! nothing, except what a planted change of a rule decides.

use super::client::{Client, Role, Task};
use super::request::{Answer, Request, Shown};
use super::rules::{Mutant, Rules};
use super::snapshot::{Snapshot, lowest};
use super::table::{Entry, Item, Row};
use super::world::{Setup, World};
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::place::{Act, Found};
use fairlock_protocol::step::{
    JudgedSnapshot, Occupant, QueuePosition, Step, next_refusal, next_step,
};
use fairlock_protocol::ticket::Ticket;

/// What a client has at hand when it acts.
#[derive(Clone, Copy)]
pub(crate) enum Hand {
    Nothing,
    /// What the answer to a write showed.
    Answer(Item),
    /// What the answer to its own release showed.
    Released(Item),
    /// What was just read.
    Snapshot(Snapshot),
}

impl Hand {
    fn poll(&self) -> Option<Snapshot> {
        match self {
            Hand::Nothing => None,
            Hand::Answer(item) | Hand::Released(item) => Some(Snapshot::new(*item)),
            Hand::Snapshot(snapshot) => Some(*snapshot),
        }
    }

    fn item(&self) -> Option<Item> {
        match self {
            Hand::Nothing => None,
            Hand::Answer(item) | Hand::Released(item) => Some(*item),
            Hand::Snapshot(snapshot) => Some(snapshot.item),
        }
    }

    /// What a client remembers of a queue that was not empty when the client released.
    fn hint(self) -> Self {
        match self {
            Hand::Released(item) if !item.is_idle() => self,
            _ => Hand::Nothing,
        }
    }

    /// After a write that only passes what is settled, the client reads the queue again.
    fn of(request: &Request, answer: &Answer) -> Self {
        match (request, answer.shown.item()) {
            (Request::Fill(fill), _) if fill.found.len() == 0 => Hand::Nothing,
            (_, None) => Hand::Nothing,
            (Request::Release { .. }, Some(item)) if answer.applied => Hand::Released(item),
            (_, Some(item)) => Hand::Answer(item),
        }
    }
}

impl World {
    pub(super) fn answer(&mut self, me: usize, setup: &Setup) {
        let client = &mut self.clients[me];
        let Task::Answered(request, answer) = client.task else {
            return;
        };
        match setup.roles[me] {
            Role::Sweeper => return client.swept(request),
            Role::Operator(_) => return client.operated(answer),
            _ => {}
        }
        if answer.applied {
            client.settled_rows |= settled_rows(&request);
        }
        let act = client.told(&setup.rules, request, answer);
        let hand = Hand::of(&request, &answer);
        if let Some(sibling) = setup.sibling(me) {
            client.shows(&request, &answer);
            self.goes_on(me, setup, act, hand);
            return self.tells(sibling, setup, hand);
        }
        self.goes_on(me, setup, act, hand);
    }

    /// Notifies the other place of a process which entry holds the lock after a release. That place decides by it, if it waits.
    fn tells(&mut self, sibling: usize, setup: &Setup, hand: Hand) {
        let client = &mut self.clients[sibling];
        if let Hand::Released(item) = hand
            && client.waits_for_its_turn()
        {
            let act = client.polled(Shown::Item(Some(item)));
            self.goes_on(sibling, setup, act, Hand::Answer(item));
        }
    }

    pub(super) fn poll(&mut self, me: usize, setup: &Setup) {
        let item = self.table.item;
        let client = &mut self.clients[me];
        let hand = item.map_or(Hand::Nothing, |item| Hand::Snapshot(Snapshot::new(item)));
        let act = match client.task {
            _ if setup.roles[me] == Role::Sweeper => return self.sweep(me, setup, hand.poll()),
            _ if let Role::Operator(to) = setup.roles[me] => {
                return client.operates(to, item, &setup.rules);
            }
            Task::AtTheDoor => client.place.read(client.seen(item, &setup.rules)),
            Task::Finding => client.place.stands(client.found(item, &setup.rules).0),
            _ => client.polled(Shown::Item(item)),
        };
        self.goes_on(me, setup, act, hand);
    }

    pub(super) fn read(&mut self, me: usize, setup: &Setup) {
        let client = &mut self.clients[me];
        let Task::Reading(mut snapshot) = client.task else {
            return;
        };
        if !snapshot.read(&self.table, setup.rules.filled) {
            client.task = Task::Reading(snapshot);
        } else if setup.roles[me] == Role::Sweeper {
            self.sweep(me, setup, Some(snapshot));
        } else {
            let act = client.place.polled();
            self.goes_on(me, setup, act, Hand::Snapshot(snapshot));
        }
    }

    /// Ends the client's turn.
    pub(super) fn release(&mut self, me: usize, setup: &Setup) {
        let client = &mut self.clients[me];
        let keeps_one = setup.roles[me] == Role::Downgrader && client.has > 1;
        let act = match keeps_one && client.believes() {
            true => client.place.downgrades(),
            false => client.place.leaves(client.settled),
        };
        self.performs(me, setup, act, Hand::Nothing);
    }

    fn sweep(&mut self, me: usize, setup: &Setup, snapshot: Option<Snapshot>) {
        let mut client = self.clients[me];
        match snapshot {
            None => client.finish(),
            Some(snapshot) => client.sweep(
                &setup.rules,
                snapshot,
                &self.table,
                |entry| self.judge(me, entry),
                |gap| self.is_over(gap, &setup.rules),
            ),
        }
        self.clients[me] = client;
    }
}

impl World {
    /// Asks for the client's first place, or for another one, by what is known of the lock.
    pub(super) fn sets_out(&mut self, me: usize, setup: &Setup, hand: Hand) {
        let client = &mut self.clients[me];
        let known = hand.item().map(Some);
        let known = known.map_or(Seen::Unknown, |item| client.seen(item, &setup.rules));
        let act = client.place.sets_out(known);
        self.performs(me, setup, act, hand);
    }

    /// The caller has gone: whatever the place was to do next, it leaves instead.
    pub(super) fn leaves(&mut self, me: usize, setup: &Setup, hand: Hand) {
        let client = &mut self.clients[me];
        client.unwanted = false;
        client.timely = true;
        let act = client.place.leaves(client.settled);
        self.performs(me, setup, act, hand);
    }

    /// Leaves, for a client whose last request was not answered.
    pub(super) fn leaves_unheard(&mut self, me: usize, setup: &Setup) {
        let client = &mut self.clients[me];
        match client.task {
            Task::Sent(request) | Task::Answered(request, _)
                if request.takes_a_place() && !setup.rules.broken(Mutant::UnheardIsForgotten) =>
            {
                client.unwanted = false;
                client.timely = true;
                let act = client.place.leaves_unseen();
                self.performs(me, setup, act, Hand::Nothing);
            }
            _ => self.leaves(me, setup, Hand::Nothing),
        }
    }

    fn goes_on(&mut self, me: usize, setup: &Setup, act: Act, hand: Hand) {
        let client = &mut self.clients[me];
        if let (Some(item), Some(ticket)) = (hand.item(), client.ticket) {
            client.settled = ticket <= item.watermark;
        }
        match client.unwanted {
            true => self.leaves(me, setup, hand),
            false => self.performs(me, setup, act, hand),
        }
    }

    /// Sends what the place asks for, gets ready to poll, or judges what is at hand.
    fn performs(&mut self, me: usize, setup: &Setup, act: Act, hand: Hand) {
        let rules = &setup.rules;
        if let Some(act) = self.clients[me].mistakes(&act, rules) {
            return self.performs(me, setup, act, hand);
        }
        if act == Act::VoidOwn && !rules.broken(Mutant::OffersALeaver) {
            self.clients[me].row = None;
        }
        let hand = match act {
            Act::Decide => self.knows(me, setup, hand),
            _ => hand,
        };
        let client = &mut self.clients[me];
        let next = match (act, hand.poll()) {
            (Act::Decide, Some(snapshot)) => self.decides(me, rules, snapshot),
            (Act::Clear, Some(snapshot)) => self.clears(me, rules, snapshot),
            (Act::Find, Some(Snapshot { item, .. })) => {
                let (found, _) = client.found(Some(item), rules);
                client.place.stands(found)
            }
            (Act::Hold, _) if client.is_too_late(hand.item(), rules) => client.place.declines(),
            (Act::Again, _) => {
                let draws = client.ticket.is_some();
                client.starts(setup.claim(me, draws));
                return self.sets_out(me, setup, Hand::Nothing);
            }
            (Act::Over, _) if client.rounds > 1 => {
                client.rounds -= 1;
                client.starts(setup.claim(me, true));
                let hint = match setup.roles[me].waits() {
                    true => hand.hint(),
                    false => Hand::Nothing,
                };
                return self.sets_out(me, setup, hint);
            }
            (act @ (Act::Enter | Act::EnterOver | Act::Share | Act::Draw), _) => {
                self.names(me, rules);
                return self.clients[me].performs(setup.roles[me], act, hand, rules);
            }
            (act, _) => return client.performs(setup.roles[me], act, hand, rules),
        };
        self.performs(me, setup, next, hand);
    }

    /// Adds the rows that a client knows without reading them: those of its process, if they reach from the slots to its own, as in the
    /// library.
    fn knows(&self, me: usize, setup: &Setup, hand: Hand) -> Hand {
        let (client, slots) = (&self.clients[me], setup.rules.filled as u8);
        let (Some(sibling), Some(mut snapshot), Some(mine)) =
            (setup.sibling(me), hand.poll(), client.ticket)
        else {
            return hand;
        };
        let behind = mine.saturating_sub(snapshot.item.watermark);
        if !snapshot.is_unread() || !(1..=slots).contains(&behind) {
            return hand;
        }
        let own = [client.row, self.clients[sibling].row];
        let row = |ticket| own.into_iter().flatten().find(|row| row.ticket == ticket);
        let rows = (snapshot.item.watermark + 1..).map_while(row);
        let rows: Vec<_> = rows.take(usize::from(slots) + 1).collect();
        if rows.iter().all(|row| row.ticket != mine) {
            return hand;
        }
        snapshot.know(&rows);
        Hand::Snapshot(snapshot)
    }

    /// Decides for a waiter by one snapshot, with the library's own function.
    fn decides(&mut self, me: usize, rules: &Rules, snapshot: Snapshot) -> Act {
        let mut place = self.clients[me].place;
        let mine = self.clients[me].ticket.unwrap_or_default();
        let digest = snapshot.digest(rules, |entry| self.judge(me, entry));
        let step = match rules.mutant {
            Some(Mutant::MissingRowGivesUpSlot) if snapshot.misses(mine) => Step::Retire,
            Some(Mutant::LowestRowEnters) if is_lowest(&snapshot, &digest) => Step::Hold,
            _ => next_step(&digest, Ticket::new(mine.into()), rules.filled, |gap| {
                self.is_over(gap, rules).then_some(gap)
            }),
        };
        let act = place.steps(step);
        self.clients[me].place = place;
        act
    }

    /// Decides for a client without a place, at a lock that it cannot have yet.
    fn clears(&mut self, me: usize, rules: &Rules, snapshot: Snapshot) -> Act {
        let mut client = self.clients[me];
        let digest = snapshot.digest(rules, |entry| self.judge(me, entry));
        let is_left = snapshot.item.has_left(client.share, rules);
        let refusal = next_refusal(&digest, is_left, |gap| {
            self.is_over(gap, rules).then_some(gap)
        });
        let seen = client.seen(Some(snapshot.item), rules);
        let act = client.place.clears(refusal, seen);
        self.clients[me] = client;
        act
    }
}

impl Client {
    fn waits_for_its_turn(&self) -> bool {
        let has_place = self.ticket.is_some() && !self.place.has_held();
        self.task == Task::Waiting && has_place && !self.place.is_giving_back()
    }

    /// What its row shows to the other place of its process.
    fn shows(&mut self, request: &Request, answer: &Answer) {
        let (Some(nonce), Some(ticket)) = (self.nonce, self.ticket) else {
            return;
        };
        match (request, answer.shown) {
            (Request::Join { .. }, _) if answer.applied => {
                self.row = Some(Entry {
                    nonce,
                    first: ticket + 1 - self.size,
                    ticket,
                    share: self.share,
                    beat: 0,
                    stray: false,
                });
            }
            (Request::RenewRow { .. }, Shown::Row(Some(Row::Waiting(row)))) => {
                self.row = self.row.map(|_| row);
            }
            (Request::RenewRow { .. }, _) => self.row = None,
            _ => {}
        }
    }

    /// Whether what the client has was granted so late that its lease has ended. A client that has already held it finds out at the end of
    /// its turn.
    fn is_too_late(&self, item: Option<Item>, rules: &Rules) -> bool {
        let (_, entry) = self.found(item, rules);
        self.has == 0 && entry.is_some_and(|entry| entry.beat < self.lapsed)
    }

    /// What a place with a planted mistake does instead.
    fn mistakes(&mut self, act: &Act, rules: &Rules) -> Option<Act> {
        match (rules.mutant?, act) {
            (Mutant::RowIsNotVoid, Act::VoidOwn) => Some(self.place.voided()),
            (Mutant::DepartureIsNotCounted, Act::Depart) => {
                Some(self.place.departed(true, Found::Nowhere))
            }
            (Mutant::SlotIsNotLookedFor, Act::Find) => Some(self.place.stands(Found::Nowhere)),
            _ => None,
        }
    }

    fn performs(&mut self, role: Role, act: Act, hand: Hand, rules: &Rules) {
        self.task = match act {
            Act::Hold => {
                let (_, entry) = self.found(hand.item(), rules);
                self.has = entry.map_or(self.share, |entry| entry.share);
                self.timely = true;
                let believes = entry.is_none_or(|entry| entry.beat >= self.lapsed);
                Task::Holding { believes }
            }
            Act::Refused | Act::Over => return self.finish(),
            Act::Read | Act::Pause => Task::AtTheDoor,
            Act::Find => Task::Finding,
            // What an answer showed is read again, together with the rows.
            Act::ReadOn => match hand {
                Hand::Snapshot(snapshot) => Task::Reading(snapshot),
                _ => Task::Waiting,
            },
            Act::Decide | Act::Clear => Task::Waiting,
            Act::Wait(position) => {
                let renews = |snapshot| self.renewal(position, &snapshot, rules);
                let renewal = hand.poll().and_then(renews);
                renewal.map_or(Task::Waiting, Task::Sent)
            }
            act => {
                let request = self.request(role, &act, hand, rules);
                assert!(request.is_some(), "nothing is at hand to {act:?}");
                request.map_or(self.task, Task::Sent)
            }
        };
    }

    fn request(&self, role: Role, act: &Act, hand: Hand, rules: &Rules) -> Option<Request> {
        let (snapshot, who) = (hand.poll(), self.nonce.map(|nonce| self.who(nonce)));
        Some(match act {
            Act::Enter => Request::Enter {
                who: who?,
                waits: role.waits(),
            },
            Act::Share => Request::Share {
                who: who?,
                first: first_of(hand.item()),
            },
            Act::EnterOver => {
                let item = snapshot?.item;
                Request::EnterOver {
                    who: who?,
                    last: item.last,
                    watermark: item.watermark,
                }
            }
            Act::Draw => Request::Draw { size: self.size },
            Act::Remove(removal) => Request::remove(&snapshot?, removal, rules)?,
            Act::Admit(successors) => Request::admit(&snapshot?.item, *successors, rules)?,
            Act::Fill(filling) => Request::fill(&snapshot?, filling),
            act => return self.own_request(act, hand.item(), rules),
        })
    }

    /// A request about the client's own place.
    fn own_request(&self, act: &Act, item: Option<Item>, rules: &Rules) -> Option<Request> {
        let (size, nonce) = (self.size, self.nonce?);
        Some(match act {
            Act::Join => Request::Join {
                who: self.who(nonce),
                ticket: self.ticket?,
            },
            Act::VoidOwn => Request::VoidMine {
                ticket: self.ticket?,
                size,
                nonce,
            },
            Act::Depart => Request::Left {
                ticket: self.ticket?,
            },
            Act::Downgrade => Request::Downgrade {
                nonce,
                share: self.has,
            },
            Act::Release => {
                // An entry that is still there may have another share than the client thought.
                let (_, entry) = self.found(item, rules);
                let share = entry.map_or(self.has, |entry| entry.share);
                Request::Release { nonce, share }
            }
            Act::GiveUp => Request::Rise {
                index: item?.slot(nonce)? as u8,
                nonce,
            },
            _ => return None,
        })
    }

    /// Only a late client renews here: beats that are renewed in time change nothing that the model tells apart.
    fn renewal(
        &self,
        position: QueuePosition,
        snapshot: &Snapshot,
        rules: &Rules,
    ) -> Option<Request> {
        let (nonce, ticket) = (self.nonce?, self.ticket?);
        let late = self.lapsed.max(self.late_renewal);
        match position {
            QueuePosition::Successor(index) => {
                let slot = index + snapshot.item.first_successor(rules);
                let own = snapshot.item.slots.get(slot)?;
                let index = slot as u8;
                (own.beat < late).then_some(Request::RenewSuccessor { index, nonce })
            }
            QueuePosition::Queue => {
                let own = snapshot.entry(ticket)?;
                (own.beat < late).then_some(Request::RenewRow { ticket, nonce })
            }
        }
    }
}

/// How many permits the entry in the first slot has, if one was seen.
fn first_of(seen: Option<Item>) -> u8 {
    let first = seen.and_then(|item| item.slots.get(0));
    first.map_or(1, |first| first.share)
}

/// The rows that a write settles.
fn settled_rows(request: &Request) -> u16 {
    let settled = match *request {
        Request::Fill(fill) => fill.seen.watermark + 1..=fill.watermark,
        Request::EnterOver {
            last, watermark, ..
        } => watermark + 1..=last,
        _ => return 0,
    };
    settled.fold(0, |bits, at| bits | 1 << at)
}

/// Whether the client has the lowest row, as the article looks for it.
fn is_lowest(snapshot: &Snapshot, digest: &JudgedSnapshot) -> bool {
    let lowest = lowest(digest) == Some(Occupant::Me);
    lowest && snapshot.is_whole() && snapshot.item.is_free()
}
