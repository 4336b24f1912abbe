//! The owner of an entry: how it stamps what it writes, and until when it believes that it holds the lock.

use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::lease::believed;
use fairlock_protocol::write::Dating;

use super::client::{Client, Link};
use super::rules::{Mutant, Rules, Way};
use super::table::Mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Another request, whose answer tells the time too.
    Ask,
    Enter,
    /// The beat is the number of the renewal.
    Renew(u8),
    /// Turns the hold into a lease, with a beat as a renewal's.
    LeaseOut(u8),
}

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) what: What,
    /// A tick before its date was taken.
    pub(crate) began: u8,
    pub(crate) dating: Dating,
    pub(crate) course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Course {
    Sent,
    Served {
        at: u8,
        link: Link,
        /// `None` if it was refused because a later date stands there.
        shows: Option<Mark>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) client: Client,
    pub(crate) flight: Option<Flight>,
    /// A copy of a request whose answer the owner never hears.
    pub(crate) late: Option<Flight>,
    /// When the newest answered write began: the owner believes from then on.
    pub(crate) from: Option<u8>,
    /// When the lease ends that the hold has become, by DynamoDB's clock: the owner believes until then.
    pub(crate) until: Option<ServerTime>,
    /// Whether the owner has stopped believing, for good.
    pub(crate) lost: bool,
    pub(crate) has_entered: bool,
    pub(crate) asks: u8,
    pub(crate) renewals: u8,
    pub(crate) renewed: u8,
    /// Whether it is to turn its hold into a lease, when it has renewed it for the last time.
    pub(crate) leases_out: bool,
    pub(crate) losses: u8,
}

impl Owner {
    /// Sends a write, stamped by what its client was told.
    pub(crate) fn begin(&mut self, what: What, now: u8, rules: &Rules) {
        let (mut dates, here) = (
            self.client.dates(rules.owner, rules),
            rules.here(rules.owner, now),
        );
        let stamp = match (rules.mutant, what) {
            (Some(Mutant::UnconfirmedStamp), _) => dates.newest(here),
            (_, What::LeaseOut(_)) => dates.past(here),
            (Some(Mutant::EarliestStamp), _) => dates.past(here),
            (Some(Mutant::RenewsByTheLast), What::Renew(_)) => {
                let by_the_last = || self.client.by_the_last(now, rules.owner, rules);
                dates.stamp(here).or_else(by_the_last)
            }
            (_, What::Renew(_)) => dates.stamp_of_renewal(here),
            _ => dates.stamp(here),
        };
        self.has_entered = true;
        if let What::LeaseOut(_) = what {
            // The guard is gone, and the lease has yet to begin.
            (self.leases_out, self.from) = (false, None);
            // Where no time is known that has passed, no lease is made, and the hold ends.
            if stamp.is_none() {
                return;
            }
        }
        self.flight = Some(Flight {
            what,
            began: now,
            dating: stamp.map_or(Dating::None, Dating::By),
            course: Course::Sent,
        });
    }

    /// Sends another request, which is served at once.
    pub(crate) fn ask(&mut self, way: Way, now: u8) {
        self.asks -= 1;
        let course = self.served(way, None, now);
        self.flight = Some(Flight {
            what: What::Ask,
            began: now,
            dating: Dating::None,
            course,
        });
    }

    /// Serves a request that went this way, and shows this.
    pub(crate) fn served(&mut self, way: Way, shows: Option<Mark>, at: u8) -> Course {
        match self.client.connect(way) {
            Some(link) => Course::Served { at, link, shows },
            None => Course::Sent,
        }
    }

    /// Takes in the answer to the request under way.
    pub(crate) fn hear(&mut self, now: u8, rules: &Rules) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        let Course::Served { at, link, shows } = flight.course else {
            return;
        };
        let ticks = [flight.began, at, now];
        let _ = self.client.hear(link, ticks, rules.owner, rules);
        match (flight.what, flight.dating, shows) {
            (What::Ask, ..) => {}
            (What::LeaseOut(_), Dating::By(date), Some(_)) => {
                self.until = Some(ends(date, flight.began, rules));
            }
            (What::LeaseOut(_), ..) => {}
            (_, _, Some(_)) => {
                let is_late = rules.broken(Mutant::BelievesFromTheWrite);
                self.from = Some(if is_late { at } else { flight.began });
            }
            (_, Dating::By(stamp), None) => {
                self.flight = Some(Flight {
                    dating: Dating::UnderLater(stamp),
                    course: Course::Sent,
                    ..flight
                });
            }
            _ => {}
        }
    }

    /// The owner never hears the answer. A request that was not served yet may be served at any time, or never.
    pub(crate) fn lose(&mut self) {
        self.losses -= 1;
        let lost = self.flight.take();
        let is_write = |flight: &Flight| flight.course == Course::Sent;
        self.late = self.late.or(lost.filter(is_write));
    }

    /// Once lost, the lock stays lost, whatever answer comes later. What can make no difference any more is forgotten.
    pub(crate) fn watch_the_clock(&mut self, now: u8, rules: &Rules) {
        let began = self.from.or(self.flight.map(|flight| flight.began));
        let began = began.filter(|_| self.has_entered);
        self.lost |= match self.until {
            Some(until) => until <= rules.server_time(now),
            None => began.map_or(self.has_entered, |began| is_over(began, now, rules)),
        };
        if self.lost {
            *self = Owner {
                has_entered: true,
                lost: true,
                ..Owner::default()
            };
        }
        if self.has_entered && self.renewals == 0 && !self.leases_out {
            // The owner stamps nothing any more.
            (self.client, self.asks) = (Client::default(), 0);
            let is_write = |flight: &Flight| flight.what != What::Ask;
            self.flight = self.flight.filter(is_write);
        }
    }

    pub(crate) fn believes(&self) -> bool {
        self.from.is_some() || self.until.is_some()
    }

    /// Whether it believes, or would with an answer that is under way.
    pub(crate) fn may_believe(&self, now: u8, rules: &Rules) -> bool {
        let under_way = self.flight.filter(|flight| match flight.course {
            Course::Served { shows, .. } => shows.is_some(),
            Course::Sent => false,
        });
        let comes = under_way.is_some_and(|flight| match (flight.what, flight.dating) {
            (What::LeaseOut(_), Dating::By(date)) => {
                rules.server_time(now) < ends(date, flight.began, rules)
            }
            _ => !is_over(flight.began, now, rules),
        });
        self.believes() || comes
    }
}

/// Whether a hold that began at this tick has ended for its owner.
fn is_over(began: u8, now: u8, rules: &Rules) -> bool {
    let moment = |tick| rules.moment(rules.owner, tick);
    moment(now).since(moment(began)) >= believed(rules.lease)
}

/// When a lease ends for its owner, by DynamoDB's clock.
fn ends(date: ServerTime, began: u8, rules: &Rules) -> ServerTime {
    let date = match rules.broken(Mutant::LeaseFromTheWrite) {
        true => rules.server_time(began),
        false => date,
    };
    ServerTime(date.0 + believed(rules.lease))
}
