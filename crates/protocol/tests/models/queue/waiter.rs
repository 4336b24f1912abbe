//! The waiter: ask for a slot, else draw and join; look until granted; release, or leave.

use super::client::{Client, Spot, Task};
use super::few::Few;
use super::look::{Look, lowest};
use super::request::{Answer, Request, Seen};
use super::rules::{Mutant, Rules};
use super::table::{Entry, Item, Row};
use fairlock_protocol::doorway::{self, Ask, Sight, next_ask};
use fairlock_protocol::line::{Has, Occupant, Seating, Standing, Step, Unsettled, next_step};
use fairlock_protocol::ticket::Ticket;

/// Requests at the door that may be refused, before a ticket is drawn: the product makes more.
const TRIES_AT_THE_DOOR: u8 = 2;

impl Client {
    /// Takes in the answer to its own write.
    pub(crate) fn answered(&mut self, me: usize, rules: &Rules, request: Request, answer: Answer) {
        let item = answer.shown.item();
        match request {
            Request::Share { .. } if item.is_none() && !self.leaving => self.ask_first(me, rules),
            Request::Enter { .. } | Request::Share { .. } => self.asked(me, rules, item),
            Request::Draw { .. } if item.is_none() && !self.leaving => self.ask_first(me, rules),
            Request::Draw { .. } => self.drew(me, answer.applied, item),
            Request::Join { .. } if !self.leaving && is_void(&answer) => self.retire(),
            Request::Seat { seen, seated, .. } if answer.applied => {
                self.litter |= (seen.seated + 1..=seated).fold(0, |bits, at| bits | 1 << at);
                self.look_again(me);
            }
            Request::Release { .. } => self.released(me, self.spot(item, rules)),
            Request::Downgrade { .. } => match self.spot(item, rules) {
                Spot::Holder(entry) => self.granted(entry),
                _ => self.over(me),
            },
            Request::VoidMine { ticket, .. } => self.send(Request::Left { ticket }),
            Request::Left { .. } if answer.applied => self.over(me),
            Request::Left { ticket } => self.left(me, rules, ticket, item),
            Request::Rise { .. } if answer.applied => self.over(me),
            Request::Rise { .. } => self.task = Task::Rising,
            _ => self.look_again(me),
        }
    }

    /// There is no lock item: nobody has the lock.
    pub(crate) fn ask_first(&mut self, me: usize, rules: &Rules) {
        let nonce = self.name(me, rules);
        self.ask(nonce, next_ask(doorway::Seen::Nobody, self.shares), None);
    }

    /// Whoever is there still has another share than was thought.
    pub(crate) fn released(&mut self, me: usize, spot: Spot) {
        match spot {
            Spot::Holder(Entry { nonce, share, .. }) => {
                self.send(Request::Release { nonce, share })
            }
            _ => self.over(me),
        }
    }

    /// After so many tries it draws; and where the product would look again, as one does whose tries are used up: a
    /// model of few clients would have no rows else.
    fn ask_again(&mut self, me: usize, rules: &Rules, item: Option<Item>) {
        self.tries += 1;
        let nonce = self.name(me, rules);
        let sight = item.map(|item| doorway::Seen::Item(sight(&item, self.share, rules)));
        let ask = next_ask(sight.unwrap_or(doorway::Seen::Nobody), self.shares);
        let asks_again = matches!(ask, Ask::Share | Ask::Enter) && self.tries <= TRIES_AT_THE_DOOR;
        let ask = if asks_again { ask } else { Ask::Draw };
        self.ask(nonce, ask, item.as_ref());
    }

    /// A failed condition that shows us where we wanted to be is a success. The ticket is the one that the item shows.
    fn asked(&mut self, me: usize, rules: &Rules, item: Option<Item>) {
        match self.spot(item, rules) {
            Spot::Holder(entry) => self.granted(entry),
            Spot::Heir(index) => {
                let seat = item.and_then(|item| item.slots.get(index.into()));
                self.ticket = seat.map(|seat| seat.ticket);
                self.heir = true;
                self.look_again(me);
            }
            Spot::Nowhere if self.leaving => self.over(me),
            Spot::Nowhere => self.ask_again(me, rules, item),
        }
    }

