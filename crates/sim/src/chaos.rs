//! What goes wrong by itself: the way to the table, hosts that stop or crash, clocks that are set, items that expire.

use fairlock_protocol::agent::{HoldId, Input};

use crate::agenda::{At, Event, HOUR, MS, SECOND};
use crate::causes::Trouble;
use crate::clocks::{Dates, anything, shifted};
use crate::host::{Doing, Mood};
use crate::plan::nanos;
use crate::seen::{How, Seen};
use crate::world::World;

impl World {
    /// Notes the first event of each kind that comes again and again.
    pub(crate) fn begin_chaos(&mut self) {
        let rates = self.plan.rates;
        let hosts = 0..self.plan.hosts.len();
        for host in hosts {
            self.again(rates.moods, Event::Mood(host));
            self.again(rates.stops, Event::Stops(host));
            self.again(rates.crashes, Event::Crashes(host));
            self.again(rates.closes * 2, Event::Closes(host));
        }
        self.again(rates.operates, Event::Operates);
        self.again(rates.plants, Event::Plants);
        let steps = if self.plan.steps { 20 * SECOND } else { 0 };
        self.again(steps, Event::ClockStep);
        for lock in 0..self.plan.locks {
            self.again(rates.formats * 4, Event::Format(lock, true));
        }
        for waiter in 0..self.plan.waiters {
            self.again(SECOND, Event::Waits(waiter));
        }
        self.agenda.note(self.plan.ttl.1, Event::Ttl);
    }

    /// Notes an event after a span that is `every` on average. Zero means never. While nobody asks, nothing goes wrong either.
    pub(crate) fn again(&mut self, every: At, event: Event) {
        if every == 0 || self.is_calm {
            return;
        }
        let span = MS + self.rng.u64(0..every * 2);
        let at = self.at.max(self.quiet_until) + span;
        self.agenda.note(at, event);
    }

    /// The way to the table changes for a while.
    pub(crate) fn changes_mood(&mut self, host: usize) {
        let was = self.hosts[host].mood;
        let (mood, lasts) = match was {
            Mood::Fine => (self.draws_mood(), self.rng.u64(0..30 * SECOND)),
            _ => (Mood::Fine, 0),
        };
        self.hosts[host].mood = mood;
        let it = &mut self.hosts[host];
        let is_denied = |mood| matches!(mood, Mood::Trouble(Trouble::Denied));
        if is_denied(was) {
            it.denied_until = self.at;
        }
        // Nothing that came between may have shown that it was over.
        if is_denied(mood) && it.denied_until + 10 * SECOND < self.at {
            it.denied_from = self.at;
        }
        match mood {
            Mood::Fine => self.again(self.plan.rates.moods, Event::Mood(host)),
            _ => self.agenda.note(self.at + lasts, Event::Mood(host)),
        }
    }

    fn draws_mood(&mut self) -> Mood {
        match self.rng.u8(0..7) {
            0 => Mood::Slow,
            1 | 2 => Mood::Silent,
            3 => Mood::Trouble(Trouble::Busy),
            4 => Mood::Trouble(Trouble::NoConnection),
            5 => Mood::Trouble(Trouble::Denied),
            _ => Mood::Trouble(Trouble::NoTable),
        }
    }

    pub(crate) fn stops(&mut self, host: usize) {
        let lease = nanos(
            self.hosts[host]
                .terms
                .in_table(self.hosts[host].terms.lease),
        );
        let span = self.mostly_short(lease * 3);
        let it = &mut self.hosts[host];
        it.stopped_until = it.stopped_until.max(self.at + span);
        it.is_troubled_until(it.stopped_until);
        it.late += span;
        self.tell_host(host, "stops");
        self.again(self.plan.rates.stops, Event::Stops(host));
    }

    /// The process of a host ends at once. What it has sent is on its way.
    pub(crate) fn crashes(&mut self, host: usize) {
        if self.hosts[host].is_down {
            return;
        }
        self.ends_process(host);
        self.tell_host(host, "crashes");
        let down = self.rng.u64(0..20 * SECOND);
        self.agenda.note(self.at + down, Event::Starts(host));
        self.again(self.plan.rates.crashes, Event::Crashes(host));
    }

