//! Who is in the queue, and renews in time.
//!
//! A ticket is in the queue for certain when an answer shows it on the lock item, or when, after its row was answered as
//! joined or renewed, a look was sent that shows `watermark` below it: from then on nobody may make the row void but by
//! the beat that it renews. It is timely for as long as its newest renewal that counts for certain was sent less than
//! 90 % of its lease ago, so that nobody can have seen its beat stand still for a lease by any clock within the margin.
//! What counts for certain is the write that began the place, a renewal of the slot, and a renewal of the row if a look
//! sent after its answer shows `watermark` below the ticket: the row had no slot yet. A slot is given with the beat that its
//! giver saw on the row, long ago if that write was slow: from when an answer shows the slot, the write counts that made
//! that beat. It ends with the first request of its own host that gives it up, when that is sent, or when another host begins to
//! give it up. Who joins late, is cut off
//! or stands still is timely until that renewal is too old, and again from its next; nothing is claimed of the time between.
//! Nor is anything of a place on an item that DynamoDB may delete soon. Nor of a row that came after its ticket was made void in a run of gaps, whose one row does not stand in its way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Events;
use crate::exchange::{Answer, Exchange};
use crate::history::{Event, Share};
use crate::plan::Plan;
use crate::shown::State;

const FRESH: f64 = 0.9;

/// Who downgrades has nobody of its place waiting behind it.
const GIVE_UP: [&str; 5] = ["leave", "void own", "release", "give up", "downgrade"];

/// The place of one ticket, or of several that were drawn together, by its nonce.
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) first: u64,
    /// The newest of its tickets.
    pub(super) ticket: u64,
    /// How many of the lock's permits it asks for.
    permits: u64,
    lease: Duration,
    renewed: Duration,
    /// When the write was sent that made each beat, as far as answers tell.
    beats: Vec<(u64, Duration)>,
    /// When the newest renewal was sent that counts for certain.
    counted: Option<Duration>,
    /// Since when its row is known to be there.
    pub(super) row: Option<Duration>,
    pub(super) in_queue: bool,
    /// When its row was first known to be there, if it began with one.
    joined: Option<Duration>,
}

