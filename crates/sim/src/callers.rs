//! Callers: they rest, ask, take what they are given or not, work under it, and give it back.

use std::time::Duration;

use fairlock_protocol::agent::{Bounds, CallId, Claim, HoldId, Input, Order, ReplyId, Wait};
use fairlock_protocol::bytes::Bytes;

use crate::agenda::{At, Event, MS, Process, SECOND};
use crate::features::{Feature, Features};
use crate::host::{Caller, Doing, PERMITS, lock};
use crate::plan::nanos;
use crate::seen::{Data, How, Seen};
use crate::world::World;

/// The data as bytes.
fn bytes_of((ticket, count): Data) -> Bytes {
    let bytes = [ticket.to_le_bytes(), count.to_le_bytes()];
    bytes.as_flattened().into()
}

/// The data that the bytes say.
pub(crate) fn data_of(bytes: &[u8]) -> Data {
    let number = |from: usize| {
        let bytes = bytes.get(from..from + 8).and_then(|it| it.try_into().ok());
        bytes.map(u64::from_le_bytes).unwrap_or_default()
    };
    (number(0), number(8))
}

impl World {
    pub(crate) fn acts(&mut self, process: Process, caller: usize) {
        let host = process.host;
        match self.hosts[host].callers[caller].doing {
            Doing::Resting => self.asks(host, caller),
            Doing::Granted(hold) => self.takes(host, caller, hold),
            Doing::Using(hold, left) => self.works(host, caller, hold, left),
            Doing::Asking { .. } | Doing::Releasing(..) => {}
        }
    }

    fn acts_at(&mut self, host: usize, caller: usize, at: At) {
        let process = self.hosts[host].process(host);
        self.agenda.note(at, Event::Acts(process, caller));
    }

    /// The caller asks again after a while.
    pub(crate) fn rests(&mut self, host: usize, caller: usize) {
        self.rests_for(host, caller, self.plan.rest);
    }

    /// The lock was another's: the caller asks again when that may have ended.
    pub(crate) fn rests_longer(&mut self, host: usize, caller: usize) {
        let heartbeat = nanos(self.hosts[host].terms.heartbeat);
        let longer = self.mostly_short(heartbeat);
        self.rests_for(host, caller, self.plan.rest + longer);
    }

    fn rests_for(&mut self, host: usize, caller: usize, span: At) {
        let rest = self.rng.u64(0..span * 2);
        let at = self.at.max(self.quiet_until) + MS + rest;
        // Those of a host come together, or almost.
        let at = at.next_multiple_of(self.plan.beat) + self.rng.u64(0..MS);
        self.acts_at(host, caller, at);
    }

    fn asks(&mut self, host: usize, caller: usize) {
        if self.is_calm && !self.is_last(host) {
            return;
        }
        if self.at < self.quiet_until {
            return self.rests(host, caller);
        }
        let number = self.chooses(host);
        let bounds = self.bounds(host);
        let call = self.hosts[host].next();
        self.calls += 1;
        let wait = self.wait(host);
        let is_refused = wait == Wait::No;
        let plain = self.is_plain(host, number, bounds).filter(|_| is_refused);
        let meets = self.meets(host, number).filter(|_| is_refused);
        let meets_dead = self.meets_dead(number, self.at).filter(|_| is_refused);
        let (limit, share, named) = (self.limit(), self.share(), self.names(host));
        let plain = plain.filter(|_| share.is_none());
        let denies_self_wait = self.rng.u8(0..12) == 0;
        let is_observed = self.rng.u8(0..3) == 0;
        let has_more = share.is_some() || named.is_some();
        let is_bound = bounds != Bounds::default() || limit.is_some() || has_more;
        let it = &mut self.hosts[host];
        let asker = &mut it.callers[caller];
        asker.doing = Doing::Asking { call };
        (asker.lock, asker.call, asker.asked) = (number, self.calls, self.at);
        (asker.min, asker.max) = (bounds.min.map(nanos), bounds.max.map(nanos));
        (asker.begins_later, asker.requests) = (bounds.begin_later, 0);
        (asker.share, asker.named, asker.newest) = (share, named.clone(), None);
        (asker.waits, asker.limit) = (!is_refused, limit);
        asker.is_plain = !is_refused && !is_bound;
        (asker.is_observed, asker.denies_self_wait) =
            (is_observed && !is_refused, denies_self_wait);
        (asker.place, asker.is_kept) = (None, false);
        (asker.plain, asker.meets, asker.meets_dead) = (plain, meets, meets_dead);
        let lasts = nanos(it.terms.no_wait_lasts());
        asker.until = match wait {
            Wait::No => self.at,
            Wait::Until(until) => it.clock.when(until),
            Wait::Forever => At::MAX / 2,
        };
        let (call_no, until, late) = (asker.call, asker.until, it.late);
        let due = match wait {
            Wait::No => self.at + lasts + lasts / 90 + 50 * MS,
            Wait::Until(_) => it.answered_by(until),
            Wait::Forever => until,
        };
        self.see(Seen::Asked {
            call: call_no,
            lock: number,
            due,
            late,
        });
        let claim = Claim {
            permits: share,
            bounds,
            wait,
            max_waiters: limit,
            is_observed,
            denies_self_wait,
            lease: named,
            ..Claim::default()
        };
        self.begins_turn(host, caller, &claim);
        self.may_cancel(host, call, lasts);
        let (call, lock) = (CallId(call), lock(number));
        self.mail(host, Input::Call { call, lock, claim });
    }