    pub(crate) fn ends_process(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        it.is_down = true;
        it.life += 1;
        it.is_troubled_until(self.at);
        let asking = it
            .callers
            .iter()
            .filter(|it| matches!(it.doing, Doing::Asking { .. }));
        let left: Vec<_> = asking.map(|it| it.call).collect();
        let believing = it.holds.values().filter(|held| !held.is_over);
        let ended: Vec<_> = believing.map(|held| (held.uid, held.lock)).collect();
        for call in left {
            self.see(Seen::Left { call });
        }
        let how = How::Crashed;
        for (hold, lock) in ended {
            self.see(Seen::Ended { hold, lock, how });
        }
        self.hosts[host].begins_anew();
    }

    pub(crate) fn starts(&mut self, host: usize) {
        self.hosts[host].is_down = false;
        for caller in 0..self.hosts[host].callers.len() {
            self.rests(host, caller);
        }
    }

    /// The client is shut down, and its process ends some time later.
    pub(crate) fn closes(&mut self, host: usize) {
        let it = &self.hosts[host];
        if it.is_down || it.is_closing {
            return;
        }
        self.tell_host(host, "shuts its client down");
        let keeps_holds = self.rng.bool();
        self.hosts[host].is_closing = true;
        self.mail(host, Input::Close { keeps_holds });
        let after = self.rng.u64(SECOND..60 * SECOND);
        self.agenda.note(self.at + after, Event::Crashes(host));
        self.again(self.plan.rates.closes * 2, Event::Closes(host));
    }

    /// A wall clock is set, or a front end's: of those that may be wrong.
    pub(crate) fn steps_clock(&mut self) {
        let host = self.rng.usize(0..self.plan.hosts.len());
        if self.plan.walls_are_wrong {
            let ahead = anything(&mut self.rng);
            self.hosts[host].clock.set(ahead);
            self.hosts[host].is_troubled_until(self.at);
            self.tell_host(host, "sets its wall clock");
        }
        if self.plan.dates == Dates::Wrong {
            self.front_ends.step(&mut self.rng);
        }
        self.again(40 * SECOND, Event::ClockStep);
    }

    /// TTL deletes what has expired by its clock, hours late.
    pub(crate) fn expires(&mut self) {
        let (ahead, every) = self.plan.ttl;
        let now = shifted(self.at, 0).as_secs().saturating_add_signed(ahead);
        let late = self.rng.u64(0..3) * HOUR / SECOND;
        for lock in self.table.expire(now.saturating_sub(late)) {
            if self.standing.lives(lock, self.at) {
                let message = "TTL deletes an item on which a place stands".to_owned();
                self.fail("live places stay", Some(lock), message);
            }
            self.standing.forget(lock);
            self.changes[lock] += 1;
            self.tell(lock, || "TTL deletes the item".to_owned());
            let is_promised = true;
            self.see(Seen::Removed { lock, is_promised });
        }
        if !self.is_calm {
            self.agenda.note(self.at + every, Event::Ttl);
        }
    }

    /// Some hosts cannot read the lock's item for a while.
    pub(crate) fn changes_format(&mut self, lock: usize, is_newer: bool) {
        self.table.set_newer(lock, is_newer);
        self.tell(lock, || format!("newer format: {is_newer}"));
        match is_newer {
            true => {
                let lasts = self.rng.u64(0..20 * SECOND);
                self.agenda
                    .note(self.at + lasts, Event::Format(lock, false));
            }
            false => self.again(self.plan.rates.formats * 4, Event::Format(lock, true)),
        }
    }

    /// By now a holder knows that its hold was broken, or that it was asked to give way, if nothing was wrong for it.
    pub(crate) fn is_due_to_know(&mut self, uid: u32, is_broken: bool) {
        let found = self.hosts.iter().find_map(|host| {
            let held = host.holds.iter().find(|(_, held)| held.uid == uid);
            held.map(|(_, held): (&HoldId, _)| (host, held.lock))
        });
        let Some((host, lock)) = found else {
            return;
        };
        let terms = &host.terms;
        let span = nanos(terms.heartbeat + terms.request_timeout) * 3;
        let was_well = host.troubled_at == 0 || host.troubled_at + span < self.at;
        if was_well && host.mood == Mood::Fine {
            let hold = uid;
            self.see(match is_broken {
                true => Seen::ShouldKnow { hold, lock },
                false => Seen::ShouldYield { hold, lock },
            });
        }
    }
}
