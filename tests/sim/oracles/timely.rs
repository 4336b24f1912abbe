//! Which waiters are in the queue, and renew in time.
//!
//! A ticket is certainly in the queue when an answer shows it on the lock item. It is also in the queue when a snapshot shows `watermark`
//! below it, if the snapshot was requested after its row was answered as joined or renewed. From then on, other clients may make the row
//! void only by the beat that it renews.
//!
//! A ticket is timely while its newest certain renewal was sent less than 90 % of its lease ago. Then no client can have observed an
//! unchanged beat for a lease, by any clock within the margin. These renewals are certain:
//!
//! - The write that began the place, and a renewal of the slot.
//! - A renewal of the row, if a snapshot that was requested after its answer shows `watermark` below the ticket: the row had no slot yet.
//!
//! A slot gets the beat that the client that filled it saw on the row. If that write was slow, the client saw it long ago. So once an
//! answer shows the slot, only the write that made that beat counts.
//!
//! A ticket stops being timely when its own host sends the first request that gives it up, or when another host begins to give it up, or to break it. If a
//! waiter joins late, is cut off or stands still, it is timely until that renewal is too old, and again from its next renewal. Nothing is
//! claimed about the time between.
//!
//! Nothing is claimed about a hold whose longest time is near, once its host has asked for a shorter lease. Nothing is claimed about a place on an item that DynamoDB may delete soon. The same holds for a row that arrived after its ticket was
//! voided in a run of gaps. Such a run has one row only, which does not block the late row.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::broken::MostPermits;
use super::{Events, broken, exchanges};
use crate::exchange::{Answer, Exchange};
use crate::history::{Event, Share};
use crate::plan::Plan;
use crate::shown::State;

const FRESH: f64 = 0.9;

/// A holder that downgrades, or whose hold becomes a lease, has no caller of its place waiting behind it.
const GIVE_UP: [&str; 6] = [
    "leave",
    "void own",
    "release",
    "give up",
    "downgrade",
    "lease out",
];

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
    /// When the write that made each beat was sent, as far as answers tell.
    beats: Vec<(u64, Duration)>,
    /// When the newest certain renewal was sent.
    counted: Option<Duration>,
    /// Since when its row is known to exist.
    pub(super) row: Option<Duration>,
    pub(super) in_queue: bool,
    /// When its row was first known to exist, if the place began with a row.
    joined: Option<Duration>,
}

#[derive(Default)]
pub(super) struct Queues<'a> {
    places: BTreeMap<(&'a str, &'a str), Place>,
    /// Gaps that were closed in a run, by the newest ticket: the first ticket, and when the first read that shows the run was sent.
    closed: BTreeMap<(&'a str, u64), (u64, Duration)>,
    /// How many tickets were drawn, by the newest of them, according to the answers to the draws.
    drawn: BTreeMap<(&'a str, u64), u64>,
    /// When a join was first sent.
    joining: BTreeMap<(&'a str, &'a str), Duration>,
    /// How many permits the locks may have.
    pub(super) permits: MostPermits<'a>,
    /// When a host first sent that it gives up a ticket.
    given_up: BTreeMap<(&'a str, usize, u64), Duration>,
}

/// Calls `judge` with each event, and with the places after it.
pub(super) fn walk<'a>(
    plan: &Plan,
    events: &'a Events,
    mut judge: impl FnMut(&Queues<'a>, Duration, &'a Event) -> Result<(), String>,
) -> Result<(), String> {
    let mut queues = Queues::default();
    queues.gather_ends(plan, events);
    for (at, event) in events {
        queues.permits.note(event);
        if let Event::Exchanged(exchange) = event {
            queues.note_exchange(plan, exchange, *at);
        }
        judge(&queues, *at, event)?;
    }
    Ok(())
}

impl<'a> Queues<'a> {
    /// Gathers, before the walk, when each ticket was given up. A late copy of an enter may bring one nonce a second ticket. Giving the
    /// nonce up gives up both.
    fn gather_ends(&mut self, plan: &Plan, events: &'a Events) {
        let mut tickets: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
        for (_, exchange) in exchanges(events) {
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
        for (_, exchange) in exchanges(events) {
            let ends = GIVE_UP.contains(&exchange.verb) && !exchange.judges;
            if !ends && !is_to_end_soon(plan, exchange) {
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
        let given_up = events.iter().filter_map(|(at, event)| match event {
            Event::GivenUp { host, lock, ticket } => Some((lock.as_str(), *host, *ticket, *at)),
            _ => None,
        });
        for (lock, host, ticket, at) in given_up.chain(broken::places(events)) {
            let sent = self.given_up.entry((lock, host, ticket)).or_insert(at);
            *sent = (*sent).min(at);
        }
    }

    fn note_exchange(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
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

    /// Whether the place's row arrived after a run of gaps that contains its ticket was closed.
    fn came_late(&self, lock: &str, place: &Place) -> bool {
        let mut behind = self
            .closed
            .range((lock, place.ticket + 1)..=(lock, u64::MAX));
        let joined = |shown| place.joined.is_some_and(|joined| shown <= joined);
        behind.any(|(_, (first, shown))| *first <= place.ticket && joined(*shown))
    }

    /// A draw takes the newest tickets.
    fn draw(&mut self, exchange: &'a Exchange) {
        if let (Some(shown), Some(tickets)) = (&exchange.shown, exchange.draws) {
            self.drawn.insert((&exchange.lock, shown.last), tickets);
        }
    }

    /// If the row exists already, an earlier request put it, and that may have been the first. The same holds for a place whose row is gone
    /// because it was given a slot.
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
            // The join was not answered.
            self.begin(plan, exchange, exchange.sent, Some(at));
        }
    }

    /// The places that are timely at a lock now, and have not been given up.
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

/// Whether a holder asks for a shorter lease than its host has, because its caller wants it to end soon. It may be passed once that is over.
fn is_to_end_soon(plan: &Plan, exchange: &Exchange) -> bool {
    let is_hold = matches!(exchange.verb, "renew hold" | "renew share");
    let host = plan.hosts.get(exchange.host);
    let is_shorter = |lease| host.is_some_and(|host| lease < host.lease);
    is_hold && exchange.lease.is_some_and(is_shorter)
}

impl Place {
    pub(super) fn has(&self, ticket: u64) -> bool {
        (self.first..=self.ticket).contains(&ticket)
    }

    /// Whether the place cannot hold the lock, of at most so many permits, beside this share.
    pub(super) fn excludes(&self, other: Share, most: u64) -> bool {
        let is_alone = self.permits >= other.of || other.is_alone();
        is_alone || self.permits.saturating_add(other.permits) > most
    }

    /// The place has a slot now: renewals of its row no longer count.
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
