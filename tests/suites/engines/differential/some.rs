//! Small random values: so small that two of them are often equal.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::entry::{Attributes, Entry, Nonce, ServerTime, Unknown};
use fairlock_protocol::item::{LockItem, Notice, Written};
use fairlock_protocol::moment::HostTime;
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::value::{Map, Value};

/// Draws random values of every kind.
pub(crate) struct Few(fastrand::Rng);

impl Few {
    pub(crate) fn seeded(seed: u64) -> Self {
        Few(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.0.usize(..all.len())].clone()
    }

    pub(crate) fn upto(&mut self, most: u64) -> u64 {
        self.0.u64(..=most)
    }

    /// Returns `true` once in `many` draws, on average.
    pub(crate) fn once_in(&mut self, many: u64) -> bool {
        self.0.u64(..many) == 0
    }

    pub(crate) fn or_none<T>(&mut self, it: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.once_in(3)).then(|| it(self))
    }

    pub(crate) fn nonce(&mut self) -> Nonce {
        Nonce::new(u128::from(self.upto(3)) + 1)
    }

    /// A nonce of a place that comes with its ticket. A nonce asks for a place in one way only.
    pub(crate) fn nonce_by_itself(&mut self) -> Nonce {
        Nonce::new(self.of(&[2, 4, 6]))
    }

    /// Whether the nonce is of that kind.
    pub(crate) fn comes_by_itself(nonce: Nonce) -> bool {
        [2, 4, 6].map(Nonce::new).contains(&nonce)
    }

    pub(crate) fn date(&mut self) -> ServerTime {
        // Some of them differ by no more than the dates of one client may.
        ServerTime(Duration::from_secs(self.of(&[100, 101, 102, 110, 120])))
    }

    /// Times by both clocks.
    pub(crate) fn stamps(&mut self) -> Stamps {
        Stamps {
            server: Some(self.date()),
            host: Some(HostTime(self.date().0)),
        }
    }

    /// Times by both clocks, of which each may be absent.
    fn some_stamps(&mut self) -> Stamps {
        let Stamps { server, host } = self.stamps();
        Stamps {
            server: server.filter(|_| !self.once_in(3)),
            host: host.filter(|_| !self.once_in(3)),
        }
    }

    pub(crate) fn span(&mut self) -> Duration {
        Duration::from_secs(self.of(&[10, 20, 30]))
    }

    pub(crate) fn expiry(&mut self) -> u64 {
        self.of(&[1_000, 2_000, 3_000])
    }

    pub(crate) fn written(&mut self) -> Written {
        Written {
            ticket: Ticket::new(1 + self.upto(2)),
            count: 1 + self.upto(2),
        }
    }

    pub(crate) fn notice(&mut self) -> Arc<Notice> {
        Arc::new(Notice {
            from: Ticket::new(1 + self.upto(1)),
            to: Ticket::new(1 + self.upto(2)),
            by: self.of(&["a", ""]).to_owned(),
            reason: self.of(&["why", ""]).to_owned(),
        })
    }

    fn address(&mut self) -> Arc<str> {
        self.of(&["10.0.0.1:7001", "h"]).into()
    }

    /// Attributes that no version writes yet, and an address of a shape that none does.
    fn unknown(&mut self) -> Unknown {
        let address = Map::from([
            ("host".to_owned(), Value::text("h")),
            ("port".to_owned(), Value::number(7)),
        ]);
        let said = match self.once_in(3) {
            true => Map::from([("address".to_owned(), Value::M(address))]),
            false => Map::new(),
        };
        Unknown::of(said)
    }

    pub(crate) fn entry(&mut self, nonce: Nonce, ticket: Ticket, permits: u64) -> Entry {
        let tickets = (1 + self.upto(1)).min(ticket.get().max(1));
        let address = self.or_none(Self::address);
        let (beat, lease) = (self.upto(2), self.span());
        let (stamps, since) = (self.some_stamps(), self.or_none(Self::date));
        let session = self.once_in(8).then(|| self.of(&["s", "t"]).into());
        Entry {
            nonce,
            owner: "somebody".to_owned(),
            ticket,
            tickets,
            permits,
            attributes: Attributes::default(),
            id: None,
            beat,
            session,
            lease,
            stamps,
            since,
            given_back: tickets == 2,
            address: address.clone(),
            unknown: match address {
                Some(_) => Unknown::default(),
                None => self.unknown(),
            },
        }
    }

    /// A lock of two or three permits, in any state that a lock may be in.
    pub(crate) fn lock(&mut self) -> LockItem {
        let permits = 2 + self.upto(1);
        let watermark = 5 + self.upto(1);
        // Sometimes at the end of all tickets.
        let (base, open) = match self.once_in(6) {
            true => (u64::MAX - 7, self.of(&[0, 0, 1]).min(6 - watermark)),
            false => (0, self.of(&[0, 0, 1, 2])),
        };
        let ticket = |n: u64| Ticket::new(base + n);
        let mut nonces: Vec<_> = (1..=4_u128).map(Nonce::new).collect();
        self.0.shuffle(&mut nonces);
        let mut next = 0;
        let mut place = |some: &mut Self, permits: u64| {
            next += 1;
            some.entry(nonces[next as usize - 1], ticket(next), permits)
        };
        let mut room = permits;
        let (mut sharers, mut slots) = (Vec::new(), Vec::new());
        if !self.once_in(3) {
            // The entry in the first slot may have come before the sharers.
            let is_first = self.once_in(2);
            if is_first {
                let share = 1 + self.upto(permits - 1);
                slots.push(place(self, share));
            }
            while room > 0 && sharers.len() < 2 && self.once_in(2) {
                let share = 1 + u64::from(room > 1 && self.once_in(3));
                sharers.push(place(self, share));
                room -= share;
            }
            while slots.len() < 3 && sharers.len() + slots.len() < 4 && self.once_in(2) {
                let share = 1 + self.upto(permits - 1);
                slots.push(place(self, share));
            }
        }
        // Sometimes an operator has changed the number of permits.
        let resized = self.once_in(6).then(|| permits - 1 + self.of(&[0, 2]));
        let room = room as i64 + resized.map_or(0, |there_are| there_are as i64 - permits as i64);
        let asked = self.or_none(Self::notice);
        LockItem {
            permits,
            resized,
            resizes: match resized {
                Some(_) => 1 + self.upto(1),
                None => 0,
            },
            room,
            last: ticket(watermark + open),
            watermark: ticket(watermark),
            departures: self.upto(1),
            sharers,
            slots,
            data: self.or_none(|some| [some.upto(1) as u8].into()),
            written: self.or_none(Self::written),
            drawn: self.some_stamps(),
            join_timeout: self.or_none(Self::span),
            granted_at: self.or_none(Self::date),
            expires_at: self.of(&[0, 1_000, 2_000, 3_000]),
            asks: asked.as_ref().map_or(0, |_| 1 + self.upto(1)),
            asked,
            broken: self.or_none(Self::notice),
        }
    }

    /// The lock as a client saw it a little earlier, or as it is.
    pub(crate) fn seen(&mut self, item: &LockItem) -> LockItem {
        let mut seen = item.clone();
        for _ in 0..self.of(&[0, 0, 1, 1, 2]) {
            self.change(&mut seen);
        }
        // Sharers are stored by nonce, so no two can have the same.
        let mut known = Vec::new();
        seen.sharers.retain(|sharer| {
            let is_new = !known.contains(&sharer.nonce);
            known.push(sharer.nonce);
            is_new
        });
        seen
    }

    fn change(&mut self, seen: &mut LockItem) {
        match self.upto(9) {
            9 if seen.resizes > 0 => seen.resizes = 1 + self.upto(1),
            0 => (seen.departures, seen.asks) = (self.upto(1), self.upto(2)),
            1 => seen.watermark = seen.watermark.before().unwrap_or_default(),
            2 => seen.last = seen.last.before().unwrap_or_default(),
            3 => seen.sharers.truncate(self.upto(1) as usize),
            4 => drop(seen.slots.pop()),
            5 => *seen = self.lock(),
            _ => {
                let places = seen.sharers.iter_mut().chain(&mut seen.slots);
                let mut places: Vec<_> = places.collect();
                let index = self.0.usize(..places.len().max(1));
                if let Some(entry) = places.get_mut(index) {
                    self.change_entry(entry);
                }
            }
        }
    }

    pub(crate) fn change_entry(&mut self, entry: &mut Entry) {
        match self.upto(4) {
            0 => entry.nonce = self.nonce(),
            1 => entry.ticket = entry.ticket.next().unwrap_or(entry.ticket),
            2 => entry.permits = 1 + self.upto(2),
            3 => entry.beat = self.upto(2),
            _ => entry.stamps = self.some_stamps(),
        }
    }
}
