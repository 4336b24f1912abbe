//! The driver of each client: it brings inputs, tells callers what the client tells, sends its requests and arms its timer.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{
    Done, HoldId, HoldView, Input, Lock, Loss, Note, Order, Output, Refusal, ReplyId,
};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Ticket;

use crate::agenda::{At, Event, MS, SECOND};
use crate::callers::data_of;
use crate::features::Feature;
use crate::host::{Caller, Doing, Held, PERMITS, number};
use crate::misbehaviour::Misbehaviour;
use crate::plan::nanos;
use crate::seen::{Data, Grant, How, Outcome, Seen, Why};
use crate::world::World;

/// The differences of right clocks take little of a lease that is longer.
const LONG_LEASE: Duration = Duration::from_secs(12);

impl World {
    /// A turn of a client: an input, or what is due.
    pub(crate) fn turn(&mut self, host: usize, input: Option<Input>) {
        if let Some(Input::Order {
            hold,
            order: Order::BeginBounds,
            ..
        }) = &input
            && let Some(held) = self.hosts[host].holds.get_mut(hold)
            && !held.is_over
        {
            held.began = Some(self.at);
            let hold = held.uid;
            self.see(Seen::Begun { hold });
        }
        self.tell_input(host, input.as_ref());
        self.turns_taken += 1;
        self.counts_lateness(host);
        let now = (self.at, self.front_ends.boot());
        let input = match self.misbehaviour {
            Some(wrong) => input.and_then(|input| wrong.hears(input)),
            None => input,
        };
        let shown = input.as_ref();
        let shown = shown.and_then(|input| self.is_shown_a_lease(host, input));
        self.hosts[host].handle(now, input);
        while let Some(output) = self.hosts[host].poll_output() {
            self.tell_output(host, &output);
            match self.misbehaviour {
                None => self.takes_output(host, output),
                Some(wrong) => {
                    for output in wrong.tells(output, &mut self.tokens) {
                        self.takes_output(host, output);
                    }
                }
            }
        }
        if let Some(shown) = shown {
            self.has_heard(host, shown);
        }
        while let Some((id, request)) = self.hosts[host].poll_request() {
            let times = self.misbehaviour.map_or(1, |wrong| wrong.sends(&request));
            for _ in 1..times {
                self.send(host, id, request.clone());
            }
            if times > 0 {
                self.send(host, id, request);
            }
        }
        self.arm(host);
    }

    /// What was due before, the client does only now.
    fn counts_lateness(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        let now = it.clock.moment(self.at);
        if let Some(due) = it.armed.take_if(|due| *due <= now) {
            it.late += self.at - it.clock.when(due).min(self.at);
        }
    }

    /// Arms the timer for what is due next. It may fire late.
    fn arm(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        let due = it.client.next_timeout().map(|(due, _)| due);
        if due == it.armed {
            return;
        }
        it.armed = due;
        it.arming += 1;
        let Some(due) = due else {
            return;
        };
        let most = nanos(it.terms.lease) * 2;
        let lag = match !self.is_calm && self.rng.f64() < self.plan.rates.wake_lag {
            true => self.mostly_short(most),
            false => self.rng.u64(1_000..MS),
        };
        let it = &mut self.hosts[host];
        let lags = self.misbehaviour.map_or(0, |wrong| nanos(wrong.lags()));
        let at = it.clock.when(due).max(self.at) + lag + lags;
        if lag > MS {
            it.is_troubled_until(at);
        }
        let wake = Event::Wakes(it.process(host), it.arming);
        self.agenda.note(at, wake);
    }

    fn takes_output(&mut self, host: usize, output: Output) {
        match output {
            Output::Granted { call, hold, seen } => match self.caller_to_tell(host, call.0) {
                Some(caller) => self.granted(host, caller, hold, &seen),
                None => self.granted_to_nobody(host, call.0, hold),
            },
            Output::Refused { call, why } => self.refused(host, call.0, why),
            Output::TakeBack(hold) => self.asked_back(host, hold),
            Output::Waits { call, waiting } => self.told_how_it_stands(host, call, &waiting),
            Output::View { hold, seen } => self.sees(host, hold, &seen),
            Output::Lost { hold, why } => self.lost(host, hold, &why),
            Output::Done { reply, done } => self.done(host, reply, done),
            Output::Send { to, datagram } => self.sends_datagram(&to, datagram),
            Output::Noted {
                lock,
                note: Note::GrantedLate(ticket),
            } => self.is_granted_late(host, &lock, ticket),
            Output::Noted {
                lock,
                note: Note::Unserved(..),
            } => self.is_unserved(host, &lock),
            Output::Unfit | Output::Undone { .. } | Output::Noted { .. } | Output::Shown { .. } => {
            }
        }
    }

