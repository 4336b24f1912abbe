//! The way to the table and back: requests that are lost, delayed, doubled or refused, and their answers.

use std::sync::Arc;

use fairlock_protocol::agent::{Answer, Input, Of, Reply, Request, RequestId, What};
use fairlock_protocol::stamps::{LastDate, Reading};

use crate::agenda::{At, Event, MS, SECOND};
use crate::causes::Trouble;
use crate::faults::Fault;
use crate::host::{Mood, number};
use crate::parcel::{Delivery, Parcel, Told};
use crate::plan::nanos;
use crate::world::World;

/// What becomes of a request.
enum Fate {
    Served,
    Comes(Trouble),
    LostBefore,
    LostAfter,
    /// It reaches the table so much later.
    Late(At),
}

impl World {
    /// Sends a request of a client.
    pub(crate) fn send(&mut self, host: usize, id: RequestId, request: Request) {
        self.requests += 1;
        self.note_request(host, id, &request);
        let fate = self.fate(host, &request);
        let [to, back] = [(); 2].map(|()| self.latency(host));
        let fault = self
            .fault
            .filter(|it| it.nth == self.requests && !self.is_calm);
        let fate = match fault {
            Some(it) => self.plants_fault(host, it.fault, to),
            None => fate,
        };
        let it = &mut self.hosts[host];
        let sent = it.clock.moment(self.at);
        let overdue = it
            .clock
            .when(sent + it.terms.request_timeout * request.patience);
        if self.rng.u8(0..16) == 0 {
            it.front_end = self.rng.usize(0..3);
        }
        if !matches!(fate, Fate::Served) {
            it.is_troubled_until(self.at);
        }
        let mut parcel = Parcel {
            from: it.process(host),
            id,
            request: Arc::new(request),
            sent,
            answered: None,
            front_end: it.front_end,
        };
        let arrives = self.at + to;
        let answered = arrives + back;
        match fate {
            Fate::Served if answered < overdue => {
                parcel.answered = Some(answered);
                self.copies(&parcel);
                return self.agenda.note(arrives, Event::Arrives(Box::new(parcel)));
            }
            Fate::Comes(trouble) if answered < overdue => {
                return self.refuse(&parcel, trouble, answered);
            }
            _ => {}
        }
        self.hosts[host].is_troubled_until(self.at);
        self.refuse(&parcel, Trouble::NoAnswer, overdue);
        let arrives = match fate {
            Fate::LostBefore | Fate::Comes(_) => return,
            Fate::Served | Fate::LostAfter => arrives,
            Fate::Late(by) => arrives + by,
        };
        self.copies(&parcel);
        self.agenda.note(arrives, Event::Arrives(Box::new(parcel)));
    }

    /// The fault meets the request that is about to be sent, and reaches the table after that span.
    fn plants_fault(&mut self, host: usize, fault: Fault, to: At) -> Fate {
        let lease = nanos(self.hosts[host].terms.lease);
        self.hosts[host].is_troubled_until(self.at + 2 * lease);
        let crashes = match fault {
            Fault::CrashBefore | Fault::CrashSent => Some(self.at),
            Fault::CrashAfter => Some(self.at + to + 1),
            _ => None,
        };
        if let Some(at) = crashes {
            self.agenda.note(at, Event::Crashes(host));
        }
        match fault {
            Fault::LostBefore | Fault::CrashBefore => Fate::LostBefore,
            Fault::LostAfter => Fate::LostAfter,
            Fault::Late => Fate::Late(lease / 2 + SECOND),
            Fault::Busy => Fate::Comes(Trouble::Busy),
            Fault::Denied => Fate::Comes(Trouble::Denied),
            Fault::NoConnection => Fate::Comes(Trouble::NoConnection),
            Fault::Doubled => {
                self.doubles = Some(lease / 2 + SECOND);
                Fate::Served
            }
            Fault::Stop => {
                self.hosts[host].stopped_until = self.at + lease + lease / 2;
                self.hosts[host].late += lease * 2;
                Fate::Served
            }
            Fault::CrashSent | Fault::CrashAfter => Fate::Served,
        }
    }

