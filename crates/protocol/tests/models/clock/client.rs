//! A client of DynamoDB: its connection, and what answers told it of the time.

use fairlock_protocol::date_history::{DateHistory, Heard, Seen};
use fairlock_protocol::entry::ServerTime;

use super::rules::{FrontEnd, Host, Mutant, Rules, Way};

/// A connection: it leads to one front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub(crate) id: u8,
    pub(crate) to: FrontEnd,
}

/// An answer that arrived, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    link: Link,
    sent: u8,
    served: u8,
    arrived: u8,
}

/// How many answers a client remembers. In no model does it hear answers over that many connections.
const MOST: usize = 6;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Its connection, over which the next request goes.
    kept: Option<Link>,
    opened: u8,
    met_the_wrong_one: bool,
    heard: [Option<Answer>; MOST],
}

impl Client {
    /// Where its next request may lead.
    pub(crate) fn ways(&self, wrong: Option<i16>, rules: &Rules) -> Vec<Way> {
        if self.kept.is_some() {
            return vec![Way::Kept];
        }
        let mut ways = vec![FrontEnd::Ahead, FrontEnd::Behind];
        if !self.met_the_wrong_one || rules.meets_again {
            let any = rules.offsets.iter().filter(|_| wrong.is_none());
            ways.extend(wrong.iter().chain(any).map(|by| FrontEnd::Wrong(*by)));
        }
        ways.into_iter().map(Way::New).collect()
    }

    /// Sends a request this way.
    pub(crate) fn connect(&mut self, way: Way) -> Option<Link> {
        if let Way::New(to) = way {
            self.opened += 1;
            self.met_the_wrong_one |= matches!(to, FrontEnd::Wrong(_));
            self.kept = Some(Link {
                id: self.opened,
                to,
            });
        }
        self.kept
    }

    /// Takes in an answer to a request that was sent and served at these ticks. Returns the date that the answer tells to a client that
    /// judges by it.
    pub(crate) fn hear(
        &mut self,
        link: Link,
        [sent, served, arrived]: [u8; 3],
        host: Host,
        rules: &Rules,
    ) -> Option<ServerTime> {
        let mut dates = self.dates(host, rules);
        let answer = Answer {
            link,
            sent,
            served,
            arrived,
        };
        let seen = answer.seen(host, rules);
        let here = rules.here(host, arrived);
        let heard = dates.hear(seen, here);
        let is_kept = rules.broken(Mutant::KeptConnections);
        if dates.retires(heard, seen.date, here) && !is_kept && self.kept == Some(link) {
            self.kept = None;
        }
        if let Some(free) = self.heard.iter_mut().find(|answer| answer.is_none()) {
            *free = Some(answer);
        }
        let date = match rules.broken(Mutant::AsTold) || is_kept {
            true => Some(ServerTime(seen.date)),
            false => dates.newest(here),
        };
        date.filter(|_| heard != Heard::Again || is_kept)
    }

    pub(crate) fn has_room(&self) -> bool {
        self.heard[MOST - 1].is_none()
    }

    /// The time by the last answer, whatever confirms it.
    pub(crate) fn by_the_last(&self, now: u8, host: Host, rules: &Rules) -> Option<ServerTime> {
        let last = self.heard.iter().flatten().last()?;
        let seen = last.seen(host, rules);
        let since = rules.moment(host, now).since(seen.sent);
        Some(ServerTime(seen.date + since))
    }

    /// What it remembers of the time.
    pub(crate) fn dates(&self, host: Host, rules: &Rules) -> DateHistory<u8> {
        let mut dates = DateHistory::default();
        for answer in self.heard.iter().flatten() {
            let _ = dates.hear(answer.seen(host, rules), rules.here(host, answer.arrived));
        }
        dates
    }
}

impl Answer {
    fn seen(&self, host: Host, rules: &Rules) -> Seen<u8> {
        let sent = match rules.broken(Mutant::DatesFromTheArrival) {
            true => self.arrived,
            false => self.sent,
        };
        Seen {
            date: rules.date(self.link.to, self.served),
            sent: rules.moment(host, sent),
            arrived: rules.moment(host, self.arrived),
            front_end: Some(self.link.id),
        }
    }
}