    fn caller_to_tell(&self, host: usize, call: u64) -> Option<usize> {
        let it = &self.hosts[host];
        let caller = it.caller_of(call)?;
        let asks = |other: &Caller| {
            matches!(other.doing, Doing::Asking { .. }) && other.lock == it.callers[caller].lock
        };
        match self.misbehaviour {
            Some(Misbehaviour::GrantsToTheLastCaller) => it.callers.iter().rposition(asks),
            _ => Some(caller),
        }
    }

    fn granted(&mut self, host: usize, caller: usize, hold: HoldId, seen: &HoldView) {
        let uid = self.next_hold();
        let it = &mut self.hosts[host];
        let asker = &mut it.callers[caller];
        asker.doing = Doing::Granted(hold);
        asker.nonces.clear();
        asker.features.counts = true;
        let (lock, ticket) = (asker.lock, seen.ticket.get());
        let place = seen.held.footing.ticket.get();
        // Besides the enter there may be a renewal before the grant. What is more came in between.
        let changes = self.changes[lock];
        asker.plain = asker.plain.filter(|before| changes <= before + 2);
        let grant = Grant {
            hold: uid,
            lock,
            ticket,
            place,
            until: it.clock.when(seen.until),
            permits: seen.held.permits,
            min: asker.min,
            max: asker.max,
            begins_later: asker.begins_later,
            margin: nanos(it.terms.margin),
        };
        let call = asker.call;
        self.is_no_hold(host, caller);
        self.is_before_its_turn(host, caller);
        let it = &mut self.hosts[host];
        let begins_later = grant.begins_later;
        it.holds.insert(
            hold,
            Held {
                uid,
                caller,
                lock,
                ticket,
                place,
                until: seen.until,
                is_over: false,
                ended: At::MAX,
                puts: 0,
                keeps: seen.held.permits,
                frees_later: false,
                leases: None,
                began: (!begins_later).then_some(self.at),
            },
        );
        let late = it.late;
        let until = grant.until;
        self.see(Seen::Answered { call, lock, late });
        self.see(Seen::Granted(grant));
        self.is_asked(host, hold, seen);
        // Beside others it may have seen the item long ago.
        if seen.held.permits == PERMITS {
            let data = seen.item.data.as_deref().map(data_of);
            self.see(Seen::Found {
                lock,
                ticket,
                place,
                data,
            });
        }
        let process = self.hosts[host].process(host);
        self.agenda.note(until, Event::Notices(process, hold));
        self.takes_soon(host, caller);
    }

    /// Callers of a host who wait, and whose host has had no trouble, have their turns in the order in which they asked.
    fn is_before_its_turn(&mut self, host: usize, caller: usize) {
        let it = &self.hosts[host];
        let own = &it.callers[caller];
        let before = it.callers.iter().find(|other| {
            let asks = matches!(other.doing, Doing::Asking { .. }) && other.lock == own.lock;
            asks && other.is_plain && other.asked < own.asked && other.until > self.at
        });
        // One whose place an operator broke goes to the end, and one behind a hold that has become a lease.
        let may_lose = self.plan.rates.operates > 0 || self.plan.has_leases;
        let before = before.filter(|_| own.is_plain && !may_lose);
        let was_calm = |other: &Caller| it.troubled_at == 0 || it.troubled_at < other.asked;
        if let Some(other) = before.filter(|other| was_calm(other)) {
            let message = format!("call {} is granted before {}", own.call, other.call);
            let lock = Some(own.lock);
            self.fail("order of asking", lock, message);
        }
    }