    /// The host is told that a request was not served.
    fn refuse(&mut self, parcel: &Parcel, trouble: Trouble, at: At) {
        let what = &parcel.request.what;
        let is_read = matches!(what, What::Read | What::Query { .. });
        let date = self
            .front_ends
            .date(parcel.front_end, at.saturating_sub(MS));
        let delivery = Delivery {
            to: parcel.from,
            id: parcel.id,
            sent: parcel.sent,
            answer: Err(trouble.failure(what.verb(), is_read)),
            told: match (trouble.is_answer(), date) {
                (false, _) => Told::Nothing,
                (true, Some(date)) => Told::Date(date),
                (true, None) => Told::NoDate,
            },
        };
        self.agenda.note(at, Event::Answers(Box::new(delivery)));
    }

    /// A copy of a write may come later, and apply again.
    fn copies(&mut self, parcel: &Parcel) {
        let is_write = matches!(parcel.request.what, What::Write { .. } | What::WriteRow(..));
        let planted = self.doubles.take();
        let is_doubled = self.rng.f64() < self.plan.rates.doubled || planted.is_some();
        if self.is_calm || !is_write || !is_doubled {
            return;
        }
        let later = match self.rng.u8(0..4) {
            _ if planted.is_some() => planted.unwrap_or_default(),
            0 => self.rng.u64(0..40 * SECOND),
            1 | 2 => self.rng.u64(0..3 * SECOND),
            _ => self.rng.u64(0..20 * MS),
        };
        self.hosts[parcel.from.host].is_troubled_until(self.at + later);
        let copy = Parcel {
            request: Arc::clone(&parcel.request),
            answered: None,
            ..*parcel
        };
        self.agenda
            .note(self.at + MS + later, Event::Arrives(Box::new(copy)));
    }

    fn fate(&mut self, host: usize, request: &Request) -> Fate {
        if self.is_calm {
            return Fate::Served;
        }
        match self.hosts[host].mood {
            Mood::Trouble(trouble) if self.rng.u8(0..5) > 0 => return Fate::Comes(trouble),
            Mood::Silent if self.rng.bool() => return Fate::LostBefore,
            Mood::Silent => return Fate::LostAfter,
            _ => {}
        }
        let is_write = matches!(request.what, What::Write { .. } | What::WriteRow(..));
        let rates = self.plan.rates;
        let fates = [
            (rates.lost_before, Fate::LostBefore),
            (rates.lost_after, Fate::LostAfter),
            (rates.late, Fate::Late(self.rng.u64(0..20 * SECOND))),
            (
                if is_write { rates.conflict } else { 0.0 },
                Fate::Comes(Trouble::Conflict),
            ),
        ];
        let mut drawn = self.rng.f64();
        for (share, fate) in fates {
            if drawn < share {
                return fate;
            }
            drawn -= share;
        }
        Fate::Served
    }

    fn latency(&mut self, host: usize) -> At {
        let tail = match self.rng.u8(0..32) {
            0 => self.rng.u64(2..12),
            _ => 1,
        };
        let slow = match self.hosts[host].mood {
            Mood::Slow if !self.is_calm => self.rng.u64(5..60),
            _ => 1,
        };
        let median = self.plan.latency;
        (median / 2 + self.rng.u64(0..=median)) * tail.max(slow)
    }

    /// A request reaches the table.
    pub(crate) fn arrives(&mut self, parcel: Parcel) {
        if !self.is_calm && self.rng.f64() < self.plan.rates.crash_at_request {
            let host = parcel.from.host;
            self.agenda
                .note(self.at + self.rng.u64(0..2), Event::Crashes(host));
        }
        // What a process had sent before it crashed may be lost with it.
        let is_of_the_dead = self.hosts[parcel.from.host].life != parcel.from.life;
        if is_of_the_dead && parcel.answered.is_some() && self.rng.bool() {
            return;
        }
        let lock = number(&parcel.request.lock);
        let before = self.stands_before(lock, &parcel.request.what);
        let reads_newer = self.hosts[parcel.from.host].reads_newer;
        let served = self.table.serve(lock, &parcel.request.what, reads_newer);
        self.tell_arrival(lock, &parcel, &served.answer);
        if let What::Write { write, .. } = &parcel.request.what
            && served.has_changed
        {
            self.has_changed(lock, before.item.as_deref(), write.verb);
        }
        if let Ok(Answer::Applied(_)) = &served.answer {
            self.has_been_applied(lock, &parcel, &before);
        }
        let Some(answered) = parcel.answered else {
            return;
        };
        let date = self.front_ends.date(parcel.front_end, self.at);
        let delivery = Delivery {
            to: parcel.from,
            id: parcel.id,
            sent: parcel.sent,
            answer: served.answer,
            told: date.map_or(Told::NoDate, Told::Date),
        };
        self.agenda
            .note(answered, Event::Answers(Box::new(delivery)));
    }

