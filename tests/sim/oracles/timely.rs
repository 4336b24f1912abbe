//! Who is in line, and renews in time.
//!
//! A ticket is in line for certain when an answer shows it on the lock item, or when, after its row was answered as
//! joined or renewed, a look was sent that shows `seated` below it: from then on nobody may make the row void but by
//! the beat that it renews. It is timely for as long as its newest renewal was sent less than 45 % of its lease ago,
//! so that two in a row, one of them of a row that had a seat by then, still are less than a lease apart by any clock
//! within the margin. It ends with the first request of its own host that gives it up, when that is sent. Who joins
//! late, is cut off or stands still is timely until its last renewal is too old, and again from its next; nothing is
//! claimed of the time between.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Events;
use crate::exchange::{Answer, Exchange};
use crate::history::Event;
use crate::plan::Plan;

const FRESH: f64 = 0.45;

/// One ticket's place, by its nonce.
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) ticket: u64,
    lease: Duration,
    renewed: Duration,
    /// Since when its row is known to be there.
    pub(super) row: Option<Duration>,
    pub(super) in_line: bool,
}

#[derive(Default)]
pub(super) struct Lines<'a> {
    places: BTreeMap<(&'a str, &'a str), Place>,
    /// When the host of a ticket first sent that it gives it up.
    given_up: BTreeMap<(&'a str, usize, u64), Duration>,
}

/// Tells `judge` of each event, with who was in line when it had happened.
pub(super) fn walk<'a>(
    plan: &Plan,
    events: &'a Events,
    mut judge: impl FnMut(&Lines<'a>, Duration, &'a Event) -> Result<(), String>,
) -> Result<(), String> {
    let mut lines = Lines::default();
    lines.gather_ends(events);
    for (at, event) in events {
        if let Event::Exchanged(exchange) = event {
            lines.take_in(plan, exchange, *at);
        }
        judge(&lines, *at, event)?;
    }
    Ok(())
}

impl<'a> Lines<'a> {
    fn gather_ends(&mut self, events: &'a Events) {
        let mut tickets = BTreeMap::new();
        for (_, event) in events {
            let Event::Exchanged(exchange) = event else {
                continue;
            };
            let lock = exchange.lock.as_str();
            if let (Some(nonce), Some(ticket)) = (&exchange.nonce, exchange.ticket) {
                tickets.insert((lock, nonce.as_str()), ticket);
            }
            let places = exchange.shown.iter().flat_map(|shown| shown.places());
            tickets.extend(places.map(|place| ((lock, place.nonce.as_str()), place.ticket)));
        }
        for (_, event) in events {
            let Event::Exchanged(exchange) = event else {
                continue;
            };
            let gives_up = matches!(exchange.verb, "leave" | "void own" | "release" | "give up");
            let lock = exchange.lock.as_str();
            let by_nonce = exchange.nonce.as_deref();
            let by_nonce = by_nonce.and_then(|nonce| tickets.get(&(lock, nonce)).copied());
            if let Some(ticket) = exchange.ticket.or(by_nonce)
                && gives_up
                && !exchange.judges
            {
                let key = (lock, exchange.host, ticket);
                let sent = self.given_up.entry(key).or_insert(exchange.sent);
                *sent = exchange.sent.min(*sent);
            }
        }
    }

    fn take_in(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
        if exchange.answer == Answer::Ok {
            match exchange.verb {
                "join" | "sit" => self.begin(plan, exchange, at),
                "renew row" | "renew seat" | "renew hold" => self.renew(plan, exchange, at),
                _ => {}
            }
        }
        let Some(shown) = &exchange.shown else { return };
        for ((lock, nonce), place) in &mut self.places {
            if *lock == exchange.lock {
                let is_shown = shown.places().any(|other| other.nonce == **nonce);
                let is_row = place.row.is_some_and(|since| since <= exchange.sent);
                place.in_line |= is_shown || (is_row && shown.seated < place.ticket);
            }
        }
    }

    fn begin(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
        let host = plan.hosts.get(exchange.host);
        if let (Some(nonce), Some(ticket), Some(host)) = (&exchange.nonce, exchange.ticket, host) {
            let place = Place {
                host: exchange.host,
                ticket,
                lease: host.lease,
                renewed: exchange.sent,
                row: (exchange.verb != "sit").then_some(at),
                in_line: false,
            };
            self.places.insert((&exchange.lock, nonce), place);
        }
    }

    fn renew(&mut self, plan: &Plan, exchange: &'a Exchange, at: Duration) {
        let nonce = exchange.nonce.as_deref().unwrap_or_default();
        if let Some(place) = self.places.get_mut(&(&exchange.lock, nonce)) {
            place.in_line &= place.is_fresh(at);
            place.renewed = place.renewed.max(exchange.sent);
            place.row = (exchange.verb == "renew row").then_some(at);
        } else if exchange.verb == "renew row" {
            // Its join was not answered.
            self.begin(plan, exchange, at);
        }
    }

    /// Whoever is timely at a lock now, and has not given up.
    pub(super) fn timely(&self, lock: &str, now: Duration) -> impl Iterator<Item = &Place> {
        let of_lock = self.places.iter().filter(move |((of, _), _)| *of == lock);
        let timely = of_lock.filter(move |((of, _), place)| {
            let end = self.given_up.get(&(of, place.host, place.ticket));
            place.is_fresh(now) && end.is_none_or(|end| now < *end)
        });
        timely.map(|(_, place)| place)
    }
}

impl Place {
    fn is_fresh(&self, at: Duration) -> bool {
        at < self.renewed + self.lease.mul_f64(FRESH)
    }
}