    /// A place is granted the lock when its lease is over, so that its callers lose their turn. By what clocks differ, short leases are.
    fn is_granted_late(&mut self, host: usize, of: &Lock, ticket: Ticket) {
        let lock = number(of);
        let it = &mut self.hosts[host];
        let is_long = it.terms.lease > LONG_LEASE;
        if is_long && it.troubled_at == 0 && self.plan.is_right() {
            let message = format!("{ticket} is granted late, though nothing was wrong");
            self.fail("holds are kept", Some(lock), message);
            return;
        }
        let asks = |caller: &&mut Caller| caller.lock == lock;
        let callers = it.callers.iter_mut().filter(asks);
        callers.for_each(|caller| caller.is_plain = false);
    }

    /// What is logged keeps a caller that waits.
    fn is_unserved(&mut self, host: usize, of: &Lock) {
        let (lock, it) = (number(of), &self.hosts[host]);
        let waits = |caller: &Caller| {
            matches!(caller.doing, Doing::Asking { .. }) && caller.lock == lock && caller.waits
        };
        if it.cancelled.is_empty() && !it.callers.iter().any(waits) {
            let message = "what keeps nobody who waits is logged".to_owned();
            self.fail("calls", Some(lock), message);
        }
    }

    /// The caller may have left while the client did not know yet.
    fn granted_to_nobody(&mut self, host: usize, call: u64, hold: HoldId) {
        if !self.hosts[host].cancelled.contains(&call) {
            return self.fail("calls", None, format!("call {call} of nobody is granted"));
        }
        let order = Order::Release { is_unused: true };
        let reply = None;
        self.mail(host, Input::Order { hold, order, reply });
    }

    fn refused(&mut self, host: usize, call: u64, why: Refusal) {
        let Some(caller) = self.hosts[host].caller_of(call) else {
            if !self.hosts[host].cancelled.contains(&call) {
                self.fail("calls", None, format!("call {call} of nobody is refused"));
            }
            return;
        };
        let it = &mut self.hosts[host];
        let asker = &mut it.callers[caller];
        asker.doing = Doing::Resting;
        let (call, lock, asked, late) = (asker.call, asker.lock, asker.asked, it.late);
        let (waits, is_alone) = (asker.waits, asker.share.is_none());
        let was_calm = it.troubled_at < asked;
        let is_closing = it.is_closing;
        let is_late = self.at + MS >= asker.until;
        self.see(Seen::Answered { call, lock, late });
        let asker = &mut self.hosts[host].callers[caller];
        if asker.named.is_some() && !waits {
            // What its requests got is a lease, and stays.
            asker.nonces.clear();
        }
        self.has_left(host, caller);
        self.is_refused_early(host, caller, &why);
        match &why {
            Refusal::NotGranted {
                item: Some(item), ..
            } if was_calm && is_alone => {
                self.was_kept_out(host, caller, item);
                self.counts_refusal(host, caller, item);
            }
            Refusal::Leased { item, nonce, .. } => self.has_come_to(host, caller, (item, *nonce)),
            Refusal::ShutDown if !is_closing => {
                self.fail(
                    "calls",
                    Some(lock),
                    "refused as shut down, which it is not".to_owned(),
                );
            }
            Refusal::Failed(failure) if failure.is_denied() && waits && !is_late => {
                self.was_denied(host, lock);
            }
            Refusal::Crashed | Refusal::NoRuntime | Refusal::Untaken => {
                self.fail("calls", Some(lock), format!("refused as {why:?}"));
            }
            _ => {}
        }
        self.rests_longer(host, caller);
    }

    /// A waiting call puts up for 20 s with a policy that denies its requests.
    fn was_denied(&mut self, host: usize, lock: usize) {
        let it = &self.hosts[host];
        let (lasted, from) = (self.at - it.denied_from, it.denied_from);
        if lasted < 19 * SECOND && it.stopped_until < from {
            let why = format!(
                "refused after a policy had denied requests for {} ms",
                lasted / MS
            );
            self.fail("calls", Some(lock), why);
        }
    }