    fn drew(&mut self, me: usize, applied: bool, item: Option<Item>) {
        let drawn = item.filter(|_| applied).map(|item| item.last);
        let (Some(ticket), Some(nonce)) = (drawn, self.nonce) else {
            return self.over(me);
        };
        self.ticket = Some(ticket);
        if self.leaving {
            return self.leave_row();
        }
        let who = self.who(nonce);
        self.send(Request::Join { who, ticket });
    }

    fn look_again(&mut self, me: usize) {
        self.task = Task::Waiting;
        if self.leaving {
            self.leave(me);
        }
    }

    /// Nothing of ours is in flight: settle the ticket.
    pub(crate) fn leave(&mut self, me: usize) {
        match self.ticket {
            None => self.over(me),
            Some(_) if self.heir => self.task = Task::Rising,
            Some(_) => self.leave_row(),
        }
    }

    /// Leave, to draw again.
    fn retire(&mut self) {
        self.heir = false;
        self.leave_row();
    }

    fn leave_row(&mut self) {
        if let (Some(ticket), Some(nonce)) = (self.ticket, self.nonce) {
            let size = self.size;
            self.send(Request::VoidMine {
                ticket,
                size,
                nonce,
            });
        }
    }

    /// Whether somebody seated us before the row was void or `left` was raised.
    fn left(&mut self, me: usize, rules: &Rules, ticket: u8, item: Option<Item>) {
        let stays = !self.leaving && !rules.broken(Mutant::MissingRowGivesUpSeat);
        match self.spot(item, rules) {
            _ if rules.broken(Mutant::LeaveKeepsSeat) => self.over(me),
            Spot::Holder(entry) if stays => self.granted(entry),
            Spot::Heir(_) if stays => {
                self.ticket = Some(ticket);
                self.task = Task::Waiting;
            }
            _ => self.rise(me, item, rules),
        }
    }

    /// Gives up whatever place the lock item shows us at.
    pub(crate) fn rise(&mut self, me: usize, item: Option<Item>, rules: &Rules) {
        let nonce = self.nonce;
        match (self.spot(item, rules), nonce) {
            (Spot::Holder(entry), _) => {
                self.has = entry.share;
                self.release(entry.nonce);
            }
            (Spot::Heir(index), Some(nonce)) => self.send(Request::Rise { index, nonce }),
            _ => self.over(me),
        }
    }

    /// One look of a waiter, decided by the product's own function.
    pub(crate) fn decide(
        &mut self,
        me: usize,
        rules: &Rules,
        look: Look,
        judge: impl Fn(Entry) -> Occupant,
        ripe: impl Fn(Ticket) -> bool,
    ) {
        let (Some(mine), Some(nonce)) = (self.ticket, self.nonce) else {
            return self.over(me);
        };
        let digest = look.digest(rules, judge);
        if rules.broken(Mutant::MissingRowGivesUpSeat) && look.misses(mine) {
            return self.retire();
        }
        let is_lowest = look.is_whole() && lowest(&digest) == Some(Occupant::Me);
        if rules.broken(Mutant::LowestRowEnters) && is_lowest && look.item.is_free() {
            return self.granted(Entry::new(self.who(nonce), mine, false));
        }
        let step = next_step(
            &digest.view(),
            Ticket::new(mine.into()),
            rules.seats,
            |gap| ripe(gap).then_some(gap),
        );
        self.take(me, rules, look, step);
    }

    fn take(&mut self, me: usize, rules: &Rules, look: Look, step: Step) {
        self.task = Task::Waiting;
        self.heir = matches!(step, Step::Wait(Standing::Heir(_)) | Step::Admit(_));
        match step {
            Step::Enter => self.enter(&look.item, rules),
            Step::Evict(has) => self.send_some(evict(&look.item, has, rules)),
            Step::Admit(heirs) => self.send_some(admit(&look.item, heirs, rules)),
            Step::Unseat(index) => self.send_some(unseat(&look.item, index, rules)),
            Step::Wait(standing) => self.renew_if_lapsed(standing, &look, rules),
            Step::Passed => self.over(me),
            Step::Retire => self.retire(),
            Step::ReadOn => self.task = Task::Reading(look),
            Step::Settle(unsettled) => self.send_some(settle(&look, &unsettled)),
            Step::Seat(seating) => self.send(seat(&look, &seating)),
        }
    }