#[derive(Default)]
pub(super) struct Lines<'a> {
    places: BTreeMap<(&'a str, &'a str), Place>,
    /// Gaps closed in a run, by the newest ticket: the first, and when the first look was sent that shows it.
    closed: BTreeMap<(&'a str, u64), (u64, Duration)>,
    /// How many tickets were drawn, by the newest of them, as answers to the draws tell.
    drawn: BTreeMap<(&'a str, u64), u64>,
    /// When a join was first sent.
    joining: BTreeMap<(&'a str, &'a str), Duration>,
    /// When the host of a ticket first sent that it gives it up.
    given_up: BTreeMap<(&'a str, usize, u64), Duration>,
}

/// Tells `judge` of each event, with who was in the queue when it had happened.
pub(super) fn walk<'a>(
    plan: &Plan,
    events: &'a Events,
    mut judge: impl FnMut(&Lines<'a>, Duration, &'a Event) -> Result<(), String>,
) -> Result<(), String> {
    let mut queues = Lines::default();
    queues.gather_ends(events);
    for (at, event) in events {
        if let Event::Exchanged(exchange) = event {
            queues.take_in(plan, exchange, *at);
        }
        judge(&queues, *at, event)?;
    }
    Ok(())
}

impl<'a> Lines<'a> {
    /// A late copy of an enter may bring one nonce a second ticket, which is given up from the beginning.
    fn gather_ends(&mut self, events: &'a Events) {
        let mut tickets: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
        for exchange in exchanges(events) {
            let lock = exchange.lock.as_str();
            if let (Some(nonce), Some(ticket)) = (&exchange.nonce, exchange.ticket) {
                let tickets = tickets.entry((lock, nonce.as_str())).or_default();
                tickets.insert(ticket);
            }
            for place in exchange.shown.iter().flat_map(|shown| shown.places()) {
                let tickets = tickets.entry((lock, place.nonce.as_str())).or_default();
                tickets.insert(place.ticket);
            }
        }
        for exchange in exchanges(events) {
            if !GIVE_UP.contains(&exchange.verb) || exchange.judges {
                continue;
            }
            let lock = exchange.lock.as_str();
            let by_nonce = exchange.nonce.as_deref();
            let by_nonce = by_nonce.and_then(|nonce| tickets.get(&(lock, nonce)));
            for ticket in exchange.ticket.iter().chain(by_nonce.into_iter().flatten()) {
                let key = (lock, exchange.host, *ticket);
                let sent = self.given_up.entry(key).or_insert(exchange.sent);
                *sent = exchange.sent.min(*sent);
            }
        }
        for (at, event) in events {
            if let Event::GivenUp { host, lock, ticket } = event {
                let sent = self.given_up.entry((lock, *host, *ticket)).or_insert(*at);
                *sent = (*sent).min(*at);
            }
        }
    }

    fn take_in(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
        match (exchange.verb, exchange.answer) {
            ("draw", Answer::Ok) => self.draw(exchange),
            ("join", _) => self.join(plan, exchange, at),
            ("enter" | "enter known" | "enter over" | "share", Answer::Ok) => {
                self.draw(exchange);
                if exchange.item_stays(at) {
                    self.begin(plan, exchange, exchange.sent, None);
                }
            }
            ("renew row" | "renew slot" | "renew hold" | "renew share", Answer::Ok) => {
                self.renew(plan, exchange, at)
            }
            _ => {}
        }
        self.close(exchange);
        let Some(shown) = &exchange.shown else { return };
        for ((lock, nonce), place) in &mut self.places {
            if *lock == exchange.lock {
                let slot = shown.places().find(|other| other.nonce == **nonce);
                let is_row = place.row.is_some_and(|since| since <= exchange.sent);
                let is_behind = is_row && shown.watermark < place.ticket;
                place.in_queue |= slot.is_some() || is_behind;
                if is_behind {
                    place.counted = Some(place.renewed);
                } else if let Some(slot) = slot {
                    place.has_a_slot(slot.beat);
                }
            }
        }
    }

    fn close(&mut self, exchange: &'a Exchange) {
        let void = exchange.rows.iter().filter(|row| row.state == State::Void);
        for row in void.filter(|row| row.first < row.ticket) {
            let key = (exchange.lock.as_str(), row.ticket);
            let closed = self.closed.entry(key).or_insert((row.first, exchange.sent));
            closed.1 = closed.1.min(exchange.sent);
        }
    }

    /// Whether its row came after a run of gaps was closed that has its ticket in it.
    fn came_late(&self, lock: &str, place: &Place) -> bool {
        let mut behind = self
            .closed
            .range((lock, place.ticket + 1)..=(lock, u64::MAX));
        let joined = |shown| place.joined.is_some_and(|joined| shown <= joined);
        behind.any(|(_, (first, shown))| *first <= place.ticket && joined(*shown))
    }

    /// Whoever draws draws the newest.
    fn draw(&mut self, exchange: &'a Exchange) {
        if let (Some(shown), Some(tickets)) = (&exchange.shown, exchange.draws) {
            self.drawn.insert((&exchange.lock, shown.last), tickets);
        }
    }

    /// A row that is there already is from an earlier sending, the first at the latest. So may be the slot of one that was not
    /// there any more, and had been given with it.
    fn join(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
        let Some(nonce) = exchange.nonce.as_deref() else {
            return;
        };
        let key = (exchange.lock.as_str(), nonce);
        let first = *self.joining.entry(key).or_insert(exchange.sent);
        let mut rows = exchange.rows.iter();
        let is_there = match exchange.answer {
            Answer::Ok => true,
            Answer::Refused => rows.any(|row| row.waits_for(nonce)),
            Answer::Failed => false,
        };
        if is_there {
            self.begin(plan, exchange, first, Some(at));
        }
    }

    fn begin(
        &mut self,
        plan: &Plan,
        exchange: &'a Exchange,
        sent: Duration,
        row: Option<Duration>,
    ) {
        let host = plan.hosts.get(exchange.host);
        let entered = exchange.shown.as_ref().map(|shown| shown.last);
        let ticket = exchange.ticket.or(entered);
        if let (Some(nonce), Some(ticket), Some(host)) = (&exchange.nonce, ticket, host) {
            let drawn = self.drawn.get(&(exchange.lock.as_str(), ticket));
            let first_beat = exchange.beat_of_row().unwrap_or_default();
            let place = Place {
                host: exchange.host,
                first: (ticket + 1).saturating_sub(drawn.copied().unwrap_or(1)),
                ticket,
                permits: exchange.permits.unwrap_or(u64::MAX),
                lease: exchange.lease.unwrap_or(host.lease),
                renewed: sent,
                beats: vec![(first_beat, sent)],
                counted: (exchange.verb != "renew row").then_some(sent),
                row,
                in_queue: false,
                joined: row,
            };
            self.places.insert((&exchange.lock, nonce), place);
        }
    }

    fn renew(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
        let nonce = exchange.nonce.as_deref().unwrap_or_default();
        if let Some(place) = self.places.get_mut(&(exchange.lock.as_str(), nonce)) {
            let is_row = exchange.verb == "renew row";
            place.renewed = place.renewed.max(exchange.sent);
            let beat = exchange.beat_of_row();
            place.beats.extend(beat.map(|beat| (beat, exchange.sent)));
            place.row = is_row.then_some(at);
            if !is_row {
                place.counted = place.counted.max(Some(exchange.sent));
            }
        } else if exchange.verb == "renew row" {
            // Its join was not answered.
            self.begin(plan, exchange, exchange.sent, Some(at));
        }
    }

    /// Whoever is timely at a lock now, and has not given up.
    pub(super) fn timely(&self, lock: &str, now: Duration) -> impl Iterator<Item = &Place> {
        let of_lock = self.places.iter().filter(move |((of, _), _)| *of == lock);
        let timely = of_lock.filter(move |((of, _), place)| {
            let end = self.given_up.get(&(of, place.host, place.ticket));
            let waits = end.is_none_or(|end| now < *end);
            place.is_fresh(now) && waits && !self.came_late(of, place)
        });
        timely.map(|(_, place)| place)
    }
}

fn exchanges(events: &Events) -> impl Iterator<Item = &Exchange> {
    events.iter().filter_map(|(_, event)| match event {
        Event::Exchanged(exchange) => Some(&**exchange),
        _ => None,
    })
}

impl Place {
    pub(super) fn has(&self, ticket: u64) -> bool {
        (self.first..=self.ticket).contains(&ticket)
    }

    /// Whether it cannot have the lock beside one who has this.
    pub(super) fn excludes(&self, other: Share) -> bool {
        self.permits.saturating_add(other.permits) > other.of
    }

    /// A row's renewals count no more.
    fn has_a_slot(&mut self, beat: u64) {
        if self.row.take().is_some() {
            let made = self.beats.iter().filter(|(made, _)| *made <= beat);
            self.counted = made.map(|(_, sent)| *sent).max();
        }
    }

    fn is_fresh(&self, at: Duration) -> bool {
        self.counted
            .is_some_and(|sent| at < sent + self.lease.mul_f64(FRESH))
    }
}