    fn asked_back(&mut self, host: usize, hold: HoldId) {
        let Some(held) = self.hosts[host].holds.get(&hold) else {
            return;
        };
        let caller = held.caller;
        match self.hosts[host].callers[caller].doing {
            Doing::Granted(of) if of == hold && self.rng.bool() => {
                self.gives_back(host, caller, hold, true);
            }
            Doing::Granted(of) if of == hold => self.takes(host, caller, hold),
            Doing::Using(of, _) if of == hold => self.mail(host, Input::Taken(hold)),
            _ => {}
        }
    }

    fn sees(&mut self, host: usize, hold: HoldId, seen: &HoldView) {
        let it = &mut self.hosts[host];
        let Some(held) = it.holds.get_mut(&hold).filter(|held| !held.is_over) else {
            return;
        };
        let (uid, lock) = (held.uid, held.lock);
        if held.until != seen.until {
            held.until = seen.until;
            let until = it.clock.when(seen.until);
            self.see(Seen::Extended {
                hold: uid,
                lock,
                until,
            });
        }
        self.is_asked(host, hold, seen);
    }

    fn is_asked(&mut self, host: usize, hold: HoldId, seen: &HoldView) {
        let asked = seen.item.asked.as_ref();
        if asked.is_some_and(|asked| asked.is_for(seen.held.footing.ticket)) {
            let it = &mut self.hosts[host];
            let Held {
                uid: hold,
                lock,
                caller,
                ..
            } = it.holds[&hold];
            it.callers[caller].features.has(Feature::Asked);
            self.see(Seen::AskedToYield { hold, lock });
        }
    }

    fn lost(&mut self, host: usize, hold: HoldId, why: &Loss) {
        let is_closing = self.hosts[host].is_closing;
        let Some(held) = self.hosts[host].holds.get_mut(&hold) else {
            return;
        };
        let (uid, lock, caller) = (held.uid, held.lock, held.caller);
        if reason(why) == Why::ShutDown && !is_closing {
            return self.fail(
                "told once, with its reason",
                Some(lock),
                "not shut down".to_owned(),
            );
        }
        held.ended = held.ended.min(self.at);
        let was_over = std::mem::replace(&mut held.is_over, true);
        let features = &mut self.hosts[host].callers[caller].features;
        match reason(why) {
            Why::Broken => features.has(Feature::Broken),
            Why::ShutDown => features.has(Feature::ShutDown),
            _ => {}
        }
        if !was_over {
            let how = How::Lost(reason(why));
            if matches!(why, Loss::Expired | Loss::Unreachable(_)) {
                self.is_lost_for_nothing(host, hold);
            }
            self.see(Seen::Ended {
                hold: uid,
                lock,
                how,
            });
        }
        if self.hosts[host].callers[caller].doing == Doing::Granted(hold) {
            self.gives_back(host, caller, hold, true);
        }
    }

    fn done(&mut self, host: usize, reply: ReplyId, done: Result<Done, Failure>) {
        if let Some((hold, data)) = self.hosts[host].putting.remove(&reply) {
            return self.put_is_done(host, hold, (data, done));
        }
        if let Some(hold) = self.hosts[host].freeing.remove(&reply) {
            return self.has_freed(host, hold, &done);
        }
        if let Some(place) = self.hosts[host].giving_up.remove(&reply) {
            return self.has_given_up(place, &done);
        }
        let callers = &self.hosts[host].callers;
        let caller = callers
            .iter()
            .position(|it| matches!(it.doing, Doing::Releasing(_, of) if of == reply));
        let Some(caller) = caller else {
            return self.fail(
                "calls",
                None,
                format!("{reply:?} is nobody's, or told twice"),
            );
        };
        let Doing::Releasing(hold, _) = callers[caller].doing else {
            return;
        };
        let outcome = outcome(&done);
        let it = &mut self.hosts[host];
        it.callers[caller].doing = Doing::Resting;
        if let Some(held) = it.holds.remove(&hold) {
            match &done {
                Ok(Done::LeasedOut(lease)) => self.is_leased(&held, lease),
                Ok(Done::NotOurs(Some(item))) => self.is_no_lease(&held, item),
                _ => {}
            }
            self.turn_ends(host, &held, outcome);
        }
        self.rests(host, caller);
    }