    /// Counts what the caller combined in its last turn, and notes what it asks for in this one.
    fn begins_turn(&mut self, host: usize, caller: usize, claim: &Claim) {
        let it = &mut self.hosts[host];
        let lock = it.callers[caller].lock;
        let asks = |other: &Caller| matches!(other.doing, Doing::Asking { .. });
        let beside = it.callers.iter().filter(|it| it.lock == lock && asks(it));
        let mut features = Features::of(claim);
        features.has_if(Feature::Beside, beside.count() > 1);
        features.has_if(Feature::Notified, it.terms.address.is_some());
        let before = std::mem::replace(&mut it.callers[caller].features, features);
        self.pairs.count(before);
    }

    /// Some callers go away soon.
    fn may_cancel(&mut self, host: usize, call: u64, within: At) {
        if !self.is_calm && self.rng.u8(0..24) == 0 {
            let at = self.at + self.rng.u64(0..within);
            let process = self.hosts[host].process(host);
            self.agenda.note(at, Event::Cancels(process, call));
        }
    }

    fn wait(&mut self, host: usize) -> Wait {
        if self.is_calm {
            return Wait::No;
        }
        let it = &self.hosts[host];
        let span = it.terms.lease.mul_f64(self.rng.f64() * 4.0);
        match self.rng.u8(0..4) {
            0 => Wait::No,
            1 => Wait::Forever,
            _ => Wait::Until(it.clock.moment(self.at) + span),
        }
    }

    /// The most turns that a caller accepts before its own.
    fn limit(&mut self) -> Option<u64> {
        let has_limit = self.plan.has_limits && !self.is_calm && self.rng.bool();
        has_limit.then(|| self.rng.u64(0..6))
    }

    /// How many permits a caller wants, if it does not want all.
    fn share(&mut self) -> Option<u64> {
        let shares = self.plan.has_shares && !self.is_calm && self.rng.u8(0..3) > 0;
        shares.then(|| self.rng.u64(1..PERMITS / 2))
    }

    fn chooses(&mut self, host: usize) -> usize {
        match self.is_last(host) {
            true => self.last_lock,
            false => self.rng.usize(0..self.plan.locks),
        }
    }

    fn bounds(&mut self, host: usize) -> Bounds {
        if !self.plan.has_bounds || self.is_calm {
            return Bounds::default();
        }
        let lease = self.hosts[host].terms.lease;
        let rng = &mut self.rng;
        let mut some = |of: Duration| (rng.u8(0..3) == 0).then(|| of.mul_f64(0.05 + rng.f64()));
        let min = some(lease);
        let max = some(lease * 2).map(|max| max + min.unwrap_or_default());
        Bounds {
            min,
            max,
            begin_later: self.rng.u8(0..4) == 0,
        }
    }

    /// The caller goes away, unless its call is answered.
    pub(crate) fn cancels(&mut self, process: Process, call: u64) {
        let host = process.host;
        let Some(caller) = self.hosts[host].caller_of(call) else {
            return;
        };
        let it = &mut self.hosts[host];
        it.callers[caller].doing = Doing::Resting;
        it.callers[caller].features.has(Feature::Cancelled);
        it.callers[caller].features.counts = true;
        // Others may take their turns at its place.
        it.callers[caller].nonces.clear();
        it.cancelled.push(call);
        let left = it.callers[caller].call;
        self.see(Seen::Left { call: left });
        self.mail(host, Input::Cancel(CallId(call)));
        self.rests(host, caller);
    }

    /// The caller looks at what it was given, mostly at once. Sometimes it never does, until it is asked.
    pub(crate) fn takes_soon(&mut self, host: usize, caller: usize) {
        let at = match self.rng.u8(0..32) {
            0 if !self.is_calm => return,
            1 if !self.is_calm => self.rng.u64(0..5 * SECOND),
            _ => self.rng.u64(0..2 * MS),
        };
        self.acts_at(host, caller, self.at + at);
    }

    pub(crate) fn takes(&mut self, host: usize, caller: usize, hold: HoldId) {
        let heartbeat = nanos(self.hosts[host].terms.heartbeat);
        let lease = nanos(self.hosts[host].terms.lease);
        let stays = match self.rng.u32(0..self.plan.long_turns) {
            0 if !self.is_calm && self.rng.u8(0..6) == 0 => {
                self.rng.u64(0..lease * 2 + 20 * SECOND)
            }
            0 if !self.is_calm => self.rng.u64(0..lease * 2),
            1 => self.rng.u64(0..heartbeat),
            _ => self.rng.u64(0..heartbeat / 8),
        };
        let steps = self.rng.u32(1..5);
        if let Some(hold) = self.hosts[host].holds.get(&hold).map(|held| held.uid) {
            self.see(Seen::Taken { hold });
        }
        let it = &mut self.hosts[host].callers[caller];
        it.doing = Doing::Using(hold, steps);
        it.step = stays / u64::from(steps) + 1;
        let (next, begins_later) = (self.at + it.step, it.begins_later);
        self.mail(host, Input::Taken(hold));
        if begins_later {
            let (order, reply) = (Order::BeginBounds, None);
            self.mail(host, Input::Order { hold, order, reply });
        }
        self.acts_at(host, caller, next);
    }