    fn enter(&mut self, item: &Item, rules: &Rules) {
        if let Spot::Holder(entry) = self.spot(Some(*item), rules) {
            self.granted(entry);
        }
    }

    pub(crate) fn send_some(&mut self, request: Option<Request>) {
        request.into_iter().for_each(|request| self.send(request));
    }

    /// Only a late one renews here: beats that are renewed in time change nothing that the model tells apart.
    fn renew_if_lapsed(&mut self, standing: Standing, look: &Look, rules: &Rules) {
        let (Some(nonce), Some(ticket)) = (self.nonce, self.ticket) else {
            return;
        };
        let late = self.lapsed.max(self.tardy);
        let lapsed = |entry: Option<Entry>| entry.is_some_and(|at| at.beat < late);
        match standing {
            Standing::Heir(index) => {
                let slot = index + look.item.first_heir(rules);
                if lapsed(look.item.slots.get(slot)) {
                    let index = slot as u8;
                    self.send(Request::RenewHeir { index, nonce });
                }
            }
            Standing::Queue if lapsed(look.entry(ticket)) => {
                self.send(Request::RenewRow { ticket, nonce });
            }
            _ => {}
        }
    }
}

fn is_void(answer: &Answer) -> bool {
    !answer.applied && matches!(answer.shown, super::request::Shown::Row(Some(Row::Void(_))))
}

/// What the item shows to one at the door.
fn sight(item: &Item, share: u8, rules: &Rules) -> Sight {
    Sight {
        is_free: item.is_free(),
        is_settled: item.last == item.seated || rules.broken(Mutant::EnterOverUnsettled),
        has_room: item.has_room(share, rules),
        has_slot: item.slots.len() <= rules.seats,
        is_too_long: false,
    }
}

pub(crate) fn evict(item: &Item, has: Has, rules: &Rules) -> Option<Request> {
    let dead = match has {
        Has::Holder => item.holder(rules)?,
        Has::Sharer(index) => item.sharers.get(index)?,
    };
    Some(Request::Evict {
        nonce: dead.nonce,
        beat: dead.beat,
        share: dead.share,
    })
}

fn admit(item: &Item, heirs: usize, rules: &Rules) -> Option<Request> {
    let (_, share) = item.admitted(rules);
    let first = item.first_heir(rules);
    let index = first + heirs.checked_sub(1)?;
    Some(Request::Admit {
        first: first as u8,
        index: index as u8,
        nonce: item.slots.get(index)?.nonce,
        share,
    })
}

pub(crate) fn unseat(item: &Item, index: usize, rules: &Rules) -> Option<Request> {
    let slot = index + item.first_heir(rules);
    let Entry { nonce, beat, .. } = item.slots.get(slot)?;
    let index = slot as u8;
    Some(Request::Unseat { index, nonce, beat })
}

/// The first of them; the others show again in the next look.
pub(crate) fn settle(look: &Look, unsettled: &[Unsettled]) -> Option<Request> {
    match *unsettled.first()? {
        Unsettled::Gap(first, last) => Some(Request::VoidGap {
            first: first.get() as u8,
            ticket: last.get() as u8,
        }),
        Unsettled::Dead(ticket) => {
            let Entry {
                nonce,
                ticket,
                beat,
                ..
            } = look.entry(ticket.get() as u8)?;
            Some(Request::VoidDead {
                ticket,
                nonce,
                beat,
            })
        }
    }
}

fn seat(look: &Look, seating: &Seating) -> Request {
    let mut found = Few::default();
    for ticket in &seating.found {
        look.entry(ticket.get() as u8)
            .into_iter()
            .for_each(|entry| found.push(entry));
    }
    Request::Seat {
        seen: Seen::of(&look.item),
        found,
        seated: seating.seated.get() as u8,
    }
}

impl Seen {
    pub(crate) fn of(item: &Item) -> Self {
        Seen {
            seated: item.seated,
            left: item.left,
        }
    }
}