    /// Data were put, or were not. A hold that is kept is not another's.
    fn put_is_done(
        &mut self,
        host: usize,
        hold: HoldId,
        (data, done): (Data, Result<Done, Failure>),
    ) {
        let Some(held) = self.hosts[host].holds.get(&hold) else {
            return;
        };
        let (lock, is_over) = (held.lock, held.is_over);
        let is_broken = self.broken.contains(&(lock, held.place));
        let is_whole = held.keeps == PERMITS;
        match done {
            Ok(Done::Put) => self.see(Seen::HasLeft { lock, data }),
            Ok(Done::NotOurs(_)) if !is_over && !is_broken && is_whole => {
                let message = format!("{data:?} is not put, though its hold is kept");
                self.fail("holds are kept", Some(lock), message);
            }
            _ => {}
        }
    }

    /// Nothing is left of a hold that is released.
    fn is_gone(&mut self, held: &Held, outcome: Outcome) {
        let lock = held.lock;
        let stands = |item: &Arc<LockItem>| item.entries().any(|it| it.ticket.get() == held.place);
        let is_gone = matches!(outcome, Outcome::HandedOff | Outcome::ReleasedEarlier);
        if is_gone && self.table.item(lock).is_some_and(stands) {
            let message = format!("{} is released, and stands there", held.ticket);
            self.fail("nothing is left", Some(lock), message);
        }
    }

    /// A hold whose host has had no trouble since long before does not end by itself.
    pub(crate) fn is_lost_for_nothing(&mut self, host: usize, hold: HoldId) {
        let it = &self.hosts[host];
        let Some(held) = it.holds.get(&hold) else {
            return;
        };
        let caller = &it.callers[held.caller];
        let span = nanos(it.terms.heartbeat + it.terms.request_timeout) * 2;
        let was_calm = it.troubled_at == 0 || it.troubled_at + span < caller.asked;
        // By what clocks differ, stamps may be early, and what they are early by is not believed in.
        let is_long = it.terms.lease > LONG_LEASE;
        if was_calm
            && is_long
            && caller.max.is_none()
            && !self.broken.contains(&(held.lock, held.place))
        {
            let message = format!("{} ends by itself, though nothing was wrong", held.ticket);
            let lock = Some(held.lock);
            self.fail("holds are kept", lock, message);
        }
    }

    fn turn_ends(&mut self, host: usize, held: &Held, outcome: Outcome) {
        let (hold, lock) = (held.uid, held.lock);
        self.turns += u64::from(outcome.is_released());
        self.see(Seen::Released {
            hold,
            lock,
            outcome,
        });
        let it = &self.hosts[host];
        let caller = &it.callers[held.caller];
        if let (Outcome::KeptOn, Some(began), Some(min)) = (outcome, held.began, caller.min) {
            let kept_for = (began + min + min / 40).max(self.at);
            let until = kept_for + self.plan.skew() + SECOND / 2;
            self.given_back[lock] = (held.place, until);
        }
        self.is_gone(held, outcome);
        self.counts_turn(host, held, outcome);
    }
}

fn reason(why: &Loss) -> Why {
    match why {
        Loss::Expired => Why::Expired,
        Loss::Unreachable(_) => Why::Unreachable,
        Loss::Evicted(_) => Why::Evicted,
        Loss::Broken(_) => Why::Broken,
        Loss::Deleted => Why::Deleted,
        Loss::MaxHold(_) => Why::MaxHold,
        // Nobody but a driver with a runtime ends holds so.
        Loss::ShutDown | Loss::Crashed | Loss::NoRuntime => Why::ShutDown,
    }
}

fn outcome(done: &Result<Done, Failure>) -> Outcome {
    match done {
        Ok(Done::HandedOff(_)) => Outcome::HandedOff,
        Ok(Done::PassedOn) => Outcome::PassedOn,
        Ok(Done::KeptOn) => Outcome::KeptOn,
        Ok(Done::ReleasedEarlier) => Outcome::ReleasedEarlier,
        Ok(Done::NotOurs(_)) => Outcome::NotOurs,
        Ok(Done::LeasedOut(_)) => Outcome::Leased,
        Ok(Done::Lost(_) | Done::Put | Done::Freed | Done::Left) => Outcome::Lost,
        Err(_) => Outcome::Failed,
    }
}