    fn works(&mut self, host: usize, caller: usize, hold: HoldId, left: u32) {
        let believes = self.believes(host, hold);
        let is_gone = !self.hosts[host].holds.contains_key(&hold);
        if is_gone {
            return self.fail("calls", None, "a hold that is used has gone".to_owned());
        }
        let held = &self.hosts[host].holds[&hold];
        let is_whole = held.keeps == PERMITS;
        // Tokens fence those who hold a lock one after the other.
        if is_whole && (!believes || self.rng.bool()) {
            self.writes(host, hold, believes);
        }
        if self.plan.has_data && believes && is_whole && self.rng.bool() {
            self.puts(host, hold);
        }
        if self.plan.has_parts && believes && self.rng.u8(0..3) == 0 {
            self.frees(host, hold);
        }
        if left <= 1 || !believes {
            return self.gives_back(host, caller, hold, false);
        }
        let it = &mut self.hosts[host].callers[caller];
        it.doing = Doing::Using(hold, left - 1);
        let next = self.at + it.step;
        self.acts_at(host, caller, next);
    }

    /// Whether the holder believes in its hold. It notices if the deadline has passed, and may tell its client.
    fn believes(&mut self, host: usize, hold: HoldId) -> bool {
        let it = &mut self.hosts[host];
        let now = it.clock.moment(self.at);
        let Some(held) = it.holds.get_mut(&hold).filter(|held| !held.is_over) else {
            return false;
        };
        if now < held.until {
            return true;
        }
        (held.is_over, held.ended) = (true, self.at);
        let (uid, lock) = (held.uid, held.lock);
        let how = How::Passed;
        self.is_lost_for_nothing(host, hold);
        self.see(Seen::Ended {
            hold: uid,
            lock,
            how,
        });
        if self.rng.bool() {
            self.mail(host, Input::Expired(hold));
        }
        false
    }

    /// The holder looks at its deadline, which may have been put off.
    pub(crate) fn notices(&mut self, process: Process, hold: HoldId) {
        let host = process.host;
        let it = &self.hosts[host];
        let held = it.holds.get(&hold).filter(|held| !held.is_over);
        let Some(until) = held.map(|held| it.clock.when(held.until)) else {
            return;
        };
        // Its client notices too, at the same time.
        let late = self.rng.u64(0..4) * MS;
        match self.at < until {
            true => self
                .agenda
                .note(until + late, Event::Notices(process, hold)),
            false => _ = self.believes(host, hold),
        }
    }

    /// Writes to what the lock protects, with the ticket as a token.
    fn writes(&mut self, host: usize, hold: HoldId, believes: bool) {
        let Some(held) = self.hosts[host].holds.get(&hold) else {
            return;
        };
        let (hold, lock, token) = (held.uid, held.lock, held.ticket);
        let place = held.place;
        let newest = &mut self.fences[lock];
        let accepted = token >= *newest;
        *newest = token.max(*newest);
        self.see(Seen::Wrote {
            hold,
            lock,
            token,
            place,
            accepted,
            believes,
        });
    }

    fn puts(&mut self, host: usize, hold: HoldId) {
        let it = &mut self.hosts[host];
        let reply = ReplyId(it.next());
        let Some(held) = it.holds.get_mut(&hold) else {
            return;
        };
        held.puts += 1;
        it.callers[held.caller].features.has(Feature::Data);
        let (lock, data) = (held.lock, (held.ticket, held.puts));
        it.putting.insert(reply, (hold, data));
        self.see(Seen::Leaves { lock, data });
        let (order, reply) = (Order::Put(Some(bytes_of(data))), Some(reply));
        self.mail(host, Input::Order { hold, order, reply });
    }

    pub(crate) fn gives_back(&mut self, host: usize, caller: usize, hold: HoldId, is_unused: bool) {
        let _ = self.believes(host, hold);
        let it = &mut self.hosts[host];
        let reply = ReplyId(it.next());
        it.callers[caller].doing = Doing::Releasing(hold, reply);
        if let Some(held) = it.holds.get_mut(&hold).filter(|held| !held.is_over) {
            (held.is_over, held.ended) = (true, self.at);
            let (hold, lock) = (held.uid, held.lock);
            let how = How::GivenBack;
            self.see(Seen::Ended { hold, lock, how });
        }
        let (order, reply) = (self.ending(host, hold, is_unused), Some(reply));
        self.mail(host, Input::Order { hold, order, reply });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_read_back_as_they_were_written() {
        assert_eq!(data_of(&bytes_of((7, u64::MAX))), (7, u64::MAX));
        assert_eq!(data_of(b""), (0, 0));
    }
}