    /// An answer, or the lack of one, reaches its host.
    pub(crate) fn answers(&mut self, delivery: Delivery) {
        let host = delivery.to.host;
        if delivery.answer.is_err() {
            self.hosts[host].is_troubled_until(self.at);
        }
        let it = &mut self.hosts[host];
        let arrived = it.clock.moment(self.at);
        let date = match delivery.told {
            Told::Date(date) => {
                let sent = delivery.sent;
                it.told.hear(LastDate {
                    date,
                    sent,
                    arrived,
                });
                Some(date)
            }
            Told::NoDate => {
                it.told.hear_no_date(None);
                None
            }
            Told::Nothing => None,
        };
        let reply = Reply {
            answer: delivery.answer,
            reading: Reading {
                date,
                wall: self.front_ends.wall(it.clock.wall(self.at)),
            },
            arrived,
        };
        let request = delivery.id;
        self.mail(
            host,
            Input::Answer {
                request,
                reply: Box::new(reply),
            },
        );
    }

    /// The request is one of a caller's turn.
    fn note_request(&mut self, host: usize, id: RequestId, request: &Request) {
        let it = &mut self.hosts[host];
        let caller = match request.of {
            Of::Call(call) => it.caller_of(call.0),
            Of::Hold(hold) => it.holds.get(&hold).map(|held| held.caller),
            Of::Nobody => None,
        };
        if let Some(caller) = caller {
            it.callers[caller].requests += 1;
            it.callers[caller].newest = Some(id);
        }
        self.collects(&request.what);
        self.tell_sending(host, request);
    }

    /// A span in the mailbox of a driver that is late.
    pub(crate) fn mail(&mut self, host: usize, input: Input) {
        let lag = match !self.is_calm && self.rng.f64() < self.plan.rates.mail_lag {
            true => {
                let most = nanos(self.hosts[host].terms.lease) * 2;
                self.mostly_short(most)
            }
            false => 0,
        };
        let it = &mut self.hosts[host];
        let handled = it.mailbox_until.max(self.at + lag);
        it.mailbox_until = handled;
        if handled > self.at + MS {
            it.is_troubled_until(handled);
        }
        let process = it.process(host);
        self.agenda.note(
            handled,
            Event::Mail(process, Box::new(input), handled - self.at),
        );
    }
}

/// Datagrams, which say when to poll, and are never believed.
impl World {
    /// Another host has it after a while, or never, or twice. Somebody who has seen it may say otherwise.
    pub(crate) fn sends_datagram(&mut self, to: &str, datagram: Vec<u8>) {
        let Some(host) = to.parse().ok().filter(|host| *host < self.hosts.len()) else {
            return;
        };
        let mut copies = vec![datagram];
        if !self.is_calm {
            let rates = self.plan.rates;
            if self.rng.f64() < rates.datagrams_lost {
                copies.clear();
            }
            if self.rng.f64() < rates.datagrams_forged {
                copies.extend(copies.first().cloned());
                if let Some(kind) = copies.last_mut().and_then(|it| it.get_mut(3)) {
                    *kind = self.rng.u8(0..6);
                }
            }
        }
        for copy in copies {
            let at = self.at + self.latency(host);
            let process = self.hosts[host].process(host);
            self.agenda.note(at, Event::Datagram(process, copy.into()));
        }
    }
}
